package daemon

import "tidings/overlay"

// wishes are the subscriptions that are being written, as they are to be: who looks at what is on
// the disk alone would end, or write over, what a person has asked for a moment ago. They belong to the
// loop.
type wishes struct {
	of     map[overlay.ID]wish
	number int // of the last one
}

// A wish is what becomes of a subscription.
type wish struct {
	attributes
	follows bool
	number  int
}

// wish notes what is being written, and returns what is to be called when that is done.
func (w *wishes) wish(key overlay.ID, a attributes, follows bool) (done func()) {
	if w.of == nil {
		w.of = map[overlay.ID]wish{}
	}
	w.number++
	n := w.number
	w.of[key] = wish{a, follows, n}
	return func() {
		if w.of[key].number == n {
			delete(w.of, key)
		}
	}
}

// wanted returns what a subscription is, or is to be.
func (d *Daemon) wanted(key overlay.ID) (a attributes, follows bool) {
	if w, writing := d.wishes.of[key]; writing {
		return w.attributes, w.follows
	}
	s, ok := d.node.Feeds.Subscription(key)
	return attributesOf(s), ok
}
