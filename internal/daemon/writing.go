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
const maxFlying = 8

// writing has the items of one feed signed one at a time, because each item names the one before it.
// Requests have their turn in the order in which they came; those of another feed do not wait for them.
// A turn ends when its item is signed and on its way, so that the next item does not wait for the answer.
type writing struct {
	mu    sync.Mutex
	lines map[string]*line     // by feed
	spoke map[string]time.Time // when this node has pushed something of a feed last
}

// A line is the requests for one feed, and what became of those before them.
type line struct {
	waits  []chan struct{} // requests that wait for their turn, the first one first
	busy   bool            // a request has its turn
	flying int             // items that are on their way
	failed bool            // one of those came to nothing: no other is signed before all are answered
	seq    uint64          // number of the last item that is on its way or was taken; 0: not known
	head   feed.Hash       // its hash
}

// A turn is that of one request.
type turn struct {
	of     *writing
	url    string
	line   *line
	flying bool // its item is on its way
}

// begin waits for the turn of a request, which lasts until sent or end is called. A request whose ctx
// ends gives up its place.
func (w *writing) begin(ctx context.Context, url string) (*turn, error) {
	w.mu.Lock()
	l := w.lines[url]
	if l == nil {
		if w.lines == nil {
			w.lines = map[string]*line{}
		}
		l = &line{}
		w.lines[url] = l
	}
	comes := make(chan struct{}) // closed when it is the turn of this request
	l.waits = append(l.waits, comes)
	l.next()
	w.mu.Unlock()
	t := &turn{of: w, url: url, line: l}
	select {
	case <-comes:
		return t, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	i := slices.Index(l.waits, comes)
	if i >= 0 {
		l.waits = slices.Delete(l.waits, i, i+1)
	}
	w.mu.Unlock()
	if i < 0 {
		t.end() // it has just come
	}
	return nil, timely(ctx.Err())
}

// next begins the turn of the request that has waited longest, if there may be one.
func (l *line) next() {
	if l.busy || len(l.waits) == 0 || l.flying >= maxFlying || l.failed && l.flying > 0 {
		return
	}
	l.busy, l.failed = true, false
	close(l.waits[0])
	l.waits = l.waits[1:]
}

// after is what an item follows on: number and hash of the last one that the network has, as the node's
// own log says, or that this node has sent since.
func (t *turn) after(seq uint64, head feed.Hash) (uint64, feed.Hash) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.line.seq > seq {
		return t.line.seq, t.line.head
	}
	return seq, head
}

// sent says that the item of this turn is on its way, and ends the turn. The first item of a feed ends
// it when it is taken: nothing is signed on one that may be refused because its feed is another's.
func (t *turn) sent(p *difference.Publication) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.flying || p.Seq <= 1 {
		return
	}
	t.flying = true
	t.line.flying++
	t.line.busy, t.line.seq, t.line.head = false, p.Seq, p.Hash
	t.line.next()
}

// answered says whether an item was taken. If it was not, those behind it are not either, and all of
// them go out again with the next item.
func (t *turn) answered(p *difference.Publication, taken bool) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	switch l := t.line; {
	case !taken:
		l.failed, l.seq, l.head = true, 0, feed.Hash{}
	case !l.failed && p.Item != nil && p.Seq > l.seq:
		l.seq, l.head = p.Seq, p.Hash
	}
}

// end says that nothing more comes of a turn.
func (t *turn) end() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	l := t.line
	if t.flying {
		l.flying--
	} else {
		l.busy = false
	}
	l.next()
	if !l.busy && l.flying == 0 && l.seq == 0 {
		delete(t.of.lines, t.url) // it knows nothing that the next one would have to know
	}
}

// speaks notes that something of a feed was pushed, or could not be.
func (w *writing) speaks(url string, pushed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spoke == nil {
		w.spoke = map[string]time.Time{}
	}
	if w.spoke[url] = time.Now(); !pushed {
		delete(w.spoke, url)
	}
}

// silence is for how long this node has pushed nothing of a feed.
func (w *writing) silence(url string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.spoke[url])
}
