package daemon

import "tidings/overlay"

// pendingChanges holds the changes of subscriptions that are being written to the store. Without them, a
// request that looks only at the store could undo what the user asked for a moment ago. The loop owns it.
type pendingChanges struct {
	byKey  map[overlay.ID]pendingChange
	number int // of the last change
}

// A pendingChange is the state that a subscription will have.
type pendingChange struct {
	attributes
	subscribed bool
	number     int
}

// add adds a change that is being written. The caller calls done when it is written, or has failed.
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

// intended returns the attributes of a subscription, with a pending change if there is one.
func (d *Daemon) intended(key overlay.ID) (a attributes, subscribed bool) {
	if w, isPending := d.pending.byKey[key]; isPending {
		return w.attributes, w.subscribed
	}
	s, ok := d.node.Feeds.Subscription(key)
	return attributesOf(s), ok
}
