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
type sought struct {
	seeking bool // it has none: it asks until it has
	due     time.Time
	tries   int
	sentOn  int        // Redirects followed since it asked along the route
	asking  uint64     // names the edge that is to be
	told    uint32     // the weight that goes with that name, however often it is asked for
	target  env.PeerID // the parent asked by name, if any
	root    env.PeerID // of the group, as a look-up found it, which is asked by name
}

// seeking says that the node asks for a parent until it has one.
func (g *group) seeking() bool { return g.sought != nil && g.sought.seeking }

// seek looks for a parent: along the route to the root, or, for a client, at the
// members that act for it.
func (s *Scribe) seek(g *group) {
	g.sought = &sought{seeking: true, asking: s.rand.Uint64() | 1, told: g.weight()}
	s.seekNow(g)
}

// seekParent makes sure that a node with a part in a tree has a parent or looks for
// one.
func (s *Scribe) seekParent(g *group) {
	if g.orphan() && !g.seeking() && (g.own > 0 || len(g.children) > 0) {
		s.seek(g)
	}
}

func (s *Scribe) seekAgain(g *group, now time.Time) {
	if !g.seeking() || now.Before(g.sought.due) {
		return
	}
	if g.sought.tries < 8 {
		g.sought.tries++
	}
	s.seekNow(g)
}

func (s *Scribe) seekNow(g *group) {
	hosts := s.node.Hosts()
	client := s.node.State() == overlay.Attached
	if g.root || !client && !g.orphan() || g.own == 0 && len(g.children) == 0 {
		g.sought = nil
		return
	}
	if !client && s.node.State() != overlay.Active {
		return // until it is one or the other; see LeafChanged
	}
	q := g.sought
	q.due = s.clock.Now().Add(s.spread(min(joinPatience<<q.tries, joinPauseMax)))
	s.cal.Add(q.due, task{kind: taskSeek, of: g.number})
	q.target, q.sentOn = "", 0
	s.stats.Joins++
	if !client {
		if avoid := s.avoided(g); len(avoid) > 0 {
			s.askAround(g, avoid)
		} else {
			s.askAlong(g)
		}
		return
	}
	complete, first := true, g.orphan()
	for _, h := range hosts {
		if g.parent(s.links[h.Peer.ID]) == nil {
			complete = false
			s.ask(g, h.Peer, g.share(first))
			first = false
		}
	}
	if complete {
		g.sought = nil
	}
}

// share is the weight told to a parent: the first is told all of it.
func (g *group) share(first bool) uint32 {
	if first {
		return g.weight()
	}
	return 0
}

// askAlong asks along the route to the root. The first time this goes together with others,
// if the next hop is known; what came to nothing is asked again alone.
func (s *Scribe) askAlong(g *group) {
	if g.sought.tries == 0 && len(s.recent[g.id]) == 0 {
		if next, _ := s.node.NextHop(g.id); next != nil {
			s.tell(next.Peer, word{kind: aWay, group: g.id, edge: g.sought.asking, weight: g.sought.told, who: s.node.Self()})
			return
		}
	}
	s.routeJoin(g)
}

func (s *Scribe) routeJoin(g *group) {
	s.node.Route(wire.Scribe, g.id, encode(s.join(g, g.sought.told)), func(overlay.Receipt, bool) {})
}

// ask asks a parent by name.
func (s *Scribe) ask(g *group, to env.Peer, weight uint32) {
	if len(s.recent[g.id]) > 0 {
		s.send(to, s.join(g, weight))
		return
	}
	s.tell(to, word{kind: aJoin, group: g.id, edge: g.sought.asking, weight: weight})
}

// join is a Join that goes alone.
func (s *Scribe) join(g *group, weight uint32) *scribepb.Message {
	j := &scribepb.Join{Group: g.id[:], Record: s.node.Self().Raw, Weight: weight, Edge: g.sought.asking}
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
	if g == nil || g.root || !to.Member || s.node.State() != overlay.Active || s.shuns(g.id, to.Peer.ID) {
		return nil
	}
	current := !g.orphan()
	if current && s.numbered(g.parents[0].link).contact.Peer.ID != from || !current && (!g.seeking() || g.sought.sentOn >= maxRedirects) ||
		!overlay.Nearer(g.id, to.ID, s.node.ID()) {
		return nil
	}
	now := s.clock.Now()
	if current && g.sought != nil && g.sought.target == from && now.Before(g.sought.due) {
		return nil // it said so before it knew the name by which the edge is asked for again
	}
	if g.sought == nil {
		g.sought = &sought{}
	}
	q := g.sought
	q.target, q.asking, q.told = to.Peer.ID, s.rand.Uint64()|1, g.weight()
	q.due = now.Add(joinPatience) // give the named parent its time to answer
	if !current {
		q.sentOn++
		s.cal.Add(q.due, task{kind: taskSeek, of: g.number})
	}
	s.stats.Joins++
	s.link(to) // so that Accept finds who it is from
	s.ask(g, to.Peer, q.told)
	return nil
}

