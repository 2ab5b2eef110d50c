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

// A joinRequest holds the fields of a Join that concern the parent.
type joinRequest struct {
	weight uint32
	edge   uint64
	have   []uint64 // ids of messages that the child received lately
	avoid  [][]byte // ids of members that it does not want as parents
}

func requestOf(j *scribepb.Join) joinRequest { return joinRequest{j.Weight, j.Edge, j.Have, j.Avoid} }

// onJoin handles a Join that was sent to this node directly.
func (s *Scribe) onJoin(c *overlay.Contact, id overlay.ID, w joinRequest) {
	g := s.groups.Get(id)
	switch {
	case s.node.State() != overlay.Active:
		s.reject(c, id)
	case !c.Member && !s.node.ActsFor(c.Peer.ID):
		s.reject(c, id)
	case !c.Member:
		s.accept(s.group(id), c, w, true)
	case g == nil || !overlay.Nearer(id, s.node.ID(), c.ID) && !plant.Cycle:
		s.reject(c, id)
	default:
		s.accept(g, c, w, true)
	}
}

func (s *Scribe) reject(c *overlay.Contact, id overlay.ID) {
	s.enqueue(c.Peer, batchEntry{kind: entryReject, group: id})
}

// accept makes a node a child, or redirects it to one of the children if there are enough. A Join
// that came along the route may be forged. It may make an edge, which the named child prunes if it
// did not ask for it, but it changes no existing edge: the child is redirected to this node to ask
// directly, unless the id of the edge is the same.
func (s *Scribe) accept(g *group, c *overlay.Contact, w joinRequest, direct bool) {
	weight := s.clamp(w.weight)
	known := g.child(s.links[c.Peer.ID])
	if known != nil && !direct {
		if w.edge == known.edge {
			s.enqueue(c.Peer, batchEntry{kind: entryAccept, group: g.id, edge: w.edge})
		} else {
			s.sendRedirect(g, c.Peer, s.node.Self())
		}
		return
	}
	full := known == nil && c.Member && len(g.children) >= crowdFactor*s.cfg.FanOut
	if full || known == nil && c.Member && s.countNearer(g, c.ID) >= s.cfg.FanOut {
		if to := s.pickParent(g, s.stayingChildren(g, s.cfg.FanOut), c.ID, w.avoid); to != nil {
			s.redirect(g, c.Peer, to)
			return
		}
	}
	l := s.link(c)
	if full || known == nil && len(l.down.groups) >= maxEdges {
		s.reject(c, g.id)
		return
	}
	if known == nil {
		g.children = append(g.children, child{link: l.number, edge: w.edge, weight: weight, client: !c.Member, since: s.now()})
		l.down.add(s.groups, g, weight)
		l.renewedAt = s.now()
		s.checkLinkIn(l, leasePeriods*s.cfg.HeartbeatInterval)
		s.planHeartbeatSoon(l)
	} else {
		l.down.change(g, known.weight, weight)
		if known.client && c.Member {
			s.sweepLater(g) // with only member children the group may be unused
		}
		known.edge, known.weight, known.moving, known.client = w.edge, weight, false, !c.Member
		known.since = s.now()
	}
	s.enqueue(c.Peer, batchEntry{kind: entryAccept, group: g.id, edge: w.edge})
	s.catchUp(g, l, w.have)
	s.updateWeight(g)
	s.pushSoon(g)
	s.ensureParent(g)
}

// catchUp sends a child the kept messages that it lacks.
func (s *Scribe) catchUp(g *group, l *link, have []uint64) {
	for _, r := range s.recent[g.id] {
		age := s.clock.Now().Sub(r.at)
		if age < recentTTL && !slices.Contains(have, r.id) {
			s.sendMulticast(l, g.id, r.id, withAge(r.frame, age))
		}
	}
}

// clamp bounds a weight by that of all nodes of the network together.
func (s *Scribe) clamp(weight uint32) uint32 {
	if weight <= uint32(s.cfg.MaxWeight) {
		return weight // there is at least one node, and counting is slow
	}
	return uint32(min(uint64(weight), uint64(s.cfg.MaxWeight)*uint64(max(s.node.Count(0), 1))))
}

// countNearer returns the number of member children that are nearer to the key than an id.
func (s *Scribe) countNearer(g *group, id overlay.ID) (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving && overlay.Nearer(g.id, s.linkAt(c.link).contact.ID, id) {
			count++
		}
	}
	return count
}

// stayingChildren returns the n member children nearest to the key that were not asked to move, the
// nearest first.
func (s *Scribe) stayingChildren(g *group, n int) []*child {
	of := make([]*child, 0, len(g.children))
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b *child) int {
		if overlay.Nearer(g.id, s.linkAt(a.link).contact.ID, s.linkAt(b.link).contact.ID) {
			return -1
		}
		return 1
	})
	return of[:min(len(of), n)]
}

