package feedtree

import (
	"encoding/binary"
	"log/slog"
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

	// StateChanged reports a new state of a feed's polls, as the sequencer signed it. It also reports, with the
	// same state as before, that the feed's publisher key or its head has changed.
	StateChanged(key overlay.ID, state []byte, at time.Time)

	// Fetch requests the feed's document over HTTP. The document comes back by Show, because no node of the network
	// had a missing item, or by HeadFetched.
	Fetch(key overlay.ID, url string)

	// PollAlone starts or stops polls of a feed by this node for its own readers, because no other node vouches for
	// the feed's log any more. The result comes back by ShowAlone.
	PollAlone(key overlay.ID, url string, on bool)

	// HandOver brings items that this node found while it was cut off from a feed to the feed's sequencer. known is
	// a sample of the items in the log.
	HandOver(key overlay.ID, head *feed.Head, found []feed.Item, known []difference.Entry)

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
func (m *common) run(now time.Time) time.Time {
	for p, _, ok := m.cal.Pop(now); ok; p, _, ok = m.cal.Pop(now) {
		m.handlers[p.of](p.key)
	}
	return m.cal.Next()
}

// after returns the time that is d from now.
func (m *common) after(d time.Duration) time.Time { return m.clock.Now().Add(d) }

// channel returns the record of a feed, and makes one if there is none.
func (m *common) channel(key overlay.ID, url string) *channel {
	c := m.feeds[key]
	if c == nil {
		c = &channel{key: key, url: url, confirmed: m.clock.Now()}
		c.heardAt = c.confirmed
		m.feeds[key] = c
	}
	if c.url == "" {
		c.url = url
	}
	return c
}

// requestOwners makes sure that a feed has owners, which poll it.
func (m *common) requestOwners(c *channel) { m.owners.RequestOwners(c.key, c.url, func(bool) {}) }

// spread returns d plus or minus a quarter, at random.
func (m *common) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(m.rand.Int64N(int64(d)/2+1))
}

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

// shadowOf returns the group of a feed's shadow tree, which is the key plus half the ring. Applied to that group,
// it returns the key.
func shadowOf(key overlay.ID) overlay.ID {
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
		return shadowOf(key)
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
