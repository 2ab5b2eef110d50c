package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The round-trip times have the distribution that King's comment states.
func TestKingHasTheTimesThatWereMeasured(t *testing.T) {
	t.Parallel()
	king := King(1)
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 200_000
	var all []time.Duration
	for len(all) < n {
		if a, b := rng.IntN(1740), rng.IntN(1740); a < b {
			all = append(all, 2*king(a, b))
		}
	}
	slices.Sort(all)
	for _, p := range []int{1, 25, 50, 75, 95, 99} {
		t.Logf("%d %%: %v", p, all[p*n/100].Round(time.Millisecond))
	}
	if m := all[n/2]; (m - 159*time.Millisecond).Abs() > 3*time.Millisecond {
		t.Errorf("median %v, want 159 ms", m)
	}
	if p := all[n*99/100]; p > 500*time.Millisecond {
		t.Errorf("99th percentile %v, want at most 500 ms", p)
	}
	if least, most := all[0], all[n-1]; most != 800*time.Millisecond || most < 100*least {
		t.Errorf("from %v to %v, want two orders of magnitude up to 800 ms", least, most)
	}
	if king(1, 2) != King(1)(1, 2) || king(1, 2) == King(2)(1, 2) {
		t.Error("one seed must give one map, and two seeds different ones")
	}
}
