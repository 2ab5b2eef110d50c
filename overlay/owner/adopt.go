package owner

import "slices"

// What becomes of a pull.

// finish takes what was pulled, if somebody with a right to has signed it.
func (o *Owners) finish(s *seat) {
	p := s.pull
	switch {
	case p.foreign:
		o.endPull(s, true)
		return
	case p.mends != nil:
		o.keepMended(s)
		return
	}
	if !p.looked && o.unseen(s, p.epoch) {
		p.looks = true
		o.look(s, func() {
			if s.pull == p {
				p.looks, p.looked = false, true
				o.finish(s)
			}
		})
		return
	}
	if !p.looked {
		o.lookLater(s, p.epoch, p.from.ID)
	}
	e := s.epoch
	if e == nil || p.epoch.Lineage == e.Lineage && p.epoch.Number > e.Number && o.right(s, p.epoch) ||
		p.epoch.Lineage != e.Lineage && o.mayFollow(s, p.epoch, p.from.ID) {
		e = p.epoch
		if !e.certifiedBy(e.Owners) || s.epoch == nil && !o.right(s, e) {
			o.stats.Untrusted++
			o.endPull(s, false)
			return
		}
	}
	if p.epoch.Lineage != e.Lineage {
		// Another lineage lives, which this node may not follow yet.
		o.endPull(s, false)
		if !o.unseen(s, p.epoch) { // else the look-up has found nobody: meet would pull again
			o.meet(s, p.epoch, p.from.ID, Hash{}, false)
		}
		return
	}
	if slices.ContainsFunc(p.got, func(n *Entry) bool { return !e.admits(n) }) {
		o.stats.Untrusted++
		o.endPull(s, false)
		return
	}
	if n := len(p.got); n > 0 && !p.held && !p.whole && !e.owns(o.self) {
		p.have, p.held = p.got[n-1].Prev, true
		p.got, p.bodies = p.got[:n-1], p.bodies[:n-1] // it comes again when a quorum holds it
	}
	var last *Entry
	if len(p.got) > 0 {
		last = p.got[len(p.got)-1]
	}
	switch {
	case last == nil || s.log.find(last.Hash) >= 0:
		// Nothing that is not here already.
	case last.Signer == e.Sequencer && last.At.Lineage == e.Lineage && last.At.Epoch == e.Number, last.Hash == e.AfterHash:
		o.adopt(s)
	default:
		o.stats.Untrusted++
		o.endPull(s, false)
		return
	}
	if e != s.epoch {
		o.install(s, e, p.from.ID)
	}
	if p.held {
		o.settle(s, p.have)
	}
	if p.from.ID == e.Sequencer {
		s.heard = o.clock.Now()
	}
	if p.epoch.Hash == e.Hash {
		o.takeNote(s, p.note, p.version, p.from.ID)
	}
	if !p.stores {
		o.endPull(s, true)
	}
}

// adopt makes what was pulled part of the log. What both had is not new.
func (o *Owners) adopt(s *seat) {
	p := s.pull
	fresh, bodies, anew := p.got, p.bodies, p.anew
	if anew {
		if at := s.log.find(fresh[0].Prev); at >= 0 && at == len(s.log)-1 {
			anew = false // it keeps less than this node, and goes on from its head
		}
	} else if fresh[0].Prev != s.log.headHash() {
		// The log here has grown, or was cut, while this was under way.
		i := 0
		for i < len(fresh) && s.log.find(fresh[i].Hash) >= 0 {
			i++
		}
		if fresh, bodies = fresh[i:], bodies[i:]; len(fresh) == 0 || fresh[0].Prev != s.log.headHash() {
			return
		}
	}
	for i, e := range fresh {
		if bodies[i] == nil && e.Size > 0 {
			if s.epoch != nil && !s.epoch.owns(p.from.ID) {
				return // an owner may have what this one lost
			}
			o.stats.Lost++ // a reader lacks items, the chain stays whole
		}
	}
	if s.lead != nil && anew {
		return // a sequencer's own log is the one
	}
	p.stores = true
	o.keep(s, fresh, bodies, anew, func(ok bool) {
		p.stores = false
		if s.pull == p {
			o.endPull(s, ok)
		}
	})
}
