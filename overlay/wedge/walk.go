package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A tree divides the ranks of each key among this node and members it asks, and ends edges.
type tree struct {
	*base
	links      *links
	table      *table
	outbox     *outbox
	broadcasts *broadcasts

	counts   []int // number of members that share 0, 1, 2 ... bits with the node, until it is 1
	countsAt time.Time
	scratch  []edge
}

// countsTTL is how long counts of members are reused. They change by little with every answer of a
// contact, and computing them takes longer than a walk.
const countsTTL = 10 * time.Second

// count returns how many members share the first d bits of the node's id.
func (tr *tree) count(d int) int {
	if now := tr.clock.Now(); len(tr.counts) == 0 || now.Sub(tr.countsAt) >= countsTTL {
		tr.counts, tr.countsAt = tr.counts[:0], now
		for d := 0; ; d++ {
			c := max(tr.node.Count(d), 1)
			tr.counts = append(tr.counts, c)
			if c == 1 {
				break
			}
		}
	}
	return tr.counts[min(d, len(tr.counts)-1)]
}

// split divides k ranks between two halves with so many members, near being closer to the key, and
// returns the share of the near half. If there are enough members, the nearest have one rank each.
// If not, because somebody counted differently, each half gets ranks in proportion to its members.
func split(k uint32, near, far int) uint32 {
	if all := near + far; int(k) > all {
		return uint32((int(k)*near + all/2) / all)
	}
	return min(k, uint32(near))
}

// keepShare says whether a half keeps its ranks although it should have a different number. Moving
// ranks shifts the turns of all members behind them, each of which then polls once out of turn. So
// a share is kept if it is off by at most one or an eighth. Splits of MaxRanks ranks or fewer are
// always exact, because only those few move.
func keepShare(k, has, should uint32) bool {
	off := max(has, should) - min(has, should)
	return off == 0 || has <= k && k > MaxRanks && off <= max(1, should/8)
}

// walk divides the range of a membership: at each depth, from the widest, the other half gets its
// ranks, and what is left is this node's. It is the ENLIST of Corona, §3.4, with ranks. If anew is set, all splits
// follow the current counts; otherwise only splits that are far off change. Entries are sent for
// new and changed edges, or for all edges if the order is new (detail).
func (tr *tree) walk(r *membership, detail orderDetail, anew bool) {
	tr.table.change(r)
	if r.order.digitBits != 0 {
		tr.walkLevels(r, detail)
		return
	}
	edges := tr.scratch[:0]
	first, k := r.first, r.ranks
	for d := int(r.depth); k > 0 && tr.count(d) > 1; d++ {
		own := tr.count(d + 1)
		other := tr.count(d) - own
		if other == 0 {
			continue
		}
		old := r.edgeAt(d)
		share := tr.share(r, old, d, k, own, other, anew)
		nearer := tr.node.ID().Bit(d) == r.order.key.Bit(d)
		e := edge{first: first, ranks: share, depth: uint16(d)}
		if nearer {
			e.first = first + k - share
		} else {
			first += share
		}
		k -= share
		if share == 0 {
			continue
		}
		if old != nil {
			e.link, e.flags, e.missing = old.link, old.flagsForRetry(), old.missing
		}
		edges = append(edges, e)
	}
	tr.replaceEdges(r, edges, detail)
}

// share returns how many of k ranks go to the other half.
func (tr *tree) share(r *membership, old *edge, d int, k uint32, own, other int, anew bool) uint32 {
	should := k - split(k, own, other)
	if tr.node.ID().Bit(d) != r.order.key.Bit(d) {
		should = split(k, other, own)
	}
	if anew {
		return should
	}
	var has uint32
	if old != nil {
		has = old.ranks
	}
	if keepShare(k, has, should) {
		return has
	}
	return should
}

