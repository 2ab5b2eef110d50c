// Package nodes measures whole nodes over real sockets on this machine: how soon their tables are right
// when many have joined or a third has died, how soon another node takes over when a feed's sequencer
// ends, and what a node costs in memory and time.
//
// Nodes live in processes, each of which holds a group of them (group.go). The laboratory starts these
// processes and sends them commands (process.go), inspects all nodes and checks their tables (tables.go),
// and ends processes in three modes:
//
//	leave   the node is stopped in good order, as by SIGTERM, and leaves its network
//	closed  SIGKILL: the kernel closes its TCP connections; QUIC connections become silent
//	silent  SIGSTOP: nothing is sent, and nothing is closed
//
// A stopped process stands for a machine without power. It is the harder of the last two modes: the kernel
// still acknowledges TCP data and accepts connections, so no peer learns of the death from the network.
//
// Default lists the runs in the docs, Run makes one, Judge compares it with the targets. The caller opens
// the nodes (see Opener): they are those of internal/daemon.
package nodes

import (
	"context"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
)

// A Plan says how to open a node.
type Plan struct {
	Dir       string
	Listen    []string
	Found     *wire.Network // network to found; nil: join one
	Bootstrap []string
}

// An Opener opens a node.
type Opener func(Plan) (Node, error)

// A Node is one whole node. Its methods may be called from any goroutine.
type Node interface {
	// Run runs the node until ctx ends, and then makes it leave its network.
	Run(ctx context.Context) error
	// Inspect returns what the node knows.
	Inspect(ctx context.Context) (NodeState, error)
	// Root returns the root of a key according to the node.
	Root(ctx context.Context, key overlay.ID) (overlay.ID, error)
	// Follow subscribes to a feed.
	Follow(ctx context.Context, url string) error
}

// A NodeState is what a node knows at one moment.
type NodeState struct {
	ID    overlay.ID
	Addrs []string // addresses through which others can join

	Member bool         // acknowledged by its leaf
	Depth  int          // bits in its leaf's prefix
	Leaf   []overlay.ID // members of its leaf, itself included
	Slots  []overlay.Slot
	Counts []int // number of members that share n bits with it, for n from 0 to Depth

	LedFeeds    []LedFeed
	Connections int
	Links       int // open streams to others, of both classes
}

// A LedFeed is a feed of which the node is the sequencer.
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

// listen returns the addresses to listen on.
func listen(transport string) (of []string) {
	if transport != TCP {
		of = append(of, "/ip4/127.0.0.1/udp/0/quic-v1")
	}
	if transport != QUIC {
		of = append(of, "/ip4/127.0.0.1/tcp/0")
	}
	return of
}

// Phases: the kinds of runs.
const (
	Join      = "join"      // all in one process
	Silent    = "silent"    // some of them die silently
	Closed    = "closed"    // some of them die, and the kernel closes what it can
	Sequencer = "sequencer" // a feed's sequencer ends, in each of the three modes
)

// A Scenario is one run.
type Scenario struct {
	Phase     string
	Transport string
	Nodes     int           // of the network
	Killed    int           // nodes that end: at once; in phase Sequencer, one after the other in each mode
	Pause     time.Duration // between the starts of two nodes
	Rest      time.Duration // how long idle nodes are measured, in phase Join
}

// A Result is the outcome of a run. Times count from the start of the last node, or from the death.
type Result struct {
	Phase     string `json:"phase"`
	Transport string `json:"transport"`
	Nodes     int    `json:"nodes"`
	Killed    int    `json:"killed"`
	Seed      uint64 `json:"seed"` // of the keys that are looked up

	RightS         float64         `json:"right_s"`         // until all tables were right
	RightShares    []Point         `json:"curve,omitempty"` // share of right tables over time
	CountError     float64         `json:"count_error"`     // the largest relative error of a count at that time
	SequencerExits []SequencerExit `json:"ends,omitempty"`

	Busy *Cost `json:"busy,omitempty"` // just after the tables had become right
	Idle *Cost `json:"idle,omitempty"` // after the rest
}

// A Point is the share of right tables at a time.
type Point struct {
	S     float64 `json:"s"`
	Right float64 `json:"right"`
}

// A SequencerExit is how one sequencer ended, and what followed.
type SequencerExit struct {
	Mode       string  `json:"way"`
	SequencerS float64 `json:"sequencer_s"` // until there was another sequencer
	OwnersS    float64 `json:"owners_s"`    // until all owners were alive again
}

// Leave is the mode of a node that is stopped in good order. The other modes are Closed and Silent.
const Leave = "leave"

// A Cost is the share of one node in the cost of its process.
type Cost struct {
	RSSBytes    int     `json:"rss_bytes"`  // beyond a process without nodes; 0: unknown on this system
	HeapBytes   int     `json:"heap_bytes"` // live heap
	StackBytes  int     `json:"stack_bytes"`
	Goroutines  float64 `json:"goroutines"`
	Connections float64 `json:"connections"` // each counts at both ends
	Links       float64 `json:"links"`
	CPUPercent  float64 `json:"cpu_percent,omitempty"` // of one core, while idle
}
