package wedge

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// countsLife is how long counts of members are used again: they change with every answer
// of a contact, by little, and adding them up takes longer than to walk.
const countsTTL = 10 * time.Second

// count is how many members share the first d bits of the node's id.
func (w *Wedge) count(d int) int {
	if now := w.clock.Now(); len(w.counts) == 0 || now.Sub(w.countsAt) >= countsTTL {
		w.counts, w.countsAt = w.counts[:0], now
		for d := 0; ; d++ {
			c := max(w.node.Count(d), 1)
			w.counts = append(w.counts, c)
			if c == 1 {
				break
			}
		}
	}
	return w.counts[min(d, len(w.counts)-1)]
}

// split parts k ranks between the nearer and the farther of two halves that hold so many
// members, and returns the share of the nearer. While there are not more ranks than
// members, the nearest have one each. If there are, because somebody counted other
// members than there are, each half takes its part of the surplus.
func split(k uint32, near, far int) uint32 {
	if all := near + far; int(k) > all {
		return uint32((int(k)*near + all/2) / all)
	}
	return min(k, uint32(near))
}

// keeps says whether a half keeps the ranks it has though it should have others by now:
// were they moved, so would be all that stand behind them, and each of those polls once
// out of turn. So only what is off by more than one, and by more than an eighth, is
// parted anew; but a few ranks are parted exactly, for then only they move.
func keepShare(k, has, should uint32) bool {
	off := max(has, should) - min(has, should)
	return off == 0 || has <= k && k > MaxRanks && off <= max(1, should/8)
}

// walk parts a record's interval among the other halves, from the widest to the
// narrowest, and this node: the ENLIST of Corona, §3.4, with ranks. All splits are made
// as the counts are now, or, unless anew, only those that are far from that. Entries go
// out for edges that are new or have changed; for all of them if they have a new order,
// which how says.
func (w *Wedge) walk(r *membership, detail orderDetail, anew bool) {
	w.beginChange(r)
	if r.order.digitBits != 0 {
		w.walkLevels(r, detail)
		return
	}
	edges := w.scratch[:0]
	first, k := r.first, r.ranks
	for d := int(r.depth); k > 0 && w.count(d) > 1; d++ {
		own := w.count(d + 1)
		other := w.count(d) - own
		if other == 0 {
			continue
		}
		old := r.edgeAt(d)
		share := w.share(r, old, d, k, own, other, anew)
		nearer := w.self.Bit(d) == r.order.key.Bit(d)
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
	w.replaceEdges(r, edges, detail)
}

// share is how many of k ranks go to the other half.
func (w *Wedge) share(r *membership, old *edge, d int, k uint32, own, other int, anew bool) uint32 {
	should := k - split(k, own, other)
	if w.self.Bit(d) != r.order.key.Bit(d) {
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

// replaceEdges puts new edges in the place of those a record has: ends those that are no
// longer, finds children for those that have none, and tells those that have changed.
func (w *Wedge) replaceEdges(r *membership, edges []edge, detail orderDetail) {
	for i := range r.edges {
		old := &r.edges[i]
		if old.link != noLink && !slices.ContainsFunc(edges, func(e edge) bool { return e.depth == old.depth }) {
			w.queueEnd(w.linkAt(old.link), r)
			r.forgetStatus(old)
		}
	}
	w.scratch = edges
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
			w.findChild(r, e, detail)
		case !same || detail > hashOnly || r.flags&standInsChanged != 0 && len(r.standIns(e.first, e.ranks)) > 0:
			if detail > hashOnly { // another order, or for somebody who lacks it
				r.forgetStatus(e)
			} else {
				r.keepStatus(e)
			}
			w.queueEntry(w.linkAt(e.link), r, e, detail)
		}
	}
	r.flags &^= standInsChanged
}

// employ gives an edge without a child one, if there is any.
func (w *Wedge) findChild(r *membership, e *edge, detail orderDetail, except ...env.PeerID) {
	kept := e.flags & (refusedOnce | childMovedBefore)
	r.detach(e)
	e.flags = kept
	l := w.chooseChild(r, e, except...)
	if e.flags &^= childMovedBefore; l != nil {
		e.link = l.number
		w.queueEntry(l, r, e, detail)
	}
}

// choose returns the link to a member of the half that an edge is for; nil: there is none. Of a half that
// has fewer ranks than members, and whose members are known, it is the nearest, who has
// one for itself; else keys spread over all that are known there. Who said that there is
// another parent may be wrong, or lie, so the next time anybody may be asked.
func (w *Wedge) chooseChild(r *membership, e *edge, except ...env.PeerID) *link {
	d := int(e.depth)
	except = append(except, w.blocked...)
	var nearest *overlay.Contact
	pick := shortKey(r.order.key)
	if e.flags&childMovedBefore != 0 {
		pick ^= w.rand.Uint64()
	}
	if leaf := w.node.Leaf(); d >= leaf.Depth() && int(e.ranks) < w.count(d)-w.count(d+1) && e.flags&childMovedBefore == 0 {
		for _, c := range leaf.Members() {
			if w.self.Common(c.ID) == d && !slices.Contains(except, c.Peer.ID) &&
				(nearest == nil || overlay.Nearer(r.order.key, c.ID, nearest.ID)) {
				nearest = c
			}
		}
	}
	if nearest == nil {
		nearest = w.node.Across(d, pick, except...)
	}
	if nearest == nil {
		return nil
	}
	return w.link(nearest)
}

// replace finds another child for an edge whose child has refused; the second that
// refuses leaves its ranks to this node, until the next round.
func (w *Wedge) replaceChild(r *membership, e *edge) {
	w.beginChange(r)
	l := w.linkAt(e.link)
	was := l.peer.ID
	w.queueEnd(l, r) // it may have an earlier order from here
	if e.flags&refusedOnce != 0 {
		r.detach(e)
		w.stats.Adopted++
		return
	}
	e.flags |= refusedOnce
	w.findChild(r, e, hashOnly, was)
	if e.link == noLink {
		e.flags &^= refusedOnce
		w.stats.Adopted++
	}
}
