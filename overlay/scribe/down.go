package scribe

import (
	"bytes"
	"math"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A wish is what a child-to-be asks for.
type wish struct {
	weight uint32
	edge   uint64
	have   []uint64 // messages it has had lately
	avoid  [][]byte // ids of members below which it does not want to be
}

func wishOf(j *scribepb.Join) wish { return wish{j.Weight, j.Edge, j.Have, j.Avoid} }

// onJoin takes a Join that was sent to this node by name.
func (s *Scribe) onJoin(c *overlay.Contact, id overlay.ID, w wish) {
	g := s.groups.Get(id)
	switch {
	case s.node.State() != overlay.Active:
		s.decline(c, id)
	case !c.Member && !s.node.ActsFor(c.Peer.ID):
		s.decline(c, id)
	case !c.Member:
		s.accept(s.group(id), c, w, true)
	case g == nil || !overlay.Nearer(id, s.node.ID(), c.ID) && !plant.Cycle:
		s.decline(c, id)
	default:
		s.accept(g, c, w, true)
	}
}

func (s *Scribe) decline(c *overlay.Contact, id overlay.ID) {
	s.tell(c.Peer, word{kind: aDrop, group: id})
}

// accept takes a child on, or sends it on to one of the children when there are
// enough. A Join that came along the route can be anybody's: it may make an edge,
// which its child will part from if it did not ask for it, but it changes none;
// a child that is known is asked to say so itself, unless it asks for the edge it has.
func (s *Scribe) accept(g *group, c *overlay.Contact, w wish, direct bool) {
	weight := s.clamp(w.weight)
	known := g.child(s.links[c.Peer.ID])
	if known != nil && !direct {
		if w.edge == known.edge {
			s.tell(c.Peer, word{kind: anAccept, group: g.id, edge: w.edge})
		} else {
			s.sendRedirect(g, c.Peer, s.node.Self())
		}
		return
	}
	full := known == nil && c.Member && len(g.children) >= crowd*s.cfg.FanOut
	if full || known == nil && c.Member && s.nearer(g, c.ID) >= s.cfg.FanOut {
		if to := s.pick(g, s.staying(g, s.cfg.FanOut), c.ID, w.avoid); to != nil {
			s.redirect(g, c.Peer, to)
			return
		}
	}
	l := s.link(c)
	if full || known == nil && len(l.down.of) >= maxEdges {
		s.decline(c, g.id)
		return
	}
	if known == nil {
		g.children = append(g.children, child{link: l.number, edge: w.edge, weight: weight, client: !c.Member, since: s.now()})
		l.down.add(s.groups, g, weight)
		l.renewed = s.now()
		s.lookIn(l, leaseBeats*s.cfg.BeatInterval)
		s.stir(l)
	} else {
		l.down.change(g, known.weight, weight)
		if known.client && c.Member {
			s.lookAfter(g) // with members below it alone it may be of no use
		}
		known.edge, known.weight, known.moving, known.client = w.edge, weight, false, !c.Member
		known.since = s.now()
	}
	s.tell(c.Peer, word{kind: anAccept, group: g.id, edge: w.edge})
	s.catchUp(g, l, w.have)
	s.weigh(g)
	s.pushSoon(g)
	s.seekParent(g)
}

// catchUp gives a child what it lacks of what is kept.
func (s *Scribe) catchUp(g *group, l *link, have []uint64) {
	for _, r := range s.recent[g.id] {
		age := s.clock.Now().Sub(r.at)
		if age < recentLife && !slices.Contains(have, r.id) {
			s.sendDown(l, g.id, r.id, aged(r.frame, age))
		}
	}
}

// clamp bounds a weight by that of all nodes together.
func (s *Scribe) clamp(weight uint32) uint32 {
	if weight <= uint32(s.cfg.MaxWeight) {
		return weight // there is one node at least; to count them takes longer
	}
	return uint32(min(uint64(weight), uint64(s.cfg.MaxWeight)*uint64(max(s.node.Count(0), 1))))
}

// nearer counts the member children that are nearer to the key than an id.
func (s *Scribe) nearer(g *group, id overlay.ID) (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving && overlay.Nearer(g.id, s.numbered(c.link).contact.ID, id) {
			count++
		}
	}
	return count
}

// staying returns the n member children nearest to the key, the nearest first, of those that
// were not asked to move.
func (s *Scribe) staying(g *group, n int) []*child {
	of := make([]*child, 0, len(g.children))
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b *child) int {
		if overlay.Nearer(g.id, s.numbered(a.link).contact.ID, s.numbered(b.link).contact.ID) {
			return -1
		}
		return 1
	})
	return of[:min(len(of), n)]
}

