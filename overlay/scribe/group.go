package scribe

import (
	"math"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A group is this node's part in one tree. A node has as many as it has subscriptions,
// so they are kept small, 120 bytes: what few have, and for a while, lies beside them.
type group struct {
	id         overlay.ID
	number     uint32    // among all groups
	ownWeight  uint32    // weight of the node's own subscription; 0: none
	sentWeight uint32    // weight last told to the first parent
	parents    [2]parent // the edges up come first; see above
	children   []child
	search     *parentSearch // nil: no parent is
	offeredAt  uint32        // when the parent was last asked to take the children, in seconds of Unix time; 0: never

	root             bool
	pushPlanned      bool // children are to be pushed down soon
	pushCheckPlanned bool // a look at children asked to move is due
	sweepQueued      bool // it is in Scribe.loose
}

// A parent is an edge up.
type parent struct {
	edge uint64 // its name
	link linkNumber
}

// A child is an edge down.
type child struct {
	edge       uint64 // its name
	since      moment // when it last said that it is one, or was asked to move
	link       linkNumber
	weight     uint32
	redirected uint16 // children sent to it
	client     bool
	moving     bool // it was asked to find another parent
}

// recent is a message that passed a while ago.
type recentMessage struct {
	id    uint64
	at    time.Time
	frame []byte
}

// above are the edges up: at most one; a client has up to two, and counts at the first.
func (g *group) parentEdges() []parent {
	n := 0
	for n < len(g.parents) && g.parents[n].link != noLink {
		n++
	}
	return g.parents[:n]
}

// orphan says that the node has no parent and is not the root.
func (g *group) lacksParent() bool { return !g.root && g.parents[0].link == noLink }

// keep keeps a message that passed, for children that come late.
func (s *Scribe) keep(g *group, r recentMessage) {
	if len(s.recent[g.id]) == maxRecent {
		s.forgetRecent(g, 1)
	}
	if s.keptBytes+len(r.frame) > maxKeptBytes {
		return
	}
	s.keptBytes += len(r.frame)
	s.recent[g.id] = append(s.recent[g.id], r)
	s.sweepLater(g)
}

// age forgets messages older than recentLife.
func (s *Scribe) forgetOld(g *group, now time.Time) {
	of := s.recent[g.id]
	i := 0
	for i < len(of) && now.Sub(of[i].at) > recentTTL {
		i++
	}
	s.forgetRecent(g, i)
}

// forgetRecent forgets the n oldest messages that are kept.
func (s *Scribe) forgetRecent(g *group, n int) {
	of := s.recent[g.id]
	for _, r := range of[:n] {
		s.keptBytes -= len(r.frame)
	}
	if of = slices.Delete(of, 0, n); len(of) == 0 {
		delete(s.recent, g.id)
		return
	}
	s.recent[g.id] = of
}

// lookAfter has the next sweep look at a group: it may be of no use, or lack a parent, or
// keep messages.
func (s *Scribe) sweepLater(g *group) {
	if !g.sweepQueued {
		g.sweepQueued = true
		s.toSweep = append(s.toSweep, g)
	}
}

// weight is the sum of the clients at and below the node.
func (g *group) weight() uint32 {
	w := uint64(g.ownWeight)
	for i := range g.children {
		w += uint64(g.children[i].weight)
	}
	return uint32(min(w, math.MaxUint32))
}

// idle says that the node has no subscription, and at most member children.
func (g *group) onlyForwards() bool {
	return g.ownWeight == 0 && !slices.ContainsFunc(g.children, func(c child) bool { return c.client })
}

// child returns the edge down on a link, or nil.
func (g *group) child(l *link) *child {
	if l == nil {
		return nil
	}
	for i := range g.children {
		if g.children[i].link == l.number {
			return &g.children[i]
		}
	}
	return nil
}

// parent returns the edge up on a link, or nil.
func (g *group) parent(l *link) *parent {
	if l == nil {
		return nil
	}
	for i := range g.parentEdges() {
		if g.parents[i].link == l.number {
			return &g.parents[i]
		}
	}
	return nil
}

// members counts the children that count against the fan-out.
func (g *group) countMembers() (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving {
			count++
		}
	}
	return count
}

