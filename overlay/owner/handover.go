package owner

import "time"

// handOverTime is how long a node that leaves waits for others to lead in its place. Three
// rounds and as many disks take less than a second; whoever does not come so far takes
// over as after a death.
const handOverTime = 2 * time.Second

// HandOver gives the keys that this node leads into other hands, because it is about to
// leave the network. Of each it makes an epoch without itself, led by the nearest of the
// owners that stay, who has all that was held in hand. done is called, once, when it
// leads no key that anybody else could lead, within two seconds at the latest: then the node
// should leave the overlay, or it would be taken for an owner again.
func (o *Owners) HandOver(done func()) {
	o.leaving, o.handedOver = true, done
	for _, s := range o.sorted() {
		o.handOn(s)
	}
	o.after(handOverTime, task{kind: taskHandOver})
	o.handed()
}

// handOn makes another lead a key.
func (o *Owners) handOn(s *seat) {
	if o.leaving && s.lead != nil {
		o.bidIn(s, 0)
	}
}

// handed tells when there is nothing to be handed over any more.
func (o *Owners) handed() {
	if o.handedOver == nil {
		return
	}
	for _, s := range o.seats {
		if s.lead != nil && o.wanted(s) != nil {
			return
		}
	}
	o.endHandOver()
}

// endHandOver tells, if it was not told before, that the node may leave.
func (o *Owners) endHandOver() {
	if done := o.handedOver; done != nil {
		o.handedOver = nil
		done()
	}
}
