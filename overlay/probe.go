package overlay

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay/overlaypb"
)

// maxAttempts is the number of unanswered probes after which a peer is declared dead, and
// leafAttempts the number for a member of the leaf, because a node that declares such a member
// dead may act as root in its place. With 1 % loss in each direction a live member misses four
// probes in a row once in six million times, and three once in 130,000.
const (
	maxAttempts  = 3
	leafAttempts = 4
)

// maxProbeTimeout is the longest that one probe waits. However slow a peer seemed when it was
// last measured, four probes are over after 15 s.
const maxProbeTimeout = 4 * time.Second

// probe asks a peer whether it is alive, unless a probe is already outstanding. Any message
// from the peer counts as an answer.
func (n *Node) probe(p *peer) {
	if p.probing {
		return
	}
	p.attempts = 0
	n.sendProbe(p)
}

func (n *Node) sendProbe(p *peer) {
	now := n.clock.Now()
	wait := p.answerTimeout(now)
	if !p.linkBroken { // a broken link is no reason to wait longer
		wait = min(wait<<p.attempts, maxProbeTimeout)
	}
	p.nonce = n.rand.Uint64() | 1
	p.probing = true
	p.attempts++
	p.probeSent = timestampOf(now)
	n.stats.Probes++
	n.at(now.Add(wait), task{kind: taskProbe, peer: p.id, n: p.nonce})
	m := &overlaypb.Probe{
		Nonce:      p.nonce,
		WantRecord: p.contact == nil,
		Depth:      uint32(n.leaf.Depth()),
		Digest:     n.leaf.Digest(),
		Decided:    n.leaf.decided,
		Attach:     p.isHost && n.state != Active,
	}
	if !p.knowsMe && p.contact != nil { // neither node may know the other
		m.KnownIssued = uint32(p.contact.Issued)
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: m}})
}

func (n *Node) onProbe(p *peer, m *overlaypb.Probe) {
	if m.Reply {
		answer := m.Nonce == p.nonce && m.Nonce != 0
		if answer {
			p.nonce = 0 // a repeated reply is ignored
			p.sample(n.clock.Now().Sub(p.probeSent.time()))
			p.candidate, p.acked = false, true
			p.probing, p.attempts = false, 0
		}
		if m.WantRecord {
			p.knowsMe = false // it forgot this node's record
			n.probe(p)
		}
		if m.Attach {
			n.attachedTo(p)
		} else if answer && p.isHost && !n.self.Member {
			n.detach(p) // it does not act for this node, or no longer does
		}
	}
	n.onLeafDigest(p, int(m.Depth), m.Decided, m.Digest, m.Reply) // before the reply, so that the reply's digest finds the peer up to date
	if !m.Reply {
		if m.KnownIssued != 0 && m.KnownIssued == uint32(n.self.Issued) {
			p.knowsMe = true
		}
		granted := m.Attach && n.attach(p)
		n.send(p, n.probeReply(p, m, granted))
		n.askOnceMore(p)
	}
	n.checkJoined()
}

func (n *Node) probeReply(p *peer, m *overlaypb.Probe, granted bool) *overlaypb.Message {
	r := &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce:   m.Nonce,
		Reply:   true,
		Depth:   uint32(n.leaf.Depth()),
		Digest:  n.leaf.Digest(),
		Decided: n.leaf.decided,
		Attach:  granted,
	}}}
	if m.WantRecord {
		r.Record = n.self.Raw
	}
	return r
}

// probeUnanswered continues when a probe has timed out.
func (n *Node) probeUnanswered(p *peer, nonce uint64) {
	if p == nil || !p.probing || p.nonce != nonce {
		return
	}
	p.suspect = true
	limit := int8(maxAttempts)
	if p.contact != nil && n.leaf.Has(p.contact.ID) != nil {
		limit = leafAttempts
	}
	if p.attempts < limit {
		n.sendProbe(p)
		return
	}
	p.probing = false
	n.declareDead(p)
}

// declareDead removes a peer that left all probes unanswered, and adds a tombstone.
func (n *Node) declareDead(p *peer) {
	now := n.clock.Now()
	wasCandidate := p.candidate
	watched := p.contact != nil && n.watches(p.contact)
	placed := n.removePeer(p)
	if p.contact != nil {
		n.tombstones.add(p.contact, now, placed)
	}
	if placed {
		n.stats.Deaths++
		n.churn.recordDeath(now)
		if watched {
			n.announceDeath(p.contact)
		}
		if n.tableProbedAt.IsZero() || now.Sub(n.tableProbedAt) >= n.cfg.BurstInterval {
			n.tableProbedAt = now
			n.probeTable()
		}
	}
	if wasCandidate {
		n.checkJoined()
	}
}

// probeTable probes every contact that has not just spoken.
func (n *Node) probeTable() {
	now := n.clock.Now()
	n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
		for _, p := range []*peer{s.contact, s.spare} {
			if p != nil && now.Sub(p.lastHeard.time()) > p.rto() {
				n.probe(p)
			}
		}
	})
}

// removePeer takes a peer that is dead or has left out of leaf, table and all lists. It
// reports whether the peer had a place.
func (n *Node) removePeer(p *peer) bool {
	placed := false
	n.deathReports.dead(p.id)
	p.candidate, p.probing, p.attempts, p.leafSync = false, false, 0, nil
	p.lastHeard, p.knowsMe = never, false
	if p.contact != nil {
		if !plant.KeepDead && n.leaf.Remove(p.contact.ID) {
			placed = true
			n.leafChanged = true
			n.startGossip()
		}
		if n.table.remove(p) {
			placed = true
			if s, row, col := n.table.slot(p.contact.ID, n.leaf.Depth()); s != nil && s.contact == nil {
				s.empty, s.counted = false, false
				n.searchSlot(row, col)
			}
		}
	}
	if p.isHost {
		placed = true
		n.detach(p)
	}
	if p.attached != never {
		placed = true
		p.attached = never
	}
	n.rerouteFrom(p)
	if p.watchCount > 0 {
		placed = true
		for _, app := range n.apps {
			app.PeerGone(p.id)
		}
	}
	n.forget(p)
	return placed
}

// Watch asks for a call of PeerGone when a peer is dead or has left. Each Watch is ended by an
// Unwatch. The overlay does not probe the peer only because of Watch; a layer that misses a
// message from it calls Suspect.
func (n *Node) Watch(c *Contact) { n.ensureContact(c).watchCount++ }

// Unwatch ends a Watch.
func (n *Node) Unwatch(id env.PeerID) {
	if p := n.peers.get(id); p != nil && p.watchCount > 0 {
		p.watchCount--
		n.forget(p)
	}
}

// Suspect makes the node probe a peer from which a layer misses an answer.
func (n *Node) Suspect(id env.PeerID) {
	if p := n.peers.get(id); p != nil {
		n.probe(p)
	}
}

// PeerDown takes a hint that the link to a peer broke, and probes the peer. A peer that said
// that it leaves closes its links as well, and is not probed.
func (n *Node) PeerDown(id env.PeerID) {
	if p := n.peers.get(id); p != nil && p.lastHeard != never && n.inUse(p) {
		p.linkBroken = true
		n.probe(p)
	}
}
