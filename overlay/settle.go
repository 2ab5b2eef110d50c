package overlay

import (
	"net/netip"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// slotRetry is the time after which a node asks again for a place that another member had.
const slotRetry = time.Hour

// settle makes the node a member or a client, under the id that its addresses and its certificate give it. A member whose id
// changes leaves its place, so that others take over at once, and joins again at the other one.
func (n *Node) settle() {
	if n.state == Left {
		return
	}
	addrs := n.reachable
	member := addrs != nil
	switch n.cfg.Network.IDs {
	case wire.AddressIDs:
		var block netip.Prefix
		if block, addrs = chooseBlock(addrs, n.place.block); block != n.place.block {
			n.place.block, n.takenUntil = block, [slots]time.Time{}
		}
		member = member && n.chooseSlot()
	case wire.CertificateIDs:
		member = member && n.place.certificate != nil
	}
	was, wasAttached := *n.self, n.state == Attached
	left := was.Member && n.state != Alone && (!member || n.records.memberID(was.Peer.ID, n.place, addrs) != was.ID)
	if was.Member != member || left {
		n.join.discardOffer()
		n.join.askAllAgain()
	}
	if left {
		n.Leave()
	}
	n.join.issue(addrs, member)
	if member && !was.Member && wasAttached {
		n.pool.add(n.self.ID, n.self.ID, n.Hosts())
		n.state = Alone
	}
	if left || was.ID != n.self.ID {
		n.join.reset()
	}
	if member && was.Member && !left {
		n.join.Moved()
	}
	n.join.step()
}

// Certificate returns the node's own certificate in a network of certificates, or nil if it has none.
func (n *Node) Certificate() *Certificate { return n.admissions.own }

// Revoked reports whether an authority has revoked the node's certificate.
func (n *Node) Revoked() bool { return n.revocations.revoked[n.self.Peer.ID] }

// CanBeDialled reports whether other nodes have dialled this node.
func (n *Node) CanBeDialled() bool { return n.reachable != nil }

// chooseSlot chooses the first slot that no other member has. The order begins with the one that a member has, or with one
// that the node's key gives, so that neighbours seldom try the same one. It returns false if all are taken, and plans another attempt.
func (n *Node) chooseSlot() bool {
	now := n.clock.Now()
	first, soonest := FirstSlot(n.self.Peer.ID), time.Time{}
	if n.self.Member {
		first = n.place.slot
	}
	for i := range slots {
		slot := (first + i) % slots
		until := n.takenUntil[slot]
		if !until.After(now) {
			n.place.slot = slot
			return true
		}
		soonest = env.Sooner(soonest, until)
	}
	n.at(soonest, task{kind: taskSlot})
	n.log.Warn("all places of this node's block of addresses are taken, so it is a client", "block", n.place.block, "places", slots)
	return false
}

// FirstSlot returns the slot that a node tries first.
func FirstSlot(peer env.PeerID) int { return int(peer[len(peer)-1]) % slots }

// askedContact returns the record under which a peer was asked, if a message is its answer.
func (n *Node) askedContact(from env.PeerID, m *overlaypb.Message) *Contact {
	answer := m.GetNearby()
	if answer == nil {
		return nil
	}
	if q, ok := n.lookups.queries[answer.Nonce]; ok && q.member.contact.Peer.ID == from {
		return q.member.contact
	}
	return n.pool.of(from)
}

// accepts reports whether a message of a peer counts. Messages of members that have no right to be one, or have not
// proven their addresses yet, do not.
func (n *Node) accepts(p *peer, message []byte) bool {
	c := p.contact
	switch {
	case c == nil:
		return true
	case !n.admitted(c):
		n.removePeer(p)
		return false
	case n.proofs.needed(c):
		n.proofs.prove(c, message, func(from env.PeerID, message []byte) { _ = n.Receive(from, message) }) // its faults are counted
		n.forget(p)
		return false
	}
	if n.self.Member && c.Member && samePlace(c.ID, n.self.ID) && compare(c.ID, n.self.ID) < 0 {
		n.takenUntil[n.place.slot] = n.clock.Now().Add(slotRetry)
		n.settle()
		return false
	}
	return true
}

// expireMembers removes members whose certificates have expired or were revoked.
func (n *Node) expireMembers() {
	if !n.certified() {
		return
	}
	for _, p := range slices.Clone(n.peers.all) {
		if p.contact != nil && !n.admitted(p.contact) {
			n.removePeer(p)
		}
	}
}
