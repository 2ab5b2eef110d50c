package wedge

import (
	"iter"
	"time"

	"tidings/overlay"
)

// before is what a record was like before it was changed.
type before struct {
	record *record
	order  *order
	ranks  Ranks // that were served
	ref    int64
}

// unknown stands for a number that the parent has not been told.
const unknown = ^uint32(0)

// begin has to be called before a record is changed: its edges are taken out of the
// digests of their links, and put in again, as they are then, by settle.
func (w *Wedge) begin(r *record) {
	if r.flags&touched != 0 {
		return
	}
	w.touched = append(w.touched, before{r, r.order, r.serving(), r.ref})
	r.flags |= touched
	if l := w.numbered(r.parent); l != nil {
		l.up.remove(r.up())
	}
	for i := range r.edges {
		e := &r.edges[i]
		if l := w.numbered(e.link); l != nil {
			l.down.remove(r.down(e))
		}
	}
}

// settle ends a turn: the digests are right again, the application hears of changed
// duties, and parents of what is not served; messages of leaders go out. What the
// application does meanwhile is settled too.
func (w *Wedge) settle() {
	if w.settling {
		return
	}
	w.settling = true
	for i := 0; i < len(w.touched); i++ {
		b := w.touched[i]
		r := b.record
		if r.flags&ended != 0 {
			if b.ranks.Len() > 0 {
				w.app.Release(b.order.key)
			}
			continue
		}
		r.flags &^= touched
		if l := w.numbered(r.parent); l != nil {
			l.up.add(r.up())
		}
		for j := range r.edges {
			e := &r.edges[j]
			if l := w.numbered(e.link); l != nil {
				l.down.add(r.down(e))
				w.startDigests(l)
			}
		}
		w.tell(r, b)
	}
	for _, number := range w.gone {
		w.records.Take(number)
	}
	w.gone = w.gone[:0]
	if cap(w.touched) > keepTouched {
		w.touched = nil
	}
	w.touched = w.touched[:0]
	w.settling = false
	w.sendDowns()
}

// keepTouched is for how many changes room is kept: as many as records hang on one link, mostly.
const keepTouched = 512

// tell tells the application and the parent what has changed.
func (w *Wedge) tell(r *record, b before) {
	if r.flags&asked == 0 && r.held(nil) > 0 {
		r.flags |= asked
		if !w.app.Willing(r.order.key, r.order.words) {
			r.flags |= declines
		}
	}
	w.tally(r)
	switch now := r.serving(); {
	case now.Len() == 0 && b.ranks.Len() > 0:
		w.app.Release(r.order.key)
	case now.Len() > 0 && (now != b.ranks || r.order != b.order || r.ref != b.ref):
		w.app.Serve(r.order.key, r.duty())
		if b.ranks.Len() == 0 {
			w.recall(r)
		}
	}
}

// serving returns the ranks that the node serves.
func (r *record) serving() (of Ranks) {
	if r.flags&(asked|declines) != asked {
		return of
	}
	return r.serves()
}

func (r *record) duty() Duty {
	return Duty{
		Term:     r.order.term,
		Ranks:    r.serving(),
		Of:       int(r.order.n),
		Ref:      time.Unix(0, r.ref).UTC(),
		Interval: r.order.interval,
		Words:    r.order.words,
	}
}

// record makes the record of an order.
func (w *Wedge) record(o *order) *record {
	number := w.records.Put(record{order: o, place: uint32(len(w.listed))})
	w.listed = append(w.listed, number)
	w.names[name(o.key)] = number
	r := w.records.At(number)
	w.begin(r)
	return r
}

// all are the records.
func (w *Wedge) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, number := range w.listed {
			if !yield(w.records.At(number)) {
				return
			}
		}
	}
}

// named returns the record of a key, by its name; nil: there is none.
func (w *Wedge) named(key uint64) *record {
	if number, ok := w.names[key]; ok {
		return w.records.At(number)
	}
	return nil
}

// give puts a later order in the place of a record's.
func (w *Wedge) give(r *record, o *order) {
	r.order = o
	r.flags &^= asked | declines | leads | spoke
	r.told = 0
	if r.extra != nil {
		r.extra.below = nil
	}
}

// end forgets a record: its edges end, up and down.
func (w *Wedge) end(r *record) {
	w.endEdges(r)
	w.leaveParent(r)
	w.keep(r, nil)
	last := w.listed[len(w.listed)-1]
	w.gone = append(w.gone, w.listed[r.place])
	w.listed[r.place], w.records.At(last).place = last, r.place
	w.listed = w.listed[:len(w.listed)-1]
	delete(w.names, name(r.order.key))
	r.flags |= ended
}

// endEdges ends a record's edges to its children.
func (w *Wedge) endEdges(r *record) {
	w.begin(r)
	for i := range r.edges {
		e := &r.edges[i]
		if l := w.numbered(e.link); l != nil {
			w.queueEnd(l, r)
			r.reset(e)
		}
	}
	r.edges = nil
}

// leaveParent ends the edge to the parent.
func (w *Wedge) leaveParent(r *record) {
	w.begin(r)
	if l := w.numbered(r.parent); l != nil {
		w.queuePart(l, r)
		w.hang(r, nil)
	}
}

// hang makes a peer the record's parent; nil: it has none.
func (w *Wedge) hang(r *record, l *link) {
	if was := w.numbered(r.parent); was != nil {
		was.hanging--
	}
	if r.parent = none; l != nil {
		l.hanging++
		r.parent = l.number
	}
	r.flags &^= telling
}

// orphan leaves a record without parent and children. It serves on for a grace, in which
// another parent may come.
func (w *Wedge) orphan(r *record) {
	w.endEdges(r)
	w.hang(r, nil)
	r.flags |= ending
	x := r.rare()
	x.end = w.clock.Now().Add(endGrace)
	w.cal.Add(x.end, task{kind: taskEnd, key: name(r.order.key)})
}

// endDue ends a record whose grace is over.
func (w *Wedge) endDue(r *record, now time.Time) {
	if r != nil && r.flags&ending != 0 && !now.Before(r.extra.end) {
		w.end(r)
	}
}

// Duty returns what the node has to do for a key; ok is false if that is nothing.
func (w *Wedge) Duty(key overlay.ID) (d Duty, ok bool) {
	r := w.named(name(key))
	if r == nil || r.order.key != key {
		return Duty{}, false
	}
	d = r.duty()
	return d, d.Ranks.Len() > 0
}
