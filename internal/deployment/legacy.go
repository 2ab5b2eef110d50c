package deployment

import (
	"container/heap"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// readers poll for themselves, each of them each of its feeds once in a polling interval, at a
// time of its own. They ask as good readers do: conditionally, over connections that stay.
type legacyReaders struct {
	server *FeedServer
	client *http.Client
	polls  pollHeap
	slots  chan struct{}
	shown  Shown // guarded by the street's lock
}

// A turn is one reader's of one feed.
type readerPoll struct {
	next    time.Time
	channel int
	version int // of the document that it has
	etag    string
}

// turns is a heap, the next first.
type pollHeap []*readerPoll

func (h pollHeap) Len() int           { return len(h) }
func (h pollHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h pollHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pollHeap) Push(x any)        { *h = append(*h, x.(*readerPoll)) }
func (h *pollHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// atOnce is how many requests of readers are out at once.
const maxRequests = 64

// requestTime is how long one may take.
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
	heap.Init(&r.polls)
	return r
}

// run polls until ctx ends.
func (r *legacyReaders) run(ctx context.Context) {
	var out sync.WaitGroup
	defer out.Wait()
	defer r.client.CloseIdleConnections()
	for {
		t := r.polls[0]
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
		heap.Fix(&r.polls, 0)
		out.Go(func() {
			defer func() { <-r.slots }()
			if version, etag, ok := r.poll(ctx, due); ok {
				r.noteDocument(t, due, version, etag)
			}
		})
	}
}

// poll asks for a feed, and returns which version of it has come.
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
		return 0, "", false // it is asked again in its next turn
	}
	defer func() { _ = a.Body.Close() }() // it was read
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		return 0, "", false // 304 mostly
	}
	newest := newestItem.FindSubmatch(body)
	if newest == nil {
		return 0, "", false
	}
	n, err := strconv.Atoi(string(newest[1]))
	return n - initialItems + 1, a.Header.Get("ETag"), err == nil
}

// newestItem finds the number of the first item of a document, with which its title ends.
var newestItem = regexp.MustCompile(`\((\d+)\)</title>`)

// due is a turn as it is now.
func (r *legacyReaders) current(t *readerPoll) readerPoll {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return *t
}

// got notes what a reader is shown from now on. The first document is no news.
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
