package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/overlay"
)

// Half of the sessions are shorter than the median; the mean is four times as long (of
// a Weibull distribution of shape 1/2: 2/ln²2), and who is met stays on for longer.
func TestSessionsHaveAHeavyTail(t *testing.T) {
	t.Parallel()
	s := Sessions{Median: time.Hour}
	dice := rand.New(rand.NewPCG(1, 1))
	var drawn []time.Duration
	sum, rest := 0.0, 0.0
	const n = 200_000
	for range n {
		d := s.Draw(dice)
		drawn = append(drawn, d)
		sum += d.Hours()
		rest += s.Rest(dice).Hours()
	}
	slices.Sort(drawn)
	if m := drawn[n/2]; (m - time.Hour).Abs() > time.Minute {
		t.Errorf("median %v", m)
	}
	mean := 2 / (math.Ln2 * math.Ln2)
	if got := sum / n; math.Abs(got/mean-1) > 0.02 {
		t.Errorf("mean %.2f h, want %.2f", got, mean)
	}
	// E[x²]/2E[x], where E[x²] is 24 scale².
	if got, want := rest/n, 3*mean; math.Abs(got/want-1) > 0.02 {
		t.Errorf("who is met stays for another %.2f h, want %.2f", got, want)
	}
}

// While everybody comes and goes, silently for the most part, a look-up ends at the
// live member nearest its key.
func TestChurn(t *testing.T) {
	seeds(t, 1, 4, func(t *testing.T, seed uint64) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
		s.Grow(64, 500*time.Millisecond)
		s.World.Run(3 * time.Minute)
		dice := rand.New(rand.NewPCG(seed, 5))
		end := s.Churn(Churn{Sessions: Sessions{Median: 10 * time.Minute}, Silent: 0.6, Back: 0.5})
		for range 5000 {
			s.After(time.Duration(dice.Int64N(int64(30*time.Minute))), func() {
				var key overlay.ID
				for i := range key {
					key[i] = byte(dice.Uint32())
				}
				s.Route(s.Someone(dice), key)
			})
		}
		s.World.Run(30 * time.Minute)
		end()
		s.World.Run(30 * time.Minute)
		s.CheckQuiet()
		report(t, s)
		j := s.TakeJoins()
		t.Logf("%+v %+v", j, s.RouteStats())
		if live := len(s.Live()); live < 60 || live > 64 || j.Died < 20 || j.Joined < 64+j.Died-5 {
			t.Errorf("%d live of 64, %+v", live, j)
		}
	})
}
