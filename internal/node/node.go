// Package node joins the layers of one node over one world.
//
// It is a corridor: it hands each layer its doors, brings each frame to the layer
// it is for, and runs the layers. It owns no state of any protocol. The way of one
// item through it stands in corridor.go. The same Node lives in the real world
// (internal/daemon) and in a simulated one (sim).
package node

import (
	"fmt"
	"time"

	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/feedtree"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
	"tidings/overlay/sums"
	"tidings/overlay/wedge"
)

// Config is what the layers of a node are told.
type Config struct {
	Overlay overlay.Config
	Scribe  scribe.Config
	Owner   owner.Config
	Wedges  wedge.Config
	Sums    sums.Config
	Feeds   feedtree.Config
	Corona  corona.Config
	// Firehose has no shards by default: who runs a node that is to serve filters says so.
	Firehose firehose.Config
}

// DefaultConfig returns the configuration of a node of a network.
func DefaultConfig(network wire.Network) Config {
	return Config{
		Overlay: overlay.Config{Network: network},
		Scribe:  scribe.Config{FanOut: network.FanOut, MaxWeight: network.MaxWeight},
		// A lease outlives some beats: they carry what renews it.
		Owner: owner.Config{
			Owners: network.Owners, Lease: network.MaintenanceInterval,
			HeartbeatInterval: max(min(time.Minute, network.MaintenanceInterval/4), network.MaintenanceInterval/10),
		},
		// With the digests go the words on how often a feed is polled: where polls are in seconds, a
		// minute is too long for them.
		Feeds: feedtree.Config{
			BeatInterval: network.BeatInterval, PollInterval: network.PollInterval,
			DigestInterval: max(min(time.Minute, network.PollInterval/10), time.Second),
		},
		Wedges: wedge.Config{Maintenance: network.MaintenanceInterval},
		Sums:   sums.Config{Maintenance: network.MaintenanceInterval},
		Corona: pollConfig(network),
	}
}

// pollConfig says how a network's channels are polled.
func pollConfig(network wire.Network) corona.Config {
	c := corona.Config{
		Network: network.Name, PollInterval: network.PollInterval, MaintenanceInterval: network.MaintenanceInterval,
		Load: network.Load, Detection: network.TargetDetection, Politeness: true,
		Clusters: network.Clusters == "paper", Random: network.Phases == "random", DAG: network.Decide == "dag",
		Base: 16, Cut: honeycomb.Levels,
	}
	switch network.Wedge {
	case "base2":
		c.Base = 2
	case "rank":
		c.Cut = honeycomb.Ranks
	}
	if o, err := honeycomb.ParseObjective(network.Objective); err == nil { // as Network.Check sees to
		c.Objective = o
	}
	return c
}

// A Node is one node: an env.Node.
type Node struct {
	Overlay *overlay.Node
	Scribe  *scribe.Scribe
	Owners  *owner.Owners
	Wedges  *wedge.Wedge
	Sums    *sums.Aggregator
	Feeds   *feedtree.FeedTree
	Corona  *corona.Corona
	// Firehose brings new entries to filters.
	Firehose *firehose.Firehose

	out Application
}

// New returns a node that lives in the world e, as its store remembers it. What
// comes out of it goes to out.
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config, out Application) (*Node, error) {
	n := &Node{out: out}
	n.Overlay = overlay.New(e, signer, verify, cfg.Overlay)
	n.Scribe = scribe.New(e, n.Overlay, cfg.Scribe, n.deliver)
	var err error
	if n.Owners, err = owner.New(e, n.Overlay, signer, verify, cfg.Owner, (*ownerSide)(n)); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if n.Feeds, err = feedtree.New(e, n.Overlay, n.Scribe, n.Owners, signer, verify, cfg.Feeds, (*feedSide)(n)); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n.Wedges = wedge.New(e, n.Overlay, cfg.Wedges, (*wedgeSide)(n))
	n.Corona = corona.New(e, n.Overlay, signer, verify, n.Wedges, cfg.Corona, (*pollSide)(n))
	n.Corona.EnablePoliteness(n.Owners)
	n.Corona.ServeReaders((*pollSide)(n))
	n.Sums = sums.New(e, n.Overlay, cfg.Sums, n.Corona.Adder())
	n.Corona.Join(n.Sums)
	n.Overlay.Handle(wire.Corona, (*findingSide)(n))
	n.Firehose = firehose.New(e, n.Overlay, n.Owners, signer, verify, cfg.Firehose, n.out)
	n.Overlay.Handle(wire.Feed, (*publicationSide)(n))
	return n, nil
}

// Run runs the layers. It does so twice, because what one layer does may bring
// another's wish forward; the second time there is mostly nothing to do.
func (n *Node) Run(now time.Time) (next time.Time) {
	for range 2 {
		next = n.Overlay.Run(now)
		next = env.Sooner(next, n.Scribe.Run(now))
		next = env.Sooner(next, n.Owners.Run(now))
		next = env.Sooner(next, n.Wedges.Run(now))
		next = env.Sooner(next, n.Sums.Run(now))
		next = env.Sooner(next, n.Feeds.Run(now))
		next = env.Sooner(next, n.Corona.Run(now))
		next = env.Sooner(next, n.Firehose.Run(now))
	}
	return next
}

// Moved takes the news that the node's machine has other addresses than before.
func (n *Node) Moved() { n.Overlay.Moved() }

// Receive brings a frame to its layer.
func (n *Node) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	switch layer {
	case wire.Overlay:
		return n.Overlay.Receive(from, body)
	case wire.Scribe:
		return n.Scribe.Receive(from, frame, body)
	case wire.Owner:
		return n.Owners.Receive(from, body)
	case wire.Feed:
		return n.Feeds.Receive(from, body)
	case wire.Sums:
		return n.Sums.Receive(from, body)
	case wire.Wedge:
		return n.Wedges.Receive(from, body)
	case wire.Corona:
		return n.Corona.Receive(from, body)
	case wire.Cobra:
		return n.Firehose.Receive(from, body)
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, layer)
}

// Leave takes the node out of its network in good order: others lead what it has led, then
// it says goodbye, and does nothing more. done is called within some ten seconds, mostly
// within one, while the node is run as before.
func (n *Node) Leave(done func()) {
	n.Owners.HandOver(func() {
		n.Overlay.Leave()
		done()
	})
}

// Answered brings an origin's answer to corona, the only layer that asks.
func (n *Node) Answered(h env.Handle, a env.Answer) { n.Corona.Answered(h, a) }

// Found, Reachable and PeerDown are the overlay's.

// Found reports a peer that one can join through.
func (n *Node) Found(peer env.Peer) { n.Overlay.Found(peer) }

// Reachable reports where the node can be dialled.
func (n *Node) Reachable(addrs []string) { n.Overlay.Reachable(addrs) }

// PeerDown hints that a link broke.
func (n *Node) PeerDown(peer env.PeerID) {
	n.Overlay.PeerDown(peer)
	n.Scribe.PeerDown(peer)
}
