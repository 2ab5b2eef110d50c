package scribe

import (
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
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
	weight    uint32     // weight that the parent learns by the Join; 0 along the route, where anybody could make it up
	target    env.PeerID // the parent that was asked directly; empty: none
	root      env.PeerID // root of the group, if it was looked up and asked directly
}

// parents keep this node in the trees of its groups: they find a parent, replace one that is lost, and
// tell it the weight.
type parents struct {
	*base
	groups     *groupTable
	links      *links
	history    *history
	blocks     *blocks
	outbox     *outbox
	heartbeats *heartbeats
}

// searching says whether the node tries to find a parent until it has one.
func (g *group) searching() bool { return g.search != nil && g.search.required }

// search searches for a parent: along the route to the root, or, for a client, among the members
// that act for it.
func (ps *parents) search(g *group) {
	g.search = &parentSearch{required: true, edge: ps.rand.Uint64() | 1}
	ps.searchNow(g)
}

// ensure starts a search if a node with a part in a tree has no parent.
func (ps *parents) ensure(g *group) {
	if g.lacksParent() && !g.searching() && (g.ownWeight > 0 || len(g.children) > 0) {
		ps.search(g)
	}
}

func (ps *parents) retry(g *group, now time.Time) {
	if !g.searching() || now.Before(g.search.due) {
		return
	}
	if g.search.tries < 8 {
		g.search.tries++
	}
	ps.searchNow(g)
}

