// Package node joins the layers of one node.
//
// It gives each layer its I/O interfaces, passes each frame to its layer, and runs the layers. It has no
// protocol state of its own. wiring.go shows how an item passes through the layers. The same Node runs in the
// real world (internal/daemon) and in the simulator (sim).
package node

import (
	"fmt"
	"time"

	"tidings/cobra/firehose"
	"tidings/cobra/tiers"
	"tidings/corona"
	"tidings/feedtree"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/relay"
	"tidings/overlay/scribe"
	"tidings/overlay/sums"
	"tidings/overlay/wedge"
)

// Config holds the configurations of the layers.
type Config struct {
	Overlay overlay.Config
	Scribe  scribe.Config
	Owner   owner.Config
	Wedges  wedge.Config
	Sums    sums.Config
	Feeds   feedtree.Config
	Corona  corona.Config
	// Firehose has no shards by default. A node that serves filters needs some.
	Firehose firehose.Config
	// Tiers says what the node does in a hosting centre. By default it is in none.
	Tiers tiers.Config

	// FeedLayer takes the place of feedtree in experiments that measure only how documents are polled. The node's
	// Feeds is nil then. Nil: the node has a FeedTree.
	FeedLayer FeedLayer
}

// DefaultConfig returns the configuration of a node of a network.
func DefaultConfig(network wire.Network) Config {
	return Config{
		Overlay: overlay.Config{Network: network},
		Scribe:  scribe.Config{FanOut: network.FanOut, MaxWeight: network.MaxWeight},
		// Heartbeats renew a lease, so a lease lasts several heartbeats.
		Owner: owner.Config{
			Owners: network.Owners, Lease: network.MaintenanceInterval,
			HeartbeatInterval: max(min(time.Minute, network.MaintenanceInterval/4), network.MaintenanceInterval/10),
		},
		// Digests carry how often a feed is polled. If polls are seconds apart, a digest per minute is too
		// rare.
		Feeds: feedtree.Config{
			BeatInterval: network.BeatInterval, PollInterval: network.PollInterval,
			DigestInterval: max(min(time.Minute, network.PollInterval/10), time.Second),
			AuditOneIn:     auditOneIn,
		},
		Wedges: wedge.Config{Maintenance: network.MaintenanceInterval},
		Sums:   sums.Config{Maintenance: network.MaintenanceInterval},
		Corona: coronaConfig(network),
	}
}

// auditOneIn is feedtree.Config.AuditOneIn: half a percent of the load.
const auditOneIn = 200

// coronaConfig returns how a network's channels are polled.
func coronaConfig(network wire.Network) corona.Config {
	c := corona.Config{
		Network: network.Name, PollInterval: network.PollInterval, MaintenanceInterval: network.MaintenanceInterval,
		Load: network.Load, Detection: network.TargetDetection, Politeness: true, Witnesses: network.Owners > 1,
		Clusters: network.Clusters == "paper", Random: network.Phases == "random", DAG: network.Decide == "dag",
		Base: 16, Cut: honeycomb.Levels,
	}
	switch network.Wedge {
	case "base2":
		c.Base = 2
	case "rank":
		c.Cut = honeycomb.Ranks
	}
	if o, err := honeycomb.ParseObjective(network.Objective); err == nil { // Network.Check has checked it
		c.Objective = o
	}
	return c
}

// A Node is one node. It implements env.Node.
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
	// Tiers is the node's part in a hosting centre.
	Tiers *tiers.Tiers
	// Relay carries frames for readers who are not to be seen.
	Relay *relay.Relay

	quiet   *quiet // this node's own quiet subscriptions; nil: the node serves one of them
	unheard bool   // no other node has vouched for the log of a feed for long: the last that feedApp.PollAlone was told
	layers  []env.Layer
	feeds   FeedLayer // Feeds, unless an experiment has another one
	app     Application
	events  *env.Events[owner.Event]
}

// New returns a node with the I/O interfaces of e. It continues from what the store remembers. Its events go
// to app. A quiet subscription is a node of its own, without a Relay (quiet.go).
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n := &Node{app: app}
	var err error
	if cfg.Tiers.Rules == nil {
		cfg.Tiers.Rules = crawlRules{corona.Rules{PollInterval: cfg.Corona.PollInterval, Compression: max(cfg.Corona.Compression, 1)}}
	}
	if n.Tiers, err = tiers.New(e, signer.PeerID(), cfg.Tiers, app); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n.Relay = relay.New(e, signer, verify, n.Receive)
	e.Network = n.Relay
	if err = n.build(e, signer, verify, cfg, app); err != nil {
		return nil, err
	}
	n.Relay.Serve(n.Overlay)
	n.quiet = newQuiet(n, e, signer, verify)
	n.layers = append(n.layers, n.Relay, n.quiet, n.Tiers)
	return n, n.quiet.load()
}

