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

// A channel is a feed that this node subscribes to, leads, or keeps heartbeats of for its children.
type channel struct {
	key        overlay.ID
	url        string
	subscribed bool
	weight     int
	since      time.Time
	attributes []byte

	trust    *difference.Pin // the pin that this node trusts; nil: the feed has no publisher
	doubt    *difference.Pin // the pin in the log, if this node does not trust it; nil: there is none
	keyCheck keyCheck        // what this node has seen of the publisher's key at the origin
	// pendingWrites is the number of changes of the subscription that are on their way to the disk. trustUnstored
	// is set if trust has changed meanwhile.
	pendingWrites int
	trustUnstored bool
	leader        *leaderState // nil unless this node is the feed's sequencer
	beat          *beat        // the latest heartbeat
	probation     *probation   // of the parents that should deliver its entries; nil: none has begun
	state         []byte       // state of the polls, as the sequencer signed it
	repair        *repair
	needsOrigin   bool          // the origin is to be asked for items that the log lacks
	recovery      *bodyRecovery // of bodies that the disk has lost; nil: none is known to be lost
	// confirmed is the last time at which this node was certain to have all entries.
	confirmed     time.Time
	auditedAt     time.Time // last comparison with an owner
	heardAt       time.Time // when another node last vouched for the log; at first, the time of the subscription
	alone         bool      // the node is cut off from the feed, and polls it itself
	handOversLeft int       // remaining attempts to hand over what the node found alone
	handOverAt    time.Time // next of these attempts
	ownersUnknown bool      // the known owners did not answer the last audit, or no longer keep the log

	window  window
	syncing bool     // the window is being updated from the log
	rebuild bool     // the window is to be rebuilt after the current update
	waiters []func() // called when the window is up to date
}

// SubscriptionPrefix is the common prefix of the store's keys of subscriptions.
const SubscriptionPrefix = "feedtree/subscription/"

func subscriptionKey(key overlay.ID) []byte { return append([]byte(SubscriptionPrefix), key[:]...) }

// load reads the subscriptions in the store. Damaged records are skipped.
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
			c.window.shownUpTo = log[len(log)-1].Hash // the log up to here was shown in an earlier life
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

// resume joins the trees of the subscriptions in the store.
func (f *FeedTree) resume() {
	for _, c := range f.sorted() {
		if c.subscribed {
			f.join(c)
			if len(f.owners.Visible(c.key)) > 0 {
				// Reading the log now notices lost bodies before a reader asks for the feed. The key determines the
				// time, so that not all feeds are read at once.
				delay := f.cfg.PollInterval / 256 * time.Duration(c.key[len(c.key)-1])
				f.after(delay, task{kind: taskSync, key: c.key})
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

// Subscribe follows a feed on behalf of weight readers, from now on and after a restart. For an existing
// subscription it changes weight and attributes. done is called when the subscription is durable, or with the error
// that prevented it.
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
	if plant.EarlyAck {
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

// record returns the store's record of a subscription.
func (c *channel) record() *feedtreepb.Subscription {
	m := &feedtreepb.Subscription{Url: c.url, Weight: uint32(c.weight), SinceMs: uint64(c.since.UnixMilli()), Attributes: c.attributes}
	if c.trust != nil {
		m.Pin = c.trust.Append()
	}
	return m
}

// join enters the trees of a feed, makes sure that the feed has owners, and pulls its log.
func (f *FeedTree) join(c *channel) {
	c.confirmed, c.heardAt = f.clock.Now(), f.clock.Now()
	f.owners.Follow(c.key, c.url)
	f.scribe.Join(c.key, c.weight)
	f.scribe.Join(shadowOf(c.key), 1)
	f.requestOwners(c)
	f.startRepair(c, owner.Hash{})
	if pin := c.window.log.Pin(); c.trust == nil && pin != nil { // this node led the feed without following it
		f.considerPin(c, pin)
	}
}

// requestOwners makes sure that a feed has owners, which poll it.
func (f *FeedTree) requestOwners(c *channel) { f.owners.RequestOwners(c.key, c.url, func(bool) {}) }

// Unsubscribe ends a subscription. done is called when that is durable, or with the error that prevented it.
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

// A Subscription describes a feed that this node follows.
type Subscription struct {
	Key        overlay.ID
	URL        string
	Weight     int
	Since      time.Time
	Attributes []byte
	Title      string
	Link       string          // of the web page for people; may be empty
	Language   string          // language tag; empty if the feed names none
	Publisher  *difference.Pin // the trusted pin; nil: the feed has no publisher
	Doubt      *difference.Pin // the pin in the log, if this node does not trust it; nil: there is none
	// Seen is the key that the origin named when this node last checked; nil: it has not checked since it started.
	// Objectors is the number of other nodes that signed to have seen the trusted key there while the log names
	// another one.
	Seen      ed25519.PublicKey
	SeenAt    time.Time
	Objectors int
	Items     int       // number of items in the window, as far as the log has been read
	Version   uint64    // changes whenever the window does
	Confirmed time.Time // last time at which this node was certain to have all entries
	Heard     time.Time // when another node last vouched for the log
	Alone     bool      // the node is cut off from the feed, and polls it itself
	Led       bool      // the node is the feed's sequencer
	Repairing bool      // entries are missing and being pulled
	Lacks     uint64    // number of publications missing from the kept part of the log
	// Unreadable is the number of entries in the kept part of the log that this node cannot read, or cannot read
	// completely.
	Unreadable int
	State      []byte // state of the polls, as the sequencer signed it
	StateAt    time.Time
}

// Subscriptions returns all subscriptions in the order of their keys.
func (f *FeedTree) Subscriptions() (subscriptions []Subscription) {
	for _, c := range f.sorted() {
		if c.subscribed {
			subscriptions = append(subscriptions, f.subscription(c))
		}
	}
	return subscriptions
}

// Subscription returns the subscription of a key; ok is false if there is none.
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
		Lacks: c.window.log.Missing(), Unreadable: len(c.window.unreadable), State: c.state,
		Publisher: c.trust, Doubt: c.doubt, Seen: c.keyCheck.publisher.Key, SeenAt: c.keyCheck.seenAt, Objectors: len(c.keyCheck.objectors),
	}
	if pin := c.window.log.Pin(); s.Publisher != nil && pin != nil && pin.Seq > s.Publisher.Seq && c.trust.Valid(pin.Key) {
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
