package wedge

import (
	"cmp"
	"time"

	"tidings/internal/check"
)

// Config holds the settings of a Wedge. A zero field means its default.
type Config struct {
	// Maintenance is the time between two rounds, at least 1 s. In each round the edges of every link
	// are renewed once, and the splits of every membership are compared with fresh counts. An edge
	// lasts two rounds without renewal, so that one renewal may be lost. Default 10 min. A longer time
	// saves messages, and repairs and expires edges later.
	Maintenance time.Duration
	// OrderCache is shared by several nodes that run on one goroutine. Default nil: the node keeps its
	// own orders, which takes more memory where several nodes have the same ones.
	OrderCache *OrderCache
}

func (c Config) withDefaults() Config {
	c.Maintenance = cmp.Or(c.Maintenance, 10*time.Minute)
	return c
}

// lease returns how long an edge lasts without renewal.
func (c Config) lease() time.Duration { return 2 * c.Maintenance }

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	return check.AtLeast("wedge: Maintenance", c.withDefaults().Maintenance, time.Second)
}

// MaxPayload bounds the payload of an order, MaxBroadcast a message given to Broadcast, in bytes.
const (
	MaxPayload   = 2 << 10
	MaxBroadcast = 16 << 10
)

const (
	// minInterval and maxInterval bound the interval of an order. Times within an interval are sent
	// in milliseconds, as 32 bits.
	minInterval = time.Second
	maxInterval = 7 * 24 * time.Hour
	// ranksPerMember bounds the ranks of an order, per member of the network. More cannot be
	// served, since a member serves at most MaxRanks.
	ranksPerMember = MaxRanks
	// maxStandIns bounds the declined ranks that have a stand-in. Nobody serves the phases of
	// further declined ranks.
	maxStandIns = 16

	// maxMemberships bounds the keys in whose trees a node takes part: four times what a node of a
	// working network needs. Beyond it, entries are refused, so that the parents ask other members.
	maxMemberships = 20_000
	// maxLed bounds them for keys that the node leads itself: as many as it can own. Nobody can lead
	// these keys in its place, and a node that is alone leads all that it follows. Beyond it, Enlist fails.
	maxLed = 200_000
	// outsideShare is the part of maxMemberships that one parent from outside the leaf may fill.
	// Such a parent is above this node for few keys, a member of the leaf for more than half of
	// them.
	outsideShare = 8

	// flushDelay is how long changes wait on a link so that several can share a batch; statusDelay
	// is the same for statuses. Broadcasts do not wait.
	flushDelay  = 500 * time.Millisecond
	statusDelay = 2 * time.Second
	// standInDelay is how long a leader waits before it assigns stand-ins, since statuses arrive
	// from all sides after a new order.
	standInDelay = 10 * time.Second

	// suspectTries is how often a batch or digest is sent before the overlay probes the peer. After
	// giveUpTries batches its edges are given to others, even if the overlay believes that it is
	// alive.
	suspectTries = 3
	giveUpTries  = 6

	// grace is how long a member goes on serving after its edge has ended. If only the shape of the
	// tree changes, another parent appears within that time.
	grace = 10 * time.Second

	// startTolerance is how much a newly measured start of the interval may differ from the known
	// one without replacing it, since the latency of a hop varies.
	startTolerance = 50 * time.Millisecond

	// idleTimeout is how long a link without edges is kept. It exceeds the time that a frame can be
	// in transit: the link remembers the number of the last batch, by which duplicates are
	// recognised.
	idleTimeout = time.Minute

	maxBatch   = 56 << 10 // approximate bytes of a batch
	maxChanges = 2048     // entries, ends, leaves or statuses in one batch
	maxDepth   = 256
	maxQueued  = 1 << 20 // bytes of broadcasts that wait on one link
	maxRelayed = 4 << 20 // bytes of broadcasts that this node keeps as a relay
	// maxSweep is the longest time between two checks of leases.
	maxSweep = time.Minute
)

// Stats holds counters since the start, and sizes at the time of the call.
type Stats struct {
	Records int // keys in whose trees the node takes part
	Led     int // keys that the node leads
	Keys    int // keys that the node serves
	Up      int // edges to parents
	Down    int // edges to children
	Links   int // peers with which the node shares edges

	Batches   uint64 // batches sent, including repetitions
	Entries   uint64 // edges announced to children
	Digests   uint64 // digests sent
	Lists     uint64 // links whose edges were listed because the two ends knew different ones
	Control   uint64 // messages sent other than broadcasts
	Resent    uint64 // batches and digests sent again because no answer came
	Replaced  uint64 // edges given to another child because the first one died
	Adopted   uint64 // edges whose ranks this node took over, because two children refused or there was no candidate
	Refused   uint64 // entries of other nodes that this node refused
	Expired   uint64 // memberships that ended because they were not renewed in time
	LeftOut   uint64 // declined ranks without a stand-in at the last count
	Downs     uint64 // broadcasts sent to children
	Delivered uint64 // broadcasts delivered to the application
	Lost      uint64 // broadcasts dropped because the queue of a link was full
	Garbage   uint64 // messages that broke the protocol
}
