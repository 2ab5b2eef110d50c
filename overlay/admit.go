package overlay

import (
	"time"

	"tidings/internal/env"
)

// heardFrom records that a peer spoke, so it is alive.
func (lv *liveness) heardFrom(p *peer) {
	now := lv.clock.Now()
	first := p.lastHeard == env.Never
	p.lastHeard, lv.lastHeard = env.MomentOf(now), now
	p.suspect, p.linkBroken = false, false
	lv.deathReports.alive(p.id, now)
	if p.candidate && lv.state == Joining {
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
	if first && lv.tombstones.remove(p.contact) {
		lv.probeAllDead(now)
	}
	if p.contact.Member {
		lv.admit(p)
	}
}

// admit gives a member that has spoken its place in leaf or table.
func (lv *liveness) admit(p *peer) {
	c := p.contact
	if c.ID == lv.self.ID || !lv.self.Member || lv.state != Active && lv.state != Joining {
		return
	}
	if lv.leaf.Covers(c.ID) {
		if lv.leaf.Len() >= maxLeafIDs && lv.leaf.Has(c.ID) == nil {
			return // no leaf of honest members is nearly as large
		}
		if rival := lv.leaf.rival(c.ID); rival != nil {
			if compare(rival.ID, c.ID) < 0 || !lv.leaf.Remove(rival.ID) {
				return // the other has the place, or is this node, which gives the place up
			}
			if p := lv.peers.get(rival.Peer.ID); p != nil {
				lv.forget(p)
			}
		}
		if lv.leaf.Add(c) {
			lv.noteLeafChange()
		}
		if lv.state == Joining && !p.acked && !p.candidate {
			p.candidate = true
			lv.probe(p)
		}
		return
	}
	if out := lv.table.put(p, lv.leaf.Depth()); out != nil && out != p {
		lv.forget(out)
	}
}

// considerMember probes a member that others named, if there is a place for it. The member
// takes the place after it has answered.
func (lv *liveness) considerMember(c *Contact) {
	if !c.Member || c.ID == lv.self.ID {
		return
	}
	if lv.leaf.Covers(c.ID) {
		if lv.leaf.Has(c.ID) != nil {
			return
		}
	} else if !lv.table.wants(c.ID, lv.leaf.Depth()) {
		return
	}
	p := lv.peers.get(c.Peer.ID)
	if (p == nil || p.lastHeard == env.Never) && lv.tombstones.diedRecently(c, lv.clock.Now()) || p == nil && lv.tooManyCandidates() {
		return
	}
	p = lv.ensureContact(c)
	if p.probing {
		p.candidate = true
		return
	}
	if p.lastHeard != env.Never && lv.clock.Now().Sub(p.lastHeard.Time()) <= p.rto() && lv.state == Active {
		lv.admit(p) // it spoke a moment ago
		return
	}
	p.candidate = true
	lv.probe(p)
}

// maxCandidates bounds the named members that the node waits for at once: the size of the
// largest leaf. Further members are ignored; the live ones will speak for themselves or be
// named again.
const maxCandidates = 1024

// noteLeafChange records that the leaf has changed, and starts gossip about it.
func (lv *liveness) noteLeafChange() {
	lv.leafChanged = true
	lv.startGossip()
}

// startGossip schedules gossipRounds comparisons with other members.
func (lv *liveness) startGossip() {
	if lv.gossipLeft == 0 {
		lv.after(env.Jitter(lv.rand, gossipInterval), task{kind: taskGossip})
	}
	lv.gossipLeft = gossipRounds
}

// gossipLeaf compares leaves with a random member.
func (lv *liveness) gossipLeaf() {
	if lv.gossipLeft--; lv.gossipLeft > 0 {
		lv.after(env.Jitter(lv.rand, gossipInterval), task{kind: taskGossip})
	}
	if lv.leaf.Len() < 2 || lv.state != Active {
		return
	}
	if p := lv.randomMember(); p != nil {
		lv.probe(p)
	}
}

// LastHeard returns the time at which the node last received an overlay message from any peer,
// or its start time if it has received none. In a live network it is seldom longer ago than a
// watch interval.
func (lv *liveness) LastHeard() time.Time { return lv.lastHeard }