func (ps *parents) searchNow(g *group) {
	hosts := ps.node.Hosts()
	client := ps.node.State() == overlay.Attached
	if g.root || !client && !g.lacksParent() || g.ownWeight == 0 && len(g.children) == 0 {
		g.search = nil
		return
	}
	if !client && ps.node.State() != overlay.Active {
		return // the node is joining; LeafChanged continues
	}
	q := g.search
	q.due = ps.clock.Now().Add(env.Jitter(ps.rand, min(joinTimeout<<q.tries, maxJoinTimeout)))
	ps.cal.Add(q.due, task{kind: taskJoinRetry, number: g.number})
	q.target, q.redirects, q.weight = "", 0, 0
	ps.stats.Joins++
	if !client {
		if avoid := ps.blocks.ids(g.id); len(avoid) > 0 {
			ps.joinAtRoot(g, avoid)
		} else {
			ps.joinAlongRoute(g)
		}
		return
	}
	complete, first := true, g.lacksParent()
	for _, h := range hosts {
		if g.parent(ps.links.byPeer[h.Peer.ID]) == nil {
			complete = false
			ps.sendJoin(g, h.Peer, g.weightFor(first))
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
func (ps *parents) joinAlongRoute(g *group) {
	if g.search.tries == 0 && len(ps.history.recent[g.id]) == 0 {
		if next, _ := ps.node.NextHop(g.id); next != nil {
			ps.outbox.enqueue(next.Peer, batchEntry{kind: entryRoutedJoin, group: g.id, edge: g.search.edge, weight: g.search.weight, contact: ps.node.Self()})
			return
		}
	}
	ps.routeJoin(g)
}

// routeWanted routes a Join if its edge is still wanted.
func (ps *parents) routeWanted(id overlay.ID, edge uint64) {
	if g := ps.groups.Get(id); g != nil && g.searching() && g.search.edge == edge {
		ps.routeJoin(g)
	}
}

func (ps *parents) routeJoin(g *group) {
	ps.node.RouteToAny(wire.Scribe, g.id, wire.Encode(ps.joinMessage(g, g.search.weight)), func(overlay.Receipt, bool) {})
}

// sendJoin asks one parent directly.
func (ps *parents) sendJoin(g *group, to env.Peer, weight uint32) {
	if len(ps.history.recent[g.id]) > 0 {
		ps.send(to, ps.joinMessage(g, weight))
		return
	}
	ps.outbox.enqueue(to, batchEntry{kind: entryJoin, group: g.id, edge: g.search.edge, weight: weight})
}

// joinMessage returns a Join as a message of its own.
func (ps *parents) joinMessage(g *group, weight uint32) *scribepb.Message {
	j := &scribepb.Join{Group: g.id[:], Record: ps.node.Self().Raw, Weight: weight, Edge: g.search.edge}
	for _, r := range ps.history.recent[g.id] {
		j.Have = append(j.Have, r.id)
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: j}}
}

// onRedirect moves this node below another parent, if that one is nearer to the key. The old edge
// remains until the new one is accepted.
func (ps *parents) onRedirect(from env.PeerID, id overlay.ID, record []byte) error {
	g := ps.groups.Get(id)
	to, err := ps.node.OpenRecord(record)
	if err != nil {
		ps.stats.Garbage++
		return env.ErrFrame
	}
	if g == nil || g.root || !to.Member || ps.node.State() != overlay.Active || ps.blocks.has(g.id, to.Peer.ID) {
		return nil
	}
	current := !g.lacksParent()
	if current && ps.links.at(g.parents[0].link).contact.Peer.ID != from || !current && (!g.searching() || g.search.redirects >= maxRedirects) ||
		!overlay.Nearer(g.id, to.ID, ps.node.ID()) {
		return nil
	}
	now := ps.clock.Now()
	if current && g.search != nil && g.search.target == from && now.Before(g.search.due) {
		return nil // the parent sent this before it received the latest Join, and does not know the new id of the edge
	}
	if g.search == nil {
		g.search = &parentSearch{}
	}
	q := g.search
	q.target, q.edge, q.weight = to.Peer.ID, ps.rand.Uint64()|1, g.weight()
	q.due = now.Add(joinTimeout) // time for the other parent to answer
	if !current {
		q.redirects++
		ps.cal.Add(q.due, task{kind: taskJoinRetry, number: g.number})
	}
	ps.stats.Joins++
	ps.links.open(to) // so that the sender of Accept is known
	ps.sendJoin(g, to.Peer, q.weight)
	return nil
}

// onAccept makes the sender the parent, or prunes the edge. It returns the group if it has a new
// parent.
func (ps *parents) onAccept(c *overlay.Contact, id overlay.ID, edge uint64) (changed *group) {
	changed, ok := ps.accept(id, c, edge)
	if !ok {
		ps.outbox.sendPrune(c.Peer, id, edge)
	}
	return changed
}

// accept makes a node that accepted this one its parent. It refuses if there is a parent
// already, if the node cannot be one, or if the edge is not of the latest Join.
func (ps *parents) accept(id overlay.ID, c *overlay.Contact, edge uint64) (changed *group, ok bool) {
	g := ps.groups.Get(id)
	client := ps.node.State() == overlay.Attached
	switch {
	case g == nil || g.root || g.ownWeight == 0 && len(g.children) == 0:
		return nil, false
	case g.parent(ps.links.byPeer[c.Peer.ID]) != nil:
		if g.search != nil && edge == g.search.edge {
			ps.confirm(g, ps.links.byPeer[c.Peer.ID])
		}
		return nil, true
	case g.search == nil || edge != g.search.edge || len(g.parentEdges()) == len(g.parents):
		return nil, false
	case ps.blocks.has(id, c.Peer.ID) && g.search.root != c.Peer.ID:
		return nil, false // a blocked member on the route; see joinAtRoot
	case client:
		if !slices.ContainsFunc(ps.node.Hosts(), func(h *overlay.Contact) bool { return h.ID == c.ID }) {
			return nil, false
		}
	case !overlay.Nearer(id, c.ID, ps.node.ID()):
		return nil, false
	case !g.lacksParent() && g.search.target != c.Peer.ID:
		return nil, false // there is a parent already
	case !g.lacksParent():
		ps.leave(g, ps.links.at(g.parents[0].link))
	}
	l := ps.links.open(c)
	n := len(g.parentEdges())
	g.parents[n] = parent{edge, l.number}
	told := g.search.weight // the weight may have changed since the Join
	if client {
		told = g.weightFor(n == 0)
	}
	l.up.add(ps.groups.groupIndex, g, told)
	if n == 0 {
		g.sentWeight = told
	}
	if g.search.target = ""; !client {
		g.search = nil
	}
	ps.heartbeats.planSoon(l)
	ps.updateWeight(g)
	return g, true
}

// confirm handles the Accept of a repeated Join by a parent that had the edge already. The
// parent now has the id and the weight of that Join, whatever weights were sent meanwhile.
func (ps *parents) confirm(g *group, l *link) {
	g.parent(l).edge = g.search.edge
	if client := ps.node.State() == overlay.Attached; !client {
		l.up.change(g, g.sentWeight, g.search.weight)
		g.sentWeight, g.search = g.search.weight, nil
		ps.updateWeight(g)
	}
}

// leave ends an edge to a parent, and tells the parent.
func (ps *parents) leave(g *group, l *link) {
	edge := g.parent(l).edge
	ps.forget(g, l)
	ps.outbox.sendPrune(l.contact.Peer, g.id, edge)
}

// forget ends an edge to a parent without telling it.
func (ps *parents) forget(g *group, l *link) {
	for i, p := range g.parentEdges() {
		if p.link != l.number {
			continue
		}
		if i == 0 {
			l.up.remove(ps.groups.groupIndex, g, g.sentWeight)
		} else {
			l.up.remove(ps.groups.groupIndex, g, 0)
		}
		copy(g.parents[i:], g.parents[i+1:])
		g.parents[len(g.parents)-1] = parent{}
		if i == 0 && !g.lacksParent() { // the second parent becomes the first
			g.sentWeight = 0
			ps.updateWeight(g)
		}
		ps.groups.sweepLater(g)
		ps.heartbeats.planSoon(l)
		ps.links.dropIdleLater(l)
		return
	}
}

// replace leaves the parents for which stays is false, and looks for others.
func (ps *parents) replace(stays func(*group, *link) bool) {
	leaves := func(g *group) bool {
		return slices.ContainsFunc(g.parentEdges(), func(p parent) bool { return !stays(g, ps.links.at(p.link)) })
	}
	for _, g := range ps.groups.sorted(leaves) {
		for _, p := range slices.Clone(g.parentEdges()) {
			if l := ps.links.at(p.link); !stays(g, l) {
				ps.leave(g, l)
			}
		}
		ps.search(g)
	}
}

// updateWeight plans to tell the parent if the weight of a group has changed.
func (ps *parents) updateWeight(g *group) {
	if len(g.parentEdges()) == 0 || g.weight() == g.sentWeight {
		return
	}
	l := ps.links.at(g.parents[0].link)
	if l.weights == nil {
		l.weights = map[overlay.ID]bool{}
	}
	l.weights[g.id] = true
	ps.links.flushSoon(l, weightDelay)
}

func (ps *parents) flushWeights(l *link) {
	var changed []*scribepb.Edge
	of := slices.SortedFunc(maps.Keys(l.weights), func(a, b overlay.ID) int { return slices.Compare(a[:], b[:]) })
	for _, id := range of {
		g := ps.groups.Get(id)
		if g == nil || g.parents[0].link != l.number || g.weight() == g.sentWeight {
			continue
		}
		l.up.change(g, g.sentWeight, g.weight())
		g.sentWeight = g.weight()
		changed = append(changed, &scribepb.Edge{Group: g.id[:], Weight: g.sentWeight})
	}
	l.weights = nil
	for part := range slices.Chunk(changed, maxList) {
		ps.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
			First: part[0].Group, Last: part[len(part)-1].Group, Edges: part, Partial: true,
		}}})
	}
}

