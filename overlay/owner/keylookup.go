package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// sightTime is how long a sighting counts. Owners change by ones and twos; whom a minute
// brings is not a quorum.
const lookupTTL = time.Minute

// A sighting is who lives near a key of another leaf, as a checked look-up has found.
type keyLookup struct {
	members []env.PeerID // twice as many as own the key
	at      time.Time    // zero: the look-up is under way
	then    []func()
}

// elsewhere says whether a key lies in another leaf than this node's, whose members it
// does not know.
func (o *Owners) outsideLeaf(key overlay.ID) bool {
	return o.node.State() != overlay.Active || !o.node.Leaf().Covers(key)
}

// unseen says whether it takes a look-up to tell if an epoch's owners own the key: who
// stands in another leaf would have to be believed, and no epoch known here leads to
// this one.
func (o *Owners) needsLookup(s *replica, e *Epoch) bool {
	if !o.outsideLeaf(s.key) || !e.certifiedBy(e.Owners) || s.epoch != nil && (e.Hash == s.epoch.Hash || e.Succeeds(s.epoch)) {
		return false
	}
	return !o.hasLookup(s)
}

// sighted says whether somebody was found near a key of another leaf, of late.
func (o *Owners) hasLookup(s *replica) bool {
	return s.nearKey != nil && !s.nearKey.at.IsZero() && o.clock.Now().Sub(s.nearKey.at) < lookupTTL
}

// lookLater sees to it that who told of owners whom the last look-up did not find is asked
// once more when that counts no longer: the network may have been parted when it was made.
func (o *Owners) lookUpLater(s *replica, e *Epoch, from env.PeerID) {
	if s.informant == "" && o.outsideLeaf(s.key) && o.hasLookup(s) && e.certifiedBy(e.Owners) && !o.acceptable(s, e) {
		s.informant = from
		o.cal.Add(s.nearKey.at.Add(lookupTTL), task{kind: taskLookUpAgain, key: s.key})
	}
}

// lookNow does that.
func (o *Owners) lookUpAgain(s *replica) {
	from := s.informant
	s.informant = ""
	if from != "" && s.epoch != nil && o.outsideLeaf(s.key) {
		o.startPull(s, o.peer(from), nil) // which looks first
	}
}

// look looks who lives near a key, and then goes on, unless the key was forgotten
// meanwhile.
func (o *Owners) lookUp(s *replica, then func()) {
	if s.nearKey != nil && s.nearKey.at.IsZero() {
		s.nearKey.then = append(s.nearKey.then, then)
		return
	}
	g := &keyLookup{then: []func(){then}}
	s.nearKey = g
	o.stats.Lookups++
	o.node.Lookup(s.key, 2*o.cfg.Owners, func(found overlay.Lookup) {
		g.at = o.clock.Now()
		if len(found.Nearest) == 0 {
			s.nearKey = nil // nobody has answered; the next who asks looks again
		}
		for _, c := range found.Nearest {
			g.members = append(g.members, c.Peer.ID)
		}
		then := g.then
		g.then = nil
		for _, next := range then {
			if o.replicas[s.key] == s {
				next()
			}
		}
	})
}

// placed says whether the owners of an epoch stand where those of its key can: of a key of
// another leaf, a quorum of them is among those that were found near it; of one in the
// own, they stand as near to it as owners in a network of this size do.
func (o *Owners) ownersPlausible(s *replica, e *Epoch) bool {
	if !o.outsideLeaf(s.key) {
		return o.ownersNearKey(e)
	}
	if s.nearKey == nil {
		return false
	}
	n := 0
	for _, p := range e.Owners {
		if slices.Contains(s.nearKey.members, p) {
			n++
		}
	}
	return n >= quorum(len(e.Owners))
}
