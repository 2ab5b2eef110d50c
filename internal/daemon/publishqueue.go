package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// maxInFlight bounds the items of one feed on their way to its sequencer. It is large enough that the
// sequencer always has a next item, and smaller than the number of items in the publisher's record, so that
// items which were not accepted can be sent again. At the bound the next item waits.
const maxInFlight = 8

// publishQueues signs the items of each feed one at a time, because each item names the one before it.
// Requests for a feed get their turn in order of arrival, and do not wait for other feeds. A turn ends when
// its item is signed and on its way, so that the next item does not wait for the answer.
type publishQueues struct {
	mu       sync.Mutex
	queues   map[string]*publishQueue // by URL
	lastPush map[string]time.Time     // by URL; when this node last pushed a publication of the feed
}

// A publishQueue holds the waiting requests for one feed, and the outcome of those before them.
type publishQueue struct {
	waiting  []chan struct{} // one channel per waiting request, in order; closed when its turn begins
	busy     bool            // a request has its turn
	inFlight int             // items on their way
	failed   bool            // one of them was not accepted, so the next turn waits until all are answered
	seq      uint64          // number of the last item on its way or accepted; 0: unknown
	head     feed.Hash       // hash of that item
}

// A turn allows one request to sign an item of a feed.
type turn struct {
	queues   *publishQueues
	url      string
	queue    *publishQueue
	inFlight bool // its item is on its way
}

// begin waits for the turn of a request. The turn lasts until sent or end is called. A request whose ctx ends
// leaves the queue.
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
	granted := make(chan struct{}) // closed when the turn begins
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
		t.end() // the turn began just now
	}
	return nil, asTimeout(ctx.Err())
}

// next begins the turn of the request that has waited longest, if one may begin.
func (q *publishQueue) next() {
	if q.busy || len(q.waiting) == 0 || q.inFlight >= maxInFlight || q.failed && q.inFlight > 0 {
		return
	}
	q.busy, q.failed = true, false
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}

// predecessor returns the item that the next one follows: the last one that the network has, by number and
// hash from the node's own log, or a later one that this node has sent.
func (t *turn) predecessor(seq uint64, head feed.Hash) (uint64, feed.Hash) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	if t.queue.seq > seq {
		return t.queue.seq, t.queue.head
	}
	return seq, head
}

// sent notes that the item of this turn is on its way, and ends the turn. After the first item of a feed the
// turn goes on until the item is accepted: the feed may have another key and refuse it.
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

// answered notes whether an item was accepted. If it was not, the items behind it are not accepted either,
// and all of them are sent again with the next item.
func (t *turn) answered(p *difference.Publication, accepted bool) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	switch q := t.queue; {
	case !accepted:
		q.failed, q.seq, q.head = true, 0, feed.Hash{}
	case !q.failed && p.Item != nil && p.Seq > q.seq:
		q.seq, q.head = p.Seq, p.Hash
	}
}

// end ends a turn and the flight of its item.
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
		delete(t.queues.queues, t.url) // the queue has no state that a later request needs
	}
}

// notePush notes that a publication of a feed was pushed, or that the push failed.
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

// sinceLastPush returns the time since this node last pushed a publication of a feed.
func (p *publishQueues) sinceLastPush(url string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.lastPush[url])
}
