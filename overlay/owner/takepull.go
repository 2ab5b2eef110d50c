package owner

import "slices"

// take verifies what was pulled, and takes the entries, the epoch and the note.
func (l *learner) take(s *replica) {
	p := s.pull
	if !p.lookedUp && l.locator.needsLookup(s, p.epoch) {
		p.lookingUp = true
		l.locator.lookUp(s, func() {
			if s.pull == p {
				p.lookingUp, p.lookedUp = false, true
				l.take(s)
			}
		})
		return
	}
	if !p.lookedUp {
		l.locator.lookUpLater(s, p.epoch, p.from.ID)
	}
	e := s.epoch
	if e == nil || p.epoch.Branch == e.Branch && p.epoch.Number > e.Number && l.locator.acceptable(s, p.epoch) ||
		p.epoch.Branch != e.Branch && l.maySwitch(s, p.epoch, p.from.ID) {
		e = p.epoch
		if !e.certifiedBy(e.Owners) || s.epoch == nil && !l.locator.acceptable(s, e) {
			l.stats.Untrusted++
			l.puller.end(s, false)
			return
		}
	}
	if p.epoch.Branch != e.Branch {
		// Another branch is live, which this node may not follow yet.
		l.puller.end(s, false)
		if !l.locator.needsLookup(s, p.epoch) { // otherwise the lookup found nobody, and onOtherBranch would pull again
			l.otherBranch(s, p.epoch, p.from.ID, Hash{}, false)
		}
		return
	}
	if slices.ContainsFunc(p.entries, func(n *Entry) bool { return !e.admits(n) }) {
		l.stats.Untrusted++
		l.puller.end(s, false)
		return
	}
	if n := len(p.entries); n > 0 && !p.committed && !p.takeUncommitted && !e.owns(l.self) {
		p.have, p.committed = p.entries[n-1].Prev, true
		p.entries, p.bodies = p.entries[:n-1], p.bodies[:n-1] // the entry comes again when it is committed
	}
	var last *Entry
	if len(p.entries) > 0 {
		last = p.entries[len(p.entries)-1]
	}
	switch {
	case last == nil || s.log.find(last.Hash) >= 0:
		// Nothing that is not here already.
	case last.Signer == e.Sequencer && last.At.Branch == e.Branch && last.At.Epoch == e.Number, last.Hash == e.AfterHash:
		l.appendPulled(s)
	default:
		l.stats.Untrusted++
		l.puller.end(s, false)
		return
	}
	if e != s.epoch {
		l.commit(s, e, p.from.ID)
	}
	if p.committed {
		l.storage.markCommitted(s, p.have)
	}
	if p.from.ID == e.Sequencer {
		l.liveness.heard(s)
	}
	if p.epoch.Hash == e.Hash {
		l.takeNote(s, p.note, p.version, p.from.ID)
	}
	if !p.storing {
		l.puller.end(s, true)
	}
}

// appendPulled appends the new ones of the pulled entries to the log.
func (l *learner) appendPulled(s *replica) {
	p := s.pull
	fresh, bodies, restart := p.entries, p.bodies, p.restart
	if restart {
		if at := s.log.find(fresh[0].Prev); at >= 0 && at == len(s.log.chain)-1 {
			restart = false // the peer keeps fewer old entries, and continues from this node's head
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
				return // an owner may still have the body
			}
			l.stats.Lost++ // readers miss the items, but the chain stays complete
		}
	}
	if s.leader != nil && restart {
		return // the sequencer's own log is authoritative
	}
	p.storing = true
	l.storage.append(s, fresh, bodies, restart, func(ok bool) {
		p.storing = false
		if s.pull == p {
			l.puller.end(s, ok)
		}
	})
}
