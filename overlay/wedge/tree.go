package wedge

import (
	"slices"
	"time"

	"tidings/overlay/wedge/wedgepb"
)

// endEdges ends the edges to all children.
func (tr *tree) endEdges(r *membership) {
	tr.table.change(r)
	for i := range r.edges {
		e := &r.edges[i]
		if l := tr.links.at(e.link); l != nil {
			tr.outbox.queueEnd(l, r)
			r.forgetStatus(e)
		}
	}
	r.edges = nil
}

// leaveParent ends the edge to the parent, and tells the parent.
func (tr *tree) leaveParent(r *membership) {
	tr.table.change(r)
	if l := tr.links.at(r.parent); l != nil {
		tr.outbox.enqueue(l, change{kind: changeLeave, key: shortKey(r.order.key)}, flushDelay)
		tr.table.setParent(r, nil)
	}
}

// loseParent leaves a membership without parent and children. The node goes on serving for the
// grace, in which another parent may appear.
func (tr *tree) loseParent(r *membership) {
	tr.endEdges(r)
	tr.table.setParent(r, nil)
	r.flags |= inGrace
	x := r.ensureExtra()
	x.graceEnd = tr.clock.Now().Add(grace)
	tr.cal.Add(x.graceEnd, task{kind: taskGrace, key: shortKey(r.order.key)})
}

// graceOver ends a membership whose grace is over.
func (tr *tree) graceOver(r *membership, now time.Time) {
	if r != nil && r.flags&inGrace != 0 && !now.Before(r.extra.graceEnd) {
		tr.remove(r)
	}
}

// remove ends a membership and its edges, up and down.
func (tr *tree) remove(r *membership) {
	tr.endEdges(r)
	tr.leaveParent(r)
	tr.broadcasts.keep(r, nil)
	last := tr.table.active[len(tr.table.active)-1]
	tr.table.freed = append(tr.table.freed, tr.table.active[r.index])
	tr.table.active[r.index], tr.table.store.At(last).index = last, r.index
	tr.table.active = tr.table.active[:len(tr.table.active)-1]
	delete(tr.table.byShortKey, shortKey(r.order.key))
	r.flags |= removed
}

// childLeft detaches a child that has another parent. If that parent is right, this node will soon
// lose its own or get other ranks. Otherwise this node asks the child again in the next round.
func (tr *tree) childLeft(r *membership, e *edge) {
	if e != nil {
		tr.table.change(r)
		r.detach(e)
		e.flags = childMoved
	}
}

// setIntervalStart sets the start of the interval, unless the difference from the known one is
// within startTolerance. Only the phase matters, not which interval it is.
func (tr *tree) setIntervalStart(r *membership, age time.Duration) {
	if r.order.digitBits != 0 { // each member has its own start
		if r.intervalStart == 0 {
			r.intervalStart = tr.clock.Now().UnixNano() - tr.rand.Int64N(int64(r.order.interval))
		}
		return
	}
	ref := tr.clock.Now().Add(-age).UnixNano()
	off := (time.Duration(ref-r.intervalStart) % r.order.interval).Abs()
	if r.intervalStart == 0 || min(off, r.order.interval-off) > startTolerance {
		r.intervalStart = ref
	}
}

// acceptEntry makes an entry the membership's edge to its parent, and continues the walk. Children
// are told as much of the order as was new at this node.
func (tr *tree) acceptEntry(l *link, r *membership, o *order, e *wedgepb.Entry, waited time.Duration, detail orderDetail) {
	tr.table.change(r)
	fresh := r.ranks == 0 || r.order.digitBits != o.digitBits
	anew := r.ranks != e.Ranks || int(r.depth) != int(e.Depth) || o != r.order
	if r.parent != l.number {
		tr.leaveParent(r)
		if l.childOf == 0 {
			l.renewedAt = tr.clock.Now()
		}
		tr.table.setParent(r, l)
		r.reported, r.flags = 0, r.flags&^reportedMissing
		if e.Listed {
			r.reported = neverReported // the parent may remember an earlier report
		}
	} else if !e.Listed && (r.reported != 0 || r.flags&reportedMissing != 0) {
		r.reported = neverReported // the parent may have missed a report, or have kept an earlier one
	}
	if o != r.order {
		tr.table.setOrder(r, o)
	}
	r.flags &^= leads | inGrace
	r.listRound = l.round
	r.depth, r.first, r.ranks = uint16(e.Depth), e.First, e.Ranks
	if o.digitBits != 0 && fresh {
		r.level = tr.sharedDigits(o)
	}
	if len(e.StandIns) > 0 || r.extra != nil {
		if x := r.ensureExtra(); !slices.Equal(x.standIns, e.StandIns) {
			x.standIns = slices.Clone(e.StandIns)
			r.flags |= standInsChanged
		}
	}
	tr.setIntervalStart(r, time.Duration(e.AgeMs)*time.Millisecond+waited)
	tr.walk(r, detail, anew)
}
