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
func (o *Owners) lost(s *seat) bool {
	lives := o.alive
	if o.elsewhere(s.key) {
		if !o.sighted(s) {
			return false
		}
		lives = func(p env.PeerID) bool { return slices.Contains(s.sight.near, p) }
	}
	return !slices.ContainsFunc(s.epoch.Owners, lives)
}

// nearest returns the members that should own a key; nil if this node cannot
// know them.
func (o *Owners) nearest(key overlay.ID) []env.PeerID {
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
func (o *Owners) wanted(s *seat) []env.PeerID {
	now := o.clock.Now()
	for p, said := range s.foreign {
		if now.Sub(said) >= foreignFor {
			delete(s.foreign, p)
		}
	}
	if len(s.foreign) == 0 && o.leaving == nil {
		return o.nearest(s.key)
	}
	leaf := o.node.Leaf()
	if o.node.State() != overlay.Active || !leaf.Covers(s.key) {
		return nil
	}
	var of []env.PeerID
	for _, c := range leaf.NearestN(s.key, leaf.Len()) {
		if _, foreign := s.foreign[c.Peer.ID]; foreign || o.leaving != nil && c.Peer.ID == o.self {
			continue
		}
		if of = append(of, c.Peer.ID); len(of) == o.cfg.Owners {
			break
		}
	}
	if len(s.foreign) > 0 {
		o.LeafChanged() // they will not be so for ever
	}
	return of
}

// alive says whether a peer is a member of the leaf.
func (o *Owners) alive(p env.PeerID) bool { return o.node.Leaf().Has(o.id(p)) != nil }

// keepUp looks at all seats after the leaf has changed: where the owners should
// be others, or the sequencer is dead, an epoch is to be made.
func (o *Owners) keepUp() {
	for _, s := range o.sorted() {
		if s.epoch != nil && o.owns(s) {
			o.keepOwners(s)
		}
	}
}

// keepOwners plans an epoch where the owners of a key should be others, or its
// sequencer is dead.
func (o *Owners) keepOwners(s *seat) {
	switch {
	case s.bid != nil:
	case o.leads(s):
		if want := o.wanted(s); want != nil && !sameSet(want, s.epoch.Owners) {
			o.bidIn(s, 0)
		} else if o.sealed(s) {
			o.bidIn(s, bidTime) // it was promised to one who did not come through
		}
	case !o.alive(s.epoch.Sequencer):
		o.bidIn(s, time.Duration(o.rank(s))*rankTime)
	}
}

// rank is this node's place among the living owners of a key, the nearest first.
func (o *Owners) rank(s *seat) int {
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
