package difference

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/feed"
)

// A window that has applied and forgotten random deltas equals a window that is made of its entries: the same
// items in the same order, forgotten in the order of their arrival, and the same hash.
func TestAWindowEqualsOneMadeOfItsEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	item := func() feed.Item {
		var it feed.Item
		binary.BigEndian.PutUint16(it.ID[:], uint16(1+rng.IntN(200)))
		binary.BigEndian.PutUint16(it.Hash[:], uint16(1+rng.IntN(4)))
		return it
	}
	var w Window
	var first uint64
	for ref := uint64(1); ref <= 2_000; ref++ {
		var d Delta
		for range rng.IntN(4) {
			d.Changes = append(d.Changes, Change{Item: item(), After: item().ID})
		}
		w.Apply(d, time.Unix(int64(ref), rng.Int64N(1e9)).UTC(), ref)
		if rng.IntN(3) == 0 {
			first = max(first, ref-min(ref, uint64(rng.IntN(100))))
			gone := w.Forget(first)
			if !slices.IsSortedFunc(gone, func(a, b Entry) int { return int(a.Ref) - int(b.Ref) }) {
				t.Fatalf("forgotten in another order than they came: %v", gone)
			}
			if slices.ContainsFunc(gone, func(e Entry) bool { return e.Ref >= first }) {
				t.Fatalf("forgotten too early: %v", gone)
			}
		}
		entries, newest := w.Entries(), w.Newest()
		if rng.IntN(2) == 0 {
			if w.Pack(nil); w.byID != nil && len(entries) > 0 {
				t.Fatal("the items are not packed")
			}
			if n := w.Len(); n != len(entries) || !w.Newest().Equal(newest) {
				t.Fatalf("%d packed items, the newest of %v; want %d, %v", n, w.Newest(), len(entries), newest)
			}
			if again := w.Entries(); !slices.Equal(again, entries) {
				t.Fatalf("unpacked: %v\npacked: %v", again, entries)
			}
		}
		var sum sum
		var back []feed.ID
		var last *node
		for p := w.first; p != nil; last, p = p, p.next {
			if p.before != last {
				t.Fatalf("the item before %v is another one", p.ID)
			}
			back = append(back, p.ID)
		}
		for i, e := range entries {
			sum.add(&e)
			if in, ok := w.Entry(e.ID); !ok || in != e || back[i] != e.ID {
				t.Fatalf("entry %+v is %+v", e, in)
			}
			if e.Ref < first {
				t.Fatalf("entry %+v should have been forgotten before %d", e, first)
			}
		}
		if w.Len() != len(entries) || w.Hash() != sum.hash() {
			t.Fatalf("after %d deltas the hash is not that of the %d entries, of %d", ref, len(entries), w.Len())
		}
		if len(entries) > 0 && w.Hash() == (feed.Hash{}) {
			t.Fatal("the hash says nothing")
		}
	}
	if w.Forget(first + 3_000); w.Len() != 0 || w.first != nil || w.oldest != nil || w.newest != nil || w.Hash() != (feed.Hash{}) {
		t.Errorf("%d items are left", w.Len())
	}
}

// An item that claims to follow itself goes to the front.
func TestAnItemAfterItselfGoesToTheFront(t *testing.T) {
	var w Window
	for n := byte(1); n <= 2; n++ {
		id := feed.ID{n}
		w.Apply(Delta{Changes: []Change{{Item: feed.Item{ID: id}, After: id}}}, time.Unix(1, 0), uint64(n))
	}
	if e := w.Entries(); len(e) != 2 || e[0].ID != (feed.ID{2}) {
		t.Errorf("%v", e)
	}
}
