package overlay

import (
	"time"

	"tidings/internal/env"
)

// leafUpkeep keeps the leaf the same as that of its other members: its members and its depth.
type leafUpkeep struct {
	*neighbours
	counts      *counts
	liveness    *liveness
	tableUpkeep *tableUpkeep

	unsettledSince      time.Time // since when the leaf has called for another depth; zero: it does not
	surveyedAt          time.Time // when members of the leaf were last asked for its depth
	surveyCount         int       // surveys since the depth was last changed
	depthChangedAt      time.Time // when the leaf's depth was last changed
	siblingCountedAt    time.Time // when the leaf's sibling was last counted again
	depthBeforeWidening int       // depth of the leaf before it was widened
	wideningEnds        time.Time // when the widened leaf counts as complete
}

// checkDepth changes the leaf's depth if the members known have called for another depth for
// settleTime. The wait keeps a node that has just joined, or has just lost sight of some
// members, from deciding for all.
func (lu *leafUpkeep) checkDepth(now time.Time) {
	switch wants := lu.leaf.WantedDepth(); {
	case lu.state != Active || wants == lu.leaf.Depth():
		lu.unsettledSince = time.Time{}
	case lu.unsettledSince.IsZero():
		lu.unsettledSince = now
		lu.at(now.Add(settleTime), task{kind: taskCheckDepth})
	case now.Sub(lu.unsettledSince) >= settleTime:
		lu.unsettledSince = time.Time{}
		lu.leaf.Decide(now)
		lu.setDepth(wants)
	}
}

// settleTime is the time for which a leaf must call for another depth before it changes: a few
// rounds of gossip.
const settleTime = 5 * time.Second

// widenTime is the time that a widened leaf has to learn its new members. Until then the node
// does not consider itself the root of keys that only the wider leaf covers.
const widenTime = 5 * time.Second

// adoptDepth takes over a later decision of another member about the leaf's depth.
func (lu *leafUpkeep) adoptDepth(p *peer, depth int, decided uint64) {
	joining := lu.state == Joining && depth >= lu.leaf.Depth() // a joining node got the width from a majority already
	if p.contact == nil || !p.contact.Member || lu.state != Active && !joining {
		return
	}
	commonBits := lu.self.ID.Common(p.contact.ID)
	now := lu.clock.Now()
	var votes depthVote
	if depth != lu.leaf.Depth() && decided > lu.leaf.decided {
		if votes = lu.countDepthVotes(depth > lu.leaf.Depth(), now); !votes.overTwoThirds() {
			lu.surveyDepth(now)
		}
	}
	if latest := lu.latestDecision(); decided > latest {
		if !votes.overTwoThirds() {
			return
		}
		decided = latest // most others agree, so this node's clock is behind
	}
	to, ok := lu.leaf.Adopt(commonBits, depth, decided, lu.counts.siblingSize(), votes.overTwoThirds())
	switch {
	case !ok && depth == commonBits && commonBits == lu.leaf.Depth()-1:
		lu.countSibling()
	case !ok:
	case to == lu.leaf.Depth():
		lu.leaf.decided = decided
	case lu.depthNeeded(to) || votes.atLeastThird() || joining:
		lu.leaf.decided = decided
		lu.setDepth(to)
	case votes.underThird():
		lu.leaf.decided = decided
		lu.leaf.Decide(now)
	}
}

// depthNeeded reports whether this node itself sees a reason for another depth.
func (lu *leafUpkeep) depthNeeded(to int) bool {
	deeper := to > lu.leaf.Depth()
	if !deeper && lu.counts.siblingSize() < lu.leaf.mergeSize {
		return true
	}
	wants := lu.leaf.WantedDepth()
	return wants != lu.leaf.Depth() && wants > lu.leaf.Depth() == deeper
}

// countSibling counts the sibling again, because one of its members says that it has become
// small.
func (lu *leafUpkeep) countSibling() {
	now := lu.clock.Now()
	if !lu.siblingCountedAt.IsZero() && now.Sub(lu.siblingCountedAt) < reviveDelay {
		return
	}
	lu.siblingCountedAt = now
	lu.counts.eachSibling(func(row int, s *slot) {
		if s.contact != nil {
			lu.tableUpkeep.askRow(s.contact, row)
		}
	})
}

// setDepth changes the depth of the leaf. Members beyond the leaf move to the table. Contacts
// of the table that are now inside the leaf are asked for its other members.
func (lu *leafUpkeep) setDepth(depth int) {
	now := lu.clock.Now()
	deeper := depth > lu.leaf.Depth()
	lu.depthChangedAt, lu.surveyCount = now, 0
	if !deeper {
		if !now.Before(lu.wideningEnds) || lu.depthBeforeWidening < lu.leaf.Depth() {
			lu.depthBeforeWidening = lu.leaf.Depth()
		}
		lu.wideningEnds = now.Add(widenTime)
	}
	out := lu.leaf.SetDepth(depth)
	within := lu.table.resize(depth)
	var placeless []*peer
	for _, c := range out {
		if gone := lu.table.put(lu.peers.get(c.Peer.ID), depth); gone != nil {
			placeless = append(placeless, gone)
		}
	}
	for _, p := range placeless {
		lu.forget(p)
	}
	for _, p := range within {
		lu.leaf.Add(p.contact)
		lu.requestLeaf(p)
	}
	lu.liveness.noteLeafChange()
	if lu.state == Active && deeper { // a deeper leaf leaves more slots to the table
		lu.tableUpkeep.quickRounds = max(lu.tableUpkeep.quickRounds, 1)
		lu.tableUpkeep.scheduleRow(env.Jitter(lu.rand, settleTime))
	}
}