// replaceEdges replaces the edges of a membership. It ends edges that no longer exist, finds
// children for edges that have none, and informs children whose edges changed.
func (tr *tree) replaceEdges(r *membership, edges []edge, detail orderDetail) {
	for i := range r.edges {
		old := &r.edges[i]
		if old.link != noLink && !slices.ContainsFunc(edges, func(e edge) bool { return e.depth == old.depth }) {
			tr.outbox.queueEnd(tr.links.at(old.link), r)
			r.forgetStatus(old)
		}
	}
	tr.scratch = edges
	was := r.edges
	if len(edges) != len(r.edges) {
		r.edges = make([]edge, len(edges))
	} else {
		was = slices.Clone(was)
	}
	copy(r.edges, edges)
	for i := range r.edges {
		e := &r.edges[i]
		same := slices.ContainsFunc(was, func(o edge) bool {
			return o.depth == e.depth && o.first == e.first && o.ranks == e.ranks
		})
		switch {
		case e.link == noLink:
			tr.findChild(r, e, detail)
		case !same || detail > hashOnly || r.flags&standInsChanged != 0 && len(r.standIns(e.first, e.ranks)) > 0:
			if detail > hashOnly { // the order, or some of it, is new to the child
				r.forgetStatus(e)
			} else {
				r.keepStatus(e)
			}
			tr.outbox.queueEntry(tr.links.at(e.link), r, e, detail)
		}
	}
	r.flags &^= standInsChanged
}

// findChild looks for a child for an edge without one, and tells the child if there is one.
func (tr *tree) findChild(r *membership, e *edge, detail orderDetail, except ...env.PeerID) {
	kept := e.flags & (refusedOnce | childMovedBefore)
	r.detach(e)
	e.flags = kept
	l := tr.chooseChild(r, e, except...)
	if e.flags &^= childMovedBefore; l != nil {
		e.link = l.number
		tr.outbox.queueEntry(l, r, e, detail)
	}
}

// chooseChild returns the link to a member of the half that an edge covers, or nil if none is
// known. If the half has fewer ranks than members, and the leaf contains all of its members, the
// nearest to the key is chosen, which serves one of the ranks itself. Otherwise the choice depends
// on the key, so that keys spread over all known members. A member that claimed to have another
// parent may be wrong or lying, so the choice after that is random.
func (tr *tree) chooseChild(r *membership, e *edge, except ...env.PeerID) *link {
	d := int(e.depth)
	except = append(except, tr.links.blocked...)
	var nearest *overlay.Contact
	pick := shortKey(r.order.key)
	if e.flags&childMovedBefore != 0 {
		pick ^= tr.rand.Uint64()
	}
	if leaf := tr.node.Leaf(); d >= leaf.Depth() && int(e.ranks) < tr.count(d)-tr.count(d+1) && e.flags&childMovedBefore == 0 {
		for _, c := range leaf.Members() {
			if tr.node.ID().Common(c.ID) == d && !slices.Contains(except, c.Peer.ID) &&
				(nearest == nil || overlay.Nearer(r.order.key, c.ID, nearest.ID)) {
				nearest = c
			}
		}
	}
	if nearest == nil {
		nearest = tr.node.Across(d, pick, except...)
	}
	if nearest == nil {
		return nil
	}
	return tr.links.open(nearest)
}

// replaceChild finds another child for an edge whose child has refused. After a second refusal this
// node serves the ranks until its next round.
func (tr *tree) replaceChild(r *membership, e *edge) {
	tr.table.change(r)
	l := tr.links.at(e.link)
	was := l.peer.ID
	tr.outbox.queueEnd(l, r) // the child may still have an earlier order from this node
	if e.flags&refusedOnce != 0 {
		r.detach(e)
		tr.stats.Adopted++
		return
	}
	e.flags |= refusedOnce
	tr.findChild(r, e, hashOnly, was)
	if e.link == noLink {
		e.flags &^= refusedOnce
		tr.stats.Adopted++
	}
}
