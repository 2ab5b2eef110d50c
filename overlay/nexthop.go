package overlay

import (
	"slices"

	"tidings/internal/env"
)

// nextHop decides where a message goes from here: to next, or nowhere because this node is the
// root, or nowhere yet (wait) because a nearer member may exist in a slot that is not
// confirmed empty. At a member, each next hop is nearer to the key, so a message never goes
// round in a circle, whatever the tables contain. Suspects and the peers in tried are skipped
// as long as there are others.
func (rt *router) nextHop(key ID, tried []*peer) (next *peer, root, wait bool) {
	if rt.state == Attached || !rt.self.Member {
		return rt.hostFor(tried), false, false
	}
	var fallback *peer // suspect or already tried, but possibly the root itself
	var best, bestFallback ID
	consider := func(p *peer) {
		if p == nil || p.contact == nil || !Nearer(key, p.contact.ID, rt.self.ID) {
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
	if rt.leaf.Covers(key) {
		for _, c := range rt.leaf.Members() {
			if c != rt.self && Nearer(key, c.ID, rt.self.ID) {
				consider(rt.peers.get(c.Peer.ID))
			}
		}
		wait = next == nil && rt.clock.Now().Before(rt.leafUpkeep.wideningEnds) && rt.self.ID.Common(key) < rt.leafUpkeep.depthBeforeWidening
	} else if s, _, _ := rt.table.slot(key, rt.leaf.Depth()); s != nil && s.contact != nil {
		consider(s.contact)
		consider(s.spare)
	} else {
		for _, c := range rt.leaf.Members() {
			consider(rt.peers.get(c.Peer.ID))
		}
		rt.table.eachPeer(rt.leaf.Depth(), consider)
		wait = !rt.nearerSlotsEmpty(key, next)
	}
	switch {
	case next != nil:
		return next, false, wait
	case fallback != nil && !slices.Contains(tried, fallback):
		return fallback, false, false // there is no other way, so the suspect is tried
	case fallback != nil:
		return nil, false, false // all ways were tried; the message waits until a suspect answers or is declared dead
	}
	return nil, rt.state == Active && !wait, wait
}

// nearerSlotsEmpty reports whether all slots that could hold a member nearer to key than next
// (or than this node if next is nil) are confirmed empty. It starts a search for each slot
// that is not.
func (rt *router) nearerSlotsEmpty(key ID, next *peer) bool {
	limit := rt.self.ID
	if next != nil {
		limit = next.contact.ID
	}
	empty := true
	rt.table.each(rt.leaf.Depth(), func(row, col int, s *slot) {
		if s.contact == nil && !s.empty && Nearer(key, rt.table.prefix(row, col, key), limit) {
			empty = false
			rt.tableUpkeep.searchSlot(row, col)
		}
	})
	return empty
}

// hostFor returns the member to which a client sends its messages first.
func (rt *router) hostFor(tried []*peer) *peer {
	var fallback *peer
	for _, p := range rt.hosts {
		if p.attached == env.Never {
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

// NextHop returns the member to which a message for a key goes from here, or reports that this
// node is the root. It returns nil and false if a message would have to wait or to go to a
// suspect.
func (rt *router) NextHop(key ID) (next *Contact, root bool) {
	if rt.state != Active {
		return nil, false
	}
	p, root, wait := rt.nextHop(key, nil)
	if wait || p == nil || p.suspect {
		return nil, root && !wait
	}
	return p.contact, false
}

// IsRoot reports whether this node is the root of key, as far as it knows.
func (rt *router) IsRoot(key ID) bool {
	if rt.state != Active {
		return false
	}
	_, root, _ := rt.nextHop(key, nil)
	return root
}
