package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// maxFlying is how many items of one feed may be on their way to its sequencer: so many that the
// sequencer always has the next one, and fewer than the publisher's record keeps, so that those which
// nobody takes can be sent again. At the bound the next item waits.
const maxInFlight = 8

// writing has the items of one feed signed one at a time, because each item names the one before it.
// Requests have their turn in the order in which they came; those of another feed do not wait for them.
// A turn ends when its item is signed and on its way, so that the next item does not wait for the answer.
type publishQueues struct {
	mu       sync.Mutex
	queues   map[string]*publishQueue // by feed
	lastPush map[string]time.Time     // when this node has pushed something of a feed last
}

// A line is the requests for one feed, and what became of those before them.
type publishQueue struct {
	waiting  []chan struct{} // requests that wait for their turn, the first one first
	busy     bool            // a request has its turn
	inFlight int             // items that are on their way
	failed   bool            // one of those came to nothing: no other is signed before all are answered
	seq      uint64          // number of the last item that is on its way or was taken; 0: not known
	head     feed.Hash       // its hash
}

// A turn is that of one request.
type turn struct {
	queues   *publishQueues
	url      string
	queue    *publishQueue
	inFlight bool // its item is on its way
}

// begin waits for the turn of a request, which lasts until sent or end is called. A request whose ctx
// ends gives up its place.
func (p *publishQueues) begin(ctx context.Context, url string) (*turn, error) {
	p.mu.Lock()
	q := p.queues[url]
	if q == nil {
		if p.queues == nil {
			p.queues = map[string]*publishQueue{}
		}
		q = &publishQueue{}
		p.queues[url] = q
	}
	granted := make(chan struct{}) // closed when it is the turn of this request
	q.waiting = append(q.waiting, granted)
	q.next()
	p.mu.Unlock()
	t := &turn{queues: p, url: url, queue: q}
	select {
	case <-granted:
		return t, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(q.waiting, granted)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		t.end() // it has just come
	}
	return nil, asTimeout(ctx.Err())
}

// next begins the turn of the request that has waited longest, if there may be one.
func (q *publishQueue) next() {
	if q.busy || len(q.waiting) == 0 || q.inFlight >= maxInFlight || q.failed && q.inFlight > 0 {
		return
	}
	q.busy, q.failed = true, false
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// after is what an item follows on: number and hash of the last one that the network has, as the node's
// own log says, or that this node has sent since.
func (t *turn) predecessor(seq uint64, head feed.Hash) (uint64, feed.Hash) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	if t.queue.seq > seq {
		return t.queue.seq, t.queue.head
	}
	return seq, head
}

// sent says that the item of this turn is on its way, and ends the turn. The first item of a feed ends
// it when it is taken: nothing is signed on one that may be refused because its feed is another's.
func (t *turn) sent(p *difference.Publication) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	if t.inFlight || p.Seq <= 1 {
		return
	}
	t.inFlight = true
	t.queue.inFlight++
	t.queue.busy, t.queue.seq, t.queue.head = false, p.Seq, p.Hash
	t.queue.next()
}

// answered says whether an item was taken. If it was not, those behind it are not either, and all of
// them go out again with the next item.
func (t *turn) answered(p *difference.Publication, taken bool) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	switch q := t.queue; {
	case !taken:
		q.failed, q.seq, q.head = true, 0, feed.Hash{}
	case !q.failed && p.Item != nil && p.Seq > q.seq:
		q.seq, q.head = p.Seq, p.Hash
	}
}

// end says that nothing more comes of a turn.
func (t *turn) end() {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	q := t.queue
	if t.inFlight {
		q.inFlight--
	} else {
		q.busy = false
	}
	q.next()
	if !q.busy && q.inFlight == 0 && q.seq == 0 {
		delete(t.queues.queues, t.url) // it knows nothing that the next one would have to know
	}
}

// speaks notes that something of a feed was pushed, or could not be.
func (p *publishQueues) notePush(url string, pushed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastPush == nil {
		p.lastPush = map[string]time.Time{}
	}
	if p.lastPush[url] = time.Now(); !pushed {
		delete(p.lastPush, url)
	}
}

// silence is for how long this node has pushed nothing of a feed.
func (p *publishQueues) sinceLastPush(url string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.lastPush[url])
}
