package daemon

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/store"
	"tidings/overlay"
	"tidings/proxy"
)

// subscriptions owns what the readers of this node follow. It has one record per feed. The truth on the disk is
// feedtree's record of the subscription, which this component changes, and to which feedtree adds the key that it
// trusts. The time at which the user unsubscribed counts only if there is no such record, or only a tentative one.
//
// The changes of one feed are made one after the other: each begins when the one before it is durable or has
// failed. So a change never sees a state that a crash could undo, and the last request decides. The loop makes
// all changes; readers take what they need from the records without asking the loop.
type subscriptions struct {
	*nodeLoop
	feeds  feedStore
	store  env.Store
	copies *documentCopies
	log    *slog.Logger
	gone   func(url string) // called after a subscription has ended

	mu          sync.Mutex // guards the fields below; the loop alone writes byKey, and reads it without mu
	byKey       map[overlay.ID]*subscription
	ordered     []*subscription // those that are subscribed to, by address; nil: see inOrder
	lastVersion uint64
}

// A feedStore follows feeds and stores which. [node.Node] implements it.
type feedStore interface {
	Subscribe(url string, quietly bool, weight int, attributes []byte, done func(error))
	Unsubscribe(url string, done func(error))
	Subscriptions() iter.Seq[feedtree.Subscription]
	Trust(key overlay.ID) bool
}

// A subscription is the record of a feed that is subscribed to, that the user has unsubscribed from, or that
// is being changed.
type subscription struct {
	key            overlay.ID
	url            string // empty for a feed that was unsubscribed from before the node started
	subscribed     bool
	attributes     attributes // zero if the feed is not subscribed to
	weight         int        // number of readers, mostly 1
	unsubscribedAt int64      // when the user unsubscribed, Unix time in seconds; 0: never, or the user has subscribed since
	ended          *ended     // what the subscription was before the user ended it; nil: there was none since the node started
	waiting        []func()   // changes, of which the first one is being made

	// Readers write the following fields.

	readAt  int64         // as attributes.LastRead, which it replaces when that is stored
	version uint64        // changes whenever readers would read something else
	changed chan struct{} // closed by the next change; nil: no reader waits for one
}

// ended is what a subscription was before it ended.
type ended struct {
	attributes attributes
	weight     int
}

// A change changes a record on the loop. It calls done when it is durable, or has failed.
type change func(r *subscription, done func(error))

const (
	unsubscribedPrefix = "daemon/ended/"
	// maxUnsubscribed bounds the remembered feeds to as many as there are subscriptions by default. Beyond it the
	// oldest one is forgotten, and reading that feed subscribes again.
	maxUnsubscribed = feedtree.DefaultMaxSubscriptions
)

// errUnsubscribed is the reason why reading does not subscribe.
var errUnsubscribed = errors.New("the user has unsubscribed from this feed")

func newSubscriptions(n *nodeLoop, s env.Store, copies *documentCopies, log *slog.Logger) *subscriptions {
	return &subscriptions{nodeLoop: n, store: s, copies: copies, log: log, gone: func(string) {}, byKey: map[overlay.ID]*subscription{}}
}

// load reads what the store has from earlier runs, and returns the number of subscriptions. A crash between
// two writes may leave both records of a feed; the subscription then stands.
func (s *subscriptions) load(feeds feedStore) (n int, err error) {
	s.feeds = feeds
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range feeds.Subscriptions() {
		r := s.open(f.Key, f.URL)
		r.subscribed, r.attributes, r.weight, r.version = true, attributesOf(f), f.Weight, s.nextVersion()
		n++
	}
	err = s.store.Range([]byte(unsubscribedPrefix), func(key, value []byte) bool {
		if len(key) == len(unsubscribedPrefix)+len(overlay.ID{}) && len(value) == 8 {
			s.open(overlay.ID(key[len(unsubscribedPrefix):]), "").unsubscribedAt = int64(binary.BigEndian.Uint64(value))
		}
		return true
	})
	for _, r := range s.byKey {
		if r.unsubscribedAt != 0 && r.subscribed && !r.attributes.Tentative {
			s.forgetUnsubscribed(r)
		}
	}
	if err != nil && !errors.Is(err, env.ErrDamaged) { // damaged records are ignored
		return n, fmt.Errorf("read the feeds that were unsubscribed from: %w", err)
	}
	return n, nil
}

