package overlay

import (
	"slices"
	"time"

	"tidings/overlay/overlaypb"
)

const (
	// syncInterval is the shortest time between two requests to one peer about its leaf.
	syncInterval = time.Second
	// maxSyncBackoff bounds how often that interval is doubled while two peers keep
	// disagreeing, to about a minute. A liar can cause one comparison in that time.
	maxSyncBackoff = 6
	// maxOmitted bounds the members probed because a peer does not list them. A peer that
	// omits more than these simply does not know them yet.
	maxOmitted = 4
	// gossipRounds is the number of times that a node compares leaves with a random member
	// after its own leaf changed, gossipInterval apart.
	gossipRounds   = 3
	gossipInterval = time.Second
	// freshTime is the age up to which a sign of life proves that a member is alive. An older
	// member that a peer does not list is probed.
	freshTime = 10 * time.Second
)

// onLeafDigest takes the depth and digest of a peer's leaf. If the peer is in the same leaf
// and its digest differs, the node tells it what it lacks, or, if that cannot be found out,
// requests its leaf. Only the side that received a reply (isReply) requests it; otherwise both
// would.
func (n *Node) onLeafDigest(p *peer, depth int, decided, digest uint64, isReply bool) {
	n.adoptDepth(p, depth, decided)
	p.depth = int16(depth)
	if n.inOtherLeaf(p) {
		return
	}
	sync := p.syncState()
	sync.digest, sync.digestAt = digest, timestampOf(n.clock.Now())
	if n.agrees(p) {
		sync.backoff = 0
		return
	}
	if n.state != Active {
		return // a joining node compares leaves after it has met the members it has heard of
	}
	if n.explainDiff(p) || !isReply {
		return
	}
	n.requestLeaf(p)
}

// explainDiff finds out from the digests alone which members the two leaves differ by, because
// usually one member has just joined or died. It then tells the peer which members it lacks
// and which are dead.
func (n *Node) explainDiff(p *peer) bool {
	if int(p.depth) != n.leaf.Depth() {
		return false
	}
	now := n.clock.Now()
	sync := p.syncState()
	diff := sync.digest ^ n.leaf.Digest()
	if diff == sync.explained { // the peer was told already, and may be checking for itself
		return now.Sub(sync.syncedAt.time()) < reviveDelay
	}
	differing := n.findDiffering(diff)
	if len(differing) == 0 {
		return false
	}
	sync.syncedAt, sync.explained = timestampOf(now), diff
	var missing []*Contact
	for _, c := range differing {
		q := n.peers.get(c.Peer.ID)
		switch {
		case n.leaf.Has(c.ID) != nil:
			missing = append(missing, c)
			if q != nil && now.Sub(q.lastHeard.time()) > freshTime {
				n.probe(q) // the peer may know that it is dead
			}
		case q == nil || !q.candidate: // c is dead
			n.sendDead(p, c)
			n.considerMember(c) // if it has returned, it answers
		}
	}
	if len(missing) > 0 {
		n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{
			Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided, Partial: true, Records: rawRecords(missing),
		}}})
	}
	return true
}

// findDiffering returns one or two nodes that explain the difference of two digests, out of
// the leaf, the candidates for it and the tombstones. It returns nil if there are none.
func (n *Node) findDiffering(diff uint64) []*Contact {
	contacts := slices.Clone(n.leaf.Members())
	for _, t := range n.tombstones.list {
		if n.leaf.Covers(t.contact.ID) {
			contacts = append(contacts, t.contact)
		}
	}
	for _, p := range n.peers.all {
		if p.candidate && p.contact != nil && n.leaf.Covers(p.contact.ID) && n.leaf.Has(p.contact.ID) == nil {
			contacts = append(contacts, p.contact)
		}
	}
	by := make(map[uint64]*Contact, len(contacts))
	for _, c := range contacts {
		m := mix(c.ID.prefix64())
		if m == diff {
			return []*Contact{c}
		}
		if other := by[diff^m]; other != nil {
			return []*Contact{other, c}
		}
		by[m] = c
	}
	return nil
}

// agrees reports whether a peer knows the same members of this leaf, or is not in it.
func (n *Node) agrees(p *peer) bool {
	return n.inOtherLeaf(p) || int(p.depth) == n.leaf.Depth() && p.syncState().digest == n.leaf.Digest()
}

// knowsAllOf reports whether this node knows all members of its leaf that a peer has named
// since the node announced itself.
func (n *Node) knowsAllOf(p *peer) bool {
	sync := p.syncState()
	if sync.complete || n.agrees(p) {
		return true
	}
	if int(p.depth) != n.leaf.Depth() {
		return false
	}
	differing := n.findDiffering(sync.digest ^ n.leaf.Digest())
	return len(differing) > 0 && !slices.ContainsFunc(differing, func(c *Contact) bool { return n.leaf.Has(c.ID) == nil })
}

