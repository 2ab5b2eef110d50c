package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tidings/overlay"
)

// nearest yields all peers in the order of their distance from the key.
func TestNearestIsInOrder(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 3}})
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 40 {
		var key overlay.ID
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		if n > 0 && n%4 == 0 {
			key = s.members[rng.IntN(n)].id
		}
		got := slices.Collect(s.nearest(key))
		want := slices.Clone(s.members)
		slices.SortFunc(want, func(a, b *Peer) int {
			if overlay.Nearer(key, a.id, b.id) {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%d peers: the %d that nearest yields are not sorted by distance", n, len(got))
		}
		for p := range s.nearest(key) {
			if p != want[0] {
				t.Fatal("the first is not the nearest")
			}
			break
		}
		s.Add(true)
	}
}
