package daemon

import "tidings/overlay"

// wishes are the subscriptions that are being written, as they are to be: who looks at what is on
// the disk alone would end, or write over, what a person has asked for a moment ago. They belong to the
// loop.
type pendingChanges struct {
	byKey  map[overlay.ID]pendingChange
	number int // of the last one
}

// A wish is what becomes of a subscription.
type pendingChange struct {
	attributes
	subscribed bool
	number     int
}

// wish notes what is being written, and returns what is to be called when that is done.
func (p *pendingChanges) add(key overlay.ID, a attributes, subscribed bool) (done func()) {
	if p.byKey == nil {
		p.byKey = map[overlay.ID]pendingChange{}
	}
	p.number++
	n := p.number
	p.byKey[key] = pendingChange{a, subscribed, n}
	return func() {
		if p.byKey[key].number == n {
			delete(p.byKey, key)
		}
	}
}

// wanted returns what a subscription is, or is to be.
func (d *Daemon) intended(key overlay.ID) (a attributes, subscribed bool) {
	if w, isPending := d.pending.byKey[key]; isPending {
		return w.attributes, w.subscribed
	}
	s, ok := d.node.Feeds.Subscription(key)
	return attributesOf(s), ok
}
