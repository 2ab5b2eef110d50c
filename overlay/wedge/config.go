package wedge

import "time"

// Config is what a Wedge is told. A zero field means its default.
type Config struct {
	// Maintenance is the time between two rounds: each link's edges are renewed once, and
	// each record's splits compared with the counts. Default 10 min.
	Maintenance time.Duration
	// Lease is how long a duty lasts without being renewed. Default two Maintenances: one
	// renewal may be lost.
	Lease time.Duration
	// Orders is where orders are kept that several nodes of one goroutine share. Nil: the
	// node keeps its own.
	OrderCache *OrderCache
}

func (c Config) withDefaults() Config {
	if c.Maintenance <= 0 {
		c.Maintenance = 10 * time.Minute
	}
	if c.Lease <= 0 {
		c.Lease = 2 * c.Maintenance
	}
	return c
}

// MaxWords is the size of the largest words of an order in bytes, MaxDown that of the
// largest message of Down.
const (
	MaxPayload   = 2 << 10
	MaxBroadcast = 16 << 10
)

const (
	// minInterval and maxInterval bound the interval of an order: phases are told in
	// milliseconds, and the age of a phase fits 32 bits of them.
	minInterval = time.Second
	maxInterval = 7 * 24 * time.Hour
	// perMember bounds n: what is more cannot be served, by MaxRanks at each member.
	ranksPerMember = MaxRanks
	// maxStandIns is how many ranks that were declined have others in their place; beyond
	// that nobody polls in their phases.
	maxStandIns = 16

	// maxRecords is how many keys a node has a part in: four times what is asked of a
	// member of a network at work. Leaders of more are told so; parents ask others.
	maxMemberships = 20_000
	// awayShare is the part of maxRecords that a member from beyond the leaf may fill: it
	// stands above few keys of the many that pass, a member of the leaf above half of them.
	outsideShare = 8

	// flushDelay is how long changes wait on a link for company, tallyDelay how long
	// tallies do. Messages of leaders do not wait.
	flushDelay  = 500 * time.Millisecond
	statusDelay = 2 * time.Second
	// standDelay is how long a leader waits before it names stand-ins: after a new order
	// tallies come in from all sides.
	standInDelay = 10 * time.Second

	// suspectTries is how often a batch or digest goes out before the peer is suspected,
	// giveUpTries when its edges are given to others, if it is held to be alive.
	suspectTries = 3
	giveUpTries  = 6

	// endGrace is how long a member serves on after its edge has ended: if the tree only
	// changes its shape, another parent comes within that time.
	grace = 10 * time.Second

	// refSlack is how far a reference phase may be measured otherwise than before without
	// being moved: hops take a little longer one time than the other.
	startTolerance = 50 * time.Millisecond

	// idle is how long a link without edges is kept: longer than a frame is on its way, for
	// one that comes twice is known by the number of the last.
	idleTimeout = time.Minute

	maxBatch   = 56 << 10 // bytes of a batch, about
	maxChanges = 2048     // entries, ends, parts or tallies in one
	maxDepth   = 256
	maxQueued  = 1 << 20 // bytes of messages of leaders that wait on one link
	maxRelayed = 4 << 20 // bytes of those that are kept where this node is a relay
	// maxSweep is the longest time between two looks at leases.
	maxSweep = time.Minute
)

// Stats counts what a Wedge did since it started, and says what it holds.
type Stats struct {
	Records int // keys in whose trees the node takes part
	Led     int // keys that the node leads
	Duties  int // keys that the node serves
	Up      int // edges to parents
	Down    int // edges to children
	Links   int // peers that share edges with the node

	Batches   uint64 // batches sent, repetitions included
	Entries   uint64 // edges announced to children
	Digests   uint64 // digests sent
	Lists     uint64 // links sent in full because the two ends knew different edges
	Control   uint64 // messages sent that carry no message of a leader
	Resent    uint64 // batches and digests sent again because no answer came
	Replaced  uint64 // edges given to another child because one was dead
	Adopted   uint64 // edges that the node took itself because two children refused, or there was none
	Refused   uint64 // entries of other nodes that were refused
	Expired   uint64 // records that were not renewed in time
	LeftOut   uint64 // declined ranks without a stand-in at the last count
	Downs     uint64 // messages of leaders sent to children
	Delivered uint64 // messages of leaders delivered to the layer above
	Lost      uint64 // messages of leaders dropped from a full queue
	Garbage   uint64 // messages that broke the protocol
}
