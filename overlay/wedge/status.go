package wedge

import (
	"slices"
	"time"

	"tidings/overlay/wedge/wedgepb"
)

// missing counts the ranks of a membership's range that nobody serves, as far as the node knows.
// The ranks of an edge count as served until its child reports otherwise.
func (r *membership) missing() uint32 {
	m := r.assignedRanks(nil) - uint32(r.serving().Len())
	for i := range r.edges {
		m += r.edges[i].missing
	}
	return m
}

// declined counts the ranks of the range whose members declined, and returns the first maxStandIns
// of them.
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

// reports tell parents how many ranks nobody serves, and have the leader assign stand-ins.
type reports struct {
	*base
	links  *links
	table  *table
	outbox *outbox
	tree   *tree
}

// update queues a status for the parent if the number of missing ranks differs from the last
// report. At the leader it plans stand-ins instead.
func (rp *reports) update(r *membership) {
	switch {
	case r.order.digitBits != 0: // nobody counts the members of a wedge of levels
	case r.flags&leads != 0:
		if r.flags&declines != 0 || r.extra != nil && len(r.extra.declinedBelow)+len(r.extra.standIns) > 0 {
			rp.planStandIns(r)
		}
	case r.parent != noLink && r.flags&statusQueued == 0 && r.missing() != r.reported:
		r.flags |= statusQueued
		rp.outbox.enqueue(rp.links.at(r.parent), change{kind: changeStatus, key: shortKey(r.order.key)}, statusDelay)
	}
}

// status returns the report for the parent.
func (r *membership) status() *wedgepb.Status {
	count, ranks := r.declined()
	return &wedgepb.Status{
		Key: shortKey(r.order.key), EdgeHash: uint32(r.parentEdgeHash()), Missing: r.missing(), Declined: count, Ranks: ranks,
	}
}

// onStatus handles a child's report, unless the edge has changed since.
func (rp *reports) onStatus(l *link, t *wedgepb.Status) {
	r := rp.table.byKey(t.Key)
	if r == nil {
		return
	}
	e := r.edgeTo(l)
	if e == nil || uint32(r.childEdgeHash(e)) != t.EdgeHash || t.Missing > e.ranks || int(t.Declined) < len(t.Ranks) ||
		slices.ContainsFunc(t.Ranks, func(rank uint32) bool { return rank-e.first >= e.ranks }) {
		return
	}
	rp.table.change(r)
	had := r.extra != nil && slices.ContainsFunc(r.extra.declinedBelow, func(b childDeclined) bool { return b.link == l.number && len(b.ranks) > 0 })
	r.forgetStatus(e)
	e.missing = t.Missing
	if t.Declined > 0 {
		x := r.ensureExtra()
		x.declinedBelow = append(x.declinedBelow, childDeclined{l.number, t.Declined, t.Ranks})
	}
	if had || t.Declined > 0 {
		r.reported = neverReported
	}
}

// planStandIns has the leader assign stand-ins after standInDelay, unless that is planned already.
func (rp *reports) planStandIns(r *membership) {
	x := r.ensureExtra()
	if x.standInsAt.IsZero() {
		x.standInsAt = rp.clock.Now().Add(standInDelay)
		rp.cal.Add(x.standInsAt, task{kind: taskStandIns, key: shortKey(r.order.key)})
	}
}

// updateStandIns assigns the phases of declined ranks to the members next in distance, which get
// the ranks from n on.
func (rp *reports) updateStandIns(r *membership, at time.Time) {
	if r == nil || r.extra == nil || !r.extra.standInsAt.Equal(at) {
		return
	}
	x := r.extra
	x.standInsAt = time.Time{}
	if r.flags&leads == 0 {
		return
	}
	count, declined := r.declined()
	rp.stats.LeftOut += uint64(count) - uint64(len(declined))
	next := assignStandIns(r.order.n, x.standIns, declined)
	if slices.Equal(next, x.standIns) {
		return
	}
	rp.table.change(r)
	x.standIns = next
	r.ranks = r.order.n + uint32(len(next))
	r.flags |= standInsChanged
	rp.tree.walk(r, hashOnly, true)
}

// assignStandIns returns the phases of the ranks from n on, given their present phases and all
// declined ranks, which may be stand-ins. A stand-in keeps its phase while that phase needs one,
// unless an earlier place is free. A stand-in that declines keeps its place, and a later one takes
// the phase.
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
		case i < len(have) && (kept[i] || declines(i)): // a stand-in that declines keeps its place
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
