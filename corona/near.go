package corona

import "tidings/overlay"

// What this node knows of the members near a key.

// nearEnough says whether this node can be among the n members nearest to a key, as far as it knows
// the others. It allows for members that decline and for inaccurate counts.
func (b *base) nearEnough(key overlay.ID, n int) bool {
	return b.countNearer(key) <= float64(n+n/8)
}

// countNearer is the number of members nearer to a key than this node. It is exact for a key in the
// leaf set.
func (b *base) countNearer(key overlay.ID) float64 {
	self, leaf, n := b.node.ID(), b.node.Leaf(), 0.
	if leaf.Covers(key) {
		for _, m := range leaf.Members() {
			if overlay.Nearer(key, m.ID, self) {
				n++
			}
		}
		return n
	}
	// Members that share one more bit with the key are all nearer. Of the members that share as
	// many bits, a part is nearer, assuming evenly spread ids.
	d := self.Common(key)
	among := float64(b.node.Count(d + 1))
	part, bit := 0., 0.5
	for i := d + 1; i < min(d+24, overlay.Bits); i++ {
		if self.Bit(i) != key.Bit(i) {
			part += bit
		}
		bit /= 2
	}
	return float64(b.node.Count(d)) - among + among*part
}

// members is the size of the network.
func (b *base) members() int { return max(b.node.Count(0), 1) }

// mayLead says whether a member is near enough to a key to be one of its owners in a network of
// this size, by the rule of overlay/owner for quorums.
func (b *base) mayLead(id, key overlay.ID) bool { return b.couldBeNearest(id, key, maxSigners) }

// couldBeNearest says whether a member can be one of the n nearest to a key in a network of this
// size. It allows 64 times as many candidates, because ids are not evenly spread.
func (b *base) couldBeNearest(id, key overlay.ID, n int) bool {
	want := -6
	for parts := b.members() / max(n, 1); parts > 1; parts /= 2 {
		want++
	}
	return id.Common(key) >= want
}

// digit is the number of bits in a digit of polling levels.
func (b *base) digit() int {
	if b.cfg.Base == 2 {
		return 1
	}
	return 4
}

// sharing is the number of members that share so many bits of their ids with a key. For longer
// prefixes than this node's own, sharing counts members of the leaf set: the owners of the key are
// in it, and no member shares more bits with the key than they do.
func (b *base) sharing(key overlay.ID, bits int) int {
	if bits <= b.node.ID().Common(key) {
		return b.node.Count(bits)
	}
	n := 0
	for _, m := range b.node.Leaf().Members() {
		if m.ID.Common(key) >= bits {
			n++
		}
	}
	return n
}
