package owner

import "time"

const (
	// handOverTime is how long a node that leaves waits for the next key to come into other
	// hands. Three rounds and as many disks take less than a second; whoever does not come
	// so far takes over as after a death.
	handOverTime = 2 * time.Second
	// maxHandOver bounds the whole of it. A slow machine hands over some hundred keys a second.
	maxHandOver = 10 * time.Second
)

// A handOver is a node's leave-taking from its keys.
type departure struct {
	since        time.Time
	lastProgress time.Time // when a key came into other hands
	done         func()    // nil: it was called
}

// HandOver gives the keys that this node leads into other hands, because it is about to
// leave the network. Of each it makes an epoch without itself, led by the nearest of the
// owners that stay, who has all that was held in hand. It does the same, and lets the sequencer be,
// where the other owners are no quorum without it, as one of two: they could not make that
// epoch when it is gone, and would have to begin a new lineage. done is called, once, when
// nothing is left that somebody else could go on with, or when nothing has been handed over
// for two seconds, within ten at the latest: then the node should leave the overlay, or it
// would be taken for an owner again.
func (o *Owners) HandOver(done func()) {
	now := o.clock.Now()
	o.leaving = &departure{since: now, lastProgress: now, done: done}
	for _, led := range []bool{true, false} { // the others go on by themselves for a while
		for _, s := range o.sorted() {
			if s.leader != nil == led {
				o.startHandOver(s)
			}
		}
	}
	o.after(handOverTime, task{kind: taskHandOverTimeout})
	o.checkHandOver()
}

// needed says whether the other owners of a key that live are no quorum without this node.
func (o *Owners) neededForQuorum(s *replica) bool {
	return o.living(s.epoch.Owners)-1 < quorum(len(s.epoch.Owners))
}

// gives says whether a key is to be handed over when this node leaves.
func (o *Owners) mustHandOver(s *replica) bool {
	return o.leaving != nil && (s.leader != nil || o.owns(s) && o.neededForQuorum(s))
}

// handOn makes others own a key.
func (o *Owners) startHandOver(s *replica) {
	if o.mustHandOver(s) {
		o.campaignIn(s, 0)
	}
}

// handed tells when there is nothing to be handed over any more.
func (o *Owners) checkHandOver() {
	if o.leaving == nil || o.leaving.done == nil {
		return
	}
	o.leaving.lastProgress = o.clock.Now()
	for _, s := range o.replicas {
		if o.mustHandOver(s) && o.desiredOwners(s) != nil {
			return
		}
	}
	o.endHandOver()
}

// handOverLate ends a hand-over that does not go on.
func (o *Owners) handOverTimeout(now time.Time) {
	h := o.leaving
	if wait := min(handOverTime-now.Sub(h.lastProgress), maxHandOver-now.Sub(h.since)); wait > 0 {
		o.after(wait, task{kind: taskHandOverTimeout})
		return
	}
	o.endHandOver()
}

// endHandOver tells, if it was not told before, that the node may leave.
func (o *Owners) endHandOver() {
	if done := o.leaving.done; done != nil {
		o.leaving.done = nil
		done()
	}
}
