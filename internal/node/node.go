// Package node joins the layers of one node over one world.
//
// It is a corridor: it hands each layer its doors, brings each frame to the layer
// it is for, and runs the layers. It owns no state of any protocol. The same
// Node lives in the real world (internal/daemon) and in a simulated one (sim).
package node

import (
	"fmt"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe"
)

// Config is what the layers of a node are told.
type Config struct {
	Overlay overlay.Config
	Scribe  scribe.Config
}

// DefaultConfig returns the configuration of a node of a network.
func DefaultConfig(network wire.Network) Config {
	return Config{
		Overlay: overlay.Config{Network: network},
		Scribe:  scribe.Config{FanOut: network.FanOut, MaxWeight: network.MaxWeight},
	}
}

// A Node is one node: an env.Node.
type Node struct {
	Overlay *overlay.Node
	Scribe  *scribe.Scribe
}

// New returns a node that lives in the world e. What the groups it joins bring
// goes to deliver.
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config, deliver func(scribe.Delivery)) *Node {
	o := overlay.New(e, signer, verify, cfg.Overlay)
	return &Node{Overlay: o, Scribe: scribe.New(e, o, cfg.Scribe, deliver)}
}

// Run runs the layers. It does so twice, because what one layer does may bring
// another's wish forward; the second time there is nothing to do.
func (n *Node) Run(now time.Time) time.Time {
	n.Overlay.Run(now)
	n.Scribe.Run(now)
	return env.Sooner(n.Overlay.Run(now), n.Scribe.Run(now))
}

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
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, layer)
}

// Found, Reachable and PeerDown are the overlay's.

// Found reports a peer that one can join through.
func (n *Node) Found(peer env.Peer) { n.Overlay.Found(peer) }

// Reachable reports where the node can be dialled.
func (n *Node) Reachable(addrs []string) { n.Overlay.Reachable(addrs) }

// PeerDown hints that a link broke.
func (n *Node) PeerDown(peer env.PeerID) { n.Overlay.PeerDown(peer) }
