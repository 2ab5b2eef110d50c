package feedtree

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A channel is a feed that this node subscribes to, or publishes.
type channel struct {
	key        overlay.ID
	url        string
	subscribed bool
	weight     int
	since      time.Time
	attributes []byte

	trust    *difference.Pin // whose feed it is, as this node believes; nil: nobody's
	doubt    *difference.Pin // what its log says instead; nil: nothing else
	keyCheck keyCheck        // what this node has seen of that at the origin itself
	// writing is how many changes of the subscription are on their way to the disk; unkept, that
	// what is believed has changed meanwhile.
	pendingWrites int
	trustUnstored bool
	leader        *leaderState // while this node is the feed's sequencer
	beat          *beat        // the last heartbeat
	probation     *probation   // of those who are to bring its entries; nil: there were none so far
	state         []byte       // what the sequencer says about its polls
	repair        *repair
	needsOrigin   bool          // its log lacks something for which the origin is to be asked
	recovery      *bodyRecovery // of bodies that the disk has lost; nil: none was seen to be
	// confirmed is when it was last certain that nothing was missing.
	confirmed     time.Time
	auditedAt     time.Time // when an owner was asked last
	heardAt       time.Time // when another node vouched for the log last; the start, as long as none has
	alone         bool      // the node is cut off from it, and polls it itself
	handOversLeft int       // how often the node may still hand over what it found alone
	handOverAt    time.Time // when it does so next
	ownersUnknown bool      // by the owners that are known: they did not answer, or keep no log of it any more

	window  window
	syncing bool     // the window is being brought up to the log
	rebuild bool     // the window is to be made anew, once it is up to the log
	waiters []func() // for the window
}

// SubscriptionPrefix begins the keys under which a store has the subscriptions.
const SubscriptionPrefix = "feedtree/subscription/"

func subscriptionKey(key overlay.ID) []byte { return append([]byte(SubscriptionPrefix), key[:]...) }

