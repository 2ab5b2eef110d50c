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

// A locator tells whether the owners that an epoch names can own its key. For a key outside the leaf it looks up the members
// near the key.
type locator struct {
	base
	puller *puller
}

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
func (l *locator) needsLookup(s *replica, e *Epoch) bool {
	if !l.outsideLeaf(s.key) || !e.certifiedBy(e.Owners) || s.epoch != nil && (e.Hash == s.epoch.Hash || e.Succeeds(s.epoch)) {
		return false
	}
	return !l.hasLookup(s)
}

// hasLookup reports whether there is a recent lookup of a key.
func (l *locator) hasLookup(s *replica) bool {
	return s.lookup.near != nil && !s.lookup.near.at.IsZero() && l.clock.Now().Sub(s.lookup.near.at) < lookupTTL
}

// lookUpLater remembers a peer that names owners whom the last lookup did not find. The peer is asked once more when
// that lookup has expired: the network may have been partitioned when it was made.
func (l *locator) lookUpLater(s *replica, e *Epoch, from env.PeerID) {
	if s.lookup.informant == "" && l.outsideLeaf(s.key) && l.hasLookup(s) && e.certifiedBy(e.Owners) && !l.acceptable(s, e) {
		s.lookup.informant = from
		l.cal.Add(s.lookup.near.at.Add(lookupTTL), task{kind: taskLookUpAgain, key: s.key})
	}
}

// lookUpAgain pulls from the remembered informant.
func (l *locator) lookUpAgain(s *replica) {
	from := s.lookup.informant
	s.lookup.informant = ""
	if from != "" && s.epoch != nil && l.outsideLeaf(s.key) {
		l.puller.pullFrom(s, from) // the pull starts with a lookup
	}
}

// lookUp finds the members near a key, and then calls then, unless the key was forgotten meanwhile.
func (l *locator) lookUp(s *replica, then func()) {
	if s.lookup.near != nil && s.lookup.near.at.IsZero() {
		s.lookup.near.then = append(s.lookup.near.then, then)
		return
	}
	g := &keyLookup{then: []func(){then}}
	s.lookup.near = g
	l.stats.Lookups++
	l.node.Lookup(s.key, 2*l.owners, func(found overlay.Lookup) {
		g.at = l.clock.Now()
		if len(found.Nearest) == 0 {
			s.lookup.near = nil // nobody answered; the next call looks up again
		}
		for _, c := range found.Nearest {
			g.members = append(g.members, c.Peer.ID)
		}
		then := g.then
		g.then = nil
		for _, next := range then {
			if l.replicas.byKey[s.key] == s {
				next()
			}
		}
	})
}

// ownersPlausible reports whether the owners of an epoch can own its key. For a key outside the leaf, a quorum of them
// must be among the members that the lookup found; for a key in the leaf, they must be as near to the key as owners
// in a network of this size are.
func (l *locator) ownersPlausible(s *replica, e *Epoch) bool {
	if !l.outsideLeaf(s.key) {
		return l.ownersNearKey(e)
	}
	return s.lookup.near != nil && majority(e.Owners, in(s.lookup.near.members))
}

// acceptable reports whether an epoch may replace the one in force: it was signed by quorums of both, or, if this
// node has missed epochs in between, by a quorum of its own owners, at places where owners of the key can be.
func (l *locator) acceptable(s *replica, e *Epoch) bool {
	if !e.certifiedBy(e.Owners) {
		return false
	}
	return s.epoch != nil && e.Succeeds(s.epoch) || l.ownersPlausible(s, e)
}

// ownersGone reports whether no owner of a key is alive. For a key outside the leaf a recent lookup decides; without
// one the owners count as alive.
func (l *locator) ownersGone(s *replica) bool {
	lives := l.alive
	if l.outsideLeaf(s.key) {
		if !l.hasLookup(s) {
			return false
		}
		lives = in(s.lookup.near.members)
	}
	return !slices.ContainsFunc(s.epoch.Owners, lives)
}
