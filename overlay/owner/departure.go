package owner

import "time"

const (
	// handOverTime is how long a leaving node waits for the next key to be handed over. Three rounds and three
	// commits to disk take less than a second. Keys not handed over by then are taken over as after a death.
	handOverTime = 2 * time.Second
	// maxHandOver bounds the whole hand-over. A slow machine hands over some hundred keys a second.
	maxHandOver = 10 * time.Second
)

// A departure hands over the keys of a node that is leaving.
type departure struct {
	*membership
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
func (d *departure) HandOver(done func()) {
	now := d.clock.Now()
	d.leaving = true
	d.since, d.lastProgress, d.done = now, now, done
	for _, led := range []bool{true, false} { // keys led here first: the others work without this node for a while
		for _, s := range d.replicas.all() {
			if s.leader != nil == led {
				d.start(s)
			}
		}
	}
	d.after(handOverTime, task{kind: taskHandOverTimeout})
	d.check()
}

// start plans a campaign for a key that has to be handed over.
func (d *departure) start(s *replica) {
	if d.mustHandOver(s) {
		d.campaignIn(s, 0)
	}
}

// check records progress, and ends the hand-over if nothing is left.
func (d *departure) check() {
	if d.done == nil {
		return
	}
	d.lastProgress = d.clock.Now()
	for _, s := range d.replicas.byKey {
		if d.mustHandOver(s) && d.desiredOwners(s) != nil {
			return
		}
	}
	d.end()
}

// timeout ends a hand-over without progress.
func (d *departure) timeout(now time.Time) {
	if wait := min(handOverTime-now.Sub(d.lastProgress), maxHandOver-now.Sub(d.since)); wait > 0 {
		d.after(wait, task{kind: taskHandOverTimeout})
		return
	}
	d.end()
}

// end calls done if it was not called before.
func (d *departure) end() {
	if done := d.done; done != nil {
		d.done = nil
		done()
	}
}
