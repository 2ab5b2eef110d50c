package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// someone returns a contact whose id begins with the given bytes and is zero after them.
func someone(first ...byte) *Contact {
	c := &Contact{Member: true}
	copy(c.ID[:], first)
	return c
}

func leafOf(self *Contact, contacts ...*Contact) *LeafSet {
	l := newLeafSet(self, 16, 12)
	for _, c := range contacts {
		l.Add(c)
	}
	return l
}

func TestLeafDoesNotDependOnTheOrderOfChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*Contact
		for i := range rapid.IntRange(1, 40).Draw(t, "members") {
			all = append(all, &Contact{ID: drawID(t, "id"), Issued: uint64(i)})
		}
		gone := rapid.IntRange(0, len(all)-1).Draw(t, "gone")
		depth := rapid.IntRange(0, 3).Draw(t, "depth")
		shuffled := func(seed uint64) *LeafSet {
			l := newLeafSet(all[len(all)-1], 16, 12)
			r := rand.New(rand.NewPCG(seed, 0))
			for _, i := range r.Perm(len(all)) {
				l.Add(all[i])
			}
			for _, i := range r.Perm(gone) {
				l.Remove(all[i].ID)
			}
			l.SetDepth(depth)
			return l
		}
		a, b := shuffled(1), shuffled(2)
		if !slices.Equal(a.Members(), b.Members()) || a.Digest() != b.Digest() {
			t.Fatalf("%d and %d members, digests %x and %x", a.Len(), b.Len(), a.Digest(), b.Digest())
		}
		if !slices.IsSortedFunc(a.Members(), func(a, b *Contact) int { return compare(a.ID, b.ID) }) {
			t.Fatal("members are not in the order of their ids")
		}
		for _, c := range a.Members() {
			if !a.Covers(c.ID) {
				t.Fatalf("%v stands in a leaf that does not cover it", c.ID)
			}
		}
		before := a.Digest()
		if stranger := (&Contact{ID: drawID(t, "stranger")}); a.Add(stranger) {
			if a.Digest() == before {
				t.Fatal("the digest does not change when a member is added")
			}
			if a.Remove(stranger.ID); a.Digest() != before {
				t.Fatal("the digest is different after a member was added and removed")
			}
		}
	})
}

func TestLeafKeepsTheNewestRecordAndItself(t *testing.T) {
	self, old := someone(1), someone(2)
	old.Issued = 5
	l := leafOf(self, old)
	older, newer := someone(2), someone(2)
	older.Issued, newer.Issued = 4, 6
	if l.Add(older); l.Has(old.ID) != old {
		t.Error("an older record took the place of a newer one")
	}
	if l.Add(newer); l.Has(old.ID) != newer || l.Len() != 2 {
		t.Error("a newer record did not take the place of an older one")
	}
	if l.Remove(self.ID) || l.Has(self.ID) != self {
		t.Error("a node removed itself from its leaf")
	}
}

// Leaves partition the id space into prefix subtrees: a leaf splits when both halves hold at
// least 16 members, and two halves merge when one falls below 12.
func TestLeafSplitsAndMerges(t *testing.T) {
	for _, c := range []struct{ depth, own, other, want int }{
		{0, 1, 0, 0},
		{0, 16, 16, 1},
		{0, 16, 15, 0},
		{0, 15, 16, 0},
		{0, 15, 100, 0},
		{0, 200, 200, 1},
		{1, 16, 16, 2},
		{1, 12, 0, 1}, // between the two sizes the depth does not change
		{1, 6, 6, 1},
		{1, 11, 0, 0},
		{1, 5, 6, 0},
		{7, 1, 0, 6},
		{maxDepth, 16, 16, maxDepth},
	} {
		l := newLeafSet(someone(), 16, 12)
		l.SetDepth(c.depth)
		for i := 1; i < c.own; i++ {
			var id ID
			id[31] = byte(i) // shares all bits up to the last bytes
			if c.depth == maxDepth {
				id[30] = 1
			}
			l.Add(&Contact{ID: id})
		}
		for i := range c.other {
			var id ID
			id[c.depth/8] = 0x80 >> (c.depth % 8)
			id[30] = byte(i + 1)
			l.Add(&Contact{ID: id})
		}
		if got := l.WantedDepth(); got != c.want {
			t.Errorf("depth %d, %d members on the own side and %d on the other: wants %d, not %d",
				c.depth, c.own, c.other, got, c.want)
		}
	}
}

