package deployment

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// legacyReaders poll each of their feeds once in a polling interval, at a random time of it. They make
// conditional requests over persistent connections, as good readers do.
type legacyReaders struct {
	server *FeedServer
	client *http.Client
	polls  []*readerPoll // in the order of their phases, which stays the same because all have one interval
	slots  chan struct{}
	shown  Shown // guarded by the server's lock
}

// A readerPoll is the state of one reader's polls of one feed.
type readerPoll struct {
	next    time.Time
	channel int
	version int // of the document that the reader has
	etag    string
}

// maxRequests bounds the requests of readers under way at the same time.
const maxRequests = 64

// requestTimeout bounds the time of one request.
const requestTimeout = 10 * time.Second

func newReaders(s *FeedServer) *legacyReaders {
	r := &legacyReaders{
		server: s, slots: make(chan struct{}, maxRequests),
		client: &http.Client{
			Timeout:   requestTimeout,
			Transport: &http.Transport{MaxIdleConnsPerHost: maxRequests, MaxIdleConns: 4 * maxRequests},
		},
	}
	rng := rand.New(rand.NewPCG(s.config.Seed, 2))
	for i := range s.config.Channels {
		for range s.config.Channels[i].ReaderCount() {
			phase := time.Duration(rng.Int64N(int64(s.config.Network.PollInterval)))
			r.polls = append(r.polls, &readerPoll{next: s.began.Add(phase), channel: i})
		}
	}
	slices.SortFunc(r.polls, func(a, b *readerPoll) int { return a.next.Compare(b.next) })
	return r
}

// run polls until ctx ends.
func (r *legacyReaders) run(ctx context.Context) {
	var out sync.WaitGroup
	defer out.Wait()
	defer r.client.CloseIdleConnections()
	for i := 0; ; i = (i + 1) % len(r.polls) {
		t := r.polls[i]
		select {
		case <-time.After(time.Until(t.next)):
		case <-ctx.Done():
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		due := r.current(t)
		t.next = t.next.Add(r.server.config.Network.PollInterval)
		out.Go(func() {
			defer func() { <-r.slots }()
			if version, etag, ok := r.poll(ctx, due); ok {
				r.noteDocument(t, due, version, etag)
			}
		})
	}
}

// poll requests a feed, and returns the version that was received.
func (r *legacyReaders) poll(ctx context.Context, t readerPoll) (version int, etag string, ok bool) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL(t.channel), nil)
	if err != nil {
		return 0, "", false
	}
	q.Header.Set("User-Agent", legacyAgent)
	if t.etag != "" {
		q.Header.Set("If-None-Match", t.etag)
	}
	a, err := r.client.Do(q)
	if err != nil {
		return 0, "", false // the next poll tries again
	}
	defer func() { _ = a.Body.Close() }() // it was read to its end
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		return 0, "", false // mostly 304
	}
	newest := newestItem.FindSubmatch(body)
	if newest == nil {
		return 0, "", false
	}
	n, err := strconv.Atoi(string(newest[1]))
	return n - initialItems + 1, a.Header.Get("ETag"), err == nil
}

// newestItem finds the number of the first item of a document, at the end of the item's title.
var newestItem = regexp.MustCompile(`\((\d+)\)</title>`)

// current returns a copy of the state of a poll.
func (r *legacyReaders) current(t *readerPoll) readerPoll {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return *t
}

// noteDocument notes which version a reader has from now on. Items of its first document are not counted as
// new.
func (r *legacyReaders) noteDocument(t *readerPoll, before readerPoll, version int, etag string) {
	s, now := r.server, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.version, t.etag = version, etag
	if before.etag == "" {
		return
	}
	for v := before.version; v < version; v++ {
		r.shown.add(now.Sub(s.publishedAt(t.channel, initialItems+v)), 1)
	}
}
