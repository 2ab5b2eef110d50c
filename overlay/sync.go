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
	// rumourRounds is how often a node compares leaves with a member chosen
	// at random after its own leaf changed, rumourPause apart.
	rumourRounds = 3
	rumourPause  = time.Second
	// fresh is how recent a sign of life must be that a member which somebody
	// else does not list is believed to live without a probe.
	fresh = 10 * time.Second
)

// compareWith looks at depth and digest of a peer's leaf, and asks what it knows
// if it is in the same leaf and knows otherwise.
func (n *Node) compareWith(p *peer, depth int, decided, digest uint64) {
	n.adopt(p, depth, decided)
	p.depth, p.digest = int16(depth), digest
	if n.agrees(p) {
		return
	}
	n.compare(p)
}

// agrees says whether a peer, as far as it is of this leaf, knows the same.
func (n *Node) agrees(p *peer) bool {
	if p.contact == nil || !p.contact.Member || !n.self.Member && n.state != Joining {
		return true
	}
	common := n.self.ID.Common(p.contact.ID)
	if common < n.leaf.Depth() && common < int(p.depth) {
		return true // not of one leaf, as either sees it
	}
	return int(p.depth) == n.leaf.Depth() && p.digest == n.leaf.Digest()
}

// compare sends a peer what this node knows of its leaf, and asks for the same,
// unless it did so a moment ago.
func (n *Node) compare(p *peer) bool {
	now := n.clock.Now()
	if now.Sub(p.synced.time()) < syncPause && p.synced != never {
		return false
	}
	p.synced, p.syncs = momentOf(now), true
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
	asked := p.syncs
	p.syncs = false
	if p.contact == nil || !p.contact.Member || n.state != Active && n.state != Joining {
		return
	}
	depth := int(m.Depth)
	n.adopt(p, depth, m.Decided)
	theirs := make(map[uint64]bool, len(m.Ids))
	p.depth, p.digest = int16(depth), mix(uint64(depth))
	for _, h := range m.Ids {
		theirs[h] = true
		p.digest ^= mix(h)
	}

	for _, c := range n.open(m.Records) {
		n.meet(c)
	}

	// What they lack, and what I miss of theirs.
	var lacks []*Contact
	for _, c := range n.leaf.Members() {
		if c.ID.Common(p.contact.ID) < depth || theirs[c.ID.head()] {
			continue
		}
		if len(lacks) < maxRecords/4 {
			lacks = append(lacks, c)
		}
		if q := n.peers[c.Peer.ID]; q != nil && n.clock.Now().Sub(q.heard.time()) > fresh {
			n.probe(q) // perhaps they know that it is dead
		}
	}
	now := n.clock.Now()
	ask := now.Sub(p.synced.time()) >= syncPause && slices.ContainsFunc(m.Ids, func(h uint64) bool {
		return (h^n.self.ID.head())>>(64-min(n.leaf.Depth(), 64)) == 0 && !n.knowsHead(h)
	})
	switch {
	case m.Ask:
		n.sendLeaf(p, lacks, ask)
		if ask {
			p.synced, p.syncs = momentOf(now), true
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
	for _, p := range n.peers {
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
	if p := n.peers[c.Peer.ID]; c != n.self && p != nil {
		n.probe(p)
	}
}
