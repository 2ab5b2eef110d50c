package scribe

import (
	"bytes"
	"math"
	"slices"
	"time"

	"tidings/internal/env"
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

// children are the edges down: they accept nodes as children, redirect some of them to others, and end
// edges that are not renewed.
type children struct {
	*base
	groups     *groupTable
	links      *links
	history    *history
	outbox     *outbox
	multicasts *multicasts
	heartbeats *heartbeats
	parents    *parents
}

// onJoin handles a Join that was sent to this node directly.
func (cs *children) onJoin(c *overlay.Contact, id overlay.ID, w joinRequest) {
	g := cs.groups.Get(id)
	switch {
	case cs.node.State() != overlay.Active:
		cs.reject(c, id)
	case !c.Member && !cs.node.ActsFor(c.Peer.ID):
		cs.reject(c, id)
	case !c.Member:
		cs.accept(cs.groups.ensure(id), c, w, true)
	case g == nil || !overlay.Nearer(id, cs.node.ID(), c.ID):
		cs.reject(c, id)
	default:
		cs.accept(g, c, w, true)
	}
}

func (cs *children) reject(c *overlay.Contact, id overlay.ID) {
	cs.outbox.enqueue(c.Peer, batchEntry{kind: entryReject, group: id})
}

// accept makes a node a child, or redirects it to one of the children if there are enough. A Join
// that came along the route may be forged. It may make an edge, which the named child prunes if it
// did not ask for it, but it changes no existing edge: the child is redirected to this node to ask
// directly, unless the id of the edge is the same. A weight counts only if the child itself tells it: directly, or in an
// EdgeList when it has the Accept.
func (cs *children) accept(g *group, c *overlay.Contact, w joinRequest, direct bool) {
	known := g.child(cs.links.byPeer[c.Peer.ID])
	weight := cs.clamp(w.weight, !c.Member)
	if !direct {
		weight = 0
	}
	if known != nil && !direct {
		if w.edge == known.edge {
			cs.outbox.enqueue(c.Peer, batchEntry{kind: entryAccept, group: g.id, edge: w.edge})
		} else {
			cs.sendRedirect(g, c.Peer, cs.node.Self())
		}
		return
	}
	full := known == nil && c.Member && len(g.children) >= crowdFactor*cs.cfg.FanOut
	if full || known == nil && c.Member && cs.countNearer(g, c.ID) >= cs.cfg.FanOut {
		if to := cs.pickParent(g, cs.staying(g, cs.cfg.FanOut), c.ID, w.avoid); to != nil {
			cs.redirect(g, c.Peer, to)
			return
		}
	}
	l := cs.links.open(c)
	if full || known == nil && len(l.down.groups) >= maxEdges {
		cs.reject(c, g.id)
		return
	}
	if known == nil {
		g.children = append(g.children, child{link: l.number, edge: w.edge, weight: weight, client: !c.Member, since: cs.now()})
		l.down.add(cs.groups.groupIndex, g, weight)
		l.renewal.renewedAt = cs.now()
		cs.links.checkIn(l, leasePeriods*cs.cfg.HeartbeatInterval)
		cs.heartbeats.planSoon(l)
		if !direct {
			cs.schedule(joinTimeout, task{kind: taskAskWeights, number: g.number})
		}
	} else {
		l.down.change(g, known.weight, weight)
		if known.client && c.Member {
			cs.groups.sweepLater(g) // with only member children the group may be unused
		}
		known.edge, known.weight, known.moving, known.client = w.edge, weight, false, !c.Member
		known.since = cs.now()
	}
	cs.outbox.enqueue(c.Peer, batchEntry{kind: entryAccept, group: g.id, edge: w.edge})
	cs.catchUp(g, l, w.have)
	cs.parents.updateWeight(g)
	cs.pushSoon(g)
	cs.parents.ensure(g)
}

// askWeights sends heartbeats to children that joined some time ago and have told no weight, because the message may be lost.
func (cs *children) askWeights(g *group) {
	for i := range g.children {
		if c := &g.children[i]; c.weight == 0 && !c.client && cs.now().Sub(c.since) >= joinTimeout {
			cs.heartbeats.planNow(cs.links.at(c.link))
		}
	}
}

// catchUp sends a child the kept messages that it lacks.
func (cs *children) catchUp(g *group, l *link, have []uint64) {
	for _, r := range cs.history.recent[g.id] {
		age := cs.clock.Now().Sub(r.at)
		if age < recentTTL && !slices.Contains(have, r.id) {
			cs.multicasts.enqueue(l, g.id, r.id, withAge(r.frame, age))
		}
	}
}

// clamp bounds the weight that a child claims: a client has no nodes below it, and a member no more than all nodes of the
// network.
func (cs *children) clamp(weight uint32, client bool) uint32 {
	most := uint32(cs.cfg.MaxWeight)
	if weight <= most {
		return weight // there is at least one node, and counting is slow
	}
	if client {
		return most
	}
	return uint32(min(uint64(weight), uint64(most)*uint64(max(cs.node.Count(0), 1))))
}

// countNearer returns the number of member children that are nearer to the key than an id.
func (cs *children) countNearer(g *group, id overlay.ID) (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving && overlay.Nearer(g.id, cs.links.at(c.link).contact.ID, id) {
			count++
		}
	}
	return count
}

