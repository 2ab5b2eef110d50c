package feedtree

import (
	"testing"

	"tidings/internal/env"
)

// A parent is left after three missed deliveries in a row. Those of another parent do not count.
func TestMissedDeliveriesCountPerParent(t *testing.T) {
	type trial struct {
		parent  env.PeerID
		brought bool
	}
	miss, got := func(p env.PeerID) trial { return trial{p, false} }, func(p env.PeerID) trial { return trial{p, true} }
	for _, c := range []struct {
		name string
		of   []trial
		out  int // number of the delivery after which the parent is left; 0: never
	}{
		{"two", []trial{miss("a"), miss("a")}, 0},
		{"three", []trial{miss("a"), miss("a"), miss("a")}, 3},
		{"not in a row", []trial{miss("a"), miss("a"), got("a"), miss("a"), miss("a")}, 0},
		{"two parents'", []trial{miss("a"), miss("a"), miss("b")}, 0},
		{"the second's own", []trial{miss("a"), miss("a"), miss("b"), miss("b"), miss("b")}, 5},
		{"the first comes back", []trial{miss("a"), miss("a"), miss("b"), miss("a"), miss("a")}, 0},
		{"three once more", []trial{miss("a"), miss("a"), miss("a"), miss("a"), miss("a")}, 3},
	} {
		var s missedDeliveries
		out := 0
		for i, is := range c.of {
			if s.record(is.parent, is.brought) {
				out += i + 1
			}
		}
		if out != c.out {
			t.Errorf("%s: left after %d, not %d", c.name, out, c.out)
		}
	}
}
