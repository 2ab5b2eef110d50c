package wedge

import (
	"iter"

	"tidings/internal/slab"
)

// A table holds the memberships of a node, and what changes in them.
type table struct {
	links      *links
	store      slab.Slab[membership]
	active     []uint32          // numbers of the memberships; their order is the same in every run of a simulation
	byShortKey map[uint64]uint32 // numbers of the memberships, by shortKey
	freed      []uint32          // numbers of removed memberships; reusable after finishChanges
	changed    []priorState      // memberships that are being changed
}

// change must be called before a membership is changed. It removes the edges from the digests
// of their links; finishChanges adds them again in their new form.
func (tb *table) change(r *membership) {
	if r.flags&changing != 0 {
		return
	}
	tb.changed = append(tb.changed, priorState{r, r.order, r.serving(), r.intervalStart})
	r.flags |= changing
	if l := tb.links.at(r.parent); l != nil {
		l.up.remove(r.parentEdgeHash())
	}
	for i := range r.edges {
		e := &r.edges[i]
		if l := tb.links.at(e.link); l != nil {
			l.down.remove(r.childEdgeHash(e))
		}
	}
}

// add makes the membership for an order.
func (tb *table) add(o *order) *membership {
	number := tb.store.Put(membership{order: o, index: uint32(len(tb.active))})
	tb.active = append(tb.active, number)
	tb.byShortKey[shortKey(o.key)] = number
	r := tb.store.At(number)
	tb.change(r)
	return r
}

// all iterates over the memberships.
func (tb *table) all() iter.Seq[*membership] {
	return func(yield func(*membership) bool) {
		for _, number := range tb.active {
			if !yield(tb.store.At(number)) {
				return
			}
		}
	}
}

// byKey returns the membership with a short key, or nil.
func (tb *table) byKey(key uint64) *membership {
	if number, ok := tb.byShortKey[key]; ok {
		return tb.store.At(number)
	}
	return nil
}

// setOrder replaces the order of a membership by a later one.
func (tb *table) setOrder(r *membership, o *order) {
	r.order = o
	r.flags &^= appAsked | declines | leads | reportedMissing
	r.reported = 0
	if r.extra != nil {
		r.extra.declinedBelow = nil
	}
}

// setParent makes a peer the parent; nil means that there is none.
func (tb *table) setParent(r *membership, l *link) {
	if was := tb.links.at(r.parent); was != nil {
		was.childOf--
	}
	if r.parent = noLink; l != nil {
		l.childOf++
		r.parent = l.number
	}
	r.flags &^= statusQueued
}

// A priorState is the state of a membership before a change.
type priorState struct {
	membership    *membership
	order         *order
	ranks         Ranks // ranks that the node served
	intervalStart int64
}

// changedCap is the capacity of table.changed that is kept: about as many memberships as use one
// link.
const changedCap = 512
