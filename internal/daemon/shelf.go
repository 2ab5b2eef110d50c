package daemon

import (
	"sync"
	"time"

	"tidings/corona"
	"tidings/internal/feed"
	"tidings/overlay"
)

// A shelf is what readers are told without asking the node's loop: which feeds are
// subscribed to and when they changed, and copies of documents that were fetched
// for readers who do not subscribe. It is safe for concurrent use.
type shelf struct {
	mu     sync.Mutex
	last   uint64
	feeds  map[string]*shelved
	byKey  map[overlay.ID]*shelved
	copies map[overlay.ID]*lent
}

// shelved is a subscription.
type shelved struct {
	version    uint64
	attributes attributes
	changed    chan struct{} // closed by the next change; nil: nobody waits
}

// lent is a document that was fetched for a reader.
type lent struct {
	feed    *feed.Feed   // nil: there is none
	offer   corona.Offer // in its place
	state   corona.State
	at      time.Time
	version uint64
	wait    chan struct{} // closed when the answer is there; nil: it is
}

const (
	// maxCopies bounds the documents that are kept for readers who do not
	// subscribe; the one fetched first goes.
	maxCopies = 64
	// copyLife is how long such a document is good enough, and a failure too.
	copyLife = 5 * time.Minute
)

func newShelf() *shelf {
	return &shelf{feeds: map[string]*shelved{}, byKey: map[overlay.ID]*shelved{}, copies: map[overlay.ID]*lent{}}
}

func (s *shelf) next() uint64 {
	s.last++
	return s.last
}

// add puts a subscription on the shelf, or changes what is known of one.
func (s *shelf) add(url string, key overlay.ID, a attributes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[url]
	if f == nil {
		f = &shelved{}
		s.feeds[url], s.byKey[key] = f, f
	}
	f.version, f.attributes = s.next(), a
	if l := s.copies[key]; l != nil && l.wait == nil {
		delete(s.copies, key)
	}
}

func (s *shelf) remove(url string, key overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[url]; f != nil && f.changed != nil {
		close(f.changed)
	}
	delete(s.feeds, url)
	delete(s.byKey, key)
}

// touch notes that a feed is not as it was.
func (s *shelf) touch(key overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byKey[key]; f != nil {
		f.version = s.next()
		if f.changed != nil {
			close(f.changed)
			f.changed = nil
		}
	}
}

func (s *shelf) known(url string) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[url]
	if f == nil {
		return 0, false
	}
	return f.version, true
}

// version is asked when a feed is read. Now and then it returns what is to be noted
// about that, for subscriptions that lapse unread.
func (s *shelf) version(url string, now time.Time) (version uint64, note *attributes, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[url]
	if f == nil {
		return 0, nil, false
	}
	if f.attributes.Auto && now.Sub(time.Unix(f.attributes.Read, 0)) > lapseLook {
		f.attributes.Read = now.Unix()
		a := f.attributes
		note = &a
	}
	return f.version, note, true
}

// changed returns a channel that is closed when a feed changes.
func (s *shelf) changed(url string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[url]
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

// lapsed returns the subscriptions that reading made and that were not read for
// long, and tentative ones.
func (s *shelf) lapsed(now time.Time) (urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for url, f := range s.feeds {
		age := now.Sub(time.Unix(f.attributes.Read, 0))
		if f.attributes.Auto && age > lapseTime || f.attributes.Tentative && age > lapseLook {
			urls = append(urls, url)
		}
	}
	return urls
}

// borrow returns the copy of a document. If there is none that is good enough,
// wait is closed when there is; the first who is told to wait has to see to it.
func (s *shelf) borrow(key overlay.ID, now time.Time, life time.Duration) (copied lent, wait <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.copies[key]
	switch {
	case l != nil && l.wait == nil && now.Sub(l.at) < life:
		return *l, nil
	case l == nil:
		s.makeRoom()
		l = &lent{}
		s.copies[key] = l
	}
	if l.wait == nil {
		l.wait = make(chan struct{})
	}
	return lent{}, l.wait
}

// makeRoom drops the oldest copy if there are too many.
func (s *shelf) makeRoom() {
	if len(s.copies) < maxCopies {
		return
	}
	var oldest overlay.ID
	var at time.Time
	for key, l := range s.copies {
		if l.wait == nil && (at.IsZero() || l.at.Before(at)) {
			oldest, at = key, l.at
		}
	}
	delete(s.copies, oldest)
}

// fetched takes the answer to a request for a reader. A failure leaves the last
// copy where it is.
func (s *shelf) fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.copies[key]
	if l == nil {
		return
	}
	if f != nil || l.feed == nil {
		l.feed = f
	}
	l.offer, l.state, l.at, l.version = o, state, now, s.next()
	if l.wait != nil {
		close(l.wait)
		l.wait = nil
	}
}
