package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/proxy"
)

// maxInFlight bounds the items of one feed on their way to its sequencer. It is large enough that the
// sequencer always has a next item, and not larger than the number of items in the publisher's record, so that
// items which were not accepted can be sent again. At the bound the next item waits.
const maxInFlight = 64

// maxInFlightBytes bounds the bytes of those items, because they are in memory, and in the publisher's record. At the bound the
// next item waits until nothing is on its way.
const maxInFlightBytes = 8 << 20

// A turn costs several nodes messages and syncs, regardless of its number of items. While earlier items are on their way, new ones
// therefore wait to share a turn, as in Nagle's algorithm (RFC 896), but only for gatherTime. Programs that wait for each answer send
// their next items when a turn is answered: then the next turn waits for as many items as the last one had, for gatherPause at most.
const (
	gatherTime  = 20 * time.Millisecond
	gatherPause = 2 * time.Millisecond
)

// publishQueues signs the items of each feed in one order, because each item names the one before it. Requests for a feed
// get their turn in order of arrival, and do not wait for other feeds. All items that wait when a turn begins are signed in
// it, so that they share one write of the publisher's record. A turn ends when its items are signed and on their way, so
// that the next ones do not wait long for the answers.
type publishQueues struct {
	mu       sync.Mutex
	queues   map[string]*publishQueue // by URL
	lastPush map[string]time.Time     // by URL; when this node last pushed a publication of the feed
}

// A publishQueue holds the waiting requests for one feed, and the outcome of those before them.
type publishQueue struct {
	waiting  []*waitingRequest // in order
	busy     bool              // a request has its turn
	inFlight int               // items on their way
	bytes    int               // of them
	failed   bool              // one of them was not accepted, so the next turn waits until all are answered
	seq      uint64            // number of the last item on its way or accepted; 0: unknown
	head     feed.Hash         // hash of that item

	together   int         // items of the last turn
	answeredAt time.Time   // when the last items on their way were answered
	gathering  *time.Timer // begins the turn that gathers items
}

// A waitingRequest waits for a turn.
type waitingRequest struct {
	since   time.Time     // when it began to wait
	draft   *draft        // nil: a heartbeat
	granted chan struct{} // closed when a turn for it begins
	turn    *turn         // set then, unless another request of this turn does the work for this one
}

// size returns about the number of bytes that are to be signed.
func (w *waitingRequest) size() int {
	if w.draft == nil {
		return 0
	}
	return len(w.draft.meaning.Summary) + len(w.draft.meaning.Content)
}

// A draft is an item that is to be signed.
type draft struct {
	meaning feed.Meaning
	answer  chan draftAnswer // holds one
}

type draftAnswer struct {
	result proxy.PublishResult
	err    error
}

// A turn allows one request to sign items of a feed: its own, and those that waited behind it.
type turn struct {
	queues   *publishQueues
	url      string
	queue    *publishQueue
	drafts   []*draft // that are to be signed in this turn
	inFlight int      // how many of its items are on their way
	bytes    int      // of them
	passed   bool     // the turn has passed to the next request
}

// begin waits for the turn of a request. The turn lasts until sent or end is called. It returns nil if another request
// answers the draft. A request whose ctx ends leaves the queue.
func (p *publishQueues) begin(ctx context.Context, url string, d *draft) (*turn, error) {
	p.mu.Lock()
	q := p.queues[url]
	if q == nil {
		if p.queues == nil {
			p.queues = map[string]*publishQueue{}
		}
		q = &publishQueue{}
		p.queues[url] = q
	}
	w := &waitingRequest{since: time.Now(), draft: d, granted: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	p.next(url, q)
	p.mu.Unlock()
	select {
	case <-w.granted:
		return w.turn, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(q.waiting, w)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	p.mu.Unlock()
	switch {
	case i >= 0:
		return nil, asBusy(ctx.Err())
	case d == nil:
		w.turn.end() // the turn began just now
		return nil, asBusy(ctx.Err())
	}
	return w.turn, nil // others may rely on this turn
}

// next begins the turn of the request that has waited longest, if one may begin, and of those behind it.
func (p *publishQueues) next(url string, q *publishQueue) {
	if q.gathering != nil {
		q.gathering.Stop()
	}
	room := maxInFlight - q.inFlight
	if q.busy || len(q.waiting) == 0 || room <= 0 || q.inFlight > 0 && (q.failed || q.bytes+q.waiting[0].size() > maxInFlightBytes) {
		return
	}
	n, full := q.share(room)
	if pause := q.gathers(n); pause > 0 && !full {
		q.gathering = time.AfterFunc(pause, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.next(url, q)
		})
		return
	}
	q.busy, q.failed = true, false
	first := q.waiting[0]
	first.turn = &turn{queues: p, url: url, queue: q}
	for _, w := range q.waiting[:n] {
		if w.draft != nil {
			first.turn.drafts = append(first.turn.drafts, w.draft)
		}
	}
	for _, w := range q.waiting[:n] { // once the turn is complete
		close(w.granted)
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// share returns how many of the waiting requests can share a turn, and whether no later one can join them. The first item of a
// feed has its turn alone, because the feed may refuse it, and so has a heartbeat.
func (q *publishQueue) share(room int) (n int, full bool) {
	if q.seq == 0 || q.waiting[0].draft == nil {
		return 1, true
	}
	bytes := q.bytes
	for _, w := range q.waiting {
		if bytes += w.size(); n == room || n > 0 && (w.draft == nil || bytes > maxInFlightBytes) {
			return n, true
		}
		n++
	}
	return n, n == room
}

// gathers returns for how long the next turn, of n requests, waits for further ones.
func (q *publishQueue) gathers(n int) time.Duration {
	switch {
	case q.inFlight > 0:
		return gatherTime - time.Since(q.waiting[0].since)
	case n < q.together:
		return gatherPause - time.Since(q.answeredAt)
	}
	return 0
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

// sent notes that items of this turn are on their way, and ends the turn. After the first item of a feed the
// turn goes on until the item is accepted: the feed may have another key and refuse it.
func (t *turn) sent(items []*difference.Publication) {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	last := items[len(items)-1]
	if t.passed || last.Seq <= 1 {
		return
	}
	t.passed, t.inFlight, t.queue.together = true, len(items), len(items)
	t.queue.inFlight += len(items)
	for _, p := range items {
		t.bytes += len(p.Raw)
	}
	t.queue.bytes += t.bytes
	t.queue.busy, t.queue.seq, t.queue.head = false, last.Seq, last.Hash
	t.queues.next(t.url, t.queue)
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

// end ends a turn and the flight of its items.
func (t *turn) end() {
	t.queues.mu.Lock()
	defer t.queues.mu.Unlock()
	q := t.queue
	q.inFlight, q.bytes = q.inFlight-t.inFlight, q.bytes-t.bytes
	if !t.passed {
		q.busy = false
	}
	if t.inFlight > 0 && q.inFlight == 0 {
		q.answeredAt = time.Now()
	}
	t.queues.next(t.url, q)
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
