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
type readers struct {
	street *Street
	client *http.Client
	turns  turns
	slots  chan struct{}
	shown  Shown // guarded by the street's lock
}

// A turn is one reader's of one feed.
type turn struct {
	next    time.Time
	channel int
	version int // of the document that it has
	etag    string
}

// turns is a heap, the next first.
type turns []*turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].next.Before(t[j].next) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(*turn)) }
func (t *turns) Pop() any {
	of := *t
	last := of[len(of)-1]
	*t = of[:len(of)-1]
	return last
}

// atOnce is how many requests of readers are out at once.
const atOnce = 64

// requestTime is how long one may take.
const requestTime = 10 * time.Second

func newReaders(s *Street) *readers {
	r := &readers{
		street: s, slots: make(chan struct{}, atOnce),
		client: &http.Client{
			Timeout:   requestTime,
			Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, MaxIdleConns: 4 * atOnce},
		},
	}
	dice := rand.New(rand.NewPCG(s.config.Seed, 2))
	for i := range s.config.Channels {
		for range s.config.Channels[i].All() {
			phase := time.Duration(dice.Int64N(int64(s.config.Network.PollInterval)))
			r.turns = append(r.turns, &turn{next: s.began.Add(phase), channel: i})
		}
	}
	heap.Init(&r.turns)
	return r
}

// run polls until ctx ends.
func (r *readers) run(ctx context.Context) {
	var out sync.WaitGroup
	defer out.Wait()
	defer r.client.CloseIdleConnections()
	for {
		t := r.turns[0]
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
		due := r.due(t)
		t.next = t.next.Add(r.street.config.Network.PollInterval)
		heap.Fix(&r.turns, 0)
		out.Go(func() {
			defer func() { <-r.slots }()
			if version, etag, ok := r.poll(ctx, due); ok {
				r.got(t, due, version, etag)
			}
		})
	}
}

// poll asks for a feed, and returns which version of it has come.
func (r *readers) poll(ctx context.Context, t turn) (version int, etag string, ok bool) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.street.URL(t.channel), nil)
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
	return n - items + 1, a.Header.Get("ETag"), err == nil
}

// newestItem finds the number of the first item of a document, with which its title ends.
var newestItem = regexp.MustCompile(`\((\d+)\)</title>`)

// due is a turn as it is now.
func (r *readers) due(t *turn) turn {
	r.street.mu.Lock()
	defer r.street.mu.Unlock()
	return *t
}

// got notes what a reader is shown from now on. The first document is no news.
func (r *readers) got(t *turn, before turn, version int, etag string) {
	s, now := r.street, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.version, t.etag = version, etag
	if before.etag == "" {
		return
	}
	for v := before.version; v < version; v++ {
		r.shown.add(now.Sub(s.came(t.channel, items+v)), 1)
	}
}