// staying returns the n member children nearest to the key that were not asked to move, the
// nearest first.
func (cs *children) staying(g *group, n int) []*child {
	of := make([]*child, 0, len(g.children))
	for i := range g.children {
		if c := &g.children[i]; !c.client && !c.moving {
			of = append(of, c)
		}
	}
	slices.SortFunc(of, func(a, b *child) int {
		if overlay.Nearer(g.id, cs.links.at(a.link).contact.ID, cs.links.at(b.link).contact.ID) {
			return -1
		}
		return 1
	})
	return of[:min(len(of), n)]
}

// pickParent returns the child below which another node should join: nearer to the key than that
// node, not avoided by it, and with the least weight. It returns nil if there is none.
func (cs *children) pickParent(g *group, of []*child, below overlay.ID, avoid [][]byte) *child {
	var best *child
	for _, c := range of {
		id := cs.links.at(c.link).contact.ID
		if overlay.Nearer(g.id, id, below) && !slices.ContainsFunc(avoid, func(a []byte) bool { return bytes.Equal(a, id[:]) }) &&
			(best == nil || c.weight+uint32(c.redirected) < best.weight+uint32(best.redirected)) {
			best = c
		}
	}
	return best
}

func (cs *children) redirect(g *group, who env.Peer, to *child) {
	if to.redirected < math.MaxUint16 {
		to.redirected++
	}
	cs.stats.Pushed++
	cs.sendRedirect(g, who, cs.links.at(to.link).contact)
}

func (cs *children) sendRedirect(g *group, who env.Peer, to *overlay.Contact) {
	cs.outbox.enqueue(who, batchEntry{kind: entryRedirect, group: g.id, contact: to})
}

// pushSoon plans pushDown if there are more children than the fan-out, or if one of them has most clients below it.
func (cs *children) pushSoon(g *group) {
	if !g.pushPlanned && (g.countMembers() > cs.cfg.FanOut || !g.pushCheckPlanned && cs.dominant(g) != nil) {
		g.pushPlanned = true
		cs.cal.Add(cs.heartbeats.align(cs.clock.Now(), pushDelay), task{kind: taskPushDown, number: g.number})
	}
}

