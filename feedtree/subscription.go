package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// subscriptions begins and ends the subscriptions of this node, and keeps them on the disk together with the publishers'
// keys that this node trusts.
type subscriptions struct {
	*common
	store    env.Store
	cutOffs  *cutOffs
	repairer *repairer
	trusts   *trusts
	reader   *reader
	audits   *originAudits
	count    int        // subscriptions of this node
	cal      plans      // of resumeGroup
	resuming []*channel // those of a former run whose trees are still to be joined
}

// resume joins the trees of the subscriptions in the store, in groups, as their logs are led again (owner.ResumedAtOnce).
func (su *subscriptions) resume() {
	su.resuming = su.feeds.sorted()
	su.resumeGroup(overlay.ID{})
}

// resumeGroup joins the trees of the next subscriptions.
func (su *subscriptions) resumeGroup(overlay.ID) {
	group := su.resuming[:min(len(su.resuming), owner.ResumedAtOnce)]
	for _, c := range group {
		if !c.subscribed || su.feeds[c.key] != c {
			continue
		}
		su.join(c)
		if len(su.owners.Visible(c.key)) > 0 {
			// Reading the log now notices lost bodies before a reader asks for the feed. The key determines the
			// time, so that not all feeds are read at once.
			delay := su.cfg.PollInterval / 256 * time.Duration(c.key[len(c.key)-1])
			su.reader.cal.add(su.after(delay), c.key)
		}
	}
	if su.resuming = su.resuming[len(group):]; len(su.resuming) == 0 {
		su.resuming = nil
		return
	}
	su.cal.add(su.after(owner.ResumePause), overlay.ID{})
}

// Subscribe follows a feed on behalf of weight readers, from now on and after a restart. For an existing
// subscription it changes weight and attributes. done is called when the subscription is durable, or with the error
// that prevented it.
func (su *subscriptions) Subscribe(url string, weight int, attributes []byte, done func(error)) {
	key := overlay.Key(su.node.Network(), url)
	c := su.feeds[key]
	if (c == nil || !c.subscribed) && su.count >= su.cfg.MaxSubscriptions {
		done(fmt.Errorf("subscribe to %s: %w: %d", url, ErrFull, su.cfg.MaxSubscriptions))
		return
	}
	since := env.MomentOf(su.clock.Now())
	if c != nil && c.subscribed {
		since = c.since
	}
	next := channel{url: url, subscription: subscription{weight: weight, since: since, attributes: attributes}}
	if c != nil {
		next.trust, next.ownerSets = c.trust, c.ownerSets
	}
	m := next.record()
	su.commit(c, env.Op{Key: subscriptionKey(key), Value: wire.Encode(m)}, func(err error) {
		if err != nil {
			done(fmt.Errorf("subscribe to %s: %w", url, err))
			return
		}
		c := su.channel(key, url)
		known := c.subscribed
		c.subscribed, c.weight, c.since, c.attributes = true, weight, since, attributes
		if known {
			su.scribe.Join(key, weight)
			su.scribe.Join(ShadowOf(key), weight)
		} else {
			su.count++
			su.join(c)
		}
		done(nil)
	})
}

// join enters the trees of a feed, makes sure that the feed has owners, and pulls its log.
func (su *subscriptions) join(c *channel) {
	c.heardAt = su.clock.Now()
	c.confirmed = env.MomentOf(c.heardAt)
	c.stated = stated{listening: c.confirmed}
	su.owners.Follow(c.key, c.url)
	su.scribe.Join(c.key, c.weight)
	su.scribe.Join(ShadowOf(c.key), c.weight)
	su.requestOwners(c)
	su.repairer.start(c, owner.Hash{})
	su.audits.planQuiet(c)
	if pin := c.window.log.Pin(); c.trust == nil && pin != nil { // this node led the feed without following it
		su.trusts.consider(c, pin)
	}
}

