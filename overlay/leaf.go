package overlay

import (
	"slices"
	"time"
)

// A LeafSet is the members of one leaf, as one of them knows them.
//
// A leaf is all members whose ids share its first Depth bits. It splits when
// both halves hold at least split members, and is merged with its sibling when
// it holds fewer than merge. Between the two numbers the past decides, which
// members may remember differently; so each depth carries the time at which
// it was decided, and the later decision counts (see Adopt).
type LeafSet struct {
	self         *Contact
	split, merge int
	depth        int
	decided      uint64     // when depth was chosen: Unix time in ms
	members      []*Contact // by id, self among them
	digest       uint64
	changes      uint64 // counts them
}

func newLeafSet(self *Contact, split, merge int) *LeafSet {
	l := &LeafSet{self: self, split: split, merge: merge}
	l.Add(self)
	return l
}

// Depth is the length of the leaf's prefix in bits.
func (l *LeafSet) Depth() int { return l.depth }

// Len is the number of members, the node itself included.
func (l *LeafSet) Len() int { return len(l.members) }

// Members returns the members in the order of their ids, the node itself among
// them. The slice must not be changed.
func (l *LeafSet) Members() []*Contact { return l.members }

// Digest is equal for two nodes that know the same members at the same depth.
func (l *LeafSet) Digest() uint64 { return l.digest ^ mix(uint64(l.depth)) }

// Covers says whether a key lies in the leaf.
func (l *LeafSet) Covers(key ID) bool { return l.self.ID.Common(key) >= l.depth }

func (l *LeafSet) find(id ID) (int, bool) {
	return slices.BinarySearchFunc(l.members, id, func(c *Contact, id ID) int { return compare(c.ID, id) })
}

// Has returns the member with an id, or nil.
func (l *LeafSet) Has(id ID) *Contact {
	if i, ok := l.find(id); ok {
		return l.members[i]
	}
	return nil
}

// Add adds a member, or puts a newer record in place of an older one. It says
// whether the set of ids grew.
func (l *LeafSet) Add(c *Contact) bool {
	i, known := l.find(c.ID)
	if known {
		if c != l.members[i] && c.Issued >= l.members[i].Issued {
			l.members[i] = c
			l.changes++
		}
		if c.ID == l.self.ID {
			l.self = c
		}
		return false
	}
	l.changes++
	l.members = slices.Insert(l.members, i, c)
	l.digest ^= mix(c.ID.prefix64())
	return true
}

// Remove removes a member and says whether it was one.
func (l *LeafSet) Remove(id ID) bool {
	i, known := l.find(id)
	if !known || id == l.self.ID {
		return false
	}
	l.changes++
	l.members = slices.Delete(l.members, i, i+1)
	l.digest ^= mix(id.prefix64())
	return true
}

// NearestN returns the n members nearest to key, the nearest first.
func (l *LeafSet) NearestN(key ID, n int) []*Contact {
	return nearestN(slices.Clone(l.members), key, n)
}

// nearestN sorts contacts by their distance to key and returns the first n.
func nearestN(of []*Contact, key ID, n int) []*Contact {
	slices.SortFunc(of, func(a, b *Contact) int {
		if Nearer(key, a.ID, b.ID) {
			return -1
		}
		return 1
	})
	return of[:min(n, len(of))]
}

// halves counts the members of the leaf on the node's own side and on the other
// side of the next bit; halvesAt does so for the part of the leaf that shares the first
// bits with the node.
func (l *LeafSet) halves() (own, other int) { return l.halvesAt(l.depth) }

func (l *LeafSet) halvesAt(bits int) (own, other int) {
	for _, c := range l.members {
		switch common := l.self.ID.Common(c.ID); {
		case common > bits:
			own++
		case common == bits:
			other++
		}
	}
	return own, other
}

// Wants returns the depth that the members known call for.
func (l *LeafSet) WantedDepth() int {
	if own, other := l.halves(); own >= l.split && other >= l.split && l.depth < maxDepth {
		return l.depth + 1
	}
	if l.depth > 0 && len(l.members) < l.merge {
		return l.depth - 1
	}
	return l.depth
}

// Decide notes that the leaf's depth is chosen anew at now. A decision is later
// than the one it replaces, whatever the clock says.
func (l *LeafSet) Decide(now time.Time) {
	l.decided = max(uint64(now.UnixMilli()), l.decided+1, l.decided) // no time is later than the last
}

// Adopt returns the depth to take when a member that shares common bits with
// the node says how deep its leaf is, and since when; ok is false if the own
// depth stands. sibling is how many members the sibling of the leaf seems to have.
//
// A claim is believed as far as what the node itself knows allows it: it splits the leaf
// only while both halves would outlive it, and widens it, a bit at a time, only if the
// leaf or its sibling is small. So a liar cannot have what Wants would undo at once. Any
// other later decision is overruled by a still later one, for the own depth; unless most
// others say the same (voted), because one may know too few to see why.
func (l *LeafSet) Adopt(common, depth int, decided uint64, sibling int, voted bool) (to int, ok bool) {
	if common < l.depth && common < depth {
		return 0, false // of another leaf, as both see it
	}
	if decided < l.decided || decided == l.decided && depth >= l.depth {
		return 0, false
	}
	if depth < l.depth {
		if len(l.members) >= l.split && sibling >= l.split && !voted {
			l.decided = max(decided, decided+1)
			return 0, false
		}
		return l.depth - 1, true
	}
	// A member whose leaf does not hold this node, though this node's leaf held it, has
	// split from it at bit common.
	for to = l.depth; to < min(depth, common+1); to++ {
		own, other := l.halvesAt(to)
		if own < l.merge || other < l.merge && !(voted && to == l.depth) {
			break
		}
	}
	if to == l.depth && depth > l.depth {
		l.decided = max(decided, decided+1)
		return 0, false
	}
	return to, true
}

// SetDepth sets the depth and returns the members that are now beyond the leaf.
// Those that a wider leaf still lacks have to be Added.
func (l *LeafSet) SetDepth(depth int) (out []*Contact) {
	l.depth = depth
	l.changes++
	l.members = slices.DeleteFunc(l.members, func(c *Contact) bool {
		beyond := !l.Covers(c.ID)
		if beyond {
			out = append(out, c)
			l.digest ^= mix(c.ID.prefix64())
		}
		return beyond
	})
	return out
}

// mix spreads the bits of x (the finaliser of MurmurHash3), so that XOR of
// several makes a digest.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