func unsubscribedKey(key overlay.ID) []byte { return append([]byte(unsubscribedPrefix), key[:]...) }

// Subscribe subscribes to a feed; see proxy.Subscriptions.
func (s *subscriptions) Subscribe(ctx context.Context, url string, auto bool) error {
	return s.subscribe(ctx, url, attributes{Auto: auto, LastRead: time.Now().Unix()})
}

// SubscribeAs subscribes to a feed and describes it; see proxy.Subscriptions.
func (s *subscriptions) SubscribeAs(ctx context.Context, url string, d proxy.Description) error {
	return s.subscribeAs(ctx, url, attributes{LastRead: time.Now().Unix()}, func(a *attributes) { a.describe(d) })
}

// SubscribeQuietly subscribes to a feed through members that stand between; see proxy.Subscriptions.
func (s *subscriptions) SubscribeQuietly(ctx context.Context, url string) error {
	return s.subscribe(ctx, url, attributes{Quiet: true, LastRead: time.Now().Unix()})
}

// subscribeTentatively subscribes to a feed, unless the node does already.
func (s *subscriptions) subscribeTentatively(ctx context.Context, url string) error {
	return s.subscribe(ctx, url, attributes{Tentative: true, LastRead: time.Now().Unix()})
}

// subscribeForContact subscribes to a feed for a contact of the messenger.
func (s *subscriptions) subscribeForContact(ctx context.Context, url string) error {
	return s.subscribe(ctx, url, attributes{Messenger: true, LastRead: time.Now().Unix()})
}

// ofMessenger returns the feeds that are subscribed to for contacts of the messenger.
func (s *subscriptions) ofMessenger() (urls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.byKey {
		if r.subscribed && r.attributes.Messenger {
			urls = append(urls, r.url)
		}
	}
	return urls
}

// subscribe subscribes to a feed. A subscription is never weakened, such as one that the user asked for to an automatic or
// tentative one; otherwise the new attributes replace the old ones.
func (s *subscriptions) subscribe(ctx context.Context, url string, a attributes) error {
	return s.subscribeAs(ctx, url, a, func(*attributes) {})
}

// subscribeAs is subscribe and edit in one change.
func (s *subscriptions) subscribeAs(ctx context.Context, url string, a attributes, edit func(*attributes)) error {
	err := s.change(ctx, url, func(r *subscription, done func(error)) {
		switch old := r.attributes; {
		case r.subscribed && a.Quiet && !old.Quiet:
			done(kindError{proxy.ErrKnown, fmt.Errorf("follow %s quietly: %w", url, node.ErrNotQuiet)})
			return
		case r.subscribed && a.rank() <= old.rank():
			a = old
		case a.Auto && r.unsubscribedAt != 0:
			done(fmt.Errorf("subscribe to %s: %w", url, errUnsubscribed))
			return
		case r.subscribed:
			a.RequiredProvenance, a.Tags, a.Title, a.Site, a.Note = old.RequiredProvenance, old.Tags, old.Title, old.Site, old.Note
		}
		if edit(&a); r.subscribed && reflect.DeepEqual(a, r.attributes) {
			done(nil)
			return
		}
		s.write(r, a, max(r.weight, 1), done)
	})
	switch {
	case errors.Is(err, feedtree.ErrFull), errors.Is(err, node.ErrQuietFull):
		return kindError{proxy.ErrFull, fmt.Errorf("%w; unsubscribe from another one first", err)}
	case errors.Is(err, store.ErrFull):
		return fmt.Errorf("%w: %w", proxy.ErrFull, err)
	}
	return err
}

// Resubscribe makes a subscription again that the user has ended; see proxy.Subscriptions.
func (s *subscriptions) Resubscribe(ctx context.Context, url string) error {
	return s.change(ctx, url, func(r *subscription, done func(error)) {
		switch {
		case r.subscribed && (r.ended == nil || r.attributes.rank() >= r.ended.attributes.rank()): // made again by other means
			done(nil)
		case r.ended == nil:
			done(fmt.Errorf("subscribe again to %s: %w that this node remembers", url, proxy.ErrNoSubscription))
		default:
			a := r.ended.attributes
			a.LastRead = time.Now().Unix()
			s.write(r, a, r.ended.weight, done)
		}
	})
}

