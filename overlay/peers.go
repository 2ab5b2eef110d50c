package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// ensurePeer returns the state of a peer, and creates it if there is none.
func (n *Node) ensurePeer(id env.PeerID) *peer {
	p := n.peers.get(id)
	if p == nil {
		p = &peer{id: id}
		n.peers.add(p)
	}
	return p
}

// ensureContact updates the state of a node with a verified record.
func (n *Node) ensureContact(c *Contact) *peer {
	p := n.ensurePeer(c.Peer.ID)
	switch {
	case p.contact == nil:
		p.contact = c
	case c.Issued > p.contact.Issued:
		was := p.contact
		p.contact = c
		p.knowsMe = false // after a restart it has forgotten this node
		if was.Member && !c.Member {
			n.removePeer(p)
			break
		}
		if c.Member {
			p.attached = never // a member is nobody's client
		}
		if n.leaf.Has(c.ID) != nil {
			n.leaf.Add(c)
			n.leafChanged = true
		}
	}
	return p
}

// heardFrom records that a peer spoke, so it is alive.
func (n *Node) heardFrom(p *peer) {
	now := n.clock.Now()
	first := p.lastHeard == never
	p.lastHeard, n.lastHeard = timestampOf(now), now
	p.suspect, p.linkBroken = false, false
	n.deathReports.alive(p.id, now)
	if p.candidate && n.state == Joining {
		p.attempts = min(p.attempts, 1) // it is alive, but need not have received the probe
	} else {
		p.candidate, p.probing, p.attempts = false, false, 0
	}
	if p.recordSent {
		p.knowsMe, p.recordSent = true, false
	}
	if p.contact == nil {
		return
	}
	if first && n.tombstones.remove(p.contact) {
		n.probeAllDead(now)
	}
	if p.contact.Member {
		n.admit(p)
	}
}

// admit gives a member that has spoken its place in leaf or table.
func (n *Node) admit(p *peer) {
	c := p.contact
	if c.ID == n.self.ID || !n.self.Member || n.state != Active && n.state != Joining {
		return
	}
	if n.leaf.Covers(c.ID) {
		if n.leaf.Len() >= maxLeafIDs && n.leaf.Has(c.ID) == nil {
			return // no leaf of honest members is nearly as large
		}
		if n.leaf.Add(c) {
			n.leafGrew()
		}
		if n.state == Joining && !p.acked && !p.candidate {
			p.candidate = true
			n.probe(p)
		}
		return
	}
	if out := n.table.put(p, n.leaf.Depth()); out != nil && out != p {
		n.forget(out)
	}
}

// considerMember probes a member that others named, if there is a place for it. The member
// takes the place after it has answered.
func (n *Node) considerMember(c *Contact) {
	if !c.Member || c.ID == n.self.ID {
		return
	}
	if n.leaf.Covers(c.ID) {
		if n.leaf.Has(c.ID) != nil {
			return
		}
	} else if !n.table.wants(c.ID, n.leaf.Depth()) {
		return
	}
	p := n.peers.get(c.Peer.ID)
	if (p == nil || p.lastHeard == never) && n.tombstones.diedRecently(c, n.clock.Now()) || p == nil && n.tooManyCandidates() {
		return
	}
	p = n.ensureContact(c)
	if p.probing {
		p.candidate = true
		return
	}
	if p.lastHeard != never && n.clock.Now().Sub(p.lastHeard.time()) <= p.rto() && n.state == Active {
		n.admit(p) // it spoke a moment ago
		return
	}
	p.candidate = true
	n.probe(p)
}

// maxCandidates bounds the named members that the node waits for at once: the size of the
// largest leaf. Further members are ignored; the live ones will speak for themselves or be
// named again.
const maxCandidates = 1024

// tooManyCandidates reports whether the node waits for maxCandidates members.
func (n *Node) tooManyCandidates() bool {
	if len(n.peers.all) < maxCandidates {
		return false
	}
	count := 0
	for _, p := range n.peers.all {
		if p.candidate {
			count++
		}
	}
	return count >= maxCandidates
}

// hasPlace reports whether a peer has a place: in leaf or table, as a client, as a member that
// acts for this client, or as a neighbour of a layer above.
func (n *Node) hasPlace(p *peer) bool {
	return p.isHost || p.watchCount > 0 || p.attached != never ||
		p.contact != nil && (n.leaf.Has(p.contact.ID) != nil || n.table.has(p))
}

// inUse reports whether the node has any present use for a peer.
func (n *Node) inUse(p *peer) bool {
	return p.candidate || p.probing || n.hasPlace(p)
}

// forget drops the state of a peer that is not in use. It keeps the last maxUnplaced of these.
func (n *Node) forget(p *peer) {
	if n.inUse(p) {
		return
	}
	n.unplaced = append(n.unplaced, p.id)
	if len(n.unplaced) <= maxUnplaced {
		return
	}
	id := n.unplaced[0]
	n.unplaced = n.unplaced[1:]
	if slices.Contains(n.unplaced, id) {
		return
	}
	if q := n.peers.get(id); q != nil && !n.inUse(q) {
		n.peers.remove(id)
	}
}

// maxUnplaced is the number of peers without a place that are remembered, so that their record
// and round-trip time need not be learned again with each message.
const maxUnplaced = 8

// leafGrew records that the leaf has changed, and starts gossip about it.
func (n *Node) leafGrew() {
	n.leafChanged = true
	n.startGossip()
}

// OpenRecord verifies a node's record that came with a message of a layer above.
func (n *Node) OpenRecord(raw []byte) (*Contact, error) {
	return n.records.open(raw)
}

// Contact returns the record of a peer that the node knows, or nil.
func (n *Node) Contact(id env.PeerID) *Contact {
	if p := n.peers.get(id); p != nil {
		return p.contact
	}
	return nil
}

// RTO returns the time after which an answer of a peer counts as missing.
func (n *Node) RTO(id env.PeerID) time.Duration {
	if p := n.peers.get(id); p != nil {
		return p.rto()
	}
	return initialRTO
}
