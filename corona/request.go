package corona

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// requests are the requests to origins without an answer, other than scheduled polls.
type requests struct {
	*base
	fetcher      env.Fetcher
	last         env.Handle
	open         map[env.Handle]request
	onDemandURLs map[overlay.ID]string // documents requested by FetchOnce, by key
}

// request is a request to an origin that has no answer yet.
type request struct {
	key        overlay.ID
	kind       requestKind
	assignment *assignment // of a scheduled poll
}

type requestKind uint8

const (
	// answerTimeout is how long an answer may take. The fetcher always answers in less than a
	// minute; the limit guards against a fetcher that loses a request.
	answerTimeout = 5 * time.Minute
	// busyRetry is the mean delay of a poll that the fetcher had no capacity for.
	busyRetry             = time.Minute
	scheduled requestKind = iota // a poll of an assignment
	initial                      // by the sequencer, outside the schedule
	onDemand                     // by FetchOnce, for a reader
	lone                         // for this node's own readers, because no other poller is known
)

// next returns the handle of a new request.
func (rq *requests) next() env.Handle {
	rq.last++
	return rq.last
}

// add returns the handle of a new request for a channel, and notes it.
func (rq *requests) add(key overlay.ID, kind requestKind) env.Handle {
	h := rq.next()
	rq.open[h] = request{key: key, kind: kind}
	return h
}

// FetchOnce fetches a document once, outside the schedule, for a reader of this node that has not
// subscribed or that no other node could serve. The result goes to Application.Fetched.
func (rq *requests) FetchOnce(key overlay.ID, url string) {
	if _, known := rq.onDemandURLs[key]; known {
		return
	}
	rq.onDemandURLs[key] = url
	rq.stats.Asked++
	url, isPage := feed.AtOrigin(url)
	rq.fetcher.Fetch(rq.add(key, onDemand), env.Request{URL: url, Robots: isPage})
}