// build makes the layers that readers need.
func (n *Node) build(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (err error) {
	n.events = env.NewEvents(n.handle)
	cfg.Overlay.Callbacks = cfg.Corona.Callbacks != ""
	n.Overlay = overlay.New(e, signer, verify, cfg.Overlay)
	n.Scribe = scribe.New(e, n.Overlay, cfg.Scribe, n.deliver)
	if n.Owners, err = owner.New(e, n.Overlay, signer, verify, cfg.Owner, (*ownerApp)(n)); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if n.feeds = cfg.FeedLayer; n.feeds == nil {
		if n.Feeds, err = feedtree.New(e, n.Overlay, n.Scribe, n.Owners, signer, verify, cfg.Feeds, (*feedApp)(n)); err != nil {
			return fmt.Errorf("node: %w", err)
		}
		n.feeds, cfg.Corona.AuditOneIn = n.Feeds, cfg.Feeds.AuditOneIn
	}
	n.Wedges = wedge.New(e, n.Overlay, cfg.Wedges, (*wedgeApp)(n))
	n.Corona = corona.New(e, n.Overlay, signer, verify, n.Wedges, cfg.Corona, (*coronaApp)(n))
	n.Corona.EnablePoliteness(n.Owners)
	if n.Feeds != nil {
		n.Corona.AuditReaders(trees{n.Scribe})
	}
	n.Corona.ServeReaders((*coronaApp)(n))
	n.Sums = sums.New(e, n.Overlay, cfg.Sums, n.Corona.Adder())
	n.Corona.Join(n.Sums)
	n.Overlay.Handle(wire.Corona, (*changeReportHandler)(n))
	n.Firehose = firehose.New(e, n.Overlay, n.Owners, signer, verify, cfg.Firehose, n.app)
	n.Overlay.Handle(wire.Feed, (*publicationHandler)(n))
	n.layers = []env.Layer{n.events, n.Overlay, n.Scribe, n.Owners, n.Wedges, n.Sums, n.feeds, n.Corona, n.Firehose}
	return nil
}

// Run runs the layers that are due.
func (n *Node) Run(now time.Time) (next time.Time) {
	return env.RunDue(now, n.layers...)
}

// Moved tells the node that the addresses of its machine have changed.
func (n *Node) Moved() { n.Overlay.Moved() }

// Receive passes a frame to its layer.
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
		return n.feeds.Receive(from, body)
	case wire.Sums:
		return n.Sums.Receive(from, body)
	case wire.Wedge:
		return n.Wedges.Receive(from, body)
	case wire.Corona:
		return n.Corona.Receive(from, body)
	case wire.Cobra:
		return n.Firehose.Receive(from, body)
	case wire.Tiers:
		if n.Tiers != nil {
			return n.Tiers.Receive(from, body)
		}
	case wire.Relay:
		if n.Relay != nil {
			return n.Relay.Receive(from, body)
		}
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, layer)
}

// Leave takes the node out of its network in good order: it hands over the logs that it leads, announces that
// it leaves, and does nothing after that. done is called within about ten seconds, mostly within one, if the
// node is run meanwhile.
func (n *Node) Leave(done func()) {
	n.Owners.HandOver(func() {
		n.Overlay.Leave()
		done()
	})
}

// Answered passes an origin's answer to the layer that asked: corona, or the crawler of a hosting centre.
func (n *Node) Answered(h env.Handle, a env.Answer) {
	if h&tiers.Handles != 0 {
		n.Tiers.Answered(h, a)
		return
	}
	n.Corona.Answered(h, a)
}

// The overlay handles the following events.

// Found reports a peer through which the node can join.
func (n *Node) Found(peer env.Peer) { n.Overlay.Found(peer) }

// Reachable reports the addresses at which the node can be dialled.
func (n *Node) Reachable(addrs []string) { n.Overlay.Reachable(addrs) }

// PeerDown reports that the link to a peer broke, which is only a hint.
func (n *Node) PeerDown(peer env.PeerID) {
	n.Overlay.PeerDown(peer)
	n.Scribe.PeerDown(peer)
	n.Relay.PeerDown(peer)
}