func TestLaterDecisionAboutTheDepthWins(t *testing.T) {
	for _, c := range []struct {
		what                  string
		depth, theirs, common int
		decided, later        uint64
		near, sibling         int
		to                    int
		ok                    bool
		voted                 bool
	}{
		{"later and deeper", 2, 3, 9, 10, 11, 600, 0, 3, true, false},
		{"later and deeper, but one half would be too small", 2, 3, 9, 10, 11, 100, 0, 0, false, false},
		{"later and wider", 3, 2, 9, 10, 11, 0, 0, 2, true, false},
		{"later and much wider: a bit at a time", 6, 0, 9, 10, 11, 0, 0, 5, true, false},
		{"later and wider, but the leaf is large", 3, 2, 9, 10, 11, 600, 16, 0, false, false},
		{"the leaf is large, but its sibling wants to merge, and is small", 3, 2, 2, 10, 11, 600, 11, 2, true, false},
		{"the leaf is large, and its sibling too", 3, 2, 2, 10, 11, 600, 16, 0, false, false},
		{"earlier", 3, 2, 9, 11, 10, 0, 0, 0, false, false},
		{"of one time, wider", 3, 2, 9, 10, 10, 0, 0, 2, true, false},
		{"of one time, deeper", 2, 3, 9, 10, 10, 600, 0, 0, false, false},
		{"of one time, the same", 2, 2, 9, 10, 10, 0, 0, 0, false, false},
		{"later, the same", 2, 2, 9, 10, 11, 0, 0, 2, true, false},
		{"of another leaf, as both see it", 4, 4, 3, 10, 11, 0, 0, 0, false, false},
		{"it has split from this node at bit 2", 2, 6, 2, 10, 11, 600, 0, 3, true, false},
		{"it still counts this node in", 6, 2, 2, 10, 11, 0, 0, 5, true, false},
		{"it still counts this node in, but decided earlier", 6, 2, 2, 11, 10, 0, 0, 0, false, false},
		{"one half seems too small, but most others say so", 2, 6, 9, 10, 11, 20, 0, 3, true, true},
		{"its own half is too small, whatever others say", 2, 3, 9, 10, 11, 0, 0, 0, false, true},
		{"the leaf is large, and its sibling too, but most others say so", 3, 1, 2, 10, 11, 600, 16, 2, true, true},
	} {
		l := newLeafSet(someone(), 16, 12)
		l.depth, l.decided = c.depth, c.decided
		for i := range c.near { // on both sides of each of the first bits
			var id ID
			id[i%16/8] = 0x80 >> (i % 8)
			id[31] = byte(i + 1)
			l.members = append(l.members, &Contact{ID: id})
		}
		if to, ok := l.Adopt(c.common, c.theirs, c.later, c.sibling, c.voted); to != c.to || ok != c.ok {
			t.Errorf("%s: to %d (%v), want %d (%v)", c.what, to, ok, c.to, c.ok)
		}
	}
}

// Whatever two members remember, and whatever depths a liar claims, they agree on one depth or
// on being in two leaves.
func TestTwoMembersAgreeOnTheDepth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*Contact
		for _, id := range rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) ID { return drawID(t, "id") }),
			2, 60, rapid.ID).Draw(t, "members") {
			all = append(all, &Contact{ID: id})
		}
		var leaves [2]*LeafSet
		know := func(l *LeafSet, depth int) {
			l.SetDepth(depth)
			for _, c := range all {
				if l.Covers(c.ID) {
					l.Add(c)
				}
			}
		}
		for i := range leaves {
			leaves[i] = newLeafSet(all[i], 16, 12)
			leaves[i].decided = uint64(rapid.IntRange(0, 3).Draw(t, "decided"))
			know(leaves[i], rapid.IntRange(0, 12).Draw(t, "depth"))
		}
		common := all[0].ID.Common(all[1].ID)
		hear := func(l *LeafSet, common, depth int, decided uint64) {
			sibling := 0
			for _, c := range all {
				if l.self.ID.Common(c.ID) == l.depth-1 {
					sibling++
				}
			}
			if to, ok := l.Adopt(common, depth, decided, sibling, false); ok {
				l.decided = decided
				know(l, to)
			}
		}
		for round := range 40 {
			for i, l := range leaves {
				hear(l, common, leaves[1-i].depth, leaves[1-i].decided)
				if round < 5 {
					hear(l, rapid.IntRange(0, 12).Draw(t, "its common"), rapid.IntRange(0, 12).Draw(t, "its depth"),
						uint64(rapid.IntRange(0, 100).Draw(t, "its time")))
				}
				if to := l.WantedDepth(); to != l.depth {
					l.Decide(time.UnixMilli(int64(round)))
					know(l, to)
				}
			}
		}
		a, b := leaves[0].depth, leaves[1].depth
		if a != b && (a <= common || b <= common) {
			t.Fatalf("they share %d bits and are at depths %d and %d", common, a, b)
		}
	})
}

func TestDecisionIsLaterThanTheOneItReplaces(t *testing.T) {
	l := newLeafSet(someone(), 16, 12)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.Decide(now)
	first := l.decided
	l.Decide(now.Add(-time.Hour)) // a clock that is behind
	if l.decided <= first {
		t.Errorf("decided at %d, then at %d", first, l.decided)
	}
	l.decided = ^uint64(0)
	if l.Decide(now); l.decided != ^uint64(0) {
		t.Errorf("after the last of all times comes %d", l.decided)
	}
}

func TestNearestAreSortedByDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLeafSet(&Contact{ID: drawID(t, "self")}, 16, 12)
		for range rapid.IntRange(0, 30).Draw(t, "members") {
			l.Add(&Contact{ID: drawID(t, "id")})
		}
		key := drawID(t, "key")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		near := l.NearestN(key, n)
		if len(near) != min(n, l.Len()) || slices.ContainsFunc(l.Members(), func(c *Contact) bool { return Nearer(key, c.ID, near[0].ID) }) {
			t.Fatalf("%d nearest of %d are %d", n, l.Len(), len(near))
		}
		for i, c := range near {
			farther := 0
			for _, o := range l.Members() {
				if Nearer(key, c.ID, o.ID) {
					farther++
				}
			}
			if farther != l.Len()-1-i {
				t.Fatalf("number %d of the nearest is nearer than %d of %d", i, farther, l.Len())
			}
		}
	})
}
