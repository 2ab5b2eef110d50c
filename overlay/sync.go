package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
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
func (lu *leafUpkeep) onLeafDigest(p *peer, depth int, decided, digest uint64, isReply bool) {
	lu.adoptDepth(p, depth, decided)
	p.depth = int16(depth)
	if lu.inOtherLeaf(p) {
		return
	}
	sync := p.syncState()
	sync.digest, sync.digestAt = digest, env.MomentOf(lu.clock.Now())
	if lu.agrees(p) {
		sync.backoff = 0
		return
	}
	if lu.state != Active {
		return // a joining node compares leaves after it has met the members it has heard of
	}
	if lu.explainDiff(p) || !isReply {
		return
	}
	lu.requestLeaf(p)
}

// explainDiff finds out from the digests alone which members the two leaves differ by, because
// usually one member has just joined or died. It then tells the peer which members it lacks
// and which are dead.
func (lu *leafUpkeep) explainDiff(p *peer) bool {
	if int(p.depth) != lu.leaf.Depth() {
		return false
	}
	now := lu.clock.Now()
	sync := p.syncState()
	diff := sync.digest ^ lu.leaf.Digest()
	if diff == sync.explained { // the peer was told already, and may be checking for itself
		return now.Sub(sync.syncedAt.Time()) < reviveDelay
	}
	differing := lu.findDiffering(diff)
	if len(differing) == 0 {
		return false
	}
	sync.syncedAt, sync.explained = env.MomentOf(now), diff
	var missing []*Contact
	for _, c := range differing {
		q := lu.peers.get(c.Peer.ID)
		switch {
		case lu.leaf.Has(c.ID) != nil:
			missing = append(missing, c)
			if q != nil && now.Sub(q.lastHeard.Time()) > freshTime {
				lu.liveness.probe(q) // the peer may know that it is dead
			}
		case q == nil || !q.candidate: // c is dead
			lu.liveness.sendDead(p, c)
			lu.liveness.considerMember(c) // if it has returned, it answers
		}
	}
	if len(missing) > 0 {
		lu.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{
			Depth: uint32(lu.leaf.Depth()), Decided: lu.leaf.decided, Partial: true, Records: rawRecords(missing),
		}}})
	}
	return true
}

// findDiffering returns one or two nodes that explain the difference of two digests, out of
// the leaf, the candidates for it and the tombstones. It returns nil if there are none.
func (lu *leafUpkeep) findDiffering(diff uint64) []*Contact {
	contacts := slices.Clone(lu.leaf.Members())
	for _, t := range lu.liveness.tombstones.list {
		if lu.leaf.Covers(t.contact.ID) {
			contacts = append(contacts, t.contact)
		}
	}
	for _, p := range lu.peers.all {
		if p.candidate && p.contact != nil && lu.leaf.Covers(p.contact.ID) && lu.leaf.Has(p.contact.ID) == nil {
			contacts = append(contacts, p.contact)
		}
	}
	by := make(map[uint64]*Contact, len(contacts))
	for _, c := range contacts {
		m := env.Mix(c.ID.prefix64())
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
func (lu *leafUpkeep) agrees(p *peer) bool {
	return lu.inOtherLeaf(p) || int(p.depth) == lu.leaf.Depth() && p.syncState().digest == lu.leaf.Digest()
}

// knowsAllOf reports whether this node knows all members of its leaf that a peer has named
// since the node announced itself.
func (lu *leafUpkeep) knowsAllOf(p *peer) bool {
	sync := p.syncState()
	if sync.complete || lu.agrees(p) {
		return true
	}
	if int(p.depth) != lu.leaf.Depth() {
		return false
	}
	differing := lu.findDiffering(sync.digest ^ lu.leaf.Digest())
	return len(differing) > 0 && !slices.ContainsFunc(differing, func(c *Contact) bool { return lu.leaf.Has(c.ID) == nil })
}

// inOtherLeaf reports whether there is nothing to compare with a peer, because it is not a
// member, or both sides consider it to be in another leaf.
func (lu *leafUpkeep) inOtherLeaf(p *peer) bool {
	if p.contact == nil || !p.contact.Member || !lu.self.Member && lu.state != Joining {
		return true
	}
	common := lu.self.ID.Common(p.contact.ID)
	return common < lu.leaf.Depth() && common < int(p.depth)
}

// requestLeaf sends a peer the ids of this node's leaf and requests the peer's, unless it did
// so a moment ago. It reports whether it sent the request.
func (lu *leafUpkeep) requestLeaf(p *peer) bool {
	now := lu.clock.Now()
	sync := p.syncState()
	pause := syncInterval
	if lu.state == Active {
		pause <<= sync.backoff
	}
	if sync.syncedAt != env.Never && now.Sub(sync.syncedAt.Time()) < pause {
		return false
	}
	sync.syncedAt, sync.answerDue = env.MomentOf(now), true
	sync.backoff = min(sync.backoff+1, maxSyncBackoff)
	lu.sendLeaf(p, nil, true)
	return true
}

func (lu *leafUpkeep) sendLeaf(p *peer, records []*Contact, ask bool) {
	m := &overlaypb.Leaf{Depth: uint32(lu.leaf.Depth()), Decided: lu.leaf.decided, WantReply: ask, Records: rawRecords(records)}
	members := lu.leaf.Members()
	for _, c := range members[:min(len(members), maxLeafIDs)] { // no honest leaf is as large
		m.IdPrefixes = append(m.IdPrefixes, c.ID.prefix64())
	}
	lu.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: m}})
}

