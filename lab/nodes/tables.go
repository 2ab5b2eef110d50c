package nodes

import (
	"fmt"
	"slices"

	"tidings/overlay"
)

// countTolerance is the relative error that a count may have. Counts are learned from the table's
// contacts, each of which is asked once in ten minutes; when a third of all members has just died,
// counts are half too high.
const countTolerance = 0.5

// wrongTables returns a line for each node whose table is wrong, given the states of all live
// nodes.
//
// A table is right if the node is a member; its leaf is all live members with its prefix, at the
// depth that they all have; every slot for which there is a live member has a live one; and no
// count is off by more than the tolerance.
func wrongTables(all []NodeState) (wrong []string) {
	for _, l := range all {
		if err := l.problem(all); err != nil {
			wrong = append(wrong, fmt.Sprintf("node %s: %v", l.ID.Short(), err))
		}
	}
	return wrong
}

// problem returns the first error in a node's table.
func (l NodeState) problem(all []NodeState) error {
	if !l.Member {
		return fmt.Errorf("is not a member")
	}
	var leaf []overlay.ID
	for _, m := range all {
		if m.ID.Common(l.ID) < l.Depth {
			continue
		}
		leaf = append(leaf, m.ID)
		if m.Depth != l.Depth {
			return fmt.Errorf("its leaf has depth %d, at %s %d", l.Depth, m.ID.Short(), m.Depth)
		}
	}
	if !sameIDs(leaf, l.Leaf) {
		return fmt.Errorf("knows %d members of its leaf, which has %d", len(l.Leaf), len(leaf))
	}
	for _, s := range l.Slots {
		in := func(id overlay.ID) bool { return id.Common(l.ID) >= 4*s.Row && id.Digit(s.Row) == s.Column }
		some := slices.ContainsFunc(all, func(m NodeState) bool { return in(m.ID) })
		alive := slices.ContainsFunc(all, func(m NodeState) bool { return m.ID == s.Contact && in(m.ID) })
		if some && !alive {
			return fmt.Errorf("no live member in slot (%d, %x)", s.Row, s.Column)
		}
	}
	if worst, d := l.countError(all); worst > countTolerance {
		return fmt.Errorf("counts %d members below %d bits, which is %.0f %% off", l.Counts[d], d, 100*worst)
	}
	return nil
}

// countError returns the largest relative error of a node's counts, and the number of bits of that
// count.
func (l NodeState) countError(all []NodeState) (worst float64, bits int) {
	for d, got := range l.Counts {
		truth := 0
		for _, m := range all {
			if m.ID.Common(l.ID) >= d {
				truth++
			}
		}
		if off := float64(max(got-truth, truth-got)) / float64(truth); off > worst {
			worst, bits = off, d
		}
	}
	return worst, bits
}

func sameIDs(a, b []overlay.ID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id overlay.ID) bool { return !slices.Contains(b, id) })
}

// root returns the live member nearest to a key.
func root(key overlay.ID, all []NodeState) overlay.ID {
	return slices.MinFunc(all, func(a, b NodeState) int {
		if overlay.Nearer(key, a.ID, b.ID) {
			return -1
		}
		return 1
	}).ID
}
