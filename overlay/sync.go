package overlay

import (
	"slices"
	"time"

	"tidings/overlay/overlaypb"
)

const (
	// syncPause is the shortest time between two questions to one peer
	// about its leaf.
	syncInterval = time.Second
	// syncVain is how often that pause is doubled while they do not come to agree: a
	// minute is what a liar can have.
	maxSyncBackoff = 6
	// maxOmitted is how many members that somebody else does not list are probed for that.
	// Who lists still fewer does not know yet.
	maxOmitted = 4
	// rumourRounds is how often a node compares leaves with a member chosen
	// at random after its own leaf changed, rumourPause apart.
	gossipRounds   = 3
	gossipInterval = time.Second
	// fresh is how recent a sign of life must be that a member which somebody
	// else does not list is believed to live without a probe.
	freshTime = 10 * time.Second
)

// compareWith looks at depth and digest of a peer's leaf. If it is in the same leaf and
// knows otherwise, it is told what it lacks, or, where that cannot be guessed, asked
// what it knows: by who asked first (answer), or both would do so.
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
		return // who joins compares when it has met those it has heard of
	}
	if n.explainDiff(p) || !isReply {
		return
	}
	n.requestLeaf(p)
}

// explain guesses by whom a peer's leaf differs from the node's, from the digests alone:
// mostly somebody has come or gone a moment ago. Then it tells the peer whom it lacks,
// and who is dead.
func (n *Node) explainDiff(p *peer) bool {
	if int(p.depth) != n.leaf.Depth() {
		return false
	}
	now := n.clock.Now()
	sync := p.syncState()
	diff := sync.digest ^ n.leaf.Digest()
	if diff == sync.explained { // it was told, and may have to see for itself
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
				n.probe(q) // perhaps they know that it is dead
			}
		case q == nil || !q.candidate: // it is dead
			n.sendDead(p, c)
			n.considerMember(c) // unless it has come back
		}
	}
	if len(missing) > 0 {
		n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{
			Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided, Partial: true, Records: rawRecords(missing),
		}}})
	}
	return true
}

// whoDiffer finds one or two nodes, of those in the leaf, of those it may soon
// hold, and of the dead, whose coming or going makes the difference of two digests;
// none if there are no such.
func (n *Node) findDiffering(diff uint64) []*Contact {
	of := slices.Clone(n.leaf.Members())
	for _, d := range n.tombstones.list {
		if n.leaf.Covers(d.contact.ID) {
			of = append(of, d.contact)
		}
	}
	for _, p := range n.peers.all {
		if p.candidate && p.contact != nil && n.leaf.Covers(p.contact.ID) && n.leaf.Has(p.contact.ID) == nil {
			of = append(of, p.contact)
		}
	}
	by := make(map[uint64]*Contact, len(of))
	for _, c := range of {
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

// agrees says whether a peer, as far as it is of this leaf, knows the same.
func (n *Node) agrees(p *peer) bool {
	return n.inOtherLeaf(p) || int(p.depth) == n.leaf.Depth() && p.syncState().digest == n.leaf.Digest()
}

// knowsAllOf says whether all that a peer knew of its leaf since this node announced
// itself are known here.
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

// apart says whether a peer has nothing to compare: it is no member, or not of one leaf
// with this node, as either sees it.
func (n *Node) inOtherLeaf(p *peer) bool {
	if p.contact == nil || !p.contact.Member || !n.self.Member && n.state != Joining {
		return true
	}
	common := n.self.ID.Common(p.contact.ID)
	return common < n.leaf.Depth() && common < int(p.depth)
}

// compare sends a peer what this node knows of its leaf, and asks for the same,
// unless it did so a moment ago.
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
	for _, c := range members[:min(len(members), maxLeafIDs)] { // no honest leaf grows so large
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

	// What they lack, and what I miss of theirs.
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
			n.probe(q) // perhaps they know that it is dead
		}
	}
	unknown := slices.ContainsFunc(m.IdPrefixes, func(h uint64) bool {
		return (h^n.self.ID.prefix64())>>(64-min(n.leaf.Depth(), 64)) == 0 && !n.knowsPrefix(h)
	})
	if asked { // so it knew of this node
		sync.complete = !unknown
	}
	ask := unknown && now.Sub(sync.syncedAt.time()) >= syncInterval
	switch {
	case m.WantReply && sync.answeredAt != never && now.Sub(sync.answeredAt.time()) < syncInterval/2: // nobody honest asks so often
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

// knowsHead says whether somebody with such an id is in the leaf, or getting
// known, or dead.
func (n *Node) knowsPrefix(h uint64) bool {
	for _, c := range n.leaf.Members() {
		if c.ID.prefix64() == h {
			return true
		}
	}
	for _, d := range n.tombstones.list {
		if d.contact.ID.prefix64() == h {
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

// spreadRumour compares leaves with a few others soon.
func (n *Node) startGossip() {
	if n.gossipLeft == 0 {
		n.after(n.jitter(gossipInterval), task{kind: taskGossip})
	}
	n.gossipLeft = gossipRounds
}

// rumour compares leaves with one member chosen at random.
func (n *Node) gossipLeaf() {
	if n.gossipLeft--; n.gossipLeft > 0 {
		n.after(n.jitter(gossipInterval), task{kind: taskGossip})
	}
	if n.leaf.Len() < 2 || n.state != Active {
		return
	}
	of := n.leaf.Members()
	c := of[n.rand.IntN(len(of))]
	if p := n.peers.get(c.Peer.ID); c != n.self && p != nil {
		n.probe(p)
	}
}
