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

// A parentSearch is the state of a search for a parent, or for a better one.
type parentSearch struct {
	required  bool // the node has no parent, and tries until it has one
	due       time.Time
	tries     int
	redirects int        // redirects followed since the last Join along the route
	edge      uint64     // id of the edge in the Joins of this search
	weight    uint32     // weight in all Joins with this id
	target    env.PeerID // the parent that was asked directly; empty: none
	root      env.PeerID // root of the group, if it was looked up and asked directly
}

// searching says whether the node tries to find a parent until it has one.
func (g *group) searching() bool { return g.search != nil && g.search.required }

// searchParent searches for a parent: along the route to the root, or, for a client, among the members
// that act for it.
func (s *Scribe) searchParent(g *group) {
	g.search = &parentSearch{required: true, edge: s.rand.Uint64() | 1, weight: g.weight()}
	s.searchNow(g)
}

// ensureParent starts a search if a node with a part in a tree has no parent.
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
		return // the node is joining; LeafChanged continues
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

// weightFor returns the weight to report to a parent: all of it to the first, 0 to the second.
func (g *group) weightFor(first bool) uint32 {
	if first {
		return g.weight()
	}
	return 0
}

// joinAlongRoute sends a Join along the route to the root. The first attempt shares a Batch with
// other Joins if the next hop is known. Later attempts are routed one by one, with
// acknowledgements.
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

// sendJoin asks one parent directly.
func (s *Scribe) sendJoin(g *group, to env.Peer, weight uint32) {
	if len(s.recent[g.id]) > 0 {
		s.send(to, s.joinMessage(g, weight))
		return
	}
	s.enqueue(to, batchEntry{kind: entryJoin, group: g.id, edge: g.search.edge, weight: weight})
}

// joinMessage returns a Join as a message of its own.
func (s *Scribe) joinMessage(g *group, weight uint32) *scribepb.Message {
	j := &scribepb.Join{Group: g.id[:], Record: s.node.Self().Raw, Weight: weight, Edge: g.search.edge}
	for _, r := range s.recent[g.id] {
		j.Have = append(j.Have, r.id)
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: j}}
}

// onRedirect moves this node below another parent, if that one is nearer to the key. The old edge
// remains until the new one is accepted.
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
		return nil // the parent sent this before it received the latest Join, and does not know the new id of the edge
	}
	if g.search == nil {
		g.search = &parentSearch{}
	}
	q := g.search
	q.target, q.edge, q.weight = to.Peer.ID, s.rand.Uint64()|1, g.weight()
	q.due = now.Add(joinTimeout) // time for the other parent to answer
	if !current {
		q.redirects++
		s.cal.Add(q.due, task{kind: taskJoinRetry, number: g.number})
	}
	s.stats.Joins++
	s.link(to) // so that the sender of Accept is known
	s.sendJoin(g, to.Peer, q.weight)
	return nil
}

// onAccept makes the sender the parent, or prunes the edge.
func (s *Scribe) onAccept(c *overlay.Contact, id overlay.ID, edge uint64) {
	if !s.acceptParent(id, c, edge) {
		s.sendPrune(c.Peer, id, edge)
	}
}

// acceptParent makes a node that accepted this one its parent. It refuses if there is a parent
// already, if the node cannot be one, or if the edge is not of the latest Join.
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
		return false // a blocked member on the route; see joinAtRoot
	case client:
		if !slices.ContainsFunc(s.node.Hosts(), func(h *overlay.Contact) bool { return h.ID == c.ID }) {
			return false
		}
	case !overlay.Nearer(id, c.ID, s.node.ID()) && !plant.Cycle:
		return false
	case !g.lacksParent() && g.search.target != c.Peer.ID:
		return false // there is a parent already
	case !g.lacksParent():
		s.leaveParent(g, s.linkAt(g.parents[0].link))
	}
	l := s.link(c)
	n := len(g.parentEdges())
	g.parents[n] = parent{edge, l.number}
	told := g.search.weight // the weight may have changed since the Join
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

// confirmParent handles the Accept of a repeated Join by a parent that had the edge already. The
// parent now has the id and the weight of that Join, whatever weights were sent meanwhile.
func (s *Scribe) confirmParent(g *group, l *link) {
	g.parent(l).edge = g.search.edge
	if client := s.node.State() == overlay.Attached; !client {
		l.up.change(g, g.sentWeight, g.search.weight)
		g.sentWeight, g.search = g.search.weight, nil
		s.updateWeight(g)
	}
}

// leaveParent ends an edge to a parent, and tells the parent.
func (s *Scribe) leaveParent(g *group, l *link) {
	edge := g.parent(l).edge
	s.forgetParent(g, l)
	s.sendPrune(l.contact.Peer, g.id, edge)
}

// forgetParent ends an edge to a parent without telling it.
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
		if i == 0 && !g.lacksParent() { // the second parent becomes the first
			g.sentWeight = 0
			s.updateWeight(g)
		}
		s.sweepLater(g)
		s.planHeartbeatSoon(l)
		s.dropIdleLater(l)
		return
	}
}

// replaceParents leaves the parents for which stays is false, and looks for others.
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
