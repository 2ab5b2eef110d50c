package daemon

import (
	"sync"
	"time"

	"tidings/corona"
	"tidings/internal/feed"
	"tidings/overlay"
)

// A readIndex answers readers without asking the node's loop: it knows which feeds are subscribed to and when
// they changed, and keeps copies of documents that were fetched for readers who do not subscribe. It is safe
// for concurrent use.
type readIndex struct {
	mu          sync.Mutex
	lastVersion uint64
	byURL       map[string]*indexedFeed
	byKey       map[overlay.ID]*indexedFeed
	copies      map[overlay.ID]*documentCopy
}

// An indexedFeed is a subscription.
type indexedFeed struct {
	version    uint64
	attributes attributes
	changed    chan struct{} // closed by the next change; nil: no reader waits for one
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
	// copyMaxAge is how long a copy, or a failure, is used before the document is fetched again.
	copyMaxAge = 5 * time.Minute
)

func newReadIndex() *readIndex {
	return &readIndex{byURL: map[string]*indexedFeed{}, byKey: map[overlay.ID]*indexedFeed{}, copies: map[overlay.ID]*documentCopy{}}
}

func (s *readIndex) nextVersion() uint64 {
	s.lastVersion++
	return s.lastVersion
}

// add adds a subscription, or changes its attributes.
func (s *readIndex) add(url string, key overlay.ID, a attributes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byURL[url]
	if f == nil {
		f = &indexedFeed{}
		s.byURL[url], s.byKey[key] = f, f
	}
	f.version, f.attributes = s.nextVersion(), a
	if l := s.copies[key]; l != nil && l.pending == nil {
		delete(s.copies, key)
	}
}

func (s *readIndex) remove(url string, key overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byURL[url]; f != nil && f.changed != nil {
		close(f.changed)
	}
	delete(s.byURL, url)
	delete(s.byKey, key)
}

// markChanged gives a feed a new version and wakes readers who wait for a change.
func (s *readIndex) markChanged(key overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byKey[key]; f != nil {
		f.version = s.nextVersion()
		if f.changed != nil {
			close(f.changed)
			f.changed = nil
		}
	}
}

func (s *readIndex) lookup(url string) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byURL[url]
	if f == nil {
		return 0, false
	}
	return f.version, true
}

// noteRead returns the version of a feed that is being read. If the time of the last reading should be saved,
// which keeps the subscription from lapsing, it also returns the attributes to save.
func (s *readIndex) noteRead(url string, now time.Time) (version uint64, toSave *attributes, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byURL[url]
	if f == nil {
		return 0, nil, false
	}
	if f.attributes.Auto && now.Sub(time.Unix(f.attributes.LastRead, 0)) > lapseCheckInterval {
		f.attributes.LastRead = now.Unix()
		a := f.attributes
		toSave = &a
	}
	return f.version, toSave, true
}

// changed returns a channel that is closed when a feed changes.
func (s *readIndex) changed(url string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.byURL[url]
	if f == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// lapsed returns the subscriptions that have lapsed: those made by reading that were not read for lapseAge,
// and old tentative ones.
func (s *readIndex) lapsed(now time.Time) (urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, f := range s.byURL {
		age := now.Sub(time.Unix(f.attributes.LastRead, 0))
		if f.attributes.Auto && age > lapseAge || f.attributes.Tentative && age > lapseCheckInterval {
			urls = append(urls, url)
		}
	}
	return urls
}

// copyOf returns a copy of a document that is not older than maxAge. If there is none, wait is closed when
// there is one; every caller that has to wait should request the document.
func (s *readIndex) copyOf(key overlay.ID, now time.Time, maxAge time.Duration) (copied documentCopy, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.copies[key]
	switch {
	case l != nil && l.pending == nil && now.Sub(l.at) < maxAge:
		return *l, nil
	case l == nil:
		s.makeRoom()
		l = &documentCopy{}
		s.copies[key] = l
	}
	if l.pending == nil {
		l.pending = make(chan struct{})
	}
	return documentCopy{}, l.pending
}

// makeRoom drops the oldest copy if there are too many.
func (s *readIndex) makeRoom() {
	if len(s.copies) < maxCopies {
		return
	}
	var oldest overlay.ID
	var at time.Time
	for key, l := range s.copies {
		if l.pending == nil && (at.IsZero() || l.at.Before(at)) {
			oldest, at = key, l.at
		}
	}
	delete(s.copies, oldest)
}

// fetched stores the answer to a request for a document. A failure does not replace an earlier document.
func (s *readIndex) fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.copies[key]
	if l == nil {
		return
	}
	if f != nil || l.feed == nil {
		l.feed = f
	}
	l.offer, l.state, l.at, l.version = o, state, now, s.nextVersion()
	if l.pending != nil {
		close(l.pending)
		l.pending = nil
	}
}
