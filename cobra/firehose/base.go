package firehose

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Owners tell who owns a key, and keep logs. *owner.Owners implements it.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	FindOwners(key overlay.ID, then func(f owner.Found))
	Track(key overlay.ID, url string, verify func() bool, changed func(e *owner.Epoch)) *owner.Tracker
	OpenEpoch(b []byte) (*owner.Epoch, error)
	Log(key overlay.ID) []*owner.Entry
	Body(e *owner.Entry, then func(body []byte))
}

const (
	// maintenanceInterval is the time between two checks of what this node is for each shard.
	maintenanceInterval = 5 * time.Second
	// keepTime is how long an owner keeps entries, and so the longest disconnection after which a filter gets all of them.
	keepTime = time.Hour
	// maxEntryAge is the maximum age of an entry that is reported, and the maximum difference between a broadcast's time
	// and this node's clock.
	maxEntryAge = 10 * time.Minute
)

// base are what every component needs of the world. One calendar serves all components, so that tasks that are due at one
// time run in the order in which they were scheduled.
type base struct {
	cfg    Config
	clock  env.Clock
	net    env.Network
	rand   *rand.Rand
	log    *slog.Logger
	node   *overlay.Node
	owners Owners
	signer *wire.Signer
	verify wire.Verifier
	self   env.PeerID
	cal    env.Calendar[task]
	stats  Stats
}

// A task is an entry of the calendar. Its entry or transfer may be gone when it is due.
type task struct {
	kind  taskKind
	shard int
	entry owner.Hash // or the hash of a report
	peer  env.PeerID
}

type taskKind uint8

const (
	taskMaintain       taskKind = iota
	taskRetryReport             // a report may not have reached a quorum
	taskPartTimeout             // a part was not acknowledged in time
	taskPublishTimeout          // another owner should have broadcast an entry
	taskRequest                 // an entry is still missing
)

func (b *base) schedule(in time.Duration, t task) { b.cal.Add(b.clock.Now().Add(in), t) }

func (b *base) send(to env.Peer, class env.Class, m *firehosepb.Message) {
	b.net.Send(to, class, wire.AppendFrame(nil, wire.Cobra, m))
}

// peer returns a peer with its address, if it is known.
func (b *base) peer(id env.PeerID) env.Peer {
	if c := b.node.Contact(id); c != nil {
		return c.Peer
	}
	return env.Peer{ID: id}
}

// place is what every component of one shard needs to know of the shard.
type place struct {
	*base
	number  int
	key     overlay.ID
	tracker tracker // of the shard's owners
}

// A tracker knows the owners of a shard. *owner.Tracker implements it.
type tracker interface {
	Latest() *owner.Epoch
	Owners() []env.Peer
	Owns(p env.PeerID) bool
	Owned(p env.PeerID) bool
	Accept(e *owner.Epoch)
	Refresh()
	Forget()
}

// shardOf returns the number of a channel's shard.
func shardOf(key overlay.ID, shards int) int { return int(key[0]) * shards / 256 }

// sign encodes and signs a message to the filters.
func (p *place) sign(m *firehosepb.Broadcast) []byte {
	m.Shard, m.TimeMs = uint32(p.number), uint64(p.clock.Now().UnixMilli())
	return p.signer.Sign(wire.DomainShard, wire.Encode(m)).Raw
}
