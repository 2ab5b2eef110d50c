package wedge

import (
	"slices"
	"time"

	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// missing counts the ranks of a record's interval that nobody serves, as far as the node
// knows: a child has all that are its own served unless it tells otherwise.
func (r *membership) missing() uint32 {
	m := r.assignedRanks(nil) - uint32(r.serving().Len())
	for i := range r.edges {
		m += r.edges[i].missing
	}
	return m
}

// declined counts the ranks of the interval whose members have declined, and names the
// first of them.
func (r *membership) declined() (count uint32, ranks []uint32) {
	if r.flags&declines != 0 {
		count = r.assignedRanks(func(rank uint32) {
			if len(ranks) < maxStandIns {
				ranks = append(ranks, rank)
			}
		})
	}
	if r.extra != nil {
		for _, b := range r.extra.declinedBelow {
			count += b.count
			ranks = append(ranks, b.ranks...)
		}
	}
	slices.Sort(ranks)
	return count, ranks[:min(len(ranks), maxStandIns)]
}

// tally has the parent told, soon, if what is missing is not what it was told. The leader
// looks for stand-ins.
func (w *Wedge) updateStatus(r *membership) {
	switch {
	case r.order.digitBits != 0: // who is in a wedge of levels is not counted
	case r.flags&leads != 0:
		if r.flags&declines != 0 || r.extra != nil && len(r.extra.declinedBelow)+len(r.extra.standIns) > 0 {
			w.planStandIns(r)
		}
	case r.parent != noLink && r.flags&statusQueued == 0 && r.missing() != r.reported:
		r.flags |= statusQueued
		w.enqueue(w.linkAt(r.parent), change{kind: changeStatus, key: shortKey(r.order.key)}, statusDelay)
	}
}

// tally is what the parent is told.
func (r *membership) status() *wedgepb.Status {
	count, ranks := r.declined()
	return &wedgepb.Status{
		Key: shortKey(r.order.key), EdgeHash: uint32(r.parentEdgeHash()), Missing: r.missing(), Declined: count, Ranks: ranks,
	}
}

// onTally takes what a child tells of its edge, if that is still the same.
func (w *Wedge) onStatus(l *link, t *wedgepb.Status) {
	r := w.byKey(t.Key)
	if r == nil {
		return
	}
	e := r.edgeTo(l)
	if e == nil || uint32(r.childEdgeHash(e)) != t.EdgeHash || t.Missing > e.ranks || int(t.Declined) < len(t.Ranks) ||
		slices.ContainsFunc(t.Ranks, func(rank uint32) bool { return rank-e.first >= e.ranks }) {
		return
	}
	w.beginChange(r)
	had := len(r.declinedOf(l))
	r.forgetStatus(e)
	e.missing = t.Missing
	if t.Declined > 0 {
		x := r.ensureExtra()
		x.declinedBelow = append(x.declinedBelow, childDeclined{l.number, t.Declined, t.Ranks})
	}
	if had > 0 || t.Declined > 0 {
		r.reported = neverReported
	}
}

// belowOf returns the ranks that a child told to be declined.
func (r *membership) declinedOf(l *link) []uint32 {
	if r.extra != nil {
		for _, b := range r.extra.declinedBelow {
			if b.link == l.number {
				return b.ranks
			}
		}
	}
	return nil
}

// planStandIns has the leader look at the stand-ins in a while.
func (w *Wedge) planStandIns(r *membership) {
	x := r.ensureExtra()
	if x.standInsAt.IsZero() {
		x.standInsAt = w.clock.Now().Add(standInDelay)
		w.cal.Add(x.standInsAt, task{kind: taskStandIns, key: shortKey(r.order.key)})
	}
}

// standIn gives the phases of the ranks that were declined to the members next in order:
// the ranks from n on.
func (w *Wedge) updateStandIns(r *membership, at time.Time) {
	if r == nil || r.extra == nil || !r.extra.standInsAt.Equal(at) {
		return
	}
	x := r.extra
	x.standInsAt = time.Time{}
	if r.flags&leads == 0 {
		return
	}
	count, declined := r.declined()
	w.stats.LeftOut += uint64(count) - uint64(len(declined))
	next := assignStandIns(r.order.n, x.standIns, declined)
	if slices.Equal(next, x.standIns) {
		return
	}
	w.beginChange(r)
	x.standIns = next
	r.ranks = r.order.n + uint32(len(next))
	r.flags |= standInsChanged
	w.walk(r, hashOnly, true)
}

// standIns returns the phases of the ranks from n on, given those they have and all ranks,
// below n or not, that were declined. A stand-in keeps its phase as long as that is
// needed, unless a place before it is free; one that declines itself has another after it.
func assignStandIns(n uint32, have, declined []uint32) (next []uint32) {
	declines := func(i int) bool { return slices.Contains(declined, n+uint32(i)) }
	lacking := slices.DeleteFunc(slices.Clone(declined), func(rank uint32) bool { return rank >= n })
	var kept [maxStandIns]bool
	for i, phase := range have {
		if j := slices.Index(lacking, phase); j >= 0 && !declines(i) {
			kept[i] = true
			lacking = slices.Delete(lacking, j, j+1)
		}
	}
	for i := range kept {
		last := len(kept) - 1
		for last >= 0 && !kept[last] {
			last--
		}
		switch {
		case len(lacking) == 0 && last < i:
			return next
		case i < len(have) && (kept[i] || declines(i)): // whose member declines keeps its place
			next = append(next, have[i])
		case len(lacking) > 0:
			next = append(next, lacking[0])
			if !declines(i) {
				lacking = lacking[1:]
			}
		default:
			next = append(next, have[last])
			kept[last] = declines(i)
		}
	}
	return next
}

// Ordered returns the term of the order that stands for a key which this node leads, and how
// many ranks it has; ok is false if there is none, or if it is one of polling levels.
func (w *Wedge) OrderInForce(key overlay.ID) (term Term, n int, ok bool) {
	r := w.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digitBits != 0 {
		return Term{}, 0, false
	}
	return r.order.term, int(r.order.n), true
}

// Leads says whether an order of this node stands for a key. An order of a later term replaces it.
func (w *Wedge) Leads(key overlay.ID) bool {
	r := w.byKey(shortKey(key))
	return r != nil && r.order.key == key && r.flags&leads != 0
}

// Serving returns how many ranks of a key are served, and of how many the members
// declined, as far as the node, which has to be its leader, has been told; 0 if it is not, or if the wedge has no ranks.
func (w *Wedge) Served(key overlay.ID) (served, declined int) {
	r := w.byKey(shortKey(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digitBits != 0 {
		return 0, 0
	}
	count, _ := r.declined()
	return int(r.ranks - r.missing()), int(count)
}
