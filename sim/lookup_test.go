package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
)

// A lookup by disjoint routes finds the members nearest to a key in a healthy network, with loss,
// and just after many members have died; otherwise it mostly says that its result is implausible.
func TestLookupFindsTheNearest(t *testing.T) {
	t.Parallel()
	most := longtest.Pick(100, 200)
	for _, c := range []struct {
		name    string
		members int
		loss    float64
		die     int
	}{
		{"three", 3, 0, 0},
		{"calm", most, 0, 0},
		{"loss", most, 0.05, 0},
		{"deaths", most, 0, most * 3 / 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := grown(3, c.members)
			s.SetNetworkFaults(NetworkFaults{Loss: c.loss})
			rng := rand.New(rand.NewPCG(1, 9))
			for _, p := range s.Peers()[:c.die] {
				p.Kill(false)
			}
			lookups, want := longtest.Pick(150, 300), 5
			ended, right, wrong, implausible := 0, 0, 0, 0
			for i := range lookups {
				key := s.Key(fmt.Sprint(i))
				s.After(time.Duration(i)*10*time.Millisecond, func() {
					p := s.RandomMember(rng)
					p.Do(func() {
						p.Layers().Overlay.Lookup(key, want, func(l overlay.Lookup) {
							ended++
							switch ok := s.areNearest(key, l.Nearest, want); {
							case !l.Plausible:
								implausible++
							case ok:
								right++
							default:
								wrong++
							}
						})
					})
				})
			}
			s.World.Run(time.Minute)
			t.Logf("of %d lookups %d right, %d wrong, %d implausible", lookups, right, wrong, implausible)
			// The density check cannot notice that one of five members is missing if only members
			// that died knew it.
			if ended != lookups || wrong > c.die/20 || implausible > lookups/100+c.die/3 {
				t.Errorf("%d of %d ended, %d wrong, %d implausible", ended, lookups, wrong, implausible)
			}
		})
	}
}

// areNearest reports whether contacts are the live members nearest to a key.
func (s *Swarm) areNearest(key overlay.ID, of []*overlay.Contact, want int) bool {
	i := 0
	for p := range s.nearest(key) {
		if !p.Active() {
			continue
		}
		if i == want {
			break
		}
		if i >= len(of) || of[i].ID != p.id {
			return false
		}
		i++
	}
	return i == len(of)
}
