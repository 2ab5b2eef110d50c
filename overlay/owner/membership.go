package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// lost says whether no owner of a key that this node only follows lives any more, as far
// as the leaf shows; of a key that it does not hold, as far as was seen there of late.
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

// nearest returns the members that should own a key; nil if this node cannot
// know them.
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

// wanted returns the members that should own a key now: the nearest, without those
// that own it in another lineage, as long as the two have not become one, without those
// that give it up, and without this node when it leaves; nil if there is nobody, or none
// can be known.
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
		o.LeafChanged() // they will not be so for ever
	}
	return of
}

// alive says whether a peer is a member of the leaf.
func (o *Owners) alive(p env.PeerID) bool { return o.node.Leaf().Has(o.id(p)) != nil }

// keepUp looks at all seats after the leaf has changed: where the owners should
// be others, or the sequencer is dead, an epoch is to be made.
func (o *Owners) checkAllOwners() {
	for _, s := range o.sorted() {
		if s.epoch != nil && o.owns(s) {
			o.checkOwners(s)
		}
	}
}

// keepOwners plans an epoch where the owners of a key should be others, or its
// sequencer is dead.
func (o *Owners) checkOwners(s *replica) {
	switch {
	case s.candidacy != nil:
	case o.leads(s):
		if want := o.desiredOwners(s); want != nil && !sameSet(want, s.epoch.Owners) {
			o.campaignIn(s, 0)
		} else if o.promisedAway(s) {
			o.campaignIn(s, candidacyTime) // it was promised to one who did not come through
		}
	case !o.alive(s.epoch.Sequencer):
		o.campaignIn(s, time.Duration(o.rank(s))*rankTime)
	}
}

// rank is this node's place among the living owners of a key, the nearest first.
func (o *Owners) rank(s *replica) int {
	n := 0
	if plant.VoteTwice {
		return n // all try at one time, so that there is an occasion
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
