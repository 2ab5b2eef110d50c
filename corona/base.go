package corona

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// base is what all components of a Corona share: the settings, the interfaces to the world, and the
// counters. It has no state of the protocol.
type base struct {
	cfg      Config
	clock    env.Clock
	net      env.Network
	worker   env.Worker
	rand     *rand.Rand
	log      *slog.Logger
	node     *overlay.Node
	signer   *wire.Signer
	verifier wire.Verifier
	wedges   Wedges
	app      Application
	stats    Stats
}

// scaled shortens a time of politeness in a laboratory.
func (b *base) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / b.cfg.Compression)
}

// send sends a message to a poller, or to the sequencer.
func (b *base) send(to env.Peer, class env.Class, m *coronapb.Message) {
	b.net.Send(to, class, wire.AppendFrame(nil, wire.Corona, m))
}

// sendPoliteness sends a message about a domain.
func (b *base) sendPoliteness(to env.Peer, domain string, m *coronapb.Politeness) {
	m.Domain = domain
	b.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, &coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}))
}

// peer returns a peer with its known addresses.
func (b *base) peer(id env.PeerID) env.Peer {
	if known := b.node.Contact(id); known != nil {
		return known.Peer
	}
	if known := b.node.Leaf().Has(overlay.NodeID(b.cfg.Network, id)); known != nil {
		return known.Peer
	}
	return env.Peer{ID: id}
}

// grantLifetime is how long a grant lasts.
func (b *base) grantLifetime() time.Duration { return grantIntervals * b.cfg.MaintenanceInterval }

// tell sends a message to the sequencer of a channel, if this node knows it and again is false.
// Otherwise it routes the message to the root of the key, which forwards it.
func (b *base) tell(key overlay.ID, m *coronapb.Message, again bool) {
	if to, ok := b.app.Leader(key); ok && !again && to.ID != b.node.Self().Peer.ID {
		b.send(to, env.Control, m)
		return
	}
	b.node.Route(wire.Corona, key, marshal(m), func(overlay.Receipt, bool) {})
}
