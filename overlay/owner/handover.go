package owner

import "time"

const (
	// handOverTime is how long a leaving node waits for the next key to be handed over. Three rounds and three
	// commits to disk take less than a second. Keys not handed over by then are taken over as after a death.
	handOverTime = 2 * time.Second
	// maxHandOver bounds the whole hand-over. A slow machine hands over some hundred keys a second.
	maxHandOver = 10 * time.Second
)

// A departure is the state of a node that is leaving.
type departure struct {
	since        time.Time // start of the hand-over
	lastProgress time.Time // last time a key was handed over
	done         func()    // called once when the node may leave; nil afterwards
}

// HandOver gives the keys that this node leads to other owners, because it is about to leave the network. For each key
// it makes an epoch without itself; the nearest remaining owner, with all committed entries, becomes the sequencer.
// For a key that another node leads, HandOver makes such an epoch only if the other owners are no quorum without
// this node, as with two owners: they could not make it later, and would need a forced reconfiguration.
// done is called once: when nothing is left to be handed over, when nothing was handed over for two seconds, or after
// ten seconds. The node should then leave the overlay, or it would become an owner again.
func (o *Owners) HandOver(done func()) {
	now := o.clock.Now()
	o.leaving = &departure{since: now, lastProgress: now, done: done}
	for _, led := range []bool{true, false} { // keys led here first: the others work without this node for a while
		for _, s := range o.replicas.all() {
			if s.leader != nil == led {
				o.startHandOver(s)
			}
		}
	}
	o.after(handOverTime, task{kind: taskHandOverTimeout})
	o.checkHandOver()
}

// neededForQuorum reports whether the other live owners of a key are no quorum.
func (o *Owners) neededForQuorum(s *replica) bool {
	return o.living(s.epoch.Owners)-1 < quorum(len(s.epoch.Owners))
}

// mustHandOver reports whether this node is leaving and has to hand over the key.
func (o *Owners) mustHandOver(s *replica) bool {
	return o.leaving != nil && (s.leader != nil || s.owned && o.neededForQuorum(s))
}

// startHandOver plans a campaign for a key that has to be handed over.
func (o *Owners) startHandOver(s *replica) {
	if o.mustHandOver(s) {
		o.campaignIn(s, 0)
	}
}

// checkHandOver records progress, and ends the hand-over if nothing is left.
func (o *Owners) checkHandOver() {
	if o.leaving == nil || o.leaving.done == nil {
		return
	}
	o.leaving.lastProgress = o.clock.Now()
	for _, s := range o.replicas.byKey {
		if o.mustHandOver(s) && o.desiredOwners(s) != nil {
			return
		}
	}
	o.endHandOver()
}

// handOverTimeout ends a hand-over without progress.
func (o *Owners) handOverTimeout(now time.Time) {
	h := o.leaving
	if wait := min(handOverTime-now.Sub(h.lastProgress), maxHandOver-now.Sub(h.since)); wait > 0 {
		o.after(wait, task{kind: taskHandOverTimeout})
		return
	}
	o.endHandOver()
}

// endHandOver calls done if it was not called before.
func (o *Owners) endHandOver() {
	if done := o.leaving.done; done != nil {
		o.leaving.done = nil
		done()
	}
}