// load reads the subscriptions of an earlier life.
func (f *FeedTree) load() error {
	err := f.store.Range([]byte(SubscriptionPrefix), func(key, value []byte) bool {
		m := new(feedtreepb.Subscription)
		if len(key) != len(SubscriptionPrefix)+len(overlay.ID{}) || proto.Unmarshal(value, m) != nil {
			f.log.Warn("subscription record is damaged", "record", fmt.Sprintf("%x", key))
			return true
		}
		c := f.channel(overlay.ID(key[len(SubscriptionPrefix):]), m.Url)
		c.subscribed, c.weight, c.attributes = true, int(m.Weight), m.Attributes
		c.since = time.UnixMilli(int64(m.SinceMs)).UTC()
		if len(m.Pin) > 0 {
			var err error
			if c.trust, err = difference.ParsePin(m.Pin); err != nil {
				f.log.Warn("record of a publisher's key is damaged", "url", m.Url, "err", err)
			}
		}
		if log := f.owners.Visible(c.key); len(log) > 0 {
			c.window.shownUpTo = log[len(log)-1].Hash // was shown before
		}
		return true
	})
	if errors.Is(err, env.ErrDamaged) {
		f.log.Warn("subscriptions could not be read", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	return nil
}

// resume takes up the subscriptions of an earlier life.
func (f *FeedTree) resume() {
	for _, c := range f.sorted() {
		if c.subscribed {
			f.join(c)
			if len(f.owners.Visible(c.key)) > 0 {
				// Reading the log now notices lost bodies before a reader asks for the feed. The key chooses the time,
				// so that not all feeds are read at once.
				turn := f.cfg.PollInterval / 256 * time.Duration(c.key[len(c.key)-1])
				f.after(turn, task{kind: taskSync, key: c.key})
			}
		}
	}
}

func (f *FeedTree) channel(key overlay.ID, url string) *channel {
	c := f.feeds[key]
	if c == nil {
		c = &channel{key: key, url: url, confirmed: f.clock.Now(), heardAt: f.clock.Now()}
		f.feeds[key] = c
	}
	if c.url == "" {
		c.url = url
	}
	return c
}

// Subscribe follows a feed, for as many readers as weight says, from now on and
// after a restart; or changes what was said. done is called when that is durable,
// or could not be made so.
func (f *FeedTree) Subscribe(url string, weight int, attributes []byte, done func(error)) {
	key := overlay.Key(f.node.Network(), url)
	c := f.feeds[key]
	if (c == nil || !c.subscribed) && f.Stats().Subscriptions >= MaxSubscriptions {
		done(fmt.Errorf("subscribe to %s: %w: %d", url, ErrFull, MaxSubscriptions))
		return
	}
	since := f.clock.Now()
	if c != nil && c.subscribed {
		since = c.since
	}
	next := channel{url: url, weight: weight, since: since, attributes: attributes}
	if c != nil {
		next.trust = c.trust
	}
	m := next.record()
	if plant.EarlyYes {
		done(nil)
		done = func(error) {}
	}
	f.commitSubscription(c, env.Op{Key: subscriptionKey(key), Value: marshal(m)}, func(err error) {
		if err != nil {
			done(fmt.Errorf("subscribe to %s: %w", url, err))
			return
		}
		c := f.channel(key, url)
		known := c.subscribed
		c.subscribed, c.weight, c.since, c.attributes = true, weight, since, attributes
		if known {
			f.scribe.Join(key, weight)
		} else {
			f.join(c)
		}
		done(nil)
	})
}

// record is what the store remembers of a subscription.
func (c *channel) record() *feedtreepb.Subscription {
	m := &feedtreepb.Subscription{Url: c.url, Weight: uint32(c.weight), SinceMs: uint64(c.since.UnixMilli()), Attributes: c.attributes}
	if c.trust != nil {
		m.Pin = c.trust.Append()
	}
	return m
}

// join enters the tree of a feed, sees to it that somebody polls it, and gets what
// there is of it.
func (f *FeedTree) join(c *channel) {
	c.confirmed, c.heardAt = f.clock.Now(), f.clock.Now()
	f.owners.Follow(c.key, c.url)
	f.scribe.Join(c.key, c.weight)
	f.scribe.Join(shadowOf(c.key), 1)
	f.requestOwners(c)
	f.startRepair(c, owner.Hash{})
	if pin := c.window.log.Pin(); c.trust == nil && pin != nil { // it has led the feed without following it
		f.considerPin(c, pin)
	}
}

// want sees to it that a feed has owners.
func (f *FeedTree) requestOwners(c *channel) { f.owners.RequestOwners(c.key, c.url, func(bool) {}) }

// Unsubscribe ends a subscription.
func (f *FeedTree) Unsubscribe(url string, done func(error)) {
	key := overlay.Key(f.node.Network(), url)
	f.commitSubscription(f.feeds[key], env.Op{Key: subscriptionKey(key)}, func(err error) {
		if err != nil {
			done(fmt.Errorf("unsubscribe from %s: %w", url, err))
			return
		}
		if c := f.feeds[key]; c != nil && c.subscribed {
			f.endAlone(c)
			c.subscribed, c.repair, c.trust, c.doubt, c.probation, c.recovery = false, nil, nil, nil, nil, nil
			c.keyCheck = keyCheck{}
			f.scribe.Leave(key)
			f.scribe.Leave(shadowOf(key))
			f.owners.Unfollow(key)
			if c.leader == nil {
				delete(f.feeds, key)
			}
		}
		done(nil)
	})
}

// A Subscription is a feed this node follows.
type Subscription struct {
	Key        overlay.ID
	URL        string
	Weight     int
	Since      time.Time
	Attributes []byte
	Title      string
	Link       string          // where people read it; may be ""
	Language   string          // a tag, "" if it does not say
	Publisher  *difference.Pin // whose it is; nil: nobody publishes it
	Doubt      *difference.Pin // what its log says instead, and this node does not believe; nil: nothing
	// Seen is the key that the origin named when this node looked last; nil: it has not looked in this life.
	// Objectors is how many other nodes have signed that they saw the believed key there while the log
	// says another one.
	Seen      ed25519.PublicKey
	SeenAt    time.Time
	Objectors int
	Items     int       // in the window, as far as it was looked at
	Version   uint64    // changes with the window
	Confirmed time.Time // when it was last certain that nothing was missing
	Heard     time.Time // when another node vouched for the log last
	Alone     bool      // the node is cut off from the feed, and polls it itself
	Led       bool      // the node is its sequencer: it polls it for all
	Repairing bool      // something is missing
	Lacks     uint64    // publications that its log leaves out, as far as it is kept
	// Unreadable is how many entries of its log, as far as that is kept, cannot be read wholly.
	Unreadable int
	State      []byte // what the sequencer says about its polls
	StateAt    time.Time
}

// Subscriptions returns all subscriptions by key.
func (f *FeedTree) Subscriptions() (of []Subscription) {
	for _, c := range f.sorted() {
		if c.subscribed {
			of = append(of, f.subscription(c))
		}
	}
	return of
}

// Subscription returns one; ok is false if there is none.
func (f *FeedTree) Subscription(key overlay.ID) (Subscription, bool) {
	if c := f.feeds[key]; c != nil && c.subscribed {
		return f.subscription(c), true
	}
	return Subscription{}, false
}

func (f *FeedTree) subscription(c *channel) Subscription {
	s := Subscription{
		Key: c.key, URL: c.url, Weight: c.weight, Since: c.since, Attributes: c.attributes,
		Items: c.window.itemCount(), Version: c.window.version,
		Confirmed: c.confirmed, Heard: c.heardAt, Alone: c.alone, Led: c.leader != nil, Repairing: c.repair != nil,
		Lacks: c.window.log.Lacks(), Unreadable: len(c.window.unread), State: c.state,
		Publisher: c.trust, Doubt: c.doubt, Seen: c.keyCheck.publisher.Key, SeenAt: c.keyCheck.seenAt, Objectors: len(c.keyCheck.objectors),
	}
	if pin := c.window.log.Pin(); s.Publisher != nil && pin != nil && pin.Seq > s.Publisher.Seq && c.trust.Good(pin.Key) {
		counted := *c.trust
		counted.Seq, counted.Head = pin.Seq, pin.Head
		s.Publisher = &counted
	}
	if h := c.window.head; h != nil {
		s.Title, s.Link, s.Language = h.Title, h.Link, h.Language
	}
	if c.beat != nil {
		s.StateAt = c.beat.time
	}
	return s
}
