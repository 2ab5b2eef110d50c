package overlay

import "time"

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
			n.survey(now)
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

// outvoted says whether more than two thirds of those in the leaf who have spoken of it
// lately, and since its depth was changed, say that it is deeper, or less deep, than this
// node has it: who stands alone gives in, and a few liars are not so many.
func (n *Node) outvoted(deeper bool, now time.Time) bool {
	const enough, lately = 4, 3 * surveyPause / 2
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

// surveyPause is the shortest time between two surveys of how deep others say the leaf is,
// doubled after each of the first surveyVain: a liar contradicts for ever. surveySize is how
// many of its members are asked at most.
const (
	surveyPause = time.Minute
	surveyVain  = 2
	surveySize  = 6
)

// survey asks some of the leaf how deep it is, because one member has contradicted.
func (n *Node) survey(now time.Time) {
	if n.state != Active || !n.surveyed.IsZero() && now.Sub(n.surveyed) < surveyPause<<min(n.surveys, surveyVain) {
		return
	}
	n.surveyed = now
	n.surveys++
	of := n.leaf.Members()
	for range surveySize {
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
	n.turned, n.deepened, n.surveys = now, depth > n.leaf.Depth(), 0
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