// group returns the state of a group, making it if there is none.
func (s *Scribe) group(id overlay.ID) *group {
	g := s.groups.Get(id)
	if g == nil {
		var number uint32
		g, number = s.groups.Put(group{id: id})
		g.number = number
		s.sweepLater(g)
	}
	return g
}

// has says whether a group is still this node's, for who has kept it: if so, it may be another one by now.
func (s *Scribe) isCurrent(g *group) bool { return s.groups.Get(g.id) == g }

// onPart ends an edge that a peer has ended.
func (s *Scribe) onPrune(l *link, id overlay.ID, edge uint64) {
	g := s.groups.Get(id)
	if g == nil || l == nil {
		return
	}
	if c := g.child(l); c != nil && (edge == 0 || edge == c.edge) {
		s.forgetChild(g, l)
		s.dropIfUnused(g)
	}
	if p := g.parent(l); p != nil && (edge == 0 || edge == p.edge) {
		s.forgetParent(g, l)
		s.searchParent(g)
	}
}

// becomeRoot makes this node the root of a group: the overlay has delivered what
// was routed to the group's key.
func (s *Scribe) becomeRoot(g *group) {
	if g.root {
		return
	}
	for _, p := range slices.Backward(g.parentEdges()) {
		s.leaveParent(g, s.linkAt(p.link))
	}
	g.root, g.search = true, nil
}

// LeafChanged looks whether this node is still the root of what it is root of,
// and whether its parents may still be its parents: a client's are the members
// that act for it, a member's is nearer to the key.
func (s *Scribe) LeafChanged() {
	was := s.nodeState
	s.nodeState = s.node.State()
	switch s.nodeState {
	case overlay.Active:
		if was != overlay.Active { // until now there was no way to a parent
			for _, g := range s.sortedGroups((*group).lacksParent) {
				s.searchParent(g)
			}
		}
		for _, g := range s.sortedGroups(func(g *group) bool { return g.root && !s.node.IsRoot(g.id) }) {
			g.root = false
			s.sweepLater(g)
			s.searchParent(g)
			s.dropIfUnused(g)
		}
		s.replaceParents(func(g *group, l *link) bool { return overlay.Nearer(g.id, l.contact.ID, s.node.ID()) })
	case overlay.Attached:
		hosts := s.node.Hosts()
		for _, g := range s.sortedGroups(func(*group) bool { return true }) {
			g.root = false
			s.sweepLater(g)
			for len(g.children) > 0 { // a client has none
				c, l := g.children[0], s.linkAt(g.children[0].link)
				s.sendPrune(l.contact.Peer, g.id, c.edge)
				s.forgetChild(g, l)
			}
			s.dropIfUnused(g)
		}
		s.replaceParents(func(_ *group, l *link) bool {
			return slices.ContainsFunc(hosts, func(h *overlay.Contact) bool { return h.Peer.ID == l.contact.Peer.ID })
		})
		for _, g := range s.sortedGroups(func(g *group) bool { return len(g.parentEdges()) < len(hosts) }) {
			s.searchParent(g)
		}
	case overlay.Alone, overlay.Joining, overlay.Left:
	}
}

// PeerGone ends all edges to a peer that is dead or has left.
func (s *Scribe) PeerGone(id env.PeerID) {
	l := s.links[id]
	if l == nil {
		return
	}
	l.transfer = nil
	for _, number := range slices.Clone(l.up.groups) {
		g := s.groups.At(number)
		s.forgetParent(g, l)
		s.searchParent(g)
	}
	s.dropChildren(l)
	s.dropIdle(l)
}