// list returns the edges up on a link in the form of an EdgeList.
func (ps *parents) list(l *link) []*scribepb.Edge {
	all := make([]*scribepb.Edge, 0, len(l.up.groups))
	for _, number := range l.up.groups {
		g := ps.groups.At(number)
		e := &scribepb.Edge{Group: g.id[:]}
		if g.parents[0].link == l.number {
			e.Weight = g.sentWeight
		}
		all = append(all, e)
	}
	return all
}

// onReject looks for another parent in a group in which the peer does not have the edge.
func (ps *parents) onReject(from env.PeerID, l *link, id overlay.ID) {
	g := ps.groups.Get(id)
	if l == nil || g == nil {
		return
	}
	if g.parent(l) != nil {
		ps.forget(g, l)
		ps.search(g)
	} else if g.searching() && g.search.target == from {
		ps.searchNow(g) // the chosen parent is not in the tree
	}
}

// joinAtRoot looks up the root and joins there directly. Along the route, a blocked member could
// answer first. The root redirects to children that are not avoided.
func (ps *parents) joinAtRoot(g *group, avoid [][]byte) {
	q := g.search
	ps.node.Lookup(g.id, 1, func(l overlay.Lookup) {
		if !ps.groups.isCurrent(g) || g.search != q || !g.lacksParent() || len(l.Nearest) == 0 || l.Nearest[0].ID == ps.node.ID() {
			return // retry tries again
		}
		root := l.Nearest[0]
		q.root = root.Peer.ID
		j := ps.joinMessage(g, q.weight)
		j.GetJoin().Avoid = avoid
		ps.links.open(root) // so that the sender of Accept is known
		ps.send(root.Peer, j)
	})
}

// becomeRoot makes this node the root of a group, after the overlay delivered a message for the
// group's key.
func (ps *parents) becomeRoot(g *group) {
	if g.root {
		return
	}
	for _, p := range slices.Backward(g.parentEdges()) {
		ps.leave(g, ps.links.at(p.link))
	}
	g.root, g.search = true, nil
}
