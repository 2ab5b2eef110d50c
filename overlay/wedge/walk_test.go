package wedge

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// All ranks are given out, every member has a rank before another has two, and the nearer half has
// its ranks first.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := uint32(rapid.IntRange(0, 3000).Draw(t, "ranks"))
		near := rapid.IntRange(0, 1000).Draw(t, "near")
		far := rapid.IntRange(0, 1000).Draw(t, "far")
		if near+far == 0 {
			near = 1
		}
		a := split(k, near, far)
		b := k - a
		switch {
		case a > k:
			t.Fatalf("%d of %d ranks", a, k)
		case int(k) <= near+far && (int(a) != min(int(k), near) || int(b) > far):
			t.Fatalf("%d and %d ranks for %d and %d members", a, b, near, far)
		case int(k) > near+far && (int(a) < near || int(b) < far || near == 0 && a > 0 || far == 0 && b > 0):
			t.Fatalf("%d and %d ranks for %d and %d members", a, b, near, far)
		}
	})
}

func TestSplitsAreKept(t *testing.T) {
	for _, c := range []struct {
		k, has, should uint32
		want           bool
	}{
		{100, 50, 50, true},
		{100, 50, 51, true},
		{100, 50, 56, true},  // an eighth
		{100, 50, 58, false}, // more than an eighth
		{100, 9, 10, true},
		{100, 8, 10, false},
		{4, 1, 2, false}, // few ranks: exact
		{4, 2, 2, true},
		{10, 11, 10, false}, // more than there are
	} {
		if got := keepShare(c.k, c.has, c.should); got != c.want {
			t.Errorf("of %d ranks a half has %d and should have %d: kept %v", c.k, c.has, c.should, got)
		}
	}
}

func TestStandIns(t *testing.T) {
	const n = 10
	for _, c := range []struct {
		name           string
		have, declined []uint32
		want           []uint32
	}{
		{"nobody declines", nil, nil, nil},
		{"one", nil, []uint32{3}, []uint32{3}},
		{"two, in order", nil, []uint32{3, 7}, []uint32{3, 7}},
		{"nothing new", []uint32{3, 7}, []uint32{3, 7}, []uint32{3, 7}},
		{"a third", []uint32{3, 7}, []uint32{1, 3, 7}, []uint32{3, 7, 1}},
		{"the last is willing again", []uint32{3, 7}, []uint32{3}, []uint32{3}},
		{"the first is willing again", []uint32{3, 7}, []uint32{7}, []uint32{7}},
		{"a stand-in declines too", []uint32{3}, []uint32{3, 10}, []uint32{3, 3}},
		{"and the next", []uint32{3, 3}, []uint32{3, 10, 11}, []uint32{3, 3, 3}},
		{"all willing again", []uint32{3, 7}, nil, nil},
	} {
		if got := assignStandIns(n, c.have, c.declined); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v after %v, want %v", c.name, got, c.have, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfNDistinct(rapid.Uint32Range(0, n+maxStandIns-1), 0, maxStandIns, rapid.ID)
		phases := rapid.SliceOfN(rapid.Uint32Range(0, n-1), 0, maxStandIns)
		declined, have := ranks.Draw(t, "declined"), phases.Draw(t, "have")
		slices.Sort(declined)
		next := assignStandIns(n, have, declined)
		if len(next) > maxStandIns {
			t.Fatalf("%d stand-ins", len(next))
		}
		if again := assignStandIns(n, next, declined); !slices.Equal(again, next) {
			t.Fatalf("%v become %v although nothing changed", next, again)
		}
		for i, phase := range next {
			if !slices.Contains(declined, phase) && !slices.Contains(declined, n+uint32(i)) {
				t.Fatalf("%v: rank %d has a stand-in and needs none", next, phase)
			}
		}
		for _, rank := range declined {
			served := slices.ContainsFunc(next, func(phase uint32) bool { return phase == rank })
			willing := false
			for i, phase := range next {
				willing = willing || phase == rank && !slices.Contains(declined, n+uint32(i))
			}
			twice := 0
			for i, phase := range next {
				if phase == rank && !slices.Contains(declined, n+uint32(i)) {
					twice++
				}
			}
			if twice > 1 {
				t.Fatalf("%d of %v stand in for rank %d", twice, next, rank)
			}
			if rank < n && len(next) < maxStandIns && !(served && willing) {
				t.Fatalf("rank %d declined, and %v do not stand in for it", rank, next)
			}
		}
	})
}
