// Package nodes measures whole nodes over real sockets, all on this machine: how soon
// their tables are right when many have joined or a third has died, how soon another
// takes over when a feed's sequencer dies, and what a node costs in memory and time.
//
// Nodes live in houses, processes that hold any number of them (house.go). The
// laboratory starts houses and gives them orders (process.go), looks at all nodes and
// says what is wrong in their tables (tables.go), and ends houses in the ways in which
// nodes end in the world:
//
//	leave   the node is asked to end, as by SIGTERM, and says good-bye
//	closed  SIGKILL: the kernel closes its TCP connections; QUIC's fall silent
//	silent  SIGSTOP: nothing is said any more, and nothing is closed
//
// A stopped process stands for a machine without power. It is the harder case of the
// two: this machine's kernel goes on acknowledging what TCP brings for it, and takes
// connections in its name, so that nobody learns of the death from the network.
//
// Default lists the runs that the docs name, Run does one, Judge compares it with what
// was asked for. How a node is made is left to the caller (see Opener): it is one of
// internal/daemon.
package nodes

import (
	"context"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
)

// A Plan says how a node is to be opened.
type Plan struct {
	Dir       string
	Listen    []string
	Found     *wire.Network // nil: join
	Bootstrap []string
}

// An Opener opens a node.
type Opener func(Plan) (Node, error)

// A Node is one whole node. Its methods may be called from any goroutine.
type Node interface {
	// Run runs the node until ctx ends, and then takes it out of its network in good
	// order.
	Run(ctx context.Context) error
	// Look returns what the node knows.
	Inspect(ctx context.Context) (NodeState, error)
	// Root returns the root of a key, by its own word.
	Root(ctx context.Context, key overlay.ID) (overlay.ID, error)
	// Follow subscribes to a feed.
	Follow(ctx context.Context, url string) error
}

// A Look is what a node knows at one moment.
type NodeState struct {
	ID    overlay.ID
	Addrs []string // where others join through it

	Member bool         // acknowledged by its leaf
	Depth  int          // bits in its leaf's prefix
	Leaf   []overlay.ID // members of its leaf, itself included
	Slots  []overlay.Slot
	Counts []int // members that share so many bits with it, from 0 to Depth

	LedFeeds    []LedFeed
	Connections int
	Links       int // streams it has open to others, of either class
}

// A Led is a feed of which the node is the sequencer.
type LedFeed struct {
	Key    overlay.ID
	Owners []overlay.ID
}

// Transports that nodes may be confined to.
const (
	QUIC = "quic"
	TCP  = "tcp"
	Both = "both"
)

// listen returns where nodes listen.
func listen(transport string) (of []string) {
	if transport != TCP {
		of = append(of, "/ip4/127.0.0.1/udp/0/quic-v1")
	}
	if transport != QUIC {
		of = append(of, "/ip4/127.0.0.1/tcp/0")
	}
	return of
}

// Phases, which are the kinds of runs.
const (
	Join      = "join"      // all in one process
	Silent    = "silent"    // some of them die without a word
	Closed    = "closed"    // some of them die, and the kernel closes what it can
	Sequencer = "sequencer" // a feed's sequencer ends, in each of the three ways
)

// A Scenario is one run.
type Scenario struct {
	Phase     string
	Transport string
	Nodes     int           // of the network
	Killed    int           // of them, at once; in phase Sequencer, in each way one after another
	Pause     time.Duration // between the starts of two nodes
	Rest      time.Duration // in which idle nodes are measured, in phase Join
}

// A Result is what a run has shown. Seconds count from the start of the last node, or
// from the death.
type Result struct {
	Phase     string `json:"phase"`
	Transport string `json:"transport"`
	Nodes     int    `json:"nodes"`
	Killed    int    `json:"killed"`
	Seed      uint64 `json:"seed"` // of the keys that were looked up

	RightS         float64         `json:"right_s"`         // until all tables were right
	RightShares    []Point         `json:"curve,omitempty"` // how many were, until then
	CountError     float64         `json:"count_error"`     // the largest of all counts then, as part of the truth
	SequencerExits []SequencerExit `json:"ends,omitempty"`

	Busy *Cost `json:"busy,omitempty"` // when the tables had become right
	Idle *Cost `json:"idle,omitempty"` // after the rest
}

// A Point says which part of the tables was right at a time.
type Point struct {
	S     float64 `json:"s"`
	Right float64 `json:"right"`
}

// An End is how one sequencer ended, and what followed.
type SequencerExit struct {
	Mode       string  `json:"way"`
	SequencerS float64 `json:"sequencer_s"` // until another led
	OwnersS    float64 `json:"owners_s"`    // until all owners lived again
}

// Leave is the way of a node that is asked to end. The other ways are Closed and Silent.
const Leave = "leave"

// A Cost is a node's part of what its process costs.
type Cost struct {
	RSSBytes    int     `json:"rss_bytes"`  // beyond that of a process without nodes; 0: this system does not tell
	HeapBytes   int     `json:"heap_bytes"` // live
	StackBytes  int     `json:"stack_bytes"`
	Goroutines  float64 `json:"goroutines"`
	Connections float64 `json:"connections"` // each counts at both its ends
	Links       float64 `json:"links"`
	CPUPercent  float64 `json:"cpu_percent,omitempty"` // of one core, over the rest
}
