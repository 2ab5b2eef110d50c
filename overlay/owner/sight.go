package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// sightTime is how long a sighting counts. Owners change by ones and twos; whom a minute
// brings is not a quorum.
const sightTime = time.Minute

// A sighting is who lives near a key of another leaf, as a checked look-up has found.
type sighting struct {
	near []env.PeerID // twice as many as own the key
	at   time.Time    // zero: the look-up is under way
	then []func()
}

// elsewhere says whether a key lies in another leaf than this node's, whose members it
// does not know.
func (o *Owners) elsewhere(key overlay.ID) bool {
	return o.node.State() != overlay.Active || !o.node.Leaf().Covers(key)
}

// unseen says whether it takes a look-up to tell if an epoch's owners own the key: who
// stands in another leaf would have to be believed, and no epoch known here leads to
// this one.
func (o *Owners) unseen(s *seat, e *Epoch) bool {
	if !o.elsewhere(s.key) || !e.certifiedBy(e.Owners) || s.epoch != nil && (e.Hash == s.epoch.Hash || e.Succeeds(s.epoch)) {
		return false
	}
	return !o.sighted(s)
}

// sighted says whether somebody was found near a key of another leaf, of late.
func (o *Owners) sighted(s *seat) bool {
	return s.sight != nil && !s.sight.at.IsZero() && o.clock.Now().Sub(s.sight.at) < sightTime
}

// lookLater sees to it that who told of owners whom the last look-up did not find is asked
// once more when that counts no longer: the network may have been parted when it was made.
func (o *Owners) lookLater(s *seat, e *Epoch, from env.PeerID) {
	if s.teller == "" && o.elsewhere(s.key) && o.sighted(s) && e.certifiedBy(e.Owners) && !o.right(s, e) {
		s.teller = from
		o.cal.Add(s.sight.at.Add(sightTime), task{kind: taskLook, key: s.key})
	}
}

// lookNow does that.
func (o *Owners) lookNow(s *seat) {
	from := s.teller
	s.teller = ""
	if from != "" && s.epoch != nil && o.elsewhere(s.key) {
		o.startPull(s, o.peer(from), nil) // which looks first
	}
}

// look looks who lives near a key, and then goes on, unless the key was forgotten
// meanwhile.
func (o *Owners) look(s *seat, then func()) {
	if s.sight != nil && s.sight.at.IsZero() {
		s.sight.then = append(s.sight.then, then)
		return
	}
	g := &sighting{then: []func(){then}}
	s.sight = g
	o.stats.Looks++
	o.node.Lookup(s.key, 2*o.cfg.Owners, func(found overlay.Lookup) {
		g.at = o.clock.Now()
		if len(found.Nearest) == 0 {
			s.sight = nil // nobody has answered; the next who asks looks again
		}
		for _, c := range found.Nearest {
			g.near = append(g.near, c.Peer.ID)
		}
		then := g.then
		g.then = nil
		for _, next := range then {
			if o.seats[s.key] == s {
				next()
			}
		}
	})
}

// placed says whether the owners of an epoch stand where those of its key can: of a key of
// another leaf, a quorum of them is among those that were found near it; of one in the
// own, they stand as near to it as owners in a network of this size do.
func (o *Owners) placed(s *seat, e *Epoch) bool {
	if !o.elsewhere(s.key) {
		return o.dense(e)
	}
	if s.sight == nil {
		return false
	}
	n := 0
	for _, p := range e.Owners {
		if slices.Contains(s.sight.near, p) {
			n++
		}
	}
	return n >= quorum(len(e.Owners))
}