// onAccept takes the parent that has accepted this node.
func (s *Scribe) onAccept(c *overlay.Contact, id overlay.ID, edge uint64) {
	if !s.takeParent(id, c, edge) {
		s.sendPart(c.Peer, id, edge)
	}
}

// takeParent makes the node that has accepted this one its parent, unless it has
// one, or that one cannot be, or the edge is not the one it asked for last.
func (s *Scribe) takeParent(id overlay.ID, c *overlay.Contact, edge uint64) bool {
	g := s.groups.Get(id)
	client := s.node.State() == overlay.Attached
	switch {
	case g == nil || g.root || g.own == 0 && len(g.children) == 0:
		return false
	case g.parent(s.links[c.Peer.ID]) != nil:
		if g.sought != nil && edge == g.sought.asking {
			s.askedAgain(g, s.links[c.Peer.ID])
		}
		return true
	case g.sought == nil || edge != g.sought.asking || len(g.above()) == len(g.parents):
		return false
	case s.shuns(id, c.Peer.ID) && g.sought.root != c.Peer.ID:
		return false // it stands in the way; see askAround
	case client:
		if !slices.ContainsFunc(s.node.Hosts(), func(h *overlay.Contact) bool { return h.ID == c.ID }) {
			return false
		}
	case !overlay.Nearer(id, c.ID, s.node.ID()) && !plant.Cycle:
		return false
	case !g.orphan() && g.sought.target != c.Peer.ID:
		return false // I have one
	case !g.orphan():
		s.leaveParent(g, s.numbered(g.parents[0].link))
	}
	l := s.link(c)
	n := len(g.above())
	g.parents[n] = parent{edge, l.number}
	told := g.sought.told // the weight may be another by now
	if client {
		told = g.share(n == 0)
	}
	l.up.add(s.groups, g, told)
	if n == 0 {
		g.sent = told
	}
	if g.sought.target = ""; !client {
		g.sought = nil
	}
	s.stir(l)
	s.weigh(g)
	s.prune(g)
	return true
}

// askedAgain notes that a parent has taken a Join as what it knows of an edge that was there:
// what it was told of the weight meanwhile may have come before that.
func (s *Scribe) askedAgain(g *group, l *link) {
	g.parent(l).edge = g.sought.asking
	if client := s.node.State() == overlay.Attached; !client {
		l.up.change(g, g.sent, g.sought.told)
		g.sent, g.sought = g.sought.told, nil
		s.weigh(g)
	}
}

// leaveParent ends an edge up and tells the parent.
func (s *Scribe) leaveParent(g *group, l *link) {
	edge := g.parent(l).edge
	s.forgetParent(g, l)
	s.sendPart(l.contact.Peer, g.id, edge)
}

// forgetParent ends an edge up.
func (s *Scribe) forgetParent(g *group, l *link) {
	for i, p := range g.above() {
		if p.link != l.number {
			continue
		}
		if i == 0 {
			l.up.remove(s.groups, g, g.sent)
		} else {
			l.up.remove(s.groups, g, 0)
		}
		copy(g.parents[i:], g.parents[i+1:])
		g.parents[len(g.parents)-1] = parent{}
		if i == 0 && !g.orphan() { // the second now counts
			g.sent = 0
			s.weigh(g)
		}
		s.lookAfter(g)
		s.stir(l)
		s.unused(l)
		return
	}
}

// reseat leaves the parents that are none to stay with, and looks for others.
func (s *Scribe) reseat(stays func(*group, *link) bool) {
	leaves := func(g *group) bool {
		return slices.ContainsFunc(g.above(), func(p parent) bool { return !stays(g, s.numbered(p.link)) })
	}
	for _, g := range s.sorted(leaves) {
		for _, p := range slices.Clone(g.above()) {
			if l := s.numbered(p.link); !stays(g, l) {
				s.leaveParent(g, l)
			}
		}
		s.seek(g)
	}
}
