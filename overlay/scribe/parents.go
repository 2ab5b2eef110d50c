package scribe

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// sought is what a node remembers while it looks for a parent, or for a better one.
type parentSearch struct {
	required  bool // it has none: it asks until it has
	due       time.Time
	tries     int
	redirects int        // Redirects followed since it asked along the route
	edge      uint64     // names the edge that is to be
	weight    uint32     // the weight that goes with that name, however often it is asked for
	target    env.PeerID // the parent asked by name, if any
	root      env.PeerID // of the group, as a look-up found it, which is asked by name
}

// seeking says that the node asks for a parent until it has one.
func (g *group) searching() bool { return g.search != nil && g.search.required }

// seek looks for a parent: along the route to the root, or, for a client, at the
// members that act for it.
func (s *Scribe) searchParent(g *group) {
	g.search = &parentSearch{required: true, edge: s.rand.Uint64() | 1, weight: g.weight()}
	s.searchNow(g)
}

// seekParent makes sure that a node with a part in a tree has a parent or looks for
// one.
func (s *Scribe) ensureParent(g *group) {
	if g.lacksParent() && !g.searching() && (g.ownWeight > 0 || len(g.children) > 0) {
		s.searchParent(g)
	}
}

func (s *Scribe) retrySearch(g *group, now time.Time) {
	if !g.searching() || now.Before(g.search.due) {
		return
	}
	if g.search.tries < 8 {
		g.search.tries++
	}
	s.searchNow(g)
}

func (s *Scribe) searchNow(g *group) {
	hosts := s.node.Hosts()
	client := s.node.State() == overlay.Attached
	if g.root || !client && !g.lacksParent() || g.ownWeight == 0 && len(g.children) == 0 {
		g.search = nil
		return
	}
	if !client && s.node.State() != overlay.Active {
		return // until it is one or the other; see LeafChanged
	}
	q := g.search
	q.due = s.clock.Now().Add(s.jitter(min(joinTimeout<<q.tries, maxJoinTimeout)))
	s.cal.Add(q.due, task{kind: taskJoinRetry, number: g.number})
	q.target, q.redirects = "", 0
	s.stats.Joins++
	if !client {
		if avoid := s.blockedIDs(g); len(avoid) > 0 {
			s.joinAtRoot(g, avoid)
		} else {
			s.joinAlongRoute(g)
		}
		return
	}
	complete, first := true, g.lacksParent()
	for _, h := range hosts {
		if g.parent(s.links[h.Peer.ID]) == nil {
			complete = false
			s.sendJoin(g, h.Peer, g.weightFor(first))
			first = false
		}
	}
	if complete {
		g.search = nil
	}
}

// share is the weight told to a parent: the first is told all of it.
func (g *group) weightFor(first bool) uint32 {
	if first {
		return g.weight()
	}
	return 0
}

// askAlong asks along the route to the root. The first time this goes together with others,
// if the next hop is known; what came to nothing is asked again alone.
func (s *Scribe) joinAlongRoute(g *group) {
	if g.search.tries == 0 && len(s.recent[g.id]) == 0 {
		if next, _ := s.node.NextHop(g.id); next != nil {
			s.enqueue(next.Peer, batchEntry{kind: entryRoutedJoin, group: g.id, edge: g.search.edge, weight: g.search.weight, contact: s.node.Self()})
			return
		}
	}
	s.routeJoin(g)
}

func (s *Scribe) routeJoin(g *group) {
	s.node.Route(wire.Scribe, g.id, encode(s.joinMessage(g, g.search.weight)), func(overlay.Receipt, bool) {})
}

// ask asks a parent by name.
func (s *Scribe) sendJoin(g *group, to env.Peer, weight uint32) {
	if len(s.recent[g.id]) > 0 {
		s.send(to, s.joinMessage(g, weight))
		return
	}
	s.enqueue(to, batchEntry{kind: entryJoin, group: g.id, edge: g.search.edge, weight: weight})
}

// join is a Join that goes alone.
func (s *Scribe) joinMessage(g *group, weight uint32) *scribepb.Message {
	j := &scribepb.Join{Group: g.id[:], Record: s.node.Self().Raw, Weight: weight, Edge: g.search.edge}
	for _, r := range s.recent[g.id] {
		j.Have = append(j.Have, r.id)
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: j}}
}