// SubscribeClients subscribes to a feed on behalf of several clients, who read the feed through this node. It
// is for laboratories.
func (s *subscriptions) SubscribeClients(ctx context.Context, url string, clients int) error {
	return s.change(ctx, url, func(r *subscription, done func(error)) {
		s.write(r, attributes{LastRead: time.Now().Unix()}, clients, done)
	})
}

// Describe adds the user's description to a subscription; see proxy.Subscriptions.
func (s *subscriptions) Describe(ctx context.Context, url string, description proxy.Description) error {
	return s.edit(ctx, url, func(a *attributes) { a.describe(description) })
}

// edit changes the attributes of a subscription, and returns when they are durable.
func (s *subscriptions) edit(ctx context.Context, url string, edit func(*attributes)) error {
	return s.change(ctx, url, func(r *subscription, done func(error)) {
		if !r.subscribed {
			done(fmt.Errorf("%s: %w", url, proxy.ErrNoSubscription))
			return
		}
		a := r.attributes
		edit(&a)
		s.write(r, a, r.weight, done)
	})
}

// Trust accepts the changed key of a feed; see proxy.Publishing.
func (s *subscriptions) Trust(ctx context.Context, url string) error {
	return s.change(ctx, url, func(r *subscription, done func(error)) {
		switch {
		case !r.subscribed:
			done(fmt.Errorf("trust %s: %w", url, proxy.ErrNoSubscription))
		case !s.feeds.Trust(r.key):
			done(kindError{proxy.ErrNoSubscription, fmt.Errorf("trust %s: its key has not changed, so there is nothing to accept", url)})
		default: // writing the subscription stores the trusted key, too
			s.write(r, r.attributes, r.weight, func(err error) {
				if err == nil {
					s.markChanged(r.key)
				}
				done(err)
			})
		}
	})
}

// Unsubscribe ends a subscription; see proxy.Subscriptions.
func (s *subscriptions) Unsubscribe(ctx context.Context, url string) error {
	return s.unsubscribe(ctx, url, nil)
}

// unsubscribe ends a subscription if mayEnd allows it. A nil mayEnd stands for a request of the user: reading
// the feed does not subscribe again after that.
func (s *subscriptions) unsubscribe(ctx context.Context, url string, mayEnd func(*subscription) bool) error {
	return s.change(ctx, url, func(r *subscription, done func(error)) {
		switch {
		case !r.subscribed:
			err := proxy.ErrNoSubscription
			page := feed.PageChannel(url)
			if p := s.byKey[s.key(page)]; p != nil && p.subscribed {
				err = fmt.Errorf("%w, but to %s", err, page)
			}
			done(fmt.Errorf("unsubscribe from %s: %w", url, err))
		case mayEnd != nil && !mayEnd(r):
			done(nil)
		case mayEnd != nil:
			s.end(r, done)
		default:
			s.rememberUnsubscribed(r, time.Now(), func(err error) {
				if err != nil {
					done(fmt.Errorf("unsubscribe from %s: %w", url, err))
					return
				}
				before := ended{r.attributes, r.weight}
				s.end(r, func(err error) {
					if err != nil {
						s.forgetUnsubscribed(r) // the user is told that the subscription goes on
					} else {
						r.ended = &before
					}
					done(err)
				})
			})
		}
	})
}

// change makes a change of a feed's record, and returns when it is durable or has failed. If ctx ends before,
// the change may still be made.
func (s *subscriptions) change(ctx context.Context, url string, c change) error {
	failed, err := ask(ctx, s, func(answer func(error)) { s.enqueue(url, c, answer) })
	return cmp.Or(failed, err)
}

// enqueue makes a change after those of the same feed that wait already.
func (s *subscriptions) enqueue(url string, c change, answer func(error)) {
	s.mu.Lock()
	r := s.open(s.key(url), url)
	s.mu.Unlock()
	r.waiting = append(r.waiting, func() {
		c(r, func(err error) {
			answer(err)
			if r.waiting = slices.Delete(r.waiting, 0, 1); len(r.waiting) > 0 {
				r.waiting[0]()
			} else {
				r.waiting = nil
			}
			s.dropUnused(r)
		})
	})
	if len(r.waiting) == 1 {
		r.waiting[0]()
	}
}

// open returns the record of a feed, which may be new. The caller holds the mutex.
func (s *subscriptions) open(key overlay.ID, url string) *subscription {
	r := s.byKey[key]
	if r == nil {
		r = &subscription{key: key}
		s.byKey[key] = r
	}
	r.url = cmp.Or(r.url, url)
	return r
}

