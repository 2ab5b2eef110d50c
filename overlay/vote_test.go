package overlay

import (
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// If either depth is possible, a later decision counts only if a third of the leaf supports
// it. One liar, or a few, cannot change the depth.
func TestFewVotesDoNotChangeTheDepth(t *testing.T) {
	const others = 28 // about 14 in each half: fewer than split, more than merge
	for _, c := range []struct{ saying, depth int }{{1, 0}, {2, 0}, {9, 0}, {10, 1}, {20, 1}} {
		l := newLab(t)
		n := l.member()
		var actors []*actor
		for i := range others {
			actors = append(actors, l.actor(i+1))
			l.say(actors[i], probe(&overlaypb.Probe{Nonce: 1, Digest: n.leaf.Digest()}))
		}
		own, other := n.leaf.halves()
		if n.leaf.WantedDepth() != 0 || own < n.leaf.mergeSize || other < n.leaf.mergeSize {
			t.Fatalf("halves of %d and %d members would not do for either depth", own, other)
		}
		var later uint64
		for i := range 2 { // the first few are overruled, and repeat their claim
			later = uint64(l.now.Add(time.Duration(i+1) * time.Hour).UnixMilli())
			for _, a := range actors[:c.saying] {
				l.say(a, probe(&overlaypb.Probe{Nonce: 1, Depth: 1, Decided: later}))
			}
		}
		if n.leaf.Depth() != c.depth {
			t.Errorf("%d of %d say that the depth is one: it is %d", c.saying, others, n.leaf.Depth())
		}
		if c.depth == 0 && n.leaf.decided <= later {
			t.Errorf("%d of %d contradict, but are not overruled", c.saying, others)
		}
	}
}

// A node that has just split its leaf does not consider the other half small while only part
// of it has been counted.
func TestUncountedSiblingIsNotConsideredSmall(t *testing.T) {
	l := newLab(t)
	n := l.member()
	for i := range 60 {
		l.say(l.actor(i+1), probe(&overlaypb.Probe{Nonce: 1, Digest: n.leaf.Digest()}))
	}
	n.leafUpkeep.setDepth(1)
	counted := 0
	n.eachSibling(func(_ int, s *slot) {
		if s.contact != nil && counted < 2 {
			s.count, s.counted = 3, true
			counted++
		}
	})
	if counted < 2 || n.siblingSize() != n.leaf.Len() {
		t.Errorf("%d slots counted: the other half has %d members, this one %d", counted, n.siblingSize(), n.leaf.Len())
	}
	n.eachSibling(func(_ int, s *slot) {
		s.count, s.counted = 3, s.contact != nil
		s.empty = !s.counted
	})
	if got := n.siblingSize(); got >= n.leaf.Len() || got < 3 {
		t.Errorf("all counted: %d members", got)
	}
}