// onRedirect moves this node below another parent, if that one is nearer to the
// key. The old edge stays until the new one stands.
func (s *Scribe) onRedirect(from env.PeerID, id overlay.ID, record []byte) error {
	g := s.groups.Get(id)
	to, err := s.node.OpenRecord(record)
	if err != nil {
		s.stats.Garbage++
		return env.ErrFrame
	}
	if g == nil || g.root || !to.Member || s.node.State() != overlay.Active || s.isBlocked(g.id, to.Peer.ID) {
		return nil
	}
	current := !g.lacksParent()
	if current && s.linkAt(g.parents[0].link).contact.Peer.ID != from || !current && (!g.searching() || g.search.redirects >= maxRedirects) ||
		!overlay.Nearer(g.id, to.ID, s.node.ID()) {
		return nil
	}
	now := s.clock.Now()
	if current && g.search != nil && g.search.target == from && now.Before(g.search.due) {
		return nil // it said so before it knew the name by which the edge is asked for again
	}
	if g.search == nil {
		g.search = &parentSearch{}
	}
	q := g.search
	q.target, q.edge, q.weight = to.Peer.ID, s.rand.Uint64()|1, g.weight()
	q.due = now.Add(joinTimeout) // give the named parent its time to answer
	if !current {
		q.redirects++
		s.cal.Add(q.due, task{kind: taskJoinRetry, number: g.number})
	}
	s.stats.Joins++
	s.link(to) // so that Accept finds who it is from
	s.sendJoin(g, to.Peer, q.weight)
	return nil
}

// onAccept takes the parent that has accepted this node.
func (s *Scribe) onAccept(c *overlay.Contact, id overlay.ID, edge uint64) {
	if !s.acceptParent(id, c, edge) {
		s.sendPrune(c.Peer, id, edge)
	}
}

// takeParent makes the node that has accepted this one its parent, unless it has
// one, or that one cannot be, or the edge is not the one it asked for last.
func (s *Scribe) acceptParent(id overlay.ID, c *overlay.Contact, edge uint64) bool {
	g := s.groups.Get(id)
	client := s.node.State() == overlay.Attached
	switch {
	case g == nil || g.root || g.ownWeight == 0 && len(g.children) == 0:
		return false
	case g.parent(s.links[c.Peer.ID]) != nil:
		if g.search != nil && edge == g.search.edge {
			s.confirmParent(g, s.links[c.Peer.ID])
		}
		return true
	case g.search == nil || edge != g.search.edge || len(g.parentEdges()) == len(g.parents):
		return false
	case s.isBlocked(id, c.Peer.ID) && g.search.root != c.Peer.ID:
		return false // it stands in the way; see askAround
	case client:
		if !slices.ContainsFunc(s.node.Hosts(), func(h *overlay.Contact) bool { return h.ID == c.ID }) {
			return false
		}
	case !overlay.Nearer(id, c.ID, s.node.ID()) && !plant.Cycle:
		return false
	case !g.lacksParent() && g.search.target != c.Peer.ID:
		return false // I have one
	case !g.lacksParent():
		s.leaveParent(g, s.linkAt(g.parents[0].link))
	}
	l := s.link(c)
	n := len(g.parentEdges())
	g.parents[n] = parent{edge, l.number}
	told := g.search.weight // the weight may be another by now
	if client {
		told = g.weightFor(n == 0)
	}
	l.up.add(s.groups, g, told)
	if n == 0 {
		g.sentWeight = told
	}
	if g.search.target = ""; !client {
		g.search = nil
	}
	s.planHeartbeatSoon(l)
	s.updateWeight(g)
	s.dropIfUnused(g)
	return true
}

// askedAgain notes that a parent has taken a Join as what it knows of an edge that was there:
// what it was told of the weight meanwhile may have come before that.
func (s *Scribe) confirmParent(g *group, l *link) {
	g.parent(l).edge = g.search.edge
	if client := s.node.State() == overlay.Attached; !client {
		l.up.change(g, g.sentWeight, g.search.weight)
		g.sentWeight, g.search = g.search.weight, nil
		s.updateWeight(g)
	}
}

// leaveParent ends an edge up and tells the parent.
func (s *Scribe) leaveParent(g *group, l *link) {
	edge := g.parent(l).edge
	s.forgetParent(g, l)
	s.sendPrune(l.contact.Peer, g.id, edge)
}

// forgetParent ends an edge up.
func (s *Scribe) forgetParent(g *group, l *link) {
	for i, p := range g.parentEdges() {
		if p.link != l.number {
			continue
		}
		if i == 0 {
			l.up.remove(s.groups, g, g.sentWeight)
		} else {
			l.up.remove(s.groups, g, 0)
		}
		copy(g.parents[i:], g.parents[i+1:])
		g.parents[len(g.parents)-1] = parent{}
		if i == 0 && !g.lacksParent() { // the second now counts
			g.sentWeight = 0
			s.updateWeight(g)
		}
		s.sweepLater(g)
		s.planHeartbeatSoon(l)
		s.dropIdleLater(l)
		return
	}
}

// reseat leaves the parents that are none to stay with, and looks for others.
func (s *Scribe) replaceParents(stays func(*group, *link) bool) {
	leaves := func(g *group) bool {
		return slices.ContainsFunc(g.parentEdges(), func(p parent) bool { return !stays(g, s.linkAt(p.link)) })
	}
	for _, g := range s.sortedGroups(leaves) {
		for _, p := range slices.Clone(g.parentEdges()) {
			if l := s.linkAt(p.link); !stays(g, l) {
				s.leaveParent(g, l)
			}
		}
		s.searchParent(g)
	}
}
