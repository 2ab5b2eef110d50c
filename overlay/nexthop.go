package overlay

import (
	"slices"

	"tidings/internal/plant"
)

// nextHop decides where a message goes from here: to next; or nowhere, because
// this node is the root; or nowhere yet (wait), because somebody nearer may
// stand in a slot that is not confirmed empty. Each next is nearer to the key
// than this node, so that no message goes round in a circle, whatever the
// tables say. Peers that left something unanswered, and those in tried, are
// passed over while there are others.
func (n *Node) nextHop(key ID, tried []*peer) (next *peer, root, wait bool) {
	if n.state == Attached || !n.self.Member {
		return n.hostFor(tried), false, false
	}
	var fallback *peer // silent, but perhaps the root itself
	var best, bestFallback ID
	consider := func(p *peer) {
		if p == nil || p.contact == nil || !Nearer(key, p.contact.ID, n.self.ID) {
			return
		}
		id := p.contact.ID
		if p.suspect || slices.Contains(tried, p) {
			if fallback == nil || Nearer(key, id, bestFallback) {
				fallback, bestFallback = p, id
			}
		} else if next == nil || Nearer(key, id, best) {
			next, best = p, id
		}
	}
	if n.leaf.Covers(key) {
		for _, c := range n.leaf.Members() {
			if c != n.self && Nearer(key, c.ID, n.self.ID) {
				consider(n.peers.get(c.Peer.ID))
			}
		}
		if plant.DoubleRoot && key[31]&7 == 0 && next != nil {
			return nil, true, false
		}
		wait = next == nil && n.clock.Now().Before(n.wideningEnds) && n.self.ID.Common(key) < n.depthBeforeWidening
	} else if s, _, _ := n.table.slot(key, n.leaf.Depth()); s != nil && s.contact != nil {
		consider(s.contact)
		consider(s.spare)
	} else {
		for _, c := range n.leaf.Members() {
			consider(n.peers.get(c.Peer.ID))
		}
		n.table.each(n.leaf.Depth(), func(_, _ int, s *slot) {
			consider(s.contact)
			consider(s.spare)
		})
		wait = !n.nearerSlotsEmpty(key, next)
	}
	switch {
	case next != nil:
		return next, false, wait
	case fallback != nil && !slices.Contains(tried, fallback):
		return fallback, false, false // no other way: try the suspect
	case fallback != nil:
		return nil, false, false // all ways tried; again, until it answers or is buried
	}
	return nil, n.state == Active && !wait, wait
}

// nearerSlotsEmpty says whether all slots in which somebody nearer to key than
// next (or than this node, if nil) could stand are known to be empty. It has
// those that are not looked into.
func (n *Node) nearerSlotsEmpty(key ID, next *peer) bool {
	limit := n.self.ID
	if next != nil {
		limit = next.contact.ID
	}
	empty := true
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		if s.contact == nil && !s.empty && Nearer(key, n.table.prefix(row, col, key), limit) {
			empty = false
			n.searchSlot(row, col)
		}
	})
	return empty
}

// hostFor returns the member that a client's message goes to first.
func (n *Node) hostFor(tried []*peer) *peer {
	var fallback *peer
	for _, p := range n.hosts {
		if p.attached == never {
			continue
		}
		if !p.suspect && !slices.Contains(tried, p) {
			return p
		}
		if !slices.Contains(tried, p) {
			fallback = p
		}
	}
	return fallback
}

// NextHop returns the member to whom a message for a key goes from here, or says that this
// node is the root. It does neither when a message would have to wait, or to go to somebody
// who left something unanswered.
func (n *Node) NextHop(key ID) (next *Contact, root bool) {
	if n.state != Active {
		return nil, false
	}
	p, root, wait := n.nextHop(key, nil)
	if wait || p == nil || p.suspect {
		return nil, root && !wait
	}
	return p.contact, false
}

// IsRoot says whether this node is the root of key, as far as it knows.
func (n *Node) IsRoot(key ID) bool {
	if n.state != Active {
		return false
	}
	_, root, _ := n.nextHop(key, nil)
	return root
}
