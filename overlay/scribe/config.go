package scribe

import (
	"cmp"
	"time"

	"tidings/internal/check"
)

// Config holds the settings of a Scribe. A zero field means its default.
type Config struct {
	// FanOut is the number of member children that a node keeps in one group, at least 2. If it has
	// more, it pushes some down within pushDelay. Default 16. A greater number makes trees flatter
	// and faster, and each message costs a node that many transmissions.
	FanOut int
	// MaxWeight bounds the clients that count behind one node in a group, at least 1; Join clamps
	// to it. Default 64. A greater number lets one node, which may lie, claim more of the polls
	// that are shared out by weight.
	MaxWeight int
	// HeartbeatInterval is the time between two heartbeats on a link with few others beside it, at
	// least 1 s. A parent drops the children of a link after three periods without one. Default
	// 30 s. A longer interval saves messages, and a broken edge is noticed and repaired later.
	HeartbeatInterval time.Duration
}

func (c Config) withDefaults() Config {
	c.FanOut = cmp.Or(c.FanOut, 16)
	c.MaxWeight = cmp.Or(c.MaxWeight, 64)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 30*time.Second)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.AtLeast("scribe: FanOut", c.FanOut, 2),
		check.AtLeast("scribe: MaxWeight", c.MaxWeight, 1),
		check.AtLeast("scribe: HeartbeatInterval", c.HeartbeatInterval, time.Second),
	)
}

const (
	leasePeriods = 3 // periods without a heartbeat before a child is dropped

	// heartbeatShare times the number of links is the period of heartbeats on each link, if that
	// exceeds HeartbeatInterval; maxHeartbeatPeriod bounds the period. One heartbeat and its answer
	// serve both ends, so an idle node with up to 200 links sends fewer than two messages a second,
	// and more in proportion beyond.
	heartbeatShare     = 750 * time.Millisecond
	maxHeartbeatPeriod = 150 * time.Second
	// timePerListedEdge bounds the lists that a peer can cause with wrong heartbeats: after a list
	// of n edges, none is sent for n times as long. A link then carries at most about 40 KB a
	// second.
	timePerListedEdge = time.Millisecond
	// reconnectDelay is the time from a broken connection to the next heartbeat. A peer that
	// restarts is back by then.
	reconnectDelay = 2 * time.Second

	// joinTimeout is how long a Join may stay unanswered at first. It doubles with each attempt, up
	// to maxJoinTimeout.
	joinTimeout    = 3 * time.Second
	maxJoinTimeout = 30 * time.Second

	// recentTTL is how long a node keeps forwarded messages for children that lost their parent. It
	// exceeds the time for which an edge can exist at one end only (maxHeartbeatPeriod and a
	// quarter). maxRecent bounds the messages of a group; the oldest are dropped first.
	recentTTL = 190 * time.Second
	maxRecent = 64

	// seenTTL is how long a message is recognised as a duplicate. It exceeds the time that a
	// publisher retries, a minute (routeDeadline in package overlay), plus recentTTL.
	seenTTL = 5 * time.Minute
	// maxSeen bounds the ids of recognised messages. Beyond it the older half is forgotten early.
	maxSeen = 1 << 17

	// ackDelay is how long acknowledgements wait to share a message, weightDelay how long changed
	// weights do.
	ackDelay    = 50 * time.Millisecond
	weightDelay = time.Second

	// window bounds the unacknowledged Multicasts on a link. maxQueue bounds the messages that wait
	// beyond them, and maxQueued their bytes. At the limit only the last message of each group
	// stays queued; the others are counted as lost, and the child pulls them.
	window    = 64
	maxQueue  = 2048
	maxQueued = 24 << 20
	// maxResends is how often a Multicast is sent again. Then it is given up, and the child's next
	// parent sends it.
	maxResends = 10

	// pushTimeout is the time that a child has to move before it may be asked again.
	pushTimeout = 10 * time.Second
	// sweepInterval is the time between two removals of expired state.
	sweepInterval = 10 * time.Second

	// maxEdges bounds the groups in which one peer is a child: twice the feeds that one reader may
	// have. Beyond it the peer is rejected, and asks elsewhere.
	maxEdges = 10_000
	// crowdFactor times the fan-out bounds the children of a group while some of them move to
	// another parent. Further ones are redirected or rejected at once.
	crowdFactor = 4
	// maxRedirects is how many redirects a node without a parent follows before it joins along the
	// route again.
	maxRedirects = 16
	// maxKeptBytes bounds the messages kept for late children, in all groups together. Beyond it no
	// message is kept, and late children pull what they miss.
	maxKeptBytes = 64 << 20

	// batchDelay is how long entries wait to share a Batch when a node sends many. The first
	// maxImmediate entries within such a time do not wait.
	batchDelay   = 200 * time.Millisecond
	maxImmediate = 16
	// minRoutedBatch is the smallest number of a node's own Joins with one next hop that share a
	// Batch. Fewer are routed one by one, so that each hop acknowledges them.
	minRoutedBatch = 4
	// maxControl is the size in bytes of the largest Batch that is sent ahead of content.
	maxControl = 2 << 10
	// batchBytes is the size in bytes at which a Batch is complete.
	batchBytes = 32 << 10

	// pushDelay is how long a node with more children than the fan-out waits before it pushes some
	// down, so that children that join together are redirected together.
	pushDelay = 2 * time.Second

	// offerPause is the time between two offers of a root to take over children of a child with most clients below it.
	offerPause = time.Minute

	maxBatch = 1024 // entries in one Batch
	maxList  = 512  // edges in one EdgeList, groups in one Reject
	maxHave  = 64   // message ids in one Join
	maxAcks  = 1024 // message ids in one Ack
)

// MaxPayload bounds the payload of a message, in bytes.
const MaxPayload = 56 << 10

// Stats holds counters since the start, and sizes at the time of the call.
type Stats struct {
	Groups         int    // groups that the node takes part in, or tries to join
	Roots          int    // groups of which the node is the root
	Children       int    // edges to children
	Links          int    // peers with which the node shares edges
	Published      uint64 // messages published at this node
	Received       uint64 // messages received down a tree
	Repeated       uint64 // duplicates received down a tree
	Sent           uint64 // messages sent down a tree
	Resent         uint64 // messages sent again because no acknowledgement came
	Delivered      uint64 // messages delivered to the layer above
	Lost           uint64 // messages given up, or dropped from a full queue
	Joins          uint64 // join messages sent
	Pushed         uint64 // redirects sent to children
	BlockedParents uint64 // parents blocked by the layer above
	Garbage        uint64 // messages that broke the protocol
	Control        uint64 // messages sent without a payload
}