// onLeaf takes a peer's leaf, or a part of it. It reports whether it compared the whole leaf.
func (lu *leafUpkeep) onLeaf(p *peer, m *overlaypb.Leaf) (compared bool) {
	sync := p.syncState()
	asked := sync.answerDue
	sync.answerDue = sync.answerDue && m.Partial
	if p.contact == nil || !p.contact.Member || lu.state != Active && lu.state != Joining {
		return false
	}
	depth := int(m.Depth)
	lu.adoptDepth(p, depth, m.Decided)
	if m.Partial {
		for _, c := range lu.openRecords(m.Records) {
			lu.liveness.considerMember(c)
		}
		return false
	}
	theirs := make(map[uint64]bool, len(m.IdPrefixes))
	p.depth, sync.digest, sync.digestAt = int16(depth), env.Mix(uint64(depth)), env.MomentOf(lu.clock.Now())
	for _, h := range m.IdPrefixes {
		theirs[h] = true
		sync.digest ^= env.Mix(h)
	}

	for _, c := range lu.openRecords(m.Records) {
		lu.liveness.considerMember(c)
	}

	// Find the members that the peer lacks, and those that this node lacks.
	now := lu.clock.Now()
	var missing []*Contact
	omitted := 0
	for _, c := range lu.leaf.Members() {
		if c.ID.Common(p.contact.ID) < depth || theirs[c.ID.prefix64()] {
			continue
		}
		if len(missing) < maxRecords/4 {
			missing = append(missing, c)
		}
		q := lu.peers.get(c.Peer.ID)
		if omitted++; omitted <= maxOmitted && q != nil && now.Sub(q.lastHeard.Time()) > freshTime {
			lu.liveness.probe(q) // the peer may know that it is dead
		}
	}
	unknown := slices.ContainsFunc(m.IdPrefixes, func(h uint64) bool {
		return (h^lu.self.ID.prefix64())>>(64-min(lu.leaf.Depth(), 64)) == 0 && !lu.knowsPrefix(h)
	})
	if asked { // the answer proves that the peer knew of this node
		sync.complete = !unknown
	}
	ask := unknown && now.Sub(sync.syncedAt.Time()) >= syncInterval
	switch {
	case m.WantReply && sync.answeredAt != env.Never && now.Sub(sync.answeredAt.Time()) < syncInterval/2: // no honest node asks as often
	case m.WantReply:
		sync.answeredAt = env.MomentOf(now)
		lu.sendLeaf(p, missing, ask)
		if ask {
			sync.syncedAt, sync.answerDue = env.MomentOf(now), true
		}
	case asked && len(missing) > 0:
		lu.sendLeaf(p, missing, false)
	}
	return true
}

// knowsPrefix reports whether the leaf, its candidates or the tombstones hold an id with the
// given prefix.
func (lu *leafUpkeep) knowsPrefix(h uint64) bool {
	for _, c := range lu.leaf.Members() {
		if c.ID.prefix64() == h {
			return true
		}
	}
	for _, t := range lu.liveness.tombstones.list {
		if t.contact.ID.prefix64() == h {
			return true
		}
	}
	for _, p := range lu.peers.all {
		if p.candidate && p.contact.ID.prefix64() == h {
			return true
		}
	}
	return false
}
