package feedtree

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// An Application is the layer above. Its methods are called from within Deliver, Receive, Run and other methods of
// a FeedTree.
type Application interface {
	// News reports items that readers of a subscribed feed see from now on: new items, and new versions of known
	// ones. Each version is reported once.
	News(key overlay.ID, changes []difference.Change, at time.Time)

	// Witnessed reports items of a subscribed feed that enough owners have now seen at the origin.
	Witnessed(key overlay.ID, items []feed.ID)

	// StateChanged reports a new state of a feed's polls, as the sequencer signed it. It also reports, with the
	// same state as before, that the feed's publisher key or its head has changed.
	StateChanged(key overlay.ID, state []byte, at time.Time)

	// Fetch requests the feed's document over HTTP. The document comes back by Show, because no node of the network
	// had a missing item, or by Fetched.
	Fetch(key overlay.ID, url string)

	// PollAlone starts or stops polls of a feed by this node for its own readers, because no other node vouches for
	// the feed's log any more. The result comes back by ShowAlone.
	PollAlone(key overlay.ID, url string, on bool)

	// HandOver brings items that this node found while it was cut off from a feed to the feed's sequencer. known is
	// a sample of the items in the log.
	HandOver(key overlay.ID, head *feed.Head, found []feed.Item, known []difference.Entry)

	// Look fetches a feed's document only to confirm what others have found, if this node may do that. The document
	// comes back by Fetched, and readers do not see it. Look reports whether it was requested.
	Look(key overlay.ID, url string) bool

	// Contested says that most owners of a feed that this node leads have looked for items of the log in vain.
	Contested(key overlay.ID, items []difference.Version)

	// Interval returns the time between two polls of one node according to the state of a feed's polls, as the sequencer
	// signed it. ok is false if the polls fail.
	Interval(state []byte) (interval time.Duration, ok bool)

	// PollSoon returns how many of the owners of a feed that this node leads, the first in its wedge, poll it anyway so
	// that they need not look. It is negative if none is to look now, because the feed's hub pushes its news.
	PollSoon(key overlay.ID) int

	// Pushed says whether the news of a feed that this node owns comes from a hub, according to the feed's record.
	Pushed(key overlay.ID) bool

	// Looking says that so many nodes fetch the document of a feed that this node leads only to confirm news: owners that
	// were asked, or readers that compare the log with the origin.
	Looking(key overlay.ID, nodes int)

	// Filter returns the changes in d, which come from another branch, that are new to this node's poller of the
	// feed. The poller treats them as known from then on.
	Filter(key overlay.ID, d difference.Delta) difference.Delta
}

// common is what all components of a FeedTree share: its I/O interfaces, the layers below and above it, the records
// of the feeds, and the counters.
type common struct {
	cfg       Config
	clock     env.Clock
	net       env.Network
	rand      *rand.Rand
	log       *slog.Logger
	node      *overlay.Node
	scribe    *scribe.Scribe
	owners    *owner.Owners
	signer    *wire.Signer
	verify    wire.Verifier
	app       Application
	stats     Stats
	*refusals // what this node has refused, for people

	feeds      channels
	cal        env.Calendar[plan]
	handlers   []func(key overlay.ID)  // of plans
	ownerAddrs map[env.PeerID]env.Peer // addresses of owners, as lookups found them; at most maxOwnerAddrs
}

// A plan is something that a component wants to do at a time.
type plan struct {
	of  uint8 // the place of its handler in common.handlers
	key overlay.ID
}

// plans is a component's part of the calendar. All components share one calendar, so that plans for the same time are
// carried out in the order in which they were made.
type plans struct {
	of uint8
	m  *common
}

// newPlans returns a part of the calendar. do carries out its plans.
func (m *common) newPlans(do func(key overlay.ID)) plans {
	m.handlers = append(m.handlers, do)
	return plans{uint8(len(m.handlers) - 1), m}
}

// feedPlans returns a part of the calendar for plans that concern feeds. Those of unknown feeds are dropped.
func (m *common) feedPlans(do func(c *channel)) plans {
	return m.newPlans(func(key overlay.ID) {
		if c := m.feeds[key]; c != nil {
			do(c)
		}
	})
}

func (p plans) add(at time.Time, key overlay.ID) { p.m.cal.Add(at, plan{p.of, key}) }

// run carries out all plans that are due, and returns the time of the next one.
func (m *common) run(now time.Time) {
	for p, _, ok := m.cal.Pop(now); ok; p, _, ok = m.cal.Pop(now) {
		m.handlers[p.of](p.key)
	}
}

// pack packs the items of a feed until they are used again. See difference.Window.Pack.
func (c *channel) pack() {
	c.window.log.Pack(nil)
	if c.leader != nil {
		c.leader.window.Pack(&c.window.log)
	}
}

// packSmall packs a small feed. Others are packed in each digest interval.
func (c *channel) packSmall() {
	if c.window.log.Len() <= difference.SmallFeed {
		c.pack()
	}
}

// after returns the time that is d from now.
func (m *common) after(d time.Duration) time.Time { return m.clock.Now().Add(d) }

// channel returns the record of a feed, and makes one if there is none.
func (m *common) channel(key overlay.ID, url string) *channel {
	c := m.feeds[key]
	if c == nil {
		c = &channel{key: key, url: url, confirmed: env.MomentOf(m.clock.Now())}
		c.heardAt = c.confirmed.Time()
		m.feeds[key] = c
	}
	if c.url == "" {
		c.url = url
	}
	return c
}

