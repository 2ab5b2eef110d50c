package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// acquaint returns the state kept of a peer, making it if there is none.
func (n *Node) acquaint(id env.PeerID) *peer {
	p := n.peers.get(id)
	if p == nil {
		p = &peer{id: id}
		n.peers.add(p)
	}
	return p
}

// introduce takes a verified record into the state kept of its node.
func (n *Node) introduce(c *Contact) *peer {
	p := n.acquaint(c.Peer.ID)
	switch {
	case p.contact == nil:
		p.contact = c
	case c.Issued > p.contact.Issued:
		was := p.contact
		p.contact = c
		p.told = false // a new life: it has forgotten me
		if was.Member && !c.Member {
			n.drop(p)
			break
		}
		if c.Member {
			p.attached = never // nobody's client any longer
		}
		if n.leaf.Has(c.ID) != nil {
			n.leaf.Add(c)
			n.changed = true
		}
	}
	return p
}

// heardFrom notes that a peer spoke: it lives.
func (n *Node) heardFrom(p *peer) {
	now := n.clock.Now()
	first := p.heard == never
	p.heard = momentOf(now)
	p.suspect, p.broken = false, false
	n.gossip.lives(p.id, now)
	if p.candidate && n.state == Joining {
		p.attempts = min(p.attempts, 1) // it lives, but need not have heard me
	} else {
		p.candidate, p.probing, p.attempts = false, false, 0
	}
	if p.toldNow {
		p.told, p.toldNow = true, false
	}
	if p.contact == nil {
		return
	}
	if first && n.dead.exhume(p.contact) {
		n.risen(now)
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
		if n.leaf.Len() >= maxHeads && n.leaf.Has(c.ID) == nil {
			return // no leaf of honest members is near as large
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

// meet gets to know a member that others speak of, if there is a place for it.
// It takes the place when it has answered itself.
func (n *Node) meet(c *Contact) {
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
	if (p == nil || p.heard == never) && n.dead.holds(c, n.clock.Now()) || p == nil && n.crowded() {
		return
	}
	p = n.introduce(c)
	if p.probing {
		p.candidate = true
		return
	}
	if p.heard != never && n.clock.Now().Sub(p.heard.time()) <= p.rto() && n.state == Active {
		n.admit(p) // it spoke a moment ago
		return
	}
	p.candidate = true
	n.probe(p)
}

// maxCandidates is how many members known by hearsay alone are waited for at
// once: the largest leaf. Of more, who lives will speak for himself, or be spoken
// of again.
const maxCandidates = 1024

// crowded says whether there are as many candidates as may be.
func (n *Node) crowded() bool {
	if len(n.peers) < maxCandidates {
		return false
	}
	count := 0
	for _, p := range n.peers {
		if p.candidate {
			count++
		}
	}
	return count >= maxCandidates
}

// placed says whether a peer has a place: in leaf or table, as a client or as
// one that acts for this client, or as a neighbour of a layer above.
func (n *Node) placed(p *peer) bool {
	return p.hosts || p.wanted > 0 || p.attached != never ||
		p.contact != nil && (n.leaf.Has(p.contact.ID) != nil || n.table.has(p))
}

// useful says whether the node has to do with a peer at present.
func (n *Node) useful(p *peer) bool {
	return p.candidate || p.probing || n.placed(p)
}

// forget drops the state of a peer the node has nothing to do with. One that
// spoke a moment ago is kept until maxStrangers others have come.
func (n *Node) forget(p *peer) {
	if n.useful(p) {
		return
	}
	n.strangers = append(n.strangers, p.id)
	if len(n.strangers) <= maxStrangers {
		return
	}
	id := n.strangers[0]
	n.strangers = n.strangers[1:]
	if slices.Contains(n.strangers, id) {
		return
	}
	if q := n.peers.get(id); q != nil && !n.useful(q) {
		n.peers.remove(id)
	}
}

// maxStrangers is how many peers without a place are remembered, so that their
// record and round trip need not be learned anew with each message.
const maxStrangers = 8

// settled looks what a changed leaf calls for. A new depth is chosen only when
// it has been called for during settleTime, so that one who has just come, or
// has just lost sight of some, does not decide for all.
func (n *Node) settled(now time.Time) {
	switch wants := n.leaf.Wants(); {
	case n.state != Active || wants == n.leaf.Depth():
		n.restless = time.Time{}
	case n.restless.IsZero():
		n.restless = now
		n.at(now.Add(settleTime), task{kind: taskSettle})
	case now.Sub(n.restless) >= settleTime:
		n.restless = time.Time{}
		n.leaf.Decide(now)
		n.setDepth(wants)
	}
}

// settleTime is how long a leaf must call for another depth before it gets it:
// some rounds of rumour.
const settleTime = 5 * time.Second

// widenTime is how long a leaf that has been widened may take to know the members
// it has gained. Until then the node is the root of no key that only the wider
// leaf covers.
const widenTime = 5 * time.Second

// adopt takes over a later decision about the leaf's depth.
func (n *Node) adopt(p *peer, depth int, decided uint64) {
	joining := n.state == Joining && depth >= n.leaf.Depth() // how wide it is most have said already
	if p.contact == nil || !p.contact.Member || n.state != Active && !joining {
		return
	}
	common := n.self.ID.Common(p.contact.ID)
	now := n.clock.Now()
	voted := false
	if depth != n.leaf.Depth() && decided > n.leaf.decided {
		if voted = n.outvoted(depth > n.leaf.Depth(), now); !voted {
			n.poll(now)
		}
	}
	if latest := n.latest(); decided > latest {
		if !voted {
			return
		}
		decided = latest // it is this node's clock that is behind
	}
	to, ok := n.leaf.Adopt(common, depth, decided, n.sibling(), voted)
	switch {
	case !ok && depth == common && common == n.leaf.Depth()-1:
		n.countSibling()
	case !ok:
	case to == n.leaf.Depth():
		n.leaf.decided = decided
	case !voted && n.turnsBack(to, now):
		n.leaf.decided = decided
		n.leaf.Decide(now)
	default:
		n.leaf.decided = decided
		n.setDepth(to)
	}
}

// turnPause is how long a leaf does not go back to a depth that it has left, unless the
// node itself sees why. Where either depth would do, two who contradict each other, or one
// liar, could have it changed with every message.
const turnPause = 10 * time.Minute

// turnsBack says whether a depth would undo what was done a moment ago.
func (n *Node) turnsBack(to int, now time.Time) bool {
	deeper := to > n.leaf.Depth()
	if sibling := n.sibling(); !deeper && sibling > 0 && sibling < n.leaf.merge {
		return false
	}
	if wants := n.leaf.Wants(); wants != n.leaf.Depth() && wants > n.leaf.Depth() == deeper {
		return false
	}
	return deeper != n.deepened && !n.turned.IsZero() && now.Sub(n.turned) < turnPause
}

// outvoted says whether two thirds of those in the leaf who have spoken of it lately, and since
// its depth was changed, say that it is deeper, or less deep, than this node has it: who
// stands alone gives in, and a few liars are not most.
func (n *Node) outvoted(deeper bool, now time.Time) bool {
	const enough, lately = 4, 3 * pollPause / 2
	other, own := 0, 0
	for _, c := range n.leaf.Members() {
		p := n.peers.get(c.Peer.ID)
		switch depth := n.leaf.Depth(); {
		case p == nil || p.leaf == nil || p.leaf.said.time().Before(n.turned) || now.Sub(p.leaf.said.time()) > lately:
		case int(p.depth) == depth:
			own++
		case int(p.depth) > depth == deeper:
			other++
		}
	}
	return other >= enough && other > 2*own
}

// pollPause is the shortest time between two polls of the leaf about its depth, doubled
// after each of the first pollVain: a liar contradicts for ever. pollSize is how many of
// its members are asked.
const (
	pollPause = time.Minute
	pollVain  = 2
	pollSize  = 6
)

// poll asks some of the leaf how deep it is, because one member has contradicted.
func (n *Node) poll(now time.Time) {
	if n.state != Active || !n.polled.IsZero() && now.Sub(n.polled) < pollPause<<min(n.polls, pollVain) {
		return
	}
	n.polled = now
	n.polls++
	of := n.leaf.Members()
	for range pollSize {
		c := of[n.rand.IntN(len(of))]
		if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
			n.probe(p)
		}
	}
}

// sibling is how many members the sibling of the leaf has, as far as they have been
// counted.
func (n *Node) sibling() (count int) {
	n.eachSibling(func(_ int, s *slot) {
		if s.counted {
			count += int(s.count)
		}
	})
	return count
}

// eachSibling calls f for the slots that make up the sibling of the leaf.
func (n *Node) eachSibling(f func(row int, s *slot)) {
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		if n.table.common(row, col) == n.leaf.Depth()-1 {
			f(row, s)
		}
	})
}

