package scribe

import (
	"math"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A group is this node's part in one tree.
type group struct {
	id       overlay.ID
	own      uint32 // weight of the node's own subscription; 0: none
	root     bool
	parents  []parent // at most one; a client has up to two, and counts at the first
	children []child
	sent     uint32 // weight last told to the first parent
	recent   []recent

	seeking bool
	seekDue time.Time
	tries   int
	sentOn  int        // Redirects followed since it asked along the route
	asking  uint64     // names the edge that is sought
	target  env.PeerID // the parent asked by name, if any

	pushing bool      // a look at children asked to move is due
	offered time.Time // when the parent was last asked to take the children
}

// A parent is an edge up.
type parent struct {
	link *link
	edge uint64 // its name
}

// A child is an edge down.
type child struct {
	link   *link
	edge   uint64 // its name
	weight uint32
	client bool
	since  time.Time // when it last said that it is one
	given  uint32    // children sent to it
	moving time.Time // when it was asked to find another parent; zero: it was not
}

// recent is a message that passed a while ago.
type recent struct {
	id    uint64
	at    time.Time
	frame []byte
}

// keep keeps a message that passed, for children that come late.
func (s *Scribe) keep(g *group, r recent) {
	if len(g.recent) == maxRecent {
		s.forgetRecent(g, 1)
	}
	if s.kept+len(r.frame) > maxKept {
		return
	}
	s.kept += len(r.frame)
	g.recent = append(g.recent, r)
}

// age forgets messages older than recentLife.
func (s *Scribe) age(g *group, now time.Time) {
	i := 0
	for i < len(g.recent) && now.Sub(g.recent[i].at) > recentLife {
		i++
	}
	s.forgetRecent(g, i)
}

// forgetRecent forgets the n oldest messages that are kept.
func (s *Scribe) forgetRecent(g *group, n int) {
	for _, r := range g.recent[:n] {
		s.kept -= len(r.frame)
	}
	if g.recent = slices.Delete(g.recent, 0, n); len(g.recent) == 0 {
		g.recent = nil
	}
}

// weight is the sum of the clients at and below the node.
func (g *group) weight() uint32 {
	w := uint64(g.own)
	for i := range g.children {
		w += uint64(g.children[i].weight)
	}
	return uint32(min(w, math.MaxUint32))
}

// idle says that the node has no subscription, and at most member children.
func (g *group) idle() bool {
	return g.own == 0 && !slices.ContainsFunc(g.children, func(c child) bool { return c.client })
}

// child returns the edge down on a link, or nil.
func (g *group) child(l *link) *child {
	for i := range g.children {
		if g.children[i].link == l {
			return &g.children[i]
		}
	}
	return nil
}

// parent returns the edge up on a link, or nil.
func (g *group) parent(l *link) *parent {
	for i := range g.parents {
		if g.parents[i].link == l {
			return &g.parents[i]
		}
	}
	return nil
}

// members counts the children that count against the fan-out.
func (g *group) members() (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && c.moving.IsZero() {
			count++
		}
	}
	return count
}

// group returns the state of a group, making it if there is none.
func (s *Scribe) group(id overlay.ID) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id}
		s.groups[id] = g
	}
	return g
}

func (s *Scribe) onPart(l *link, m *scribepb.Part) {
	g := s.groups[overlay.ID(m.Group)]
	if g == nil || l == nil {
		return
	}
	if c := g.child(l); c != nil && (m.Edge == 0 || m.Edge == c.edge) {
		s.forgetChild(g, l)
		s.prune(g)
	}
	if p := g.parent(l); p != nil && (m.Edge == 0 || m.Edge == p.edge) {
		s.forgetParent(g, l)
		s.seek(g)
	}
}

// becomeRoot makes this node the root of a group: the overlay has delivered what
// was routed to the group's key.
func (s *Scribe) becomeRoot(g *group) {
	if g.root {
		return
	}
	for len(g.parents) > 0 {
		s.leaveParent(g, g.parents[0].link)
	}
	g.root, g.seeking, g.target = true, false, ""
}

// LeafChanged looks whether this node is still the root of what it is root of,
// and whether its parents may still be its parents: a client's are the members
// that act for it, a member's is nearer to the key.
func (s *Scribe) LeafChanged() {
	was := s.state
	s.state = s.node.State()
	switch s.state {
	case overlay.Active:
		if was != overlay.Active { // until now there was no way to a parent
			for _, g := range s.sorted(func(g *group) bool { return !g.root && len(g.parents) == 0 }) {
				s.seek(g)
			}
		}
		for _, g := range s.sorted(func(g *group) bool { return g.root && !s.node.IsRoot(g.id) }) {
			g.root = false
			s.seek(g)
			s.prune(g)
		}
		s.reseat(func(g *group, l *link) bool { return overlay.Nearer(g.id, l.contact.ID, s.node.ID()) })
	case overlay.Attached:
		hosts := s.node.Hosts()
		for _, g := range s.sorted(func(*group) bool { return true }) {
			g.root = false
			for len(g.children) > 0 { // a client has none
				c := g.children[0]
				s.sendPart(c.link.peer, g.id, c.edge)
				s.forgetChild(g, c.link)
			}
			s.prune(g)
		}
		s.reseat(func(_ *group, l *link) bool {
			return slices.ContainsFunc(hosts, func(h *overlay.Contact) bool { return h.Peer.ID == l.peer.ID })
		})
		for _, g := range s.sorted(func(g *group) bool { return len(g.parents) < len(hosts) }) {
			s.seek(g)
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
	l.out, l.queue = nil, nil
	for _, g := range slices.Clone(l.up.of) {
		s.forgetParent(g, l)
		s.seek(g)
	}
	s.childLost(l)
	s.dropIdle(l)
}