// pushDown redirects the farthest children to nearer ones until the fan-out is kept. A child
// remains one until it has its new parent.
func (cs *children) pushDown(g *group) {
	now := cs.now()
	for i := range g.children {
		if c := &g.children[i]; c.moving && now.Sub(c.since) >= pushTimeout {
			c.moving = false // it found no other parent; a child may be asked again
		}
	}
	if g.countMembers() > cs.cfg.FanOut {
		all := cs.staying(g, len(g.children))
		stay := all[:cs.cfg.FanOut]
		for _, far := range slices.Backward(all[cs.cfg.FanOut:]) {
			far.moving, far.since = true, now
			c := cs.links.at(far.link).contact
			cs.redirect(g, c.Peer, cs.pickParent(g, stay, c.ID, nil))
		}
	}
	top := cs.dominant(g)
	if s := uint32(cs.clock.Now().Unix()); top != nil && (g.offeredAt == 0 || time.Duration(s-g.offeredAt)*time.Second >= offerPause) {
		if g.countMembers() >= cs.cfg.FanOut {
			cs.makeRoom(g, top, now)
		} else {
			g.offeredAt = s
			cs.sendRoom(g, cs.links.at(top.link))
		}
	}
	if !g.pushCheckPlanned && (top != nil || slices.ContainsFunc(g.children, func(c child) bool { return c.moving })) {
		g.pushCheckPlanned = true
		cs.schedule(pushTimeout, task{kind: taskPushCheck, number: g.number})
	}
}

// makeRoom redirects the farthest children of a root, a quarter of the fan-out, below others than the dominant child, whose
// children can then take their place.
func (cs *children) makeRoom(g *group, top *child, now env.Moment) {
	all := slices.DeleteFunc(cs.staying(g, len(g.children)), func(c *child) bool { return c == top })
	stay := all[:max(len(all)-max(cs.cfg.FanOut/4, 1), 0)]
	for _, far := range all[len(stay):] {
		c := cs.links.at(far.link).contact
		if to := cs.pickParent(g, stay, c.ID, nil); to != nil {
			far.moving, far.since = true, now
			cs.redirect(g, c.Peer, to)
		}
	}
}

// dominant returns the child of a root below which most clients of the group are, if they are more than one node can have;
// else nil. It is mostly the root of before: the new one would stay above it with one child, so that the root could not tell
// the tree from one that this child makes up.
func (cs *children) dominant(g *group) *child {
	c := g.heaviest()
	if !g.root || c == nil || c.weight <= uint32(cs.cfg.MaxWeight) || uint64(c.weight)*2 <= uint64(g.weight()) {
		return nil
	}
	return c
}

// sendRoom tells a child how many of its children this node has room for.
func (cs *children) sendRoom(g *group, l *link) {
	cs.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{
		Group: g.id[:], Room: uint32(max(cs.cfg.FanOut-g.countMembers(), 0)), Reply: true,
	}}})
}

// forget ends an edge to a child without telling it.
func (cs *children) forget(g *group, l *link) {
	g.children = slices.DeleteFunc(g.children, func(c child) bool {
		if c.link != l.number {
			return false
		}
		l.down.remove(cs.groups.groupIndex, g, c.weight)
		return true
	})
	if len(g.children) == 0 {
		g.children = nil
	}
	cs.groups.sweepLater(g)
	cs.heartbeats.planSoon(l)
	cs.links.dropIdleLater(l)
	cs.parents.updateWeight(g)
}

// dropIfUnused removes a group that the node has no use for. If only member children are left, it
// offers them to the parent.
func (cs *children) dropIfUnused(g *group) {
	if !g.onlyForwards() {
		return
	}
	if len(g.children) == 0 {
		if g.root && len(cs.history.recent[g.id]) > 0 {
			return // children of a lost root may still join
		}
		for _, p := range slices.Backward(g.parentEdges()) {
			cs.parents.leave(g, cs.links.at(p.link))
		}
		cs.history.forget(g.id, len(cs.history.recent[g.id]))
		cs.groups.Delete(g.id)
		return
	}
	now := uint32(cs.clock.Now().Unix())
	if len(g.parentEdges()) > 0 && (g.offeredAt == 0 || time.Duration(now-g.offeredAt)*time.Second >= cs.cfg.HeartbeatInterval) {
		g.offeredAt = now
		cs.send(cs.links.at(g.parents[0].link).contact.Peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g.id[:]}}})
	}
}

