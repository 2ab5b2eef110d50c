package scribe

import (
	"math"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A group is this node's part in one tree. A node has as many groups as subscriptions, so they are
// kept small, 120 bytes: rare and temporary state is kept elsewhere.
type group struct {
	id         overlay.ID
	number     uint32    // in Scribe.groups
	ownWeight  uint32    // clients behind the node's own subscription; 0: no subscription
	sentWeight uint32    // weight as last sent to the first parent
	parents    [2]parent // used entries first; see parentEdges
	children   []child
	search     *parentSearch // the search for a parent; nil: none
	offeredAt  uint32        // when the node last sent an Offer to the parent, in seconds of Unix time; 0: never

	root             bool
	pushPlanned      bool // pushDown is planned
	pushCheckPlanned bool // a check of children that were asked to move is planned
	sweepQueued      bool // in Scribe.toSweep
}

// A parent is the edge to a parent.
type parent struct {
	edge uint64 // id chosen by this node
	link linkNumber
}

// A child is the edge to a child.
type child struct {
	edge       uint64 // id chosen by the child
	since      moment // when it last joined, or was asked to move
	link       linkNumber
	weight     uint32
	redirected uint16 // children redirected to it
	client     bool
	moving     bool // it was asked to move to another parent
}

// A recentMessage is a message that was forwarded not long ago.
type recentMessage struct {
	id    uint64
	at    time.Time
	frame []byte
}

// parentEdges returns the edges to parents: at most one, or two for a client, of which the first
// counts its weight.
func (g *group) parentEdges() []parent {
	n := 0
	for n < len(g.parents) && g.parents[n].link != noLink {
		n++
	}
	return g.parents[:n]
}

// lacksParent says whether the node has no parent and is not the root.
func (g *group) lacksParent() bool { return !g.root && g.parents[0].link == noLink }

// keep keeps a forwarded message for children that come later, if maxKeptBytes allows.
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

// forgetOld drops messages older than recentTTL.
func (s *Scribe) forgetOld(g *group, now time.Time) {
	of := s.recent[g.id]
	i := 0
	for i < len(of) && now.Sub(of[i].at) > recentTTL {
		i++
	}
	s.forgetRecent(g, i)
}

// forgetRecent drops the n oldest messages that are kept.
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

// sweepLater has the next sweep check a group that may be unused, lack a parent, or keep messages.
func (s *Scribe) sweepLater(g *group) {
	if !g.sweepQueued {
		g.sweepQueued = true
		s.toSweep = append(s.toSweep, g)
	}
}

// weight returns the number of clients at and below the node.
func (g *group) weight() uint32 {
	w := uint64(g.ownWeight)
	for i := range g.children {
		w += uint64(g.children[i].weight)
	}
	return uint32(min(w, math.MaxUint32))
}

// onlyForwards says whether the node has neither a subscription nor clients as children.
func (g *group) onlyForwards() bool {
	return g.ownWeight == 0 && !slices.ContainsFunc(g.children, func(c child) bool { return c.client })
}

// child returns the edge to the child on a link, or nil.
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

// parent returns the edge to the parent on a link, or nil.
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

// countMembers returns the number of children that count towards the fan-out.
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

// isCurrent says whether a pointer to a group is still valid. The memory of a removed group may be
// reused.
func (s *Scribe) isCurrent(g *group) bool { return s.groups.Get(g.id) == g }

// onPrune ends an edge that the peer has ended.
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

// becomeRoot makes this node the root of a group, after the overlay delivered a message for the
// group's key.
func (s *Scribe) becomeRoot(g *group) {
	if g.root {
		return
	}
	for _, p := range slices.Backward(g.parentEdges()) {
		s.leaveParent(g, s.linkAt(p.link))
	}
	g.root, g.search = true, nil
}

// LeafChanged checks whether this node is still the root of its groups, and whether its parents are
// still valid: the parents of a client are the members that act for it, the parent of a member is
// nearer to the key.
func (s *Scribe) LeafChanged() {
	was := s.nodeState
	s.nodeState = s.node.State()
	switch s.nodeState {
	case overlay.Active:
		if was != overlay.Active { // a search could not reach a parent until now
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
			for len(g.children) > 0 { // a client has no children
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

// PeerGone ends all edges to a peer that died or left.
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
