package overlay

import (
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// Where either depth would do, a later decision counts only if a third of the leaf say so:
// one liar, or a few, cannot have it changed.
func TestOneVoiceDoesNotTurnALeaf(t *testing.T) {
	const others = 28 // 14 or so in each half: fewer than split, more than merge
	for _, c := range []struct{ saying, depth int }{{1, 0}, {2, 0}, {9, 0}, {10, 1}, {20, 1}} {
		l := newLab(t)
		n := l.member()
		var of []*actor
		for i := range others {
			of = append(of, l.actor(i+1))
			l.say(of[i], probe(&overlaypb.Probe{Nonce: 1, Digest: n.leaf.Digest()}))
		}
		own, other := n.leaf.halves()
		if n.leaf.WantedDepth() != 0 || own < n.leaf.merge || other < n.leaf.merge {
			t.Fatalf("halves of %d and %d members would not do for either depth", own, other)
		}
		var later uint64
		for i := range 2 { // the first few are overruled, and say it again
			later = uint64(l.now.Add(time.Duration(i+1) * time.Hour).UnixMilli())
			for _, a := range of[:c.saying] {
				l.say(a, probe(&overlaypb.Probe{Nonce: 1, Depth: 1, Decided: later}))
			}
		}
		if n.leaf.Depth() != c.depth {
			t.Errorf("%d of %d say that the leaf is one deep: it is %d deep", c.saying, others, n.leaf.Depth())
		}
		if c.depth == 0 && n.leaf.decided <= later {
			t.Errorf("%d of %d contradict, and are not overruled", c.saying, others)
		}
	}
}

// Who has just split its leaf does not take the other half for small, as long as only some
// of it have been counted.
func TestAHalfThatIsNotCountedIsNotSmall(t *testing.T) {
	l := newLab(t)
	n := l.member()
	for i := range 60 {
		l.say(l.actor(i+1), probe(&overlaypb.Probe{Nonce: 1, Digest: n.leaf.Digest()}))
	}
	n.setDepth(1)
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
