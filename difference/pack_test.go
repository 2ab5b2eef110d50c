package difference

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"tidings/internal/feed"
)

// Packing and unpacking a Known changes none of its answers, whatever documents it has seen.
func TestAPackedFeedIsTheSame(t *testing.T) {
	rng, now := rand.New(rand.NewPCG(3, 4)), time.Unix(1, 0)
	var k Known
	packed, withdrawn := 0, 0
	for range 2_000 {
		f := &feed.Feed{Head: feed.Head{Title: string(rune('a' + rng.IntN(3))), Raw: []byte{1}}}
		for n := range 30 {
			if rng.IntN(8) > 0 {
				f.Items = append(f.Items, feed.Item{ID: feed.ID{byte(n)}, Hash: feed.Hash{byte(rng.IntN(40) / 39)}, Raw: []byte{1}})
			}
		}
		now = now.Add(time.Minute)
		k.Recognise(f)
		k.Sight(f, time.Hour, now)
		d := k.DiffWithTakenBack(f, 2*time.Minute, now)
		k.Add(d)
		k.Touch(f)
		if rng.IntN(2) == 0 {
			k.SightLatest() // the origin has answered that nothing has changed
		}
		before := k
		before.fingerprints, before.withdrawn, before.order = maps.Clone(k.fingerprints), maps.Clone(k.withdrawn), slices.Clone(k.order)
		n := k.Len()
		if k.Pack(); k.packed == nil {
			continue
		}
		packed++
		withdrawn += len(before.withdrawn)
		if k.Len() != n {
			t.Fatalf("%d items are packed, not %d", k.Len(), n)
		}
		k.unpack()
		if !reflect.DeepEqual(k.fingerprints, before.fingerprints) || !maps.Equal(k.withdrawn, before.withdrawn) || !slices.Equal(k.order, before.order) {
			t.Fatalf("unpacked: %+v\npacked: %+v", k, before)
		}
	}
	if packed < 500 || withdrawn == 0 {
		t.Errorf("packed %d times, %d withdrawn items", packed, withdrawn)
	}
}

// A small feed is packed at once, and a larger one only when it has not been used for a while.
func TestSmallFeedsArePacked(t *testing.T) {
	var k Known
	for n := range SmallFeed + 1 {
		k.Add(Delta{Changes: []Change{{Item: feed.Item{ID: feed.ID{byte(n + 1)}}}}})
		k.PackSmall()
		if small := n < SmallFeed; (k.packed != nil) != small || k.Len() != n+1 {
			t.Errorf("%d items, packed: %v", k.Len(), !small)
		}
	}
}

// Two windows of the same log share the packed items, and one of them changes without the other.
func TestPackedWindowsShareTheirItems(t *testing.T) {
	var a, b Window
	d := Delta{Changes: []Change{{Item: feed.Item{ID: feed.ID{1}}}, {Item: feed.Item{ID: feed.ID{2}}}}}
	for _, w := range []*Window{&a, &b} {
		w.Apply(d, time.Unix(1, 0), 1)
		w.Pack(nil)
	}
	if b.Pack(&a); &a.packed[0] != &b.packed[0] {
		t.Error("each has packed items of its own")
	}
	b.Apply(Delta{Changes: []Change{{Item: feed.Item{ID: feed.ID{3}}}}}, time.Unix(2, 0), 2)
	if a.Len() != 2 || b.Len() != 3 || len(a.Entries()) != 2 || len(b.Entries()) != 3 {
		t.Errorf("%d and %d items", a.Len(), b.Len())
	}
}
