package wedge

import (
	"iter"
	"time"

	"tidings/overlay"
)

// A priorState is the state of a membership before a change.
type priorState struct {
	membership    *membership
	order         *order
	ranks         Ranks // ranks that the node served
	intervalStart int64
}

// neverReported means that the parent has to be told even if no rank is missing.
const neverReported = ^uint32(0)

// beginChange must be called before a membership is changed. It removes the edges from the digests
// of their links; finishChanges adds them again in their new form.
func (w *Wedge) beginChange(r *membership) {
	if r.flags&changing != 0 {
		return
	}
	w.changed = append(w.changed, priorState{r, r.order, r.serving(), r.intervalStart})
	r.flags |= changing
	if l := w.linkAt(r.parent); l != nil {
		l.up.remove(r.parentEdgeHash())
	}
	for i := range r.edges {
		e := &r.edges[i]
		if l := w.linkAt(e.link); l != nil {
			l.down.remove(r.childEdgeHash(e))
		}
	}
}

// finishChanges completes all changes since beginChange: it updates the digests, informs the
// application of changed assignments and parents of missing ranks, and sends broadcasts. It also
// completes changes that the application makes meanwhile.
func (w *Wedge) finishChanges() {
	if w.finishing {
		return
	}
	w.finishing = true
	for i := 0; i < len(w.changed); i++ {
		b := w.changed[i]
		r := b.membership
		if r.flags&removed != 0 {
			if b.ranks.Len() > 0 {
				w.app.Release(b.order.key)
			}
			continue
		}
		r.flags &^= changing
		if l := w.linkAt(r.parent); l != nil {
			l.up.add(r.parentEdgeHash())
		}
		for j := range r.edges {
			e := &r.edges[j]
			if l := w.linkAt(e.link); l != nil {
				l.down.add(r.childEdgeHash(e))
				w.startDigests(l)
			}
		}
		w.notify(r, b)
	}
	for _, number := range w.freed {
		w.memberships.Take(number)
	}
	w.freed = w.freed[:0]
	if cap(w.changed) > changedCap {
		w.changed = nil
	}
	w.changed = w.changed[:0]
	w.finishing = false
	w.sendBroadcasts()
}

// changedCap is the capacity of Wedge.changed that is kept: about as many memberships as use one
// link.
const changedCap = 512

// notify informs the application and the parent of a change.
func (w *Wedge) notify(r *membership, b priorState) {
	if r.flags&appAsked == 0 && r.assignedRanks(nil) > 0 {
		r.flags |= appAsked
		if !w.app.Willing(r.order.key, r.order.payload) {
			r.flags |= declines
		}
	}
	w.updateStatus(r)
	switch now := r.serving(); {
	case now.Len() == 0 && b.ranks.Len() > 0:
		w.app.Release(r.order.key)
	case now.Len() > 0 && (now != b.ranks || r.order != b.order || r.intervalStart != b.intervalStart):
		w.app.Serve(r.order.key, r.assignment())
		if b.ranks.Len() == 0 {
			w.deliverKept(r)
		}
	}
}

// serving returns the ranks that the node serves: none if the application has not been asked, or
// declined.
func (r *membership) serving() (ranks Ranks) {
	if r.flags&(appAsked|declines) != appAsked {
		return ranks
	}
	return r.servedRanks()
}

func (r *membership) assignment() Assignment {
	return Assignment{
		Term:          r.order.term,
		Ranks:         r.serving(),
		N:             int(r.order.n),
		IntervalStart: time.Unix(0, r.intervalStart).UTC(),
		Interval:      r.order.interval,
		Payload:       r.order.payload,
	}
}

// newMembership makes the membership for an order.
func (w *Wedge) newMembership(o *order) *membership {
	number := w.memberships.Put(membership{order: o, index: uint32(len(w.active))})
	w.active = append(w.active, number)
	w.byShortKey[shortKey(o.key)] = number
	r := w.memberships.At(number)
	w.beginChange(r)
	return r
}

// all iterates over the memberships.
func (w *Wedge) all() iter.Seq[*membership] {
	return func(yield func(*membership) bool) {
		for _, number := range w.active {
			if !yield(w.memberships.At(number)) {
				return
			}
		}
	}
}

// byKey returns the membership with a short key, or nil.
func (w *Wedge) byKey(key uint64) *membership {
	if number, ok := w.byShortKey[key]; ok {
		return w.memberships.At(number)
	}
	return nil
}

// setOrder replaces the order of a membership by a later one.
func (w *Wedge) setOrder(r *membership, o *order) {
	r.order = o
	r.flags &^= appAsked | declines | leads | reportedMissing
	r.reported = 0
	if r.extra != nil {
		r.extra.declinedBelow = nil
	}
}

// remove ends a membership and its edges, up and down.
func (w *Wedge) remove(r *membership) {
	w.endEdges(r)
	w.leaveParent(r)
	w.keepBroadcast(r, nil)
	last := w.active[len(w.active)-1]
	w.freed = append(w.freed, w.active[r.index])
	w.active[r.index], w.memberships.At(last).index = last, r.index
	w.active = w.active[:len(w.active)-1]
	delete(w.byShortKey, shortKey(r.order.key))
	r.flags |= removed
}

// endEdges ends the edges to all children.
func (w *Wedge) endEdges(r *membership) {
	w.beginChange(r)
	for i := range r.edges {
		e := &r.edges[i]
		if l := w.linkAt(e.link); l != nil {
			w.queueEnd(l, r)
			r.forgetStatus(e)
		}
	}
	r.edges = nil
}

// leaveParent ends the edge to the parent, and tells the parent.
func (w *Wedge) leaveParent(r *membership) {
	w.beginChange(r)
	if l := w.linkAt(r.parent); l != nil {
		w.queueLeave(l, r)
		w.setParent(r, nil)
	}
}

// setParent makes a peer the parent; nil means that there is none.
func (w *Wedge) setParent(r *membership, l *link) {
	if was := w.linkAt(r.parent); was != nil {
		was.childOf--
	}
	if r.parent = noLink; l != nil {
		l.childOf++
		r.parent = l.number
	}
	r.flags &^= statusQueued
}

// loseParent leaves a membership without parent and children. The node goes on serving for the
// grace, in which another parent may appear.
func (w *Wedge) loseParent(r *membership) {
	w.endEdges(r)
	w.setParent(r, nil)
	r.flags |= inGrace
	x := r.ensureExtra()
	x.graceEnd = w.clock.Now().Add(grace)
	w.cal.Add(x.graceEnd, task{kind: taskGrace, key: shortKey(r.order.key)})
}

// graceOver ends a membership whose grace is over.
func (w *Wedge) graceOver(r *membership, now time.Time) {
	if r != nil && r.flags&inGrace != 0 && !now.Before(r.extra.graceEnd) {
		w.remove(r)
	}
}

// Assignment returns the node's assignment for a key; ok is false if it has none.
func (w *Wedge) Assignment(key overlay.ID) (d Assignment, ok bool) {
	r := w.byKey(shortKey(key))
	if r == nil || r.order.key != key {
		return Assignment{}, false
	}
	d = r.assignment()
	return d, d.Ranks.Len() > 0
}