// pick chooses the child under which another is to hang: nearer to the key than
// that one, none that it avoids, and with the least below it.
func (s *Scribe) pick(g *group, of []*child, below overlay.ID, avoid [][]byte) *child {
	var best *child
	for _, c := range of {
		id := s.numbered(c.link).contact.ID
		if overlay.Nearer(g.id, id, below) && !slices.ContainsFunc(avoid, func(a []byte) bool { return bytes.Equal(a, id[:]) }) &&
			(best == nil || c.weight+uint32(c.given) < best.weight+uint32(best.given)) {
			best = c
		}
	}
	return best
}

func (s *Scribe) redirect(g *group, who env.Peer, to *child) {
	if to.given < math.MaxUint16 {
		to.given++
	}
	s.stats.Pushed++
	s.sendRedirect(g, who, s.numbered(to.link).contact)
}

func (s *Scribe) sendRedirect(g *group, who env.Peer, to *overlay.Contact) {
	s.tell(who, word{kind: aRedirect, group: g.id, who: to})
}

// pushSoon has children pushed down soon if there are more than the fan-out.
func (s *Scribe) pushSoon(g *group) {
	if !g.crowded && g.members() > s.cfg.FanOut {
		g.crowded = true
		s.cal.Add(s.together(s.clock.Now(), pushDelay), task{kind: taskCrowd, of: g.number})
	}
}

// pushDown asks the farthest children to move below nearer ones as long as there
// are more than the fan-out. A child stays one until it has its new parent.
func (s *Scribe) pushDown(g *group) {
	now := s.now()
	for i := range g.children {
		if c := &g.children[i]; c.moving && now.sub(c.since) >= pushPause {
			c.moving = false // it did not find its way; ask somebody again
		}
	}
	if g.members() > s.cfg.FanOut {
		all := s.staying(g, len(g.children))
		stay := all[:s.cfg.FanOut]
		for _, far := range slices.Backward(all[s.cfg.FanOut:]) {
			far.moving, far.since = true, now
			c := s.numbered(far.link).contact
			s.redirect(g, c.Peer, s.pick(g, stay, c.ID, nil))
		}
	}
	if !g.pushing && slices.ContainsFunc(g.children, func(c child) bool { return c.moving }) {
		g.pushing = true
		s.after(pushPause, task{kind: taskPush, of: g.number})
	}
}

// forgetChild ends an edge down.
func (s *Scribe) forgetChild(g *group, l *link) {
	g.children = slices.DeleteFunc(g.children, func(c child) bool {
		if c.link != l.number {
			return false
		}
		l.down.remove(s.groups, g, c.weight)
		return true
	})
	if len(g.children) == 0 {
		g.children = nil
	}
	s.lookAfter(g)
	s.stir(l)
	s.unused(l)
	s.weigh(g)
}

// prune ends what a node has no use for: the whole group, or forwarding for
// children that the parent has room for.
func (s *Scribe) prune(g *group) {
	if !g.idle() {
		return
	}
	if len(g.children) == 0 {
		if g.root && len(s.recent[g.id]) > 0 {
			return // children may still come from a lost root
		}
		for _, p := range slices.Backward(g.above()) {
			s.leaveParent(g, s.numbered(p.link))
		}
		s.forgetRecent(g, len(s.recent[g.id]))
		s.groups.Delete(g.id)
		return
	}
	now := uint32(s.clock.Now().Unix())
	if len(g.above()) > 0 && (g.offered == 0 || time.Duration(now-g.offered)*time.Second >= s.cfg.BeatInterval) {
		g.offered = now
		s.send(s.numbered(g.parents[0].link).contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g.id[:]}}})
	}
}

// onOffer answers how many more children there is room for; or hands on as many
// as the parent has said.
func (s *Scribe) onOffer(l *link, m *scribepb.Offer) {
	g := s.groups.Get(overlay.ID(m.Group))
	if g == nil || l == nil {
		return
	}
	if !m.Reply {
		if g.child(l) != nil {
			s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{
				Group: m.Group, Room: uint32(max(s.cfg.FanOut-g.members(), 0)), Reply: true,
			}}})
		}
		return
	}
	if g.parents[0].link != l.number || !g.idle() {
		return
	}
	for i := range min(int(m.Room), len(g.children)) {
		s.sendRedirect(g, s.numbered(g.children[i].link).contact.Peer, l.contact)
	}
}

// childLost ends all edges down to a peer.
func (s *Scribe) childLost(l *link) {
	for _, number := range slices.Clone(l.down.of) {
		g := s.groups.At(number)
		s.forgetChild(g, l)
		s.prune(g)
	}
}