// onOffer answers an Offer with the number of children that there is room for, or, on a reply,
// redirects that many children to the parent. A node that does not only forward redirects them to the root alone.
func (cs *children) onOffer(l *link, m *scribepb.Offer) {
	g := cs.groups.Get(overlay.ID(m.Group))
	if g == nil || l == nil {
		return
	}
	if !m.Reply {
		if g.child(l) != nil {
			cs.sendRoom(g, l)
		}
		return
	}
	if g.parents[0].link != l.number {
		return
	}
	if next, _ := cs.node.NextHop(g.id); !g.onlyForwards() && (next == nil || next.ID != l.contact.ID) {
		return
	}
	for _, c := range cs.staying(g, int(min(m.Room, uint32(len(g.children))))) {
		cs.sendRedirect(g, cs.links.at(c.link).contact.Peer, l.contact)
	}
}

// dropAll ends all edges down to a peer.
func (cs *children) dropAll(l *link) {
	for _, number := range slices.Clone(l.down.groups) {
		g := cs.groups.At(number)
		cs.forget(g, l)
		cs.dropIfUnused(g)
	}
}

// checkLink drops the children on a link if their lease is over, and the link if it has no edges.
func (cs *children) checkLink(l *link, now time.Time) {
	if l.checkAt == env.Never || env.MomentOf(now) < l.checkAt {
		return
	}
	l.checkAt = env.Never
	if len(l.down.groups) > 0 {
		if left := l.renewal.lease(cs.cfg.HeartbeatInterval) - env.MomentOf(now).Sub(l.renewal.renewedAt); left >= 0 {
			cs.links.checkIn(l, left+1)
			return
		}
		cs.dropAll(l)
	}
	cs.links.dropIdle(l)
}

// onEdgeList adopts the weights of the child's edges, and rejects edges that this node does not
// have. Unless the list is partial, edges within its range that it does not contain end, if they
// are old enough that the child must have known them.
func (cs *children) onEdgeList(from env.PeerID, l *link, m *scribepb.EdgeList) {
	var asked env.Moment
	if !m.Partial && l != nil {
		var ok bool
		if asked, ok = l.renewal.answers(m.Nonce); !ok {
			return // it answers an older heartbeat; edges may have changed since
		}
	}
	var unknown []overlay.ID
	named := make(map[overlay.ID]bool, len(m.Edges))
	for _, e := range m.Edges {
		id := overlay.ID(e.Group)
		named[id] = true
		g := cs.groups.Get(id)
		if l == nil || g == nil || g.child(l) == nil {
			unknown = append(unknown, id)
			continue
		}
		c := g.child(l)
		weight := cs.clamp(e.Weight, c.client)
		l.down.change(g, c.weight, weight)
		c.weight = weight
		cs.parents.updateWeight(g)
		cs.pushSoon(g)
	}
	if len(unknown) > 0 {
		cs.outbox.sendReject(env.Peer{ID: from}, unknown...)
	}
	if m.Partial || l == nil {
		return
	}
	for _, number := range slices.Clone(l.down.between(cs.groups.groupIndex, m.First, m.Last)) {
		g := cs.groups.At(number)
		if c := g.child(l); !named[g.id] && c != nil && asked.Sub(c.since) > joinTimeout {
			cs.forget(g, l)
			cs.dropIfUnused(g)
		}
	}
}

// onRoutedJoin handles a routed Join in a Batch as the overlay would deliver it: the first node in
// the tree, or else the root, accepts the child; other nodes forward the Join. Each hop is nearer
// to the key than the one before, so it cannot loop. If the next hop is not known with certainty,
// the Join is dropped, and its sender tries again alone.
func (cs *children) onRoutedJoin(record []byte, id overlay.ID, w joinRequest) {
	if cs.node.State() != overlay.Active {
		return
	}
	c, err := cs.node.OpenRecord(record)
	if err != nil || !c.Member || c.ID == cs.node.ID() {
		cs.stats.Garbage++
		return
	}
	g := cs.groups.Get(id)
	if g != nil && overlay.Nearer(id, cs.node.ID(), c.ID) {
		cs.accept(g, c, w, false)
		return
	}
	next, root := cs.node.NextHop(id)
	switch {
	case root:
		g = cs.groups.ensure(id)
		cs.parents.becomeRoot(g)
		cs.accept(g, c, w, false)
	case next != nil:
		cs.outbox.enqueue(next.Peer, batchEntry{kind: entryRoutedJoin, group: id, edge: w.edge, weight: w.weight, contact: c})
	}
}
