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
func (b *base) scaled(d time.Duration) time.Duration { return b.rules().scaled(d) }

// send sends a message to a poller, or to the sequencer.
func (b *base) send(to env.Peer, class env.Class, m *coronapb.Message) {
	b.net.Send(to, class, wire.AppendFrame(nil, wire.Corona, m))
}

// sendPoliteness sends a message about a domain.
func (b *base) sendPoliteness(to env.Peer, domain string, m *coronapb.Politeness) {
	m.Domain = domain
	b.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, &coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}))
}

// routePoliteness routes a message about a domain to the root of a key.
func (b *base) routePoliteness(key overlay.ID, domain string, m *coronapb.Politeness, done func(overlay.Receipt, bool)) {
	m.Domain = domain
	b.node.Route(wire.Corona, key, wire.Encode(&coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}), done)
}

// peer returns a peer with its known addresses.
func (b *base) peer(id env.PeerID) env.Peer {
	if known := b.node.Contact(id); known != nil {
		return known.Peer
	}
	if known := b.node.Leaf().Has(b.node.IDOf(id)); known != nil {
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
	b.node.Route(wire.Corona, key, wire.Encode(m), func(overlay.Receipt, bool) {})
}

// nearEnough says whether this node can be among the n members nearest to a key, as far as it knows
// the others. It allows for members that decline and for inaccurate counts.
func (b *base) nearEnough(key overlay.ID, n int) bool {
	return b.countNearer(key) <= float64(n+n/8+enoughFailing-1)
}

// countNearer is the number of members nearer to a key than this node. It is exact for a key in the
// leaf set.
func (b *base) countNearer(key overlay.ID) float64 {
	self, leaf, n := b.node.ID(), b.node.Leaf(), 0.
	if leaf.Covers(key) {
		for _, m := range leaf.Members() {
			if overlay.Nearer(key, m.ID, self) {
				n++
			}
		}
		return n
	}
	// Members that share one more bit with the key are all nearer. Of the members that share as
	// many bits, a part is nearer, assuming evenly spread ids.
	d := self.Common(key)
	among := float64(b.node.Count(d + 1))
	part, bit := 0., 0.5
	for i := d + 1; i < min(d+24, overlay.Bits); i++ {
		if self.Bit(i) != key.Bit(i) {
			part += bit
		}
		bit /= 2
	}
	return float64(b.node.Count(d)) - among + among*part
}

// members is the size of the network.
func (b *base) members() int { return max(b.node.Count(0), 1) }

// mayLead says whether a member is near enough to a key to be one of its owners in a network of
// this size, by the rule of overlay/owner for quorums.
func (b *base) mayLead(id, key overlay.ID) bool { return b.couldBeNearest(id, key, maxSigners) }

// couldBeNearest says whether a member can be one of the n nearest to a key in a network of this
// size. It allows 64 times as many candidates, because ids are not evenly spread.
func (b *base) couldBeNearest(id, key overlay.ID, n int) bool {
	want := -6
	for parts := b.members() / max(n, 1); parts > 1; parts /= 2 {
		want++
	}
	return id.Common(key) >= want
}

// digit is the number of bits in a digit of polling levels.
func (b *base) digit() int {
	if b.cfg.Base == 2 {
		return 1
	}
	return 4
}

// sharing is the number of members that share so many bits of their ids with a key. For longer
// prefixes than this node's own, sharing counts members of the leaf set: the owners of the key are
// in it, and no member shares more bits with the key than they do.
func (b *base) sharing(key overlay.ID, bits int) int {
	if bits <= b.node.ID().Common(key) {
		return b.node.Count(bits)
	}
	n := 0
	for _, m := range b.node.Leaf().Members() {
		if m.ID.Common(key) >= bits {
			n++
		}
	}
	return n
}
