// Package env defines what a node may ask of its environment.
//
// A node of tidings is an object without goroutines, locks, clocks or sockets. It is driven by the
// events of [Node] and acts through six I/O interfaces:
//
//	Clock     tells the time
//	Network   sends a frame to a peer; it may be lost
//	Topics    publishes a frame to all participants of a topic
//	Fetcher   asks an origin for a document
//	Worker    computes something outside the loop
//	Store     remembers records across a crash
//
// It also has a random source (Rand) and a logger (Log). Each interface has two implementations:
// one on the operating system (internal/loop, overlay/libp2p, internal/fetch, internal/store), and one in the
// simulator (sim), in virtual time and from one seed. The code of a node cannot tell which of the
// two it runs in; comments call either of them a world. Adding another interface needs a decision
// first: docs/decisions/001-doors.md.
//
// # Time
//
// There are no timers. Every layer has Run(now) (next), which does what is due and returns when it
// wants to run again. A world keeps one alarm for each node, and a layer keeps its own [Calendar].
// Five million (node, channel) pairs therefore cost five million small values and not five million
// closures.
//
// # One goroutine
//
// A world calls a node, and every callback that the node passed to an interface, from one
// goroutine, one event at a time. A node therefore needs no lock, and a callback may change its
// state freely.
package env

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Env is the environment of one node. A layer takes from it only the interfaces it needs.
type Env struct {
	Clock   Clock
	Network Network
	Topics  Topics // nil: not available in this world
	Prover  Prover // nil: not available in this world
	Fetcher Fetcher
	Worker  Worker
	Store   Store
	Rand    *rand.Rand
	Log     *slog.Logger
}

// A Clock tells the time. Two readings may be compared and subtracted. The clock never goes back,
// even when the wall clock does.
type Clock interface {
	Now() time.Time
}

// A Worker computes outside the loop.
type Worker interface {
	// Do runs pure on another goroutine and then done on the loop. pure must not touch the node's
	// state. Calls may finish in any order. If the world ends before pure has run, done is never
	// called.
	Do(pure, done func())
}

// A Layer is a part of a node that acts at times of its own.
type Layer interface {
	// Next returns the time at which something is due, the zero time if nothing is before the next event.
	Next() time.Time
	// Run does what is due at now, and returns Next.
	Run(now time.Time) time.Time
}

// AtOnce is what Next returns if something is due at once. It is not the time of the clock, which may have gone on since
// the node's turn began.
var AtOnce = time.Unix(0, 1).UTC()

// RunDue runs the layers that are due, in their order, until none is: a layer may bring forward the time at which
// another one has work. It returns the time at which the next one is due. If that is not after now, the layers
// have kept each other busy for a while, and the world should handle other events before it calls again.
func RunDue(now time.Time, layers ...Layer) (next time.Time) {
	const rounds = 16
	for range rounds {
		ran := false
		next = time.Time{}
		for _, l := range layers {
			at := l.Next()
			if !at.IsZero() && !at.After(now) {
				at, ran = l.Run(now), true
			}
			next = Sooner(next, at)
		}
		if !ran {
			break
		}
	}
	return next
}

// A Node is driven by a world. The world calls Run once at the start, after each other call (once
// after a batch of calls), and at the time that the last Run returned, or soon after.
type Node interface {
	// Run does what is due at now and returns when it wants to run next. The zero time means: not
	// until another event.
	Run(now time.Time) (next time.Time)

	// Receive takes one frame from a peer whose identity the world has verified. The node may keep
	// the frame but must not change it. An error means that the frame breaks the protocol: the node
	// dropped it, and the world counts it against the peer and closes the link of a peer that
	// repeats it.
	Receive(from PeerID, frame []byte) error

	// Found reports a peer of the same network through which this node could join.
	Found(peer Peer)

	// Reachable reports that a peer dialled this node back at addrs, so that the node can be a
	// member. An empty list means that the node is no longer reachable.
	Reachable(addrs []string)

	// PeerDown hints that the link to a peer broke. The hint may be wrong.
	PeerDown(peer PeerID)
}
