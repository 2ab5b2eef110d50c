package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/overlay"
)

// Half of the sessions are shorter than the median. The mean is four times as long (2/ln²2 for a
// Weibull distribution of shape 1/2), and the mean residual session is longer still.
func TestSessionsHaveAHeavyTail(t *testing.T) {
	t.Parallel()
	s := Sessions{Median: time.Hour}
	rng := rand.New(rand.NewPCG(1, 1))
	var drawn []time.Duration
	sum, rest := 0.0, 0.0
	const n = 200_000
	for range n {
		d := s.Draw(rng)
		drawn = append(drawn, d)
		sum += d.Hours()
		rest += s.Residual(rng).Hours()
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
		t.Errorf("mean residual session %.2f h, want %.2f", got, want)
	}
}

// While members come and go, mostly silently, lookups end at the live member nearest to their key.
func TestChurn(t *testing.T) {
	seeds(t, 1, 2, func(t *testing.T, seed uint64) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
		s.Grow(64, 500*time.Millisecond)
		s.World.Run(3 * time.Minute)
		rng := rand.New(rand.NewPCG(seed, 5))
		end := s.Churn(Churn{Sessions: Sessions{Median: 10 * time.Minute}, Silent: 0.6, Returning: 0.5})
		for range 5000 {
			s.After(time.Duration(rng.Int64N(int64(30*time.Minute))), func() {
				var key overlay.ID
				for i := range key {
					key[i] = byte(rng.Uint32())
				}
				s.Route(s.RandomMember(rng), key)
			})
		}
		s.World.Run(30 * time.Minute)
		end()
		s.World.Run(30 * time.Minute)
		s.CheckQuiet()
		report(t, s)
		j := s.TakeJoinStats()
		t.Logf("%+v %+v", j, s.RouteStats())
		if live := len(s.Live()); live < 60 || live > 64 || j.Departed < 20 || j.Joined < 64+j.Departed-5 {
			t.Errorf("%d live of 64, %+v", live, j)
		}
	})
}
