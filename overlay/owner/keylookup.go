package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// lookupTTL is how long the result of a lookup is used. Owners change one or two at a time, so a minute does not replace
// a quorum.
const lookupTTL = time.Minute

// A lookup is what is known of the members near a key outside the leaf.
type lookup struct {
	near      *keyLookup // members found near the key; nil: not looked up yet
	informant env.PeerID // peer that named owners the lookup did not find; pulled from after the next lookup; "": none
}

// A keyLookup is the result of a checked lookup of the members near a key outside the leaf.
type keyLookup struct {
	members []env.PeerID // members nearest to the key, twice as many as own it
	at      time.Time    // time of the result; zero: the lookup is under way
	then    []func()     // called when the lookup ends
}

// needsLookup reports whether only a lookup can tell if an epoch's owners own the key: the key lies outside the leaf, the
// epoch does not succeed the one in force, and there is no recent lookup.
func (o *Owners) needsLookup(s *replica, e *Epoch) bool {
	if !o.outsideLeaf(s.key) || !e.certifiedBy(e.Owners) || s.epoch != nil && (e.Hash == s.epoch.Hash || e.Succeeds(s.epoch)) {
		return false
	}
	return !o.hasLookup(s)
}

// hasLookup reports whether there is a recent lookup of a key.
func (o *Owners) hasLookup(s *replica) bool {
	return s.lookup.near != nil && !s.lookup.near.at.IsZero() && o.clock.Now().Sub(s.lookup.near.at) < lookupTTL
}

// lookUpLater remembers a peer that names owners whom the last lookup did not find. The peer is asked once more when
// that lookup has expired: the network may have been partitioned when it was made.
func (o *Owners) lookUpLater(s *replica, e *Epoch, from env.PeerID) {
	if s.lookup.informant == "" && o.outsideLeaf(s.key) && o.hasLookup(s) && e.certifiedBy(e.Owners) && !o.acceptable(s, e) {
		s.lookup.informant = from
		o.cal.Add(s.lookup.near.at.Add(lookupTTL), task{kind: taskLookUpAgain, key: s.key})
	}
}

// lookUpAgain pulls from the remembered informant.
func (o *Owners) lookUpAgain(s *replica) {
	from := s.lookup.informant
	s.lookup.informant = ""
	if from != "" && s.epoch != nil && o.outsideLeaf(s.key) {
		o.startPull(s, o.peer(from), nil) // the pull starts with a lookup
	}
}

// lookUp finds the members near a key, and then calls then, unless the key was forgotten meanwhile.
func (o *Owners) lookUp(s *replica, then func()) {
	if s.lookup.near != nil && s.lookup.near.at.IsZero() {
		s.lookup.near.then = append(s.lookup.near.then, then)
		return
	}
	g := &keyLookup{then: []func(){then}}
	s.lookup.near = g
	o.stats.Lookups++
	o.node.Lookup(s.key, 2*o.cfg.Owners, func(found overlay.Lookup) {
		g.at = o.clock.Now()
		if len(found.Nearest) == 0 {
			s.lookup.near = nil // nobody answered; the next call looks up again
		}
		for _, c := range found.Nearest {
			g.members = append(g.members, c.Peer.ID)
		}
		then := g.then
		g.then = nil
		for _, next := range then {
			if o.replicas.byKey[s.key] == s {
				next()
			}
		}
	})
}

// ownersPlausible reports whether the owners of an epoch can own its key. For a key outside the leaf, a quorum of them
// must be among the members that the lookup found; for a key in the leaf, they must be as near to the key as owners
// in a network of this size are.
func (o *Owners) ownersPlausible(s *replica, e *Epoch) bool {
	if !o.outsideLeaf(s.key) {
		return o.ownersNearKey(e)
	}
	if s.lookup.near == nil {
		return false
	}
	n := 0
	for _, p := range e.Owners {
		if slices.Contains(s.lookup.near.members, p) {
			n++
		}
	}
	return n >= quorum(len(e.Owners))
}
