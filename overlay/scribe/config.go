package scribe

import "time"

// Config is what a Scribe is told. A zero field means its default.
type Config struct {
	// FanOut is how many member children a node has in one group before it
	// pushes some down, within pushDelay. Default 16.
	FanOut int
	// MaxWeight is how many clients count behind one node and group; Join
	// clamps to it. Default 64.
	MaxWeight int
	// BeatInterval is the time between two renewals of the edges to one
	// parent. A parent drops the children of a link after three without.
	// Default 30 s.
	HeartbeatInterval time.Duration
}

func (c Config) withDefaults() Config {
	if c.FanOut <= 0 {
		c.FanOut = 16
	}
	if c.MaxWeight <= 0 {
		c.MaxWeight = 64
	}
	if c.HeartbeatInterval <= 0 {
		c.HeartbeatInterval = 30 * time.Second
	}
	return c
}

const (
	leasePeriods = 3 // pauses without a Beat before a child is dropped

	// beatShare is what each link adds to the pause between two Beats, once that comes to more than
	// a BeatInterval; maxPause is the longest. One Beat and its answer do for both ends: with up to 200
	// links a node at rest says less than two messages a second, with more in proportion.
	heartbeatShare     = 750 * time.Millisecond
	maxHeartbeatPeriod = 150 * time.Second
	// spellTime is how long each edge of a List has to do: a peer that is always wrong about them
	// draws some 40 KB a second from a link, and not as much as it asks for.
	timePerListedEdge = time.Millisecond
	// downPause is how long after a broken connection a peer is asked: one that starts anew is back.
	reconnectDelay = 2 * time.Second

	// joinPatience is how long a Join may go unanswered at first; it doubles
	// up to joinPauseMax.
	joinTimeout    = 3 * time.Second
	maxJoinTimeout = 30 * time.Second

	// recentLife is how long a node keeps what passed, for children that come
	// from a lost parent: longer than an edge that only one end believes in
	// can stand (maxPause and a quarter). maxRecent bounds it per group, the
	// oldest go first.
	recentTTL = 190 * time.Second
	maxRecent = 64

	// seenLife is how long a message is known again: longer than a publisher
	// tries (overlay.Config.RouteDeadline) and what it sent last is kept.
	seenTTL = 5 * time.Minute
	// maxSeen bounds the messages known again; at the bound the older half is
	// forgotten early.
	maxSeen = 1 << 17

	// gotDelay is how long acknowledgements wait for company, weightDelay
	// how long weights do.
	ackDelay    = 50 * time.Millisecond
	weightDelay = time.Second

	// window is how many Downs may be unacknowledged on a link, maxQueue how many more may
	// wait, and maxQueued how many bytes of them; at the bound only the last of each group goes on
	// waiting, the others are counted as lost, and the child pulls them.
	window    = 64
	maxQueue  = 2048
	maxQueued = 24 << 20
	// resends is how often a Down is repeated before the peer is suspected
	// and the Down given up: it is then for the next parent to send.
	maxResends = 10

	// pushPause is the time given to a child to move before it is asked again.
	pushTimeout = 10 * time.Second
	// sweepPause is the time between two looks at what has grown old.
	sweepInterval = 10 * time.Second

	// maxEdges is how many groups one peer may be a child in: twice the feeds
	// that one reader may have. In others it is refused, and asks elsewhere.
	maxEdges = 10_000
	// crowd is how many times the fan-out may hang below a node while children
	// are on their way to another parent. More are sent on at once, or away.
	crowdFactor = 4
	// maxRedirects is how often a node that has no parent lets itself be sent
	// on before it asks along the route again.
	maxRedirects = 16
	// maxKept bounds the bytes kept for late children, in all groups together;
	// at the bound nothing is kept, and they have to ask for what they miss.
	maxKeptBytes = 64 << 20

	// batchDelay is how long what is to be said of a group waits for company once a node
	// has much to say; of the first fewWords in such a time nothing waits.
	batchDelay   = 200 * time.Millisecond
	maxImmediate = 16
	// fewWays is how many Joins that go the same way from their child each go alone: then
	// each hop acknowledges them.
	minRoutedBatch = 4
	// maxControl is the size of the largest Batch that goes ahead of content, in bytes.
	maxControl = 2 << 10
	// batchBytes is after how many bytes a Batch goes, whatever else is to come.
	batchBytes = 32 << 10

	// pushDelay is how long a node with more children than the fan-out waits before it
	// pushes some down, so that those that come together are sent away together.
	pushDelay = 2 * time.Second

	maxBatch = 1024 // entries in one Batch
	maxList  = 512  // edges in one List, groups in one Drop
	maxHave  = 64   // messages named in a Join
	maxAcks  = 1024 // messages acknowledged at once
)

// MaxPayload is the size of the largest message in bytes.
const MaxPayload = 56 << 10

// Stats counts what a Scribe did since it started.
type Stats struct {
	Groups    int    // groups that the node takes part in, or wants to
	Roots     int    // groups whose root the node is
	Children  int    // edges to children
	Links     int    // peers that share edges with the node
	Published uint64 // messages published at this node
	Received  uint64 // messages received down a tree
	Repeated  uint64 // messages received down a tree that were known already
	Sent      uint64 // messages sent down a tree
	Resent    uint64 // messages sent again because no acknowledgement came
	Delivered uint64 // messages delivered to the layer above
	Lost      uint64 // messages given up, or dropped from a full queue
	Joins     uint64 // join messages sent
	Pushed    uint64 // children sent to another parent
	Shunned   uint64 // parents left because the layer above asked for it
	Garbage   uint64 // messages that broke the protocol
	Control   uint64 // messages sent without a payload
}
