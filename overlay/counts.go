package overlay

import (
	"math"
	"slices"
)

// Ids are hashes, so members are spread evenly over the id space, and the k members nearest to
// a key out of N lie within about k/N of it. A set that is farther apart hides members; a set
// that is much closer consists of keys that somebody has searched for (Castro et al., Secure
// routing for structured peer-to-peer overlay networks, OSDI 2002, §5.2).
const (
	// maxFalseAlarm is the probability that a set of honest members counts as too far apart:
	// once in 2,000 if the estimate of N is 50 % too high, much less often if it is right.
	maxFalseAlarm   = 1. / 2000
	sizeUncertainty = 1.5
	// maxCrowding is the factor by which the farthest member of a set may be closer than the
	// mean. Five honest members are closer once in 50,000.
	maxCrowding = 16
)

// counts answers how many members there are below a prefix, and whether those found near a key
// can be all. It keeps nothing of its own: the counts of others are in the slots of the table.
type counts struct {
	*neighbours
	pool *pool
}

// plausible reports whether the given members are as near to key as the nearest want members
// of the whole network should be.
func (cs *counts) plausible(key ID, contacts []*Contact, want int) bool {
	size := cs.estimateSize()
	if size == 0 || len(contacts) == 0 {
		return false
	}
	crowded := len(contacts) >= want && size*idSpaceShare(key, contacts[len(contacts)-1].ID) < float64(len(contacts))/maxCrowding
	return !crowded && !sparse(key, contacts, want, size)
}

// sparse reports whether the given members are farther from key than the nearest want members of a
// network of a size are.
func sparse(key ID, contacts []*Contact, want int, size float64) bool {
	if len(contacts) < want { // the network then has no other members
		return poissonAtMost(len(contacts), size/sizeUncertainty) < maxFalseAlarm
	}
	expected := size * idSpaceShare(key, contacts[len(contacts)-1].ID) // number of members that should be as near
	return poissonAtMost(len(contacts)-1, expected/sizeUncertainty) < maxFalseAlarm
}

// membersMissing reports whether the members found by a lookup are so far apart that others
// must be hidden. A node that has not joined judges by the deepest leaf that it has heard of
// on its way, not counting the offered one: the network has enough members to fill leaves of
// that depth.
func (ls *lookups) membersMissing(l *lookup, contacts []*Contact) bool {
	switch {
	case l.only != nil:
		return l.round == 1 // further routes begin at members that the only one has named
	case !l.fromScratch:
		return !ls.counts.plausible(l.key, contacts, l.want)
	case ls.state != Alone || len(contacts) < l.want:
		return false
	}
	size := float64(ls.cfg.Network.LeafMerge) * math.Pow(2, float64(ls.pool.maxDepthHeard))
	return poissonAtMost(len(contacts)-1, size*idSpaceShare(l.key, contacts[len(contacts)-1].ID)) < maxFalseAlarm
}

// estimateSize returns the estimated number of members of the network, judging by how close
// the members around the node's own id are, or 0 if the node does not know.
func (cs *counts) estimateSize() float64 {
	if cs.state == Active {
		leaf := float64(cs.leaf.Len()) * math.Pow(2, float64(cs.leaf.Depth()))
		if count := float64(cs.Count(0)); leaf/2 <= count && count <= 2*leaf {
			return count
		}
		return leaf // the counts of others are wrong
	}
	// A client has heard of all members around its id, and of fewer elsewhere.
	const enough = 12
	count := [Bits + 1]int{}
	for _, c := range cs.pool.members {
		count[cs.self.ID.Common(c.ID)]++
	}
	within := 0
	for d := Bits; d >= 0; d-- {
		if within += count[d]; within >= enough || d == 0 {
			return float64(within) * math.Pow(2, float64(d))
		}
	}
	return 0
}

// idSpaceShare returns the share of the id space that is as near to key as id is.
func idSpaceShare(key, id ID) float64 {
	return math.Ldexp(float64(key.prefix64()^id.prefix64()), -64)
}

