package proxy

import "time"

// A Tree is a node's place in the tree through which a feed's new items come, and how the last ones came.
type Tree struct {
	Known    bool // the node has a place in the tree
	Quiet    bool // other members have it for the node, so that the node learns nothing of the tree
	Root     bool
	Readers  int     // at and below the node, as far as it knows
	Leader   *Member // the node that numbers new items; nil: unknown
	Parents  []Member
	Children []Member
	Last     *TreeDelivery // nil: none since the node started
}

// A TreeDelivery says how the last new items of a feed came down its tree.
type TreeDelivery struct {
	Items   int
	Written time.Time // when the leader numbered them, by its clock
	Arrived time.Time // by the node's clock
	From    *Member   // nil: the node is the root of the tree
	Known   bool      // the node had them already, as one of the nodes that keep the feed or from elsewhere
}

// A NetworkSample is what a node knew of its network at one time.
type NetworkSample struct {
	At      time.Time
	Members int // estimated
	// Polls is how often all members together polled in a polling interval, and Target how often they may. Both are 0 if the
	// node did not know.
	Polls, Target float64
	OwnPolls      int // polls of the node since the sample before
}
