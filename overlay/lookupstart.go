package overlay

import "slices"

// startRoutes gives each route a first member that has not been asked yet: those nearest to
// the key, and members of the node's own leaf. The nearest may be liars that have got into the
// table together. The leaf is known at first hand, and its members have other tables.
func (ls *lookups) startRoutes(l *lookup) {
	l.round++
	l.ended = 0
	for _, member := range l.members {
		if member.routes = 0; member.route == confirming { // its answer was used in the last round
			member.route = witnessing
		}
	}
	if l.only != nil {
		from := []*Contact{l.only}
		if l.round > 1 {
			from = contactsOf(l.members)
			ls.rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		}
		ls.startEach(l, from)
		return
	}
	var from []*Contact
	if ls.state == Active {
		from = ls.nearestKnown(l.key, len(ls.peers.all)+1)
	} else {
		from = slices.Clone(ls.pool.members)
	}
	if ls.state == Active && !l.fromScratch {
		leaf := slices.DeleteFunc(slices.Clone(ls.leaf.Members()), func(c *Contact) bool { return c.ID == ls.self.ID })
		ls.rand.Shuffle(len(leaf), func(i, j int) { leaf[i], leaf[j] = leaf[j], leaf[i] })
		for i, c := range leaf[:min(len(leaf), leafRoutes)] {
			from = slices.Insert(from, min(2*i+1, len(from)), c)
		}
	}
	if l.fromScratch { // one liar may have named all of the nearest
		ls.rand.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		if ls.state != Active {
			ls.pool.interleave(from)
		} else if b := ls.pool.bootstrapMembers(); len(b) > 0 { // one route starts outside the node's own contacts
			from = slices.Insert(from, 0, b[ls.rand.IntN(len(b))])
		}
	}
	ls.startEach(l, from)
}

// startEach asks the first members of a list that have not been asked yet, each on a route of its own.
func (ls *lookups) startEach(l *lookup, from []*Contact) {
	route := 0
	for _, c := range from {
		if p := ls.peers.get(c.Peer.ID); c.ID == ls.self.ID || p != nil && p.suspect {
			continue
		}
		if member := l.addMember(c, 1<<route); member.state == unasked {
			ls.queryMember(l, member, route)
			if route++; route == lookupRoutes {
				break
			}
		}
	}
	for ; route < lookupRoutes; route++ {
		l.ended |= 1 << route
	}
	ls.step(l)
}
