package daemon

import (
	"sync"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/feed"
	"tidings/overlay"
)

// documentCopies keeps copies of documents that were fetched for readers who do not subscribe. It is safe for
// concurrent use.
type documentCopies struct {
	mu          sync.Mutex
	lastVersion uint64
	byKey       map[overlay.ID]*documentCopy
}

// A documentCopy is a document that was fetched for a reader.
type documentCopy struct {
	feed    *feed.Feed   // nil: there is no readable feed
	offer   corona.Offer // what is there instead of a feed
	state   corona.State
	at      time.Time
	version uint64
	pending chan struct{} // closed when the requested answer comes; nil: none is requested
}

const (
	// maxCopies bounds the copies of documents. Beyond it the oldest copy is dropped.
	maxCopies = 64
	// copyMaxAge is how long a copy is used before the document is fetched again, and the answer of an origin that asks for
	// fewer requests. Another failure is used for failureMaxAge: a person may just have mended it.
	copyMaxAge    = 5 * time.Minute
	failureMaxAge = 20 * time.Second
)

func newDocumentCopies() *documentCopies {
	return &documentCopies{byKey: map[overlay.ID]*documentCopy{}}
}

// drop drops the copy of a feed that the node follows from now on.
func (c *documentCopies) drop(key overlay.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.byKey[key]; l != nil && l.pending == nil {
		delete(c.byKey, key)
	}
}

// get returns a copy of a document that is not older than maxAge. If there is none, wait is closed when
// there is one; every caller that has to wait should request the document.
func (c *documentCopies) get(key overlay.ID, now time.Time, maxAge time.Duration) (copied documentCopy, wait <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.byKey[key]
	if l != nil && l.feed == nil && l.state.Kind != coronapb.State_LIMITED {
		maxAge = min(maxAge, failureMaxAge)
	}
	switch {
	case l != nil && l.pending == nil && now.Sub(l.at) < maxAge:
		return *l, nil
	case l == nil:
		c.makeRoom()
		l = &documentCopy{}
		c.byKey[key] = l
	}
	if l.pending == nil {
		l.pending = make(chan struct{})
	}
	return documentCopy{}, l.pending
}

// makeRoom drops the oldest copy if there are too many.
func (c *documentCopies) makeRoom() {
	if len(c.byKey) < maxCopies {
		return
	}
	var oldest overlay.ID
	var at time.Time
	for key, l := range c.byKey {
		if l.pending == nil && (at.IsZero() || l.at.Before(at)) {
			oldest, at = key, l.at
		}
	}
	delete(c.byKey, oldest)
}

// fetched stores the answer to a request for a document. A failure does not replace an earlier document.
func (c *documentCopies) fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.byKey[key]
	if l == nil {
		return
	}
	if f != nil || l.feed == nil {
		l.feed = f
	}
	c.lastVersion++
	l.offer, l.state, l.at, l.version = o, state, now, c.lastVersion
	if l.pending != nil {
		close(l.pending)
		l.pending = nil
	}
}
