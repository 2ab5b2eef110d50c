package corona

import (
	"time"

	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// requests asks origins for documents, and reads the answers.
type requests struct {
	*base
	domains *domains
	fetcher env.Fetcher
	last    env.Handle
	open    map[env.Handle]request  // requests without an answer, other than scheduled polls
	moves   map[overlay.ID]seenMove // redirects of channels that this node has seen itself; at most maxSeenMoves
}

// request is a request to an origin that has no answer yet.
type request struct {
	url    string // of the channel; "": the answer is no document
	offers bool   // what the address offers in place of a feed is asked for as well
	then   func(h env.Handle, a env.Answer, r observation, verdict State, now time.Time)
}

const (
	// answerTimeout is how long an answer may take. The fetcher always answers in less than a
	// minute; the limit guards against a fetcher that loses a request.
	answerTimeout = 5 * time.Minute
	// busyRetry is the mean delay of a poll that the fetcher had no capacity for.
	busyRetry = time.Minute
)

// next returns the handle of a new request.
func (rq *requests) next() env.Handle {
	rq.last++
	return rq.last
}

// add returns the handle of a new request, and notes what is to be done with the answer.
func (rq *requests) add(r request) env.Handle {
	h := rq.next()
	rq.open[h] = r
	return h
}

// answered takes the answer to a request other than a scheduled poll.
func (rq *requests) answered(h env.Handle, a env.Answer) {
	if p, ok := rq.open[h]; ok {
		delete(rq.open, h)
		rq.read(p, nil, h, a)
	}
}

// busyPause is the delay of a poll that the fetcher had no capacity for.
func (rq *requests) busyPause() time.Duration {
	rq.stats.Busy++
	return busyRetry/2 + time.Duration(rq.rand.Int64N(int64(busyRetry)))
}

// read reads the document in an answer off the loop, and passes it on. memory is what a poller that
// is not the sequencer knows of a page, nil otherwise; the page is compared with it.
func (rq *requests) read(p request, memory *page.Tracker, h env.Handle, a env.Answer) {
	r, began := observationOf(a), rq.clock.Now()
	var err error
	done := func() {
		now := rq.clock.Now()
		verdict := Classify(a, r.f, err)
		verdict.Since, verdict.Polled = now, now
		p.then(h, a, r, verdict, now)
	}
	if !a.HasDocument() || len(a.Body) == 0 || p.url == "" {
		done()
		return
	}
	address, isPage := feed.DocumentURL(p.url)
	rq.worker.Do(func() {
		if isPage {
			err = r.readPage(p.url, a, memory, p.offers, began)
		} else if r.f, err = ReadFeed(address, a); err != nil && p.offers {
			r.offer = offerOf(a)
		}
		if err == nil {
			r.topic = topicOf(a, r.f, isPage)
		}
	}, done)
}

// ReadFeed reads the feed in an answer, with addresses relative to the one from which it came. Of a
// document that was cut, it reads the items that are whole.
func ReadFeed(address string, a env.Answer) (*feed.Feed, error) {
	parse := feed.Parse
	if a.Cut {
		parse = feed.ParseStart
	}
	f, err := parse(a.Body, a.ContentType)
	if err != nil {
		return nil, err
	}
	return f, f.Redirected(address, a.FinalURL)
}

// observationOf returns what a response says, without its document.
func observationOf(a env.Answer) observation {
	r := observation{valid: validators{a.ETag, a.LastModified, a.FinalURL}, maxAge: a.MaxAge, private: a.Private, size: len(a.Body), partial: a.IsPartial()}
	if a.Moved {
		r.moved = a.FinalURL
	}
	return r
}
