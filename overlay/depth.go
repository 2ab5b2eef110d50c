package overlay

import "time"

// settled looks what a changed leaf calls for. A new depth is chosen only when
// it has been called for during settleTime, so that one who has just come, or
// has just lost sight of some, does not decide for all.
func (n *Node) checkDepth(now time.Time) {
	switch wants := n.leaf.WantedDepth(); {
	case n.state != Active || wants == n.leaf.Depth():
		n.unsettledSince = time.Time{}
	case n.unsettledSince.IsZero():
		n.unsettledSince = now
		n.at(now.Add(settleTime), task{kind: taskCheckDepth})
	case now.Sub(n.unsettledSince) >= settleTime:
		n.unsettledSince = time.Time{}
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
func (n *Node) adoptDepth(p *peer, depth int, decided uint64) {
	joining := n.state == Joining && depth >= n.leaf.Depth() // how wide it is most have said already
	if p.contact == nil || !p.contact.Member || n.state != Active && !joining {
		return
	}
	commonBits := n.self.ID.Common(p.contact.ID)
	now := n.clock.Now()
	var votes depthVote
	if depth != n.leaf.Depth() && decided > n.leaf.decided {
		if votes = n.countDepthVotes(depth > n.leaf.Depth(), now); !votes.overTwoThirds() {
			n.surveyDepth(now)
		}
	}
	if latest := n.latestDecision(); decided > latest {
		if !votes.overTwoThirds() {
			return
		}
		decided = latest // it is this node's clock that is behind
	}
	to, ok := n.leaf.Adopt(commonBits, depth, decided, n.siblingSize(), votes.overTwoThirds())
	switch {
	case !ok && depth == commonBits && commonBits == n.leaf.Depth()-1:
		n.countSibling()
	case !ok:
	case to == n.leaf.Depth():
		n.leaf.decided = decided
	case n.depthNeeded(to) || votes.atLeastThird() || joining:
		n.leaf.decided = decided
		n.setDepth(to)
	case votes.underThird():
		n.leaf.decided = decided
		n.leaf.Decide(now)
	}
}

// calledFor says whether the node itself sees why the leaf should have another depth.
func (n *Node) depthNeeded(to int) bool {
	deeper := to > n.leaf.Depth()
	if !deeper && n.siblingSize() < n.leaf.merge {
		return true
	}
	wants := n.leaf.WantedDepth()
	return wants != n.leaf.Depth() && wants > n.leaf.Depth() == deeper
}

// sibling is how many members the sibling of the leaf has, as far as counts are believable;
// as many as the leaf itself until all of it has been counted: members stand evenly.
func (n *Node) siblingSize() (count int) {
	at, upper, lower := -1, 0, 0
	known := true
	n.eachSibling(func(row int, s *slot) {
		if row != at {
			at = row
			upper, lower = n.countBounds(row)
		}
		switch {
		case s.contact != nil && s.counted:
			count += min(max(int(s.count), lower, 1), upper)
		case !s.empty:
			known = false
		}
	})
	if !known {
		return n.leaf.Len()
	}
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
	if !n.siblingCountedAt.IsZero() && now.Sub(n.siblingCountedAt) < reviveDelay {
		return
	}
	n.siblingCountedAt = now
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
func (n *Node) latestDecision() uint64 { return uint64(n.clock.Now().Add(maxAhead).UnixMilli()) }

// setDepth gives the leaf another depth. Members beyond it go into the table;
// contacts of the table that are now within it are asked for the others.
func (n *Node) setDepth(depth int) {
	now := n.clock.Now()
	deeper := depth > n.leaf.Depth()
	n.depthChangedAt, n.surveyCount = now, 0
	if !deeper {
		if !now.Before(n.wideningEnds) || n.depthBeforeWidening < n.leaf.Depth() {
			n.depthBeforeWidening = n.leaf.Depth()
		}
		n.wideningEnds = now.Add(widenTime)
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
		n.requestLeaf(p)
	}
	n.leafGrew()
	if n.state == Active && deeper { // there are more slots now
		n.quickRounds = max(n.quickRounds, 1)
		n.scheduleRow(n.jitter(settleTime))
	}
}