// Unsubscribe ends a subscription. done is called when that is durable, or with the error that prevented it.
func (su *subscriptions) Unsubscribe(url string, done func(error)) {
	key := overlay.Key(su.node.Network(), url)
	su.commit(su.feeds[key], env.Op{Key: subscriptionKey(key)}, func(err error) {
		if err != nil {
			done(fmt.Errorf("unsubscribe from %s: %w", url, err))
			return
		}
		if c := su.feeds[key]; c != nil && c.subscribed {
			su.count--
			su.cutOffs.endAlone(c)
			c.subscribed, c.repair, c.probation, c.recovery, c.delivery = false, nil, nil, nil, nil
			c.keyTrust, c.asking, c.ownerSets = keyTrust{}, asking{}, nil
			c.originAuditing = originAuditing{}
			su.scribe.Leave(key)
			su.scribe.Leave(ShadowOf(key))
			su.owners.Unfollow(key)
			if c.leader == nil {
				delete(su.feeds, key)
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
	Items     int        // number of items in the window, as far as the log has been read
	Witnessed int        // number of those that enough owners of the feed have seen at the origin
	Version   uint64     // changes whenever the window does
	Logged    owner.Hash // last entry of the log
	Confirmed time.Time  // last time at which this node was certain to have all entries
	Heard     time.Time  // when another node last vouched for the log
	Alone     bool       // the node is cut off from the feed, and polls it itself
	Led       bool       // the node is the feed's sequencer
	Repairing bool       // entries are missing and being pulled
	Lacks     uint64     // number of publications missing from the kept part of the log
	// Unseen is the number of publications that the publisher has stated and the log lacks at its end, since
	// UnseenSince. Silent is when the publisher last spoke, if it is overdue by its own promise.
	Unseen              uint64
	UnseenSince, Silent time.Time
	// Problem is a difference between the log and the origin that this node has seen; nil: it knows none.
	Problem *Problem
	// Unreadable is the number of entries in the kept part of the log that this node cannot read, or cannot read
	// completely.
	Unreadable int
	State      []byte // state of the polls, as the sequencer signed it
	StateAt    time.Time
}

// SubscriptionKeys returns the keys of all subscriptions, in no order.
func (su *subscriptions) SubscriptionKeys() []overlay.ID {
	keys := make([]overlay.ID, 0, su.count)
	for key, c := range su.feeds {
		if c.subscribed {
			keys = append(keys, key)
		}
	}
	return keys
}

// CountSubscriptions returns how many subscriptions there are.
func (su *subscriptions) CountSubscriptions() int { return su.count }

// Subscription returns the subscription of a key; ok is false if there is none.
func (su *subscriptions) Subscription(key overlay.ID) (Subscription, bool) {
	if c := su.feeds[key]; c != nil && c.subscribed {
		return su.subscription(c), true
	}
	return Subscription{}, false
}

// Waiting returns the number of a feed's items that neither the publisher nor owners vouch for, and that owners do not
// contest. It looks at all of them.
func (su *subscriptions) Waiting(key overlay.ID) int {
	if c := su.feeds[key]; c != nil {
		return c.window.waiting()
	}
	return 0
}

func (su *subscriptions) subscription(c *channel) Subscription {
	s := Subscription{
		Key: c.key, URL: c.url, Weight: c.weight, Since: c.since.Time(), Attributes: c.attributes,
		Items: c.window.itemCount(), Witnessed: c.window.marks.vouched(), Version: c.window.version,
		Confirmed: c.confirmed.Time(), Heard: c.heardAt, Alone: c.alone, Led: c.leader != nil, Repairing: c.repair != nil,
		Lacks: c.window.log.Missing(), Unreadable: len(c.window.unreadable), State: c.state,
		Publisher: c.trust, Doubt: c.doubt,
	}
	if log := su.owners.Log(c.key); len(log) > 0 {
		s.Logged = log[len(log)-1].Hash
	}
	if k := c.keyCheck; k != nil {
		s.Seen, s.SeenAt, s.Objectors = k.publisher.Key, k.seenAt, len(k.objectors)
	}
	publisher := c.publisherState()
	if s.Unseen, s.UnseenSince = publisher.unseen, publisher.unseenFrom; publisher.silent {
		s.Silent = c.spokeAt()
	}
	if pin := c.window.log.Pin(); s.Publisher != nil && pin != nil && pin.Seq > s.Publisher.Seq && c.trust.Valid(pin.Key) {
		counted := *c.trust
		counted.Seq, counted.Head = pin.Seq, pin.Head
		s.Publisher = &counted
	}
	if pin := c.window.log.Pin(); s.Publisher != nil && pin != nil && bytes.Equal(pin.Key, s.Publisher.Key) && pin.Beat != s.Publisher.Beat {
		said := *s.Publisher
		said.Beat = pin.Beat // as the log says; silence counts by what this node trusts
		s.Publisher = &said
	}
	s.Problem = c.shown()
	h := c.window.head
	if h == nil && c.leader != nil { // the window has not read the log yet
		h = c.leader.head
	}
	if h != nil {
		s.Title, s.Link, s.Language = h.Title, h.Link, h.Language
	}
	if c.beat != nil {
		s.StateAt = c.beat.time.Time()
	}
	return s
}

// DefaultMaxSubscriptions is the default of Config.MaxSubscriptions. A subscription takes about 30 KB of memory, so these
// take 600 MB.
const DefaultMaxSubscriptions = 20_000

// ErrFull reports that a node has Config.MaxSubscriptions subscriptions.
var ErrFull = errors.New("this node has reached its limit of subscriptions")

// subscription is what this node's readers have asked for.
type subscription struct {
	subscribed bool
	weight     int // number of readers
	since      env.Moment
	attributes []byte // opaque, for the layers above
	// pendingWrites is the number of changes of the subscription that are on their way to the disk. trustUnstored
	// is set if trust has changed meanwhile.
	pendingWrites int
	trustUnstored bool
	ownerSets     [][]env.PeerID // owners of the feed at the times when it had certificates, the newest last; at most maxOwnerSets
}

// SubscriptionPrefix is the common prefix of the store's keys of subscriptions.
const SubscriptionPrefix = "feedtree/subscription/"

func subscriptionKey(key overlay.ID) []byte { return append([]byte(SubscriptionPrefix), key[:]...) }

// load reads the subscriptions in the store. Damaged records are skipped.
func (su *subscriptions) load() error {
	err := su.store.Range([]byte(SubscriptionPrefix), func(key, value []byte) bool {
		m := new(feedtreepb.Subscription)
		if len(key) != len(SubscriptionPrefix)+len(overlay.ID{}) || proto.Unmarshal(value, m) != nil {
			su.log.Warn("subscription record is damaged", "record", fmt.Sprintf("%x", key))
			return true
		}
		c := su.channel(overlay.ID(key[len(SubscriptionPrefix):]), m.Url)
		c.subscribed, c.weight, c.attributes = true, int(m.Weight), m.Attributes
		su.count++
		c.since = env.MomentOf(time.UnixMilli(int64(min(m.SinceMs, wire.MaxMillis))))
		if len(m.Pin) > 0 {
			var err error
			if c.trust, err = difference.ParsePin(m.Pin); err != nil {
				su.log.Warn("record of a publisher's key is damaged", "url", m.Url, "err", err)
			}
		}
		for _, set := range m.OwnerSets {
			var owners []env.PeerID
			for _, id := range set.Owners {
				owners = append(owners, env.PeerID(id))
			}
			c.ownerSets = append(c.ownerSets, owners)
		}
		if log := su.owners.Visible(c.key); len(log) > 0 {
			c.window.shownUpTo = log[len(log)-1].Hash // the log up to here was shown in an earlier life
		}
		return true
	})
	if errors.Is(err, env.ErrDamaged) {
		su.log.Warn("subscriptions could not be read", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	return nil
}

// record returns the store's record of a subscription.
func (c *channel) record() *feedtreepb.Subscription {
	m := &feedtreepb.Subscription{Url: c.url, Weight: uint32(c.weight), SinceMs: c.since.Millis(), Attributes: c.attributes}
	if c.trust != nil {
		m.Pin = c.trust.Append()
	}
	for _, owners := range c.ownerSets {
		set := new(feedtreepb.OwnerSet)
		for _, id := range owners {
			set.Owners = append(set.Owners, []byte(id))
		}
		m.OwnerSets = append(m.OwnerSets, set)
	}
	return m
}

// saveTrust stores the trusted pin with the subscription. While a change of the subscription is being written,
// saveTrust waits for its result.
func (su *subscriptions) saveTrust(c *channel) {
	if c.trustUnstored = c.pendingWrites > 0; c.trustUnstored || !c.subscribed {
		return
	}
	su.store.Commit([]env.Op{{Key: subscriptionKey(c.key), Value: wire.Encode(c.record())}}, func(err error) {
		if err != nil {
			su.log.Warn("publisher's key could not be stored", "url", c.url, "err", err) // the next life of the node decides on the pin again
		}
	})
}

// commit writes a new, changed or ended subscription to the disk; c is nil if the node does not know
// the feed yet.
func (su *subscriptions) commit(c *channel, op env.Op, then func(error)) {
	if c != nil {
		c.pendingWrites++
	}
	su.store.Commit([]env.Op{op}, func(err error) {
		then(err)
		if c == nil {
			return
		}
		if c.pendingWrites--; c.pendingWrites == 0 && c.trustUnstored {
			su.saveTrust(c)
		}
	})
}
