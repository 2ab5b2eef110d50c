package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// ownersGone reports whether no owner of a key is alive. For a key outside the leaf a recent lookup decides; without
// one the owners count as alive.
func (o *Owners) ownersGone(s *replica) bool {
	lives := o.alive
	if o.outsideLeaf(s.key) {
		if !o.hasLookup(s) {
			return false
		}
		lives = func(p env.PeerID) bool { return slices.Contains(s.nearKey.members, p) }
	}
	return !slices.ContainsFunc(s.epoch.Owners, lives)
}

// nearestMembers returns the members nearest to a key; nil if the key lies outside the leaf.
func (o *Owners) nearestMembers(key overlay.ID) []env.PeerID {
	leaf := o.node.Leaf()
	if o.node.State() != overlay.Active || !leaf.Covers(key) {
		return nil
	}
	var of []env.PeerID
	for _, c := range leaf.NearestN(key, o.cfg.Owners) {
		of = append(of, c.Peer.ID)
	}
	return of
}

// desiredOwners returns the members that should own a key: the nearest ones, except for excluded peers, and except
// for this node if it is leaving; nil if there are none, or the key lies outside the leaf.
func (o *Owners) desiredOwners(s *replica) []env.PeerID {
	now := o.clock.Now()
	for p, said := range s.excluded {
		if now.Sub(said) >= excludeTime {
			delete(s.excluded, p)
		}
	}
	if len(s.excluded) == 0 && o.leaving == nil {
		return o.nearestMembers(s.key)
	}
	leaf := o.node.Leaf()
	if o.node.State() != overlay.Active || !leaf.Covers(s.key) {
		return nil
	}
	var of []env.PeerID
	for _, c := range leaf.NearestN(s.key, leaf.Len()) {
		if _, foreign := s.excluded[c.Peer.ID]; foreign || o.leaving != nil && c.Peer.ID == o.self {
			continue
		}
		if of = append(of, c.Peer.ID); len(of) == o.cfg.Owners {
			break
		}
	}
	if len(s.excluded) > 0 {
		o.LeafChanged() // check again later, when the exclusions have expired
	}
	return of
}

// alive reports whether a peer is a member of the leaf.
func (o *Owners) alive(p env.PeerID) bool { return o.node.Leaf().Has(o.id(p)) != nil }

// checkAllOwners checks the owners of all keys after a change of the leaf.
func (o *Owners) checkAllOwners() {
	for _, s := range o.sorted() {
		if s.epoch != nil && o.owns(s) {
			o.checkOwners(s)
		}
	}
}

// checkOwners plans a campaign if a key should have other owners, its sequencer is dead, or a promise blocks the
// epoch in force.
func (o *Owners) checkOwners(s *replica) {
	switch {
	case s.candidacy != nil:
	case o.leads(s):
		if want := o.desiredOwners(s); want != nil && !sameSet(want, s.epoch.Owners) {
			o.campaignIn(s, 0)
		} else if o.promisedAway(s) {
			o.campaignIn(s, candidacyTime) // the candidate with the promise may have failed
		}
	case !o.alive(s.epoch.Sequencer):
		o.campaignIn(s, time.Duration(o.rank(s))*rankTime)
	}
}

// rank returns this node's place among the living owners of a key, 0 for the nearest. Owners campaign in this order,
// rankTime apart.
func (o *Owners) rank(s *replica) int {
	n := 0
	if plant.VoteTwice {
		return n // planted bug: all owners campaign at once
	}
	for _, p := range s.epoch.Owners {
		if p != o.self && o.alive(p) && overlay.Nearer(s.key, o.id(p), o.node.ID()) {
			n++
		}
	}
	return n
}

func sameSet(a, b []env.PeerID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p env.PeerID) bool { return !slices.Contains(b, p) })
}