// dropUnused deletes the record of a feed that is not subscribed to and has no request waiting.
func (s *subscriptions) dropUnused(r *subscription) {
	if !r.subscribed && r.unsubscribedAt == 0 && len(r.waiting) == 0 {
		s.mu.Lock()
		delete(s.byKey, r.key)
		s.mu.Unlock()
	}
}

// write stores a subscription.
func (s *subscriptions) write(r *subscription, a attributes, weight int, done func(error)) {
	s.feeds.Subscribe(r.url, a.Quiet, weight, a.encode(), func(err error) {
		if err == nil {
			s.mu.Lock()
			s.setSubscribed(r, true)
			r.attributes, r.weight, r.version = a, weight, s.nextVersion()
			s.mu.Unlock()
			if r.ended != nil && a.rank() >= r.ended.attributes.rank() {
				r.ended = nil
			}
			s.copies.drop(r.key)
			if r.unsubscribedAt != 0 && !a.Tentative {
				s.forgetUnsubscribed(r)
			}
		}
		done(err)
	})
}

// end deletes a subscription.
func (s *subscriptions) end(r *subscription, done func(error)) {
	s.feeds.Unsubscribe(r.url, func(err error) {
		if err == nil {
			s.mu.Lock()
			s.setSubscribed(r, false)
			r.attributes, r.weight, r.readAt = attributes{}, 0, 0
			r.wake()
			s.mu.Unlock()
			s.gone(r.url)
		}
		done(err)
	})
}

// rememberUnsubscribed stores that the user unsubscribes from a feed, so that a feed reader that goes on
// reading it does not subscribe again.
func (s *subscriptions) rememberUnsubscribed(r *subscription, now time.Time, done func(error)) {
	ops := []env.Op{{Key: unsubscribedKey(r.key), Value: binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))}}
	var oldest *subscription
	count := 0
	for _, o := range s.byKey {
		if o.unsubscribedAt == 0 || o == r {
			continue
		}
		if count++; oldest == nil || o.unsubscribedAt < oldest.unsubscribedAt {
			oldest = o
		}
	}
	full := count >= maxUnsubscribed
	if full {
		ops = append(ops, env.Op{Key: unsubscribedKey(oldest.key)})
	}
	s.store.Commit(ops, func(err error) {
		if err == nil {
			if full {
				oldest.unsubscribedAt = 0
				s.dropUnused(oldest)
			}
			r.unsubscribedAt = now.Unix()
		}
		done(err)
	})
}

// forgetUnsubscribed forgets that the user unsubscribed from a feed that is subscribed to. If the store
// refuses, the record stays there without effect, because the subscription stands.
func (s *subscriptions) forgetUnsubscribed(r *subscription) {
	r.unsubscribedAt = 0
	s.store.Commit([]env.Op{{Key: unsubscribedKey(r.key)}}, func(error) {})
}

// minuteVersion returns a version that also changes every minute. The time of the last poll and the state of
// the poller change with time alone, without an event.
func minuteVersion(version uint64, now time.Time) uint64 {
	const minutes = 20 // bits for the minute; they repeat after two years
	return version<<minutes | uint64(now.Unix()/60)&(1<<minutes-1)
}

// lookup returns the record of a feed that is subscribed to, or nil. The caller holds the mutex.
func (s *subscriptions) lookup(url string) *subscription {
	if !s.hasJoined() {
		return nil
	}
	if r := s.byKey[s.key(url)]; r != nil && r.subscribed {
		return r
	}
	return nil
}

// version returns the version of a feed; ok is false if it is not subscribed to.
func (s *subscriptions) version(url string) (version uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.lookup(url)
	if r == nil {
		return 0, false
	}
	return r.version, true
}

// nextVersion returns a new version. The caller holds the mutex.
func (s *subscriptions) nextVersion() uint64 {
	s.lastVersion++
	return s.lastVersion
}

// markChanged gives a feed a new version and wakes readers who wait for a change.
func (s *subscriptions) markChanged(key overlay.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byKey[key]; r != nil {
		r.version = s.nextVersion()
		r.wake()
	}
}

// wake wakes the readers who wait for a change.
func (r *subscription) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// changed returns a channel that is closed when a feed changes. If the feed is not subscribed to, the channel
// is closed already.
func (s *subscriptions) changed(url string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.lookup(url)
	if r == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}
