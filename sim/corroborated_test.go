package sim

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
)

// A root that trusts no single child still counts more than three quarters of the readers, even if it has become the root only
// recently. While many subscribe at once on a lossy network, it counts at least half of them.
func TestHonestTreesAreEven(t *testing.T) {
	seeds(t, 1, 2, func(t *testing.T, seed uint64) {
		members := longtest.Pick(100, 200)
		s := grown(seed, members)
		s.SetNetworkFaults(NetworkFaults{Loss: 0.05})
		var groups []overlay.ID
		readers := map[overlay.ID]int{}
		for i := range 40 {
			g := s.Key(fmt.Sprintf("http://feed%d.example/", i))
			groups = append(groups, g)
			for j, p := range s.Peers() {
				if (i*7+j*13)%40 <= i {
					p.JoinGroup(g, 20)
					readers[g] += 20
				}
			}
		}
		check := func(when string, least float64) {
			for i, g := range groups {
				n, _ := s.Root(g).Layers().Scribe.Corroborated(g)
				if float64(n) < least*float64(readers[g]) {
					t.Errorf("%s: group %d counts %d of %d", when, i, n, readers[g])
				}
			}
		}
		for range 6 {
			s.World.Run(10 * time.Second)
			check("while many subscribe", 0.5)
		}
		s.World.Run(5 * time.Minute)
		check("later", 0.75)
		s.Grow(members*13/10, 0)
		s.World.Run(90 * time.Second)
		for range 6 {
			s.World.Run(30 * time.Second)
			check("after members came", 0.75)
		}
	})
}