// requestOwners asks the root of a feed to give it owners, one of which then orders its polls.
func (m *common) requestOwners(c *channel) { m.owners.RequestOwners(c.key, c.url, func(bool) {}) }

func (m *common) send(to env.Peer, msg *feedtreepb.Message) {
	m.stats.Control++
	m.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Feed, msg))
}

// logHead returns the first eight bytes of the hash of a feed's last visible entry; 0: the log is empty.
func (m *common) logHead(key overlay.ID) uint64 {
	log := m.owners.Visible(key)
	if len(log) == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(log[len(log)-1].Hash[:8])
}

// peer returns a peer with its address, if that is known.
func (m *common) peer(id env.PeerID) env.Peer {
	if c := m.node.Contact(id); c != nil {
		return c.Peer
	}
	if p, ok := m.ownerAddrs[id]; ok {
		return p
	}
	return env.Peer{ID: id}
}

// sendOwners sends a message to the other owners of a feed.
func (m *common) sendOwners(key overlay.ID, msg *feedtreepb.Message) {
	if v, _ := m.owners.View(key); v.Epoch != nil {
		for _, id := range v.Epoch.Owners {
			if id != m.signer.PeerID() {
				m.send(m.peer(id), msg)
			}
		}
	}
}

// others returns the nodes that a lookup found, without this one.
func (m *common) others(found owner.Found) (peers []env.Peer) {
	for _, p := range found.Peers() {
		if p.Peer.ID != m.signer.PeerID() {
			peers = append(peers, p.Peer)
		}
	}
	return peers
}

func (m *common) isParent(key overlay.ID, peer env.PeerID) bool {
	return slices.ContainsFunc(m.scribe.Parents(key), func(c *overlay.Contact) bool { return c.Peer.ID == peer })
}

// ShadowOf returns the group of a feed's shadow tree, which is the key plus half the ring. Applied to that group,
// it returns the key.
func ShadowOf(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// messageID returns the id with which an entry, or its head, goes down a tree. It is the same for every node that
// publishes the entry.
func messageID(h owner.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// These are the trees of a feed.
const (
	entryTree = iota
	headTree
	treeCount
)

func groupOf(key overlay.ID, tree int) overlay.ID {
	if tree == headTree {
		return ShadowOf(key)
	}
	return key
}

// parentIn returns the parent of this node in a group, or "" if it has none.
func (m *common) parentIn(group overlay.ID) env.PeerID {
	if above := m.scribe.Parents(group); len(above) > 0 {
		return above[0].Peer.ID
	}
	return ""
}

// A channel is a feed that this node subscribes to, leads, or keeps heartbeats of for its children. Each component
// has its part of the record.
type channel struct {
	key       overlay.ID
	url       string
	confirmed env.Moment   // last time at which this node was certain to have all entries
	leader    *leaderState // nil unless this node is the feed's sequencer

	subscription
	vouching
	gap
	announced
	auditing
	asking
	keyTrust
	stated
	reading
	originAuditing
	probation *probation // of the parents that should deliver its entries; nil: none has begun
	delivery  *Delivery  // the last one with items; nil: none since this node started
}

// A leaderState is what the sequencer of a feed keeps.
type leaderState struct {
	appended
	announcing
	accepting
	claims
	certifying
	keyChange *keyChange // a change of the key that owners are to witness; nil: none
	ready     bool       // the log has been read
	toAbsorb  [][]byte   // bodies of another branch, until there is room for them and the log has been read
}

// channels holds the records of all feeds.
type channels map[overlay.ID]*channel

// sorted returns the channels in the order of their keys, so that messages do not depend on the order of a map.
func (cs channels) sorted() []*channel {
	return slices.SortedFunc(maps.Values(cs), func(a, b *channel) int { return bytes.Compare(a.key[:], b.key[:]) })
}

// maxRefusals bounds the refusals that are kept for people. The oldest is dropped.
const maxRefusals = 16

// refusals keeps the latest refusals.
type refusals struct {
	clock env.Clock
	list  []Refusal // at most maxRefusals
}

// A Refusal describes something that this node refused: a publication, as the sequencer of its feed, or a message
// that is not a valid publication or entry.
type Refusal struct {
	URL string // "" if unknown, or if only an unverified message names it
	Seq uint64 // number of the publication
	Key []byte // key that signed the publication; nil: no valid signature
	Why string
	At  time.Time

	retryable, beat bool // the publication may be accepted later; it is a heartbeat of the publisher
}

// forget drops the refusals of a publication that was accepted later, at a given time: at first its key was
// unknown, or the publications before it were missing.
func (rf *refusals) forget(url string, p *difference.Publication, at time.Time) {
	rf.list = slices.DeleteFunc(rf.list, func(r Refusal) bool {
		return r.retryable && r.URL == url && r.Seq == p.Seq && p.SignedBy(r.Key) && (r.beat || !p.IsBeat()) && !r.At.After(at)
	})
}

// add records a refusal. A repeated one replaces the first.
func (rf *refusals) add(r Refusal) {
	r.At = rf.clock.Now()
	rf.list = slices.DeleteFunc(rf.list, func(old Refusal) bool {
		return old.URL == r.URL && old.Seq == r.Seq && bytes.Equal(old.Key, r.Key) && old.beat == r.beat && old.Why == r.Why
	})
	rf.list = append(rf.list, r)
	rf.list = rf.list[max(0, len(rf.list)-maxRefusals):]
}

// Refusals returns the latest refusals, the oldest first.
func (rf *refusals) Refusals() []Refusal { return slices.Clone(rf.list) }
