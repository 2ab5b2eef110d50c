// Package env is what a node may ask of the world it lives in.
//
// A node of tidings is an object without goroutines, locks, clocks or sockets.
// It is driven by the events of [Node] and acts through five doors:
//
//	Clock     what time it is
//	Network   send a frame to a peer; it may be lost (and Topics, to many at once)
//	Fetcher   ask an origin for a document
//	Worker    compute something off the loop
//	Store     remember something across a crash
//
// and it has dice (Rand) and a logbook (Log). Each door is a promise kept twice:
// by the operating system (internal/loop, overlay/libp2p, internal/store) and,
// from one seed and in virtual time, by the simulator (sim). Code above the
// doors cannot tell which world it runs in. Another door has to be argued for
// first: docs/decisions/001-doors.md.
//
// # Time
//
// There are no timers. Every layer has Run(now) (next): it does what is due and
// says when it wants to be run again. A world keeps one alarm for each node, and
// a layer keeps its own [Calendar]; five million (node, channel) pairs thus cost
// five million small values and not five million closures.
//
// # One owner
//
// A world calls a node, and every callback the node handed to a door, from one
// goroutine, one event at a time. A node therefore needs no lock, and a callback
// may touch its state freely.
package env

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Env is the world as one node sees it. A layer takes from it only the doors
// it needs.
type Env struct {
	Clock   Clock
	Network Network
	Topics  Topics // nil: this world has none
	Fetcher Fetcher
	Worker  Worker
	Store   Store
	Rand    *rand.Rand
	Log     *slog.Logger
}

// A Clock tells the time. Two readings may be compared and subtracted; a world
// never lets its clock go back, whatever happens to the wall clock beside it.
type Clock interface {
	Now() time.Time
}

// A Worker computes off the loop.
type Worker interface {
	// Do runs pure elsewhere and then done on the loop. pure must not touch
	// the node's state. Calls may finish in any order. When the world ends
	// before pure has run, done is never called.
	Do(pure, done func())
}

// A Node is what a world drives. The world calls Run once at the start, after
// each other call (once after a batch of them), and at the time the last Run
// asked for, or soon after.
type Node interface {
	// Run does what is due at now and returns when it wants to be run next;
	// the zero time means: not until something happens.
	Run(now time.Time) (next time.Time)

	// Receive takes one frame from a peer whose identity the world vouches
	// for. The frame must not be changed, and may be kept. An error means that
	// the frame breaks the protocol: it has been dropped, and the world
	// counts it against the peer and closes the link of one that goes on.
	Receive(from PeerID, frame []byte) error

	// Found reports a peer of the same network that one could join through.
	Found(peer Peer)

	// Reachable reports that a peer dialled this node back at addrs, so that
	// it can be a member. No addrs: it is reachable no longer.
	Reachable(addrs []string)

	// PeerDown hints that the link to a peer broke. It may be wrong.
	PeerDown(peer PeerID)
}
