package overlay

import (
	"slices"
	"time"

	"tidings/overlay/overlaypb"
)

const (
	// syncPause is the shortest time between two questions to one peer
	// about its leaf.
	syncPause = time.Second
	// syncVain is how often that pause is doubled while they do not come to agree: a
	// minute is what a liar can have.
	syncVain = 6
	// maxOmitted is how many members that somebody else does not list are probed for that.
	// Who lists still fewer does not know yet.
	maxOmitted = 4
	// rumourRounds is how often a node compares leaves with a member chosen
	// at random after its own leaf changed, rumourPause apart.
	rumourRounds = 3
	rumourPause  = time.Second
	// fresh is how recent a sign of life must be that a member which somebody
	// else does not list is believed to live without a probe.
	fresh = 10 * time.Second
)

// compareWith looks at depth and digest of a peer's leaf. If it is in the same leaf and
// knows otherwise, it is told what it lacks, or, where that cannot be guessed, asked
// what it knows: by who asked first (answer), or both would do so.
func (n *Node) compareWith(p *peer, depth int, decided, digest uint64, answer bool) {
	n.adopt(p, depth, decided)
	p.depth = int16(depth)
	if n.apart(p) {
		return
	}
	with := p.compared()
	with.digest, with.said = digest, momentOf(n.clock.Now())
	if n.agrees(p) {
		with.vain = 0
		return
	}
	if n.state != Active {
		return // who joins compares when it has met those it has heard of
	}
	if n.explain(p) || !answer {
		return
	}
	n.compare(p)
}

// explain guesses by whom a peer's leaf differs from the node's, from the digests alone:
// mostly somebody has come or gone a moment ago. Then it tells the peer whom it lacks,
// and who is dead.
func (n *Node) explain(p *peer) bool {
	if int(p.depth) != n.leaf.Depth() {
		return false
	}
	now := n.clock.Now()
	with := p.compared()
	diff := with.digest ^ n.leaf.Digest()
	if diff == with.differed { // it was told, and may have to see for itself
		return now.Sub(with.synced.time()) < hearsay
	}
	differ := n.whoDiffer(diff)
	if len(differ) == 0 {
		return false
	}
	with.synced, with.differed = momentOf(now), diff
	var lacks []*Contact
	for _, c := range differ {
		q := n.peers.get(c.Peer.ID)
		switch {
		case n.leaf.Has(c.ID) != nil:
			lacks = append(lacks, c)
			if q != nil && now.Sub(q.heard.time()) > fresh {
				n.probe(q) // perhaps they know that it is dead
			}
		case q == nil || !q.candidate: // it is dead
			n.sendGone(p, c)
			n.meet(c) // unless it has come back
		}
	}
	if len(lacks) > 0 {
		n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{
			Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided, Part: true, Records: raws(lacks),
		}}})
	}
	return true
}

// whoDiffer finds one or two nodes, of those in the leaf, of those it may soon
// hold, and of the dead, whose coming or going makes the difference of two digests;
// none if there are no such.
func (n *Node) whoDiffer(diff uint64) []*Contact {
	of := slices.Clone(n.leaf.Members())
	for _, d := range n.dead.graves {
		if n.leaf.Covers(d.contact.ID) {
			of = append(of, d.contact)
		}
	}
	for _, p := range n.peers.of {
		if p.candidate && p.contact != nil && n.leaf.Covers(p.contact.ID) && n.leaf.Has(p.contact.ID) == nil {
			of = append(of, p.contact)
		}
	}
	by := make(map[uint64]*Contact, len(of))
	for _, c := range of {
		m := mix(c.ID.head())
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
	return n.apart(p) || int(p.depth) == n.leaf.Depth() && p.compared().digest == n.leaf.Digest()
}

// knowsAllOf says whether all that a peer knew of its leaf since this node announced
// itself are known here.
func (n *Node) knowsAllOf(p *peer) bool {
	with := p.compared()
	if with.whole || n.agrees(p) {
		return true
	}
	if int(p.depth) != n.leaf.Depth() {
		return false
	}
	differ := n.whoDiffer(with.digest ^ n.leaf.Digest())
	return len(differ) > 0 && !slices.ContainsFunc(differ, func(c *Contact) bool { return n.leaf.Has(c.ID) == nil })
}

// apart says whether a peer has nothing to compare: it is no member, or not of one leaf
// with this node, as either sees it.
func (n *Node) apart(p *peer) bool {
	if p.contact == nil || !p.contact.Member || !n.self.Member && n.state != Joining {
		return true
	}
	common := n.self.ID.Common(p.contact.ID)
	return common < n.leaf.Depth() && common < int(p.depth)
}

// compare sends a peer what this node knows of its leaf, and asks for the same,
// unless it did so a moment ago.
func (n *Node) compare(p *peer) bool {
	now := n.clock.Now()
	with := p.compared()
	pause := syncPause
	if n.state == Active {
		pause <<= with.vain
	}
	if with.synced != never && now.Sub(with.synced.time()) < pause {
		return false
	}
	with.synced, with.due = momentOf(now), true
	with.vain = min(with.vain+1, syncVain)
	n.sendLeaf(p, nil, true)
	return true
}

func (n *Node) sendLeaf(p *peer, records []*Contact, ask bool) {
	m := &overlaypb.Leaf{Depth: uint32(n.leaf.Depth()), Decided: n.leaf.decided, Ask: ask, Records: raws(records)}
	members := n.leaf.Members()
	for _, c := range members[:min(len(members), maxHeads)] { // no honest leaf grows so large
		m.Ids = append(m.Ids, c.ID.head())
	}
	n.send(p, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: m}})
}

