package wedge

import (
	"slices"
	"time"

	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// missing counts the ranks of a record's interval that nobody serves, as far as the node
// knows: a child has all that are its own served unless it tells otherwise.
func (r *record) missing() uint32 {
	m := r.held(nil) - uint32(r.serving().Len())
	for i := range r.edges {
		m += r.edges[i].missing
	}
	return m
}

// declined counts the ranks of the interval whose members have declined, and names the
// first of them.
func (r *record) declined() (count uint32, ranks []uint32) {
	if r.flags&declines != 0 {
		count = r.held(func(rank uint32) {
			if len(ranks) < maxStandIns {
				ranks = append(ranks, rank)
			}
		})
	}
	if r.extra != nil {
		for _, b := range r.extra.below {
			count += b.declined
			ranks = append(ranks, b.ranks...)
		}
	}
	slices.Sort(ranks)
	return count, ranks[:min(len(ranks), maxStandIns)]
}

// tally has the parent told, soon, if what is missing is not what it was told. The leader
// looks for stand-ins.
func (w *Wedge) tally(r *record) {
	switch {
	case r.order.digit != 0: // who is in a wedge of levels is not counted
	case r.flags&leads != 0:
		if r.flags&declines != 0 || r.extra != nil && len(r.extra.below)+len(r.extra.standIns) > 0 {
			w.planStandIns(r)
		}
	case r.parent != none && r.flags&telling == 0 && r.missing() != r.told:
		r.flags |= telling
		w.enqueue(w.numbered(r.parent), item{kind: itemTally, key: name(r.order.key)}, tallyDelay)
	}
}

// tally is what the parent is told.
func (r *record) tally() *wedgepb.Tally {
	count, ranks := r.declined()
	return &wedgepb.Tally{
		Key: name(r.order.key), Of: uint32(r.up()), Missing: r.missing(), Declined: count, Ranks: ranks,
	}
}

// onTally takes what a child tells of its edge, if that is still the same.
func (w *Wedge) onTally(l *link, t *wedgepb.Tally) {
	r := w.named(t.Key)
	if r == nil {
		return
	}
	e := r.to(l)
	if e == nil || uint32(r.down(e)) != t.Of || t.Missing > e.ranks || int(t.Declined) < len(t.Ranks) ||
		slices.ContainsFunc(t.Ranks, func(rank uint32) bool { return rank-e.first >= e.ranks }) {
		return
	}
	w.begin(r)
	had := len(r.belowOf(l))
	r.reset(e)
	e.missing = t.Missing
	if t.Declined > 0 {
		x := r.rare()
		x.below = append(x.below, below{l.number, t.Declined, t.Ranks})
	}
	if had > 0 || t.Declined > 0 {
		r.told = unknown
	}
}

// belowOf returns the ranks that a child told to be declined.
func (r *record) belowOf(l *link) []uint32 {
	if r.extra != nil {
		for _, b := range r.extra.below {
			if b.link == l.number {
				return b.ranks
			}
		}
	}
	return nil
}

// planStandIns has the leader look at the stand-ins in a while.
func (w *Wedge) planStandIns(r *record) {
	x := r.rare()
	if x.standing.IsZero() {
		x.standing = w.clock.Now().Add(standDelay)
		w.cal.Add(x.standing, task{kind: taskStand, key: name(r.order.key)})
	}
}

// standIn gives the phases of the ranks that were declined to the members next in order:
// the ranks from n on.
func (w *Wedge) standIn(r *record, at time.Time) {
	if r == nil || r.extra == nil || !r.extra.standing.Equal(at) {
		return
	}
	x := r.extra
	x.standing = time.Time{}
	if r.flags&leads == 0 {
		return
	}
	count, declined := r.declined()
	w.stats.LeftOut += uint64(count) - uint64(len(declined))
	next := standIns(r.order.n, x.standIns, declined)
	if slices.Equal(next, x.standIns) {
		return
	}
	w.begin(r)
	x.standIns = next
	r.ranks = r.order.n + uint32(len(next))
	r.flags |= stood
	w.walk(r, bare, true)
}

// standIns returns the phases of the ranks from n on, given those they have and all ranks,
// below n or not, that were declined. A stand-in keeps its phase as long as that is
// needed, unless a place before it is free; one that declines itself has another after it.
func standIns(n uint32, have, declined []uint32) (next []uint32) {
	out := func(i int) bool { return slices.Contains(declined, n+uint32(i)) }
	lacking := slices.DeleteFunc(slices.Clone(declined), func(rank uint32) bool { return rank >= n })
	var kept [maxStandIns]bool
	for i, phase := range have {
		if j := slices.Index(lacking, phase); j >= 0 && !out(i) {
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
		case i < len(have) && (kept[i] || out(i)): // whose member declines keeps its place
			next = append(next, have[i])
		case len(lacking) > 0:
			next = append(next, lacking[0])
			if !out(i) {
				lacking = lacking[1:]
			}
		default:
			next = append(next, have[last])
			kept[last] = out(i)
		}
	}
	return next
}

// Ordered returns the term of the order that stands for a key which this node leads, and how
// many ranks it has; ok is false if there is none, or if it is one of polling levels.
func (w *Wedge) Ordered(key overlay.ID) (term Term, n int, ok bool) {
	r := w.named(name(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digit != 0 {
		return Term{}, 0, false
	}
	return r.order.term, int(r.order.n), true
}

// Leads says whether an order of this node stands for a key. An order of a later term replaces it.
func (w *Wedge) Leads(key overlay.ID) bool {
	r := w.named(name(key))
	return r != nil && r.order.key == key && r.flags&leads != 0
}

// Serving returns how many ranks of a key are served, and of how many the members
// declined, as far as the node, which has to be its leader, has been told; 0 if it is not, or if the wedge has no ranks.
func (w *Wedge) Serving(key overlay.ID) (served, declined int) {
	r := w.named(name(key))
	if r == nil || r.order.key != key || r.flags&leads == 0 || r.order.digit != 0 {
		return 0, 0
	}
	count, _ := r.declined()
	return int(r.ranks - r.missing()), int(count)
}
