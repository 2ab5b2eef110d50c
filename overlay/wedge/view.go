package wedge

import "tidings/overlay"

// A View is a node's place in a key's wedge, for tests and observers.
type View struct {
	Leads      bool
	Assignment Assignment
	Declines   bool
	// First and Ranks are the range of ranks that the node divides among the members below it and
	// itself.
	First, Ranks int
	Parent       overlay.ID // zero: no parent
	Children     []overlay.ID
}

// View returns the node's place in a key's wedge; ok is false if it has none.
func (w *Wedge) View(key overlay.ID) (v View, ok bool) {
	r := w.table.byKey(shortKey(key))
	if r == nil || r.order.key != key {
		return View{}, false
	}
	v = View{
		Leads: r.flags&leads != 0, Assignment: r.assignment(), Declines: r.flags&declines != 0,
		First: int(r.first), Ranks: int(r.ranks),
	}
	if l := w.links.at(r.parent); l != nil {
		v.Parent = l.contact.ID
	}
	for i := range r.edges {
		if l := w.links.at(r.edges[i].link); l != nil {
			v.Children = append(v.Children, l.contact.ID)
		}
	}
	return v, true
}
