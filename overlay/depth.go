package overlay

import "time"

// checkDepth changes the leaf's depth if the members known have called for another depth for
// settleTime. The wait keeps a node that has just joined, or has just lost sight of some
// members, from deciding for all.
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

// settleTime is the time for which a leaf must call for another depth before it changes: a few
// rounds of gossip.
const settleTime = 5 * time.Second

// widenTime is the time that a widened leaf has to learn its new members. Until then the node
// does not consider itself the root of keys that only the wider leaf covers.
const widenTime = 5 * time.Second

// adoptDepth takes over a later decision of another member about the leaf's depth.
func (n *Node) adoptDepth(p *peer, depth int, decided uint64) {
	joining := n.state == Joining && depth >= n.leaf.Depth() // a joining node got the width from a majority already
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
		decided = latest // most others agree, so this node's clock is behind
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

// depthNeeded reports whether this node itself sees a reason for another depth.
func (n *Node) depthNeeded(to int) bool {
	deeper := to > n.leaf.Depth()
	if !deeper && n.siblingSize() < n.leaf.mergeSize {
		return true
	}
	wants := n.leaf.WantedDepth()
	return wants != n.leaf.Depth() && wants > n.leaf.Depth() == deeper
}

// siblingSize returns the number of members of the leaf's sibling, as far as counts are
// believable. Until all slots of the sibling have been counted it returns the size of the leaf
// itself, because members are spread evenly.
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

// countSibling counts the sibling again, because one of its members says that it has become
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

// maxAhead is the furthest that another clock may be ahead. A decision about the depth that
// claims a later time is not believed; otherwise no later decision could ever replace it.
const maxAhead = 24 * time.Hour

// latestDecision returns the latest time of a decision that is believed.
func (n *Node) latestDecision() uint64 { return uint64(n.clock.Now().Add(maxAhead).UnixMilli()) }

// setDepth changes the depth of the leaf. Members beyond the leaf move to the table. Contacts
// of the table that are now inside the leaf are asked for its other members.
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
	if n.state == Active && deeper { // a deeper leaf leaves more slots to the table
		n.quickRounds = max(n.quickRounds, 1)
		n.scheduleRow(n.jitter(settleTime))
	}
}