// pickParent returns the child below which another node should join: nearer to the key than that
// node, not avoided by it, and with the least weight. It returns nil if there is none.
func (s *Scribe) pickParent(g *group, of []*child, below overlay.ID, avoid [][]byte) *child {
	var best *child
	for _, c := range of {
		id := s.linkAt(c.link).contact.ID
		if overlay.Nearer(g.id, id, below) && !slices.ContainsFunc(avoid, func(a []byte) bool { return bytes.Equal(a, id[:]) }) &&
			(best == nil || c.weight+uint32(c.redirected) < best.weight+uint32(best.redirected)) {
			best = c
		}
	}
	return best
}

func (s *Scribe) redirect(g *group, who env.Peer, to *child) {
	if to.redirected < math.MaxUint16 {
		to.redirected++
	}
	s.stats.Pushed++
	s.sendRedirect(g, who, s.linkAt(to.link).contact)
}

func (s *Scribe) sendRedirect(g *group, who env.Peer, to *overlay.Contact) {
	s.enqueue(who, batchEntry{kind: entryRedirect, group: g.id, contact: to})
}

// pushSoon plans pushDown if there are more children than the fan-out.
func (s *Scribe) pushSoon(g *group) {
	if !g.pushPlanned && g.countMembers() > s.cfg.FanOut {
		g.pushPlanned = true
		s.cal.Add(s.align(s.clock.Now(), pushDelay), task{kind: taskPushDown, number: g.number})
	}
}

// pushDown redirects the farthest children to nearer ones until the fan-out is kept. A child
// remains one until it has its new parent.
func (s *Scribe) pushDown(g *group) {
	now := s.now()
	for i := range g.children {
		if c := &g.children[i]; c.moving && now.sub(c.since) >= pushTimeout {
			c.moving = false // it found no other parent; a child may be asked again
		}
	}
	if g.countMembers() > s.cfg.FanOut {
		all := s.stayingChildren(g, len(g.children))
		stay := all[:s.cfg.FanOut]
		for _, far := range slices.Backward(all[s.cfg.FanOut:]) {
			far.moving, far.since = true, now
			c := s.linkAt(far.link).contact
			s.redirect(g, c.Peer, s.pickParent(g, stay, c.ID, nil))
		}
	}
	if !g.pushCheckPlanned && slices.ContainsFunc(g.children, func(c child) bool { return c.moving }) {
		g.pushCheckPlanned = true
		s.schedule(pushTimeout, task{kind: taskPushCheck, number: g.number})
	}
}

// forgetChild ends an edge to a child without telling it.
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
	s.sweepLater(g)
	s.planHeartbeatSoon(l)
	s.dropIdleLater(l)
	s.updateWeight(g)
}

// dropIfUnused removes a group that the node has no use for. If only member children are left, it
// offers them to the parent.
func (s *Scribe) dropIfUnused(g *group) {
	if !g.onlyForwards() {
		return
	}
	if len(g.children) == 0 {
		if g.root && len(s.recent[g.id]) > 0 {
			return // children of a lost root may still join
		}
		for _, p := range slices.Backward(g.parentEdges()) {
			s.leaveParent(g, s.linkAt(p.link))
		}
		s.forgetRecent(g, len(s.recent[g.id]))
		s.groups.Delete(g.id)
		return
	}
	now := uint32(s.clock.Now().Unix())
	if len(g.parentEdges()) > 0 && (g.offeredAt == 0 || time.Duration(now-g.offeredAt)*time.Second >= s.cfg.HeartbeatInterval) {
		g.offeredAt = now
		s.send(s.linkAt(g.parents[0].link).contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g.id[:]}}})
	}
}

// onOffer answers an Offer with the number of children that there is room for, or, on a reply,
// redirects that many children to the parent.
func (s *Scribe) onOffer(l *link, m *scribepb.Offer) {
	g := s.groups.Get(overlay.ID(m.Group))
	if g == nil || l == nil {
		return
	}
	if !m.Reply {
		if g.child(l) != nil {
			s.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{
				Group: m.Group, Room: uint32(max(s.cfg.FanOut-g.countMembers(), 0)), Reply: true,
			}}})
		}
		return
	}
	if g.parents[0].link != l.number || !g.onlyForwards() {
		return
	}
	for i := range min(int(m.Room), len(g.children)) {
		s.sendRedirect(g, s.linkAt(g.children[i].link).contact.Peer, l.contact)
	}
}

// dropChildren ends all edges down to a peer.
func (s *Scribe) dropChildren(l *link) {
	for _, number := range slices.Clone(l.down.groups) {
		g := s.groups.At(number)
		s.forgetChild(g, l)
		s.dropIfUnused(g)
	}
}
