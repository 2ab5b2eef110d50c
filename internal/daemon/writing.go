package daemon

import (
	"context"
	"sync"
	"time"
)

// writing keeps programs from signing two items of a feed at a time: the second follows on the first.
type writing struct {
	mu    sync.Mutex
	busy  map[string]chan struct{} // feeds of which something is being signed and pushed; closed when it was
	spoke map[string]time.Time     // when this node has pushed something of a feed last
}

// begin waits until nothing of a feed is being signed, and keeps others from it until end.
func (w *writing) begin(ctx context.Context, url string) (end func(), err error) {
	for {
		w.mu.Lock()
		busy, ok := w.busy[url]
		if !ok {
			if w.busy == nil {
				w.busy = map[string]chan struct{}{}
			}
			own := make(chan struct{})
			w.busy[url] = own
			w.mu.Unlock()
			return func() {
				w.mu.Lock()
				delete(w.busy, url)
				w.mu.Unlock()
				close(own)
			}, nil
		}
		w.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, timely(ctx.Err())
		}
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