// countSibling has the sibling counted anew: one of its members says that it has become
// small.
func (n *Node) countSibling() {
	now := n.clock.Now()
	if !n.siblingAt.IsZero() && now.Sub(n.siblingAt) < hearsay {
		return
	}
	n.siblingAt = now
	n.eachSibling(func(row int, s *slot) {
		if s.contact != nil {
			n.askRow(s.contact, row)
		}
	})
}

// maxAhead is how far another's clock may be ahead: a decision about a leaf's depth
// that claims to be from a later time is not believed, or nobody could ever
// decide otherwise.
const maxAhead = 24 * time.Hour

// latest is the latest time at which a decision is believed to have been made.
func (n *Node) latest() uint64 { return uint64(n.clock.Now().Add(maxAhead).UnixMilli()) }

// setDepth gives the leaf another depth. Members beyond it go into the table;
// contacts of the table that are now within it are asked for the others.
func (n *Node) setDepth(depth int) {
	now := n.clock.Now()
	n.turned, n.deepened, n.polls = now, depth > n.leaf.Depth(), 0
	if depth < n.leaf.Depth() {
		if !now.Before(n.wideAt) || n.narrow < n.leaf.Depth() {
			n.narrow = n.leaf.Depth()
		}
		n.wideAt = now.Add(widenTime)
	}
	out := n.leaf.SetDepth(depth)
	within := n.table.resize(depth)
	var placeless []*peer
	for _, c := range out {
		if gone := n.table.put(n.peers.get(c.Peer.ID), depth); gone != nil {
			placeless = append(placeless, gone)
		}
	}
	for _, p := range placeless {
		n.forget(p)
	}
	for _, p := range within {
		n.leaf.Add(p.contact)
		n.compare(p)
	}
	n.leafGrew()
	if n.state == Active && n.deepened { // there are more slots now
		n.quick = max(n.quick, 1)
		n.planRow(n.spread(settleTime))
	}
}

// leafGrew notes that the leaf is another, and lets others know.
func (n *Node) leafGrew() {
	n.changed = true
	n.spreadRumour()
}

// OpenRecord verifies a node's record that came with a message of a layer above.
func (n *Node) OpenRecord(raw []byte) (*Contact, error) {
	return n.records.open(raw)
}

// Contact returns the record of a peer the node has to do with, or nil.
func (n *Node) Contact(id env.PeerID) *Contact {
	if p := n.peers.get(id); p != nil {
		return p.contact
	}
	return nil
}

// RTO is how long a peer may take to answer before the answer counts as missing.
func (n *Node) RTO(id env.PeerID) time.Duration {
	if p := n.peers.get(id); p != nil {
		return p.rto()
	}
	return initialRTO
}