func (n *Node) onLeaf(p *peer, m *overlaypb.Leaf) {
	with := p.compared()
	asked := with.due
	with.due = with.due && m.Part
	if p.contact == nil || !p.contact.Member || n.state != Active && n.state != Joining {
		return
	}
	depth := int(m.Depth)
	n.adopt(p, depth, m.Decided)
	if m.Part {
		for _, c := range n.open(m.Records) {
			n.meet(c)
		}
		return
	}
	theirs := make(map[uint64]bool, len(m.Ids))
	p.depth, with.digest, with.said = int16(depth), mix(uint64(depth)), momentOf(n.clock.Now())
	for _, h := range m.Ids {
		theirs[h] = true
		with.digest ^= mix(h)
	}

	for _, c := range n.open(m.Records) {
		n.meet(c)
	}

	// What they lack, and what I miss of theirs.
	now := n.clock.Now()
	var lacks []*Contact
	omitted := 0
	for _, c := range n.leaf.Members() {
		if c.ID.Common(p.contact.ID) < depth || theirs[c.ID.head()] {
			continue
		}
		if len(lacks) < maxRecords/4 {
			lacks = append(lacks, c)
		}
		q := n.peers.get(c.Peer.ID)
		if omitted++; omitted <= maxOmitted && q != nil && now.Sub(q.heard.time()) > fresh {
			n.probe(q) // perhaps they know that it is dead
		}
	}
	strangers := slices.ContainsFunc(m.Ids, func(h uint64) bool {
		return (h^n.self.ID.head())>>(64-min(n.leaf.Depth(), 64)) == 0 && !n.knowsHead(h)
	})
	if asked { // so it knew of this node
		with.whole = !strangers
	}
	ask := strangers && now.Sub(with.synced.time()) >= syncPause
	switch {
	case m.Ask && with.gave != never && now.Sub(with.gave.time()) < syncPause/2: // nobody honest asks so often
	case m.Ask:
		with.gave = momentOf(now)
		n.sendLeaf(p, lacks, ask)
		if ask {
			with.synced, with.due = momentOf(now), true
		}
	case asked && len(lacks) > 0:
		n.sendLeaf(p, lacks, false)
	}
	n.joinedYet()
}

// knowsHead says whether somebody with such an id is in the leaf, or getting
// known, or dead.
func (n *Node) knowsHead(h uint64) bool {
	for _, c := range n.leaf.Members() {
		if c.ID.head() == h {
			return true
		}
	}
	for _, d := range n.dead.graves {
		if d.contact.ID.head() == h {
			return true
		}
	}
	for _, p := range n.peers.of {
		if p.candidate && p.contact.ID.head() == h {
			return true
		}
	}
	return false
}

// spreadRumour compares leaves with a few others soon.
func (n *Node) spreadRumour() {
	if n.rumours == 0 {
		n.after(n.spread(rumourPause), task{kind: taskRumour})
	}
	n.rumours = rumourRounds
}

// rumour compares leaves with one member chosen at random.
func (n *Node) rumour() {
	if n.rumours--; n.rumours > 0 {
		n.after(n.spread(rumourPause), task{kind: taskRumour})
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