// poissonAtMost returns the probability that at most k members are in a region where mean are
// expected, if members are spread at random (Poisson distribution).
func poissonAtMost(k int, mean float64) float64 {
	term := math.Exp(-mean)
	sum := term
	for i := 1; i <= k; i++ {
		term *= mean / float64(i)
		sum += term
	}
	return sum
}

// Count returns the number of members that share the first d bits of the node's id, the node
// included. The count is exact within the leaf and learned from contacts above it. Count(0) is
// the size of the network. A node that is not a member returns 0.
func (cs *counts) Count(d int) int {
	if cs.state != Active {
		return 0
	}
	depth := cs.leaf.Depth()
	if d >= depth {
		count := 0
		for _, c := range cs.leaf.Members() {
			if c.ID.Common(cs.self.ID) >= d {
				count++
			}
		}
		return count
	}
	count := cs.leaf.Len()
	for row := range cs.table.rows {
		upper, lower := cs.countBounds(row)
		cs.table.each(depth, func(at, col int, s *slot) {
			switch {
			case at != row || cs.table.common(row, col) < d || s.contact == nil:
			case s.counted:
				count += min(max(int(s.count), lower, 1), upper)
			default:
				count++
			}
		})
	}
	return count
}

// countBounds returns bounds for the count of a slot in a row. Members are spread evenly, so
// the slots of one row hold about the same number; a count more than five standard deviations
// from their median is not believed.
func (cs *counts) countBounds(row int) (upper, lower int) {
	var counts []int
	cs.table.each(cs.leaf.Depth(), func(at, _ int, s *slot) {
		if at == row && s.contact != nil && s.counted {
			counts = append(counts, int(s.count))
		}
	})
	if len(counts) < 5 { // too few counts to compare, so the node's own leaf is the measure
		share := float64(cs.leaf.Len()) * math.Pow(2, float64(cs.leaf.Depth()-4*(row+1)))
		return int(2*share + 5*math.Sqrt(share) + 3), int(share/2 - 5*math.Sqrt(share) - 3)
	}
	slices.Sort(counts)
	median := float64(counts[len(counts)/2])
	return int(median + 5*math.Sqrt(median) + 3), int(median - 5*math.Sqrt(median) - 3)
}

// EachSlot calls f for every slot beyond the leaf, from the first row on, with its contact and
// spare (nil if there is none) and the number of members below its prefix, clipped to what is
// believable. If no count is known, members is the upper bound.
func (cs *counts) EachSlot(f func(row, col int, contact, spare *Contact, members int)) {
	at, upper, lower := -1, 0, 0
	cs.table.each(cs.leaf.Depth(), func(row, col int, s *slot) {
		if row != at {
			at = row
			upper, lower = cs.countBounds(row)
		}
		members := upper
		if s.counted {
			members = min(max(int(s.count), lower, 1), upper)
		}
		f(row, col, contactOf(s.contact), contactOf(s.spare), members)
	})
}

// siblingSize returns the number of members of the leaf's sibling, as far as counts are
// believable. Until all slots of the sibling have been counted it returns the size of the leaf
// itself, because members are spread evenly.
func (cs *counts) siblingSize() (count int) {
	at, upper, lower := -1, 0, 0
	known := true
	cs.eachSibling(func(row int, s *slot) {
		if row != at {
			at = row
			upper, lower = cs.countBounds(row)
		}
		switch {
		case s.contact != nil && s.counted:
			count += min(max(int(s.count), lower, 1), upper)
		case !s.empty:
			known = false
		}
	})
	if !known {
		return cs.leaf.Len()
	}
	return count
}

// eachSibling calls f for the slots that make up the sibling of the leaf.
func (cs *counts) eachSibling(f func(row int, s *slot)) {
	cs.table.each(cs.leaf.Depth(), func(row, col int, s *slot) {
		if cs.table.common(row, col) == cs.leaf.Depth()-1 {
			f(row, s)
		}
	})
}
