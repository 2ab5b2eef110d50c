package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
)

// desiredOwners returns the members that should own a key: the nearest ones, except for excluded peers, and except
// for this node if it is leaving; nil if there are none, or the key lies outside the leaf.
func (o *Owners) desiredOwners(s *replica) []env.PeerID {
	now := o.clock.Now()
	for p, said := range s.campaign.excluded {
		if now.Sub(said) >= excludeTime {
			delete(s.campaign.excluded, p)
		}
	}
	if len(s.campaign.excluded) == 0 && o.leaving == nil {
		return o.nearest(s.key, nil)
	}
	of := o.nearest(s.key, func(p env.PeerID) bool {
		_, foreign := s.campaign.excluded[p]
		return foreign || o.leaving != nil && p == o.self
	})
	if len(s.campaign.excluded) > 0 && !o.outsideLeaf(s.key) {
		o.LeafChanged() // check again later, when the exclusions have expired
	}
	return of
}

// checkAllOwners checks the owners of all keys after a change of the leaf.
func (o *Owners) checkAllOwners() {
	for _, s := range o.replicas.all() {
		if s.epoch != nil && s.owned {
			o.checkOwners(s)
		}
	}
}

// checkOwners plans a campaign if a key should have other owners, its sequencer is dead, or a promise blocks the
// epoch in force.
func (o *Owners) checkOwners(s *replica) {
	switch {
	case s.candidacy != nil:
	case s.ledBy(o.self):
		if want := o.desiredOwners(s); want != nil && !sameSet(want, s.epoch.Owners) {
			o.campaignIn(s, 0)
		} else if s.promisedAway() {
			o.campaignIn(s, candidacyTime) // the candidate with the promise may have failed
		}
	case !o.alive(s.epoch.Sequencer):
		o.campaignIn(s, o.turn(s))
	}
}

// turn returns how long this node waits before it campaigns in place of a dead sequencer: the living owners campaign in
// the order of their distance from the key.
func (o *Owners) turn(s *replica) time.Duration {
	if plant.VoteTwice {
		return 0 // planted bug: all owners campaign at once
	}
	return time.Duration(o.rank(s.epoch)) * rankTime
}

func sameSet(a, b []env.PeerID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p env.PeerID) bool { return !slices.Contains(b, p) })
}