// inOtherLeaf reports whether there is nothing to compare with a peer, because it is not a
// member, or both sides consider it to be in another leaf.
func (n *Node) inOtherLeaf(p *peer) bool {
	if p.contact == nil || !p.contact.Member || !n.self.Member && n.state != Joining {
		return true
	}
	common := n.self.ID.Common(p.contact.ID)
	return common < n.leaf.Depth() && common < int(p.depth)
}

// requestLeaf sends a peer the ids of this node's leaf and requests the peer's, unless it did
// so a moment ago. It reports whether it sent the request.
func (n *Node) requestLeaf(p *peer) bool {
	now := n.clock.Now()
	sync := p.syncState()
	pause := syncInterval
	if n.state == Active {
		pause <<= sync.backoff
	}
	if sync.syncedAt != never && now.Sub(sync.syncedAt.time()) < pause {
		return false
	}
	sync.syncedAt, sync.answerDue = timestampOf(now), true
	sync.backoff = min(sync.backoff+1, maxSyncBackoff)
	n.sendLeaf(p, nil, true)
	return true
}

func (n *Node) sendLeaf(p *peer, records []*Contact, ask bool) {
	m := &overlaypb.Leaf{Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided, WantReply: ask, Records: rawRecords(records)}
	members := n.leaf.Members()
	for _, c := range members[:min(len(members), maxLeafIDs)] { // no honest leaf is as large
		m.IdPrefixes = append(m.IdPrefixes, c.ID.prefix64())
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: m}})
}

func (n *Node) onLeaf(p *peer, m *overlaypb.Leaf) {
	sync := p.syncState()
	asked := sync.answerDue
	sync.answerDue = sync.answerDue && m.Partial
	if p.contact == nil || !p.contact.Member || n.state != Active && n.state != Joining {
		return
	}
	depth := int(m.Depth)
	n.adoptDepth(p, depth, m.Decided)
	if m.Partial {
		for _, c := range n.openRecords(m.Records) {
			n.considerMember(c)
		}
		return
	}
	theirs := make(map[uint64]bool, len(m.IdPrefixes))
	p.depth, sync.digest, sync.digestAt = int16(depth), mix(uint64(depth)), timestampOf(n.clock.Now())
	for _, h := range m.IdPrefixes {
		theirs[h] = true
		sync.digest ^= mix(h)
	}

	for _, c := range n.openRecords(m.Records) {
		n.considerMember(c)
	}

	// Find the members that the peer lacks, and those that this node lacks.
	now := n.clock.Now()
	var missing []*Contact
	omitted := 0
	for _, c := range n.leaf.Members() {
		if c.ID.Common(p.contact.ID) < depth || theirs[c.ID.prefix64()] {
			continue
		}
		if len(missing) < maxRecords/4 {
			missing = append(missing, c)
		}
		q := n.peers.get(c.Peer.ID)
		if omitted++; omitted <= maxOmitted && q != nil && now.Sub(q.lastHeard.time()) > freshTime {
			n.probe(q) // the peer may know that it is dead
		}
	}
	unknown := slices.ContainsFunc(m.IdPrefixes, func(h uint64) bool {
		return (h^n.self.ID.prefix64())>>(64-min(n.leaf.Depth(), 64)) == 0 && !n.knowsPrefix(h)
	})
	if asked { // the answer proves that the peer knew of this node
		sync.complete = !unknown
	}
	ask := unknown && now.Sub(sync.syncedAt.time()) >= syncInterval
	switch {
	case m.WantReply && sync.answeredAt != never && now.Sub(sync.answeredAt.time()) < syncInterval/2: // no honest node asks as often
	case m.WantReply:
		sync.answeredAt = timestampOf(now)
		n.sendLeaf(p, missing, ask)
		if ask {
			sync.syncedAt, sync.answerDue = timestampOf(now), true
		}
	case asked && len(missing) > 0:
		n.sendLeaf(p, missing, false)
	}
	n.checkJoined()
}

// knowsPrefix reports whether the leaf, its candidates or the tombstones hold an id with the
// given prefix.
func (n *Node) knowsPrefix(h uint64) bool {
	for _, c := range n.leaf.Members() {
		if c.ID.prefix64() == h {
			return true
		}
	}
	for _, t := range n.tombstones.list {
		if t.contact.ID.prefix64() == h {
			return true
		}
	}
	for _, p := range n.peers.all {
		if p.candidate && p.contact.ID.prefix64() == h {
			return true
		}
	}
	return false
}

// startGossip schedules gossipRounds comparisons with other members.
func (n *Node) startGossip() {
	if n.gossipLeft == 0 {
		n.after(n.jitter(gossipInterval), task{kind: taskGossip})
	}
	n.gossipLeft = gossipRounds
}

// gossipLeaf compares leaves with a random member.
func (n *Node) gossipLeaf() {
	if n.gossipLeft--; n.gossipLeft > 0 {
		n.after(n.jitter(gossipInterval), task{kind: taskGossip})
	}
	if n.leaf.Len() < 2 || n.state != Active {
		return
	}
	contacts := n.leaf.Members()
	c := contacts[n.rand.IntN(len(contacts))]
	if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
		n.probe(p)
	}
}
