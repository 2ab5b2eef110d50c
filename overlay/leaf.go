package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// A LeafSet is the set of members of one leaf, as one of them knows them.
//
// A leaf is the set of all members whose ids share its first Depth bits. It splits when both
// halves hold at least splitSize members, and merges with its sibling when it holds fewer than
// mergeSize. Between these sizes the depth depends on history, which members may remember
// differently. Each depth therefore carries the time of its decision, and the later decision
// counts (see Adopt).
type LeafSet struct {
	self                 *Contact
	splitSize, mergeSize int
	depth                int
	decided              uint64     // when depth was chosen: Unix time in ms
	members              []*Contact // in the order of their ids, self included
	digest               uint64
	changes              uint64 // number of changes of members or depth
}

func newLeafSet(self *Contact, split, merge int) *LeafSet {
	l := &LeafSet{self: self, splitSize: split, mergeSize: merge}
	l.Add(self)
	return l
}

// Depth returns the length of the leaf's prefix in bits.
func (l *LeafSet) Depth() int { return l.depth }

// Len returns the number of members, the node itself included.
func (l *LeafSet) Len() int { return len(l.members) }

// Members returns the members in the order of their ids, the node itself included. The slice
// must not be changed.
func (l *LeafSet) Members() []*Contact { return l.members }

// Digest returns a hash that is equal for two nodes that know the same members at the same
// depth.
func (l *LeafSet) Digest() uint64 { return l.digest ^ env.Mix(uint64(l.depth)) }

// Covers reports whether a key lies in the leaf.
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

// rival returns the member that has the place of another id in a network of address ids, or nil. In other networks there
// are no rivals.
func (l *LeafSet) rival(id ID) *Contact {
	i, known := l.find(id)
	switch {
	case known:
	case i > 0 && samePlace(l.members[i-1].ID, id):
		return l.members[i-1]
	case i < len(l.members) && samePlace(l.members[i].ID, id):
		return l.members[i]
	}
	return nil
}

// Add adds a member, or replaces an older record of it. It reports whether the set of ids
// grew.
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
	l.digest ^= env.Mix(c.ID.prefix64())
	return true
}

// Remove removes a member and reports whether it was one.
func (l *LeafSet) Remove(id ID) bool {
	i, known := l.find(id)
	if !known || id == l.self.ID {
		return false
	}
	l.changes++
	l.members = slices.Delete(l.members, i, i+1)
	l.digest ^= env.Mix(id.prefix64())
	return true
}

// NearestN returns the n members nearest to key, the nearest first.
func (l *LeafSet) NearestN(key ID, n int) []*Contact {
	return nearestN(slices.Clone(l.members), key, n)
}

// nearestN sorts contacts by their distance to key and returns the first n.
func nearestN(contacts []*Contact, key ID, n int) []*Contact {
	slices.SortFunc(contacts, func(a, b *Contact) int {
		if Nearer(key, a.ID, b.ID) {
			return -1
		}
		return 1
	})
	return contacts[:min(n, len(contacts))]
}

// halves counts the members of the leaf on the node's own side and on the other side of the
// next bit. halvesAt does the same for the members that share the first bits with the node.
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

// WantedDepth returns the depth that the known members call for.
func (l *LeafSet) WantedDepth() int {
	if own, other := l.halves(); own >= l.splitSize && other >= l.splitSize && l.depth < maxDepth {
		return l.depth + 1
	}
	if l.depth > 0 && len(l.members) < l.mergeSize {
		return l.depth - 1
	}
	return l.depth
}

// Decide records that the leaf's depth is chosen anew at now. A decision is always later than
// the one it replaces, even if the clock went back.
func (l *LeafSet) Decide(now time.Time) {
	l.decided = max(uint64(now.UnixMilli()), l.decided+1, l.decided) // the last maximum prevents an overflow
}

// Adopt decides on a claim of another member, which shares common bits with the node, about
// the depth of its leaf and the time of that decision. It returns the depth to take; ok is
// false if the node keeps its own depth. sibling is the estimated size of the leaf's sibling,
// and voted says that most others make the same claim.
//
// A claim is believed only as far as the node's own knowledge supports it: the leaf splits
// only while both halves keep at least mergeSize members, and widens, one bit at a time, only if
// the leaf or its sibling is small. So a liar cannot force a depth that WantedDepth would undo
// at once. The node overrules any other later decision with a still later one for its own
// depth, unless voted is set: the node may know too few members to see the reason.
func (l *LeafSet) Adopt(common, depth int, decided uint64, sibling int, voted bool) (to int, ok bool) {
	if common < l.depth && common < depth {
		return 0, false // both sides agree that the member is in another leaf
	}
	if decided < l.decided || decided == l.decided && depth >= l.depth {
		return 0, false
	}
	if depth < l.depth {
		if len(l.members) >= l.splitSize && sibling >= l.splitSize && !voted {
			l.decided = max(decided, decided+1)
			return 0, false
		}
		return l.depth - 1, true
	}
	// This node's leaf holds the member, but not the other way round: the member's leaf has
	// split at bit common.
	for to = l.depth; to < min(depth, common+1); to++ {
		own, other := l.halvesAt(to)
		if own < l.mergeSize || other < l.mergeSize && !(voted && to == l.depth) {
			break
		}
	}
	if to == l.depth && depth > l.depth {
		l.decided = max(decided, decided+1)
		return 0, false
	}
	return to, true
}

// SetDepth sets the depth and returns the members that are now outside the leaf. The caller
// has to add the members that a wider leaf still lacks.
func (l *LeafSet) SetDepth(depth int) (out []*Contact) {
	l.depth = depth
	l.changes++
	l.members = slices.DeleteFunc(l.members, func(c *Contact) bool {
		beyond := !l.Covers(c.ID)
		if beyond {
			out = append(out, c)
			l.digest ^= env.Mix(c.ID.prefix64())
		}
		return beyond
	})
	return out
}
