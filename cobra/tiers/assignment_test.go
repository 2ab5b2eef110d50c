package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// plane returns feeds of one share at random places, and crawlers at others, with latencies of their distances.
func plane(rng *rand.Rand, feeds, crawlers int) (all []place) {
	at := func() [2]int { return [2]int{rng.IntN(200), rng.IntN(200)} }
	var places [][2]int
	for range crawlers {
		places = append(places, at())
	}
	for i := range feeds {
		p, here := place{url: fmt.Sprint(i)}, at()
		for _, there := range places {
			dx, dy := here[0]-there[0], here[1]-there[1]
			p.millis = append(p.millis, uint32(10+max(dx, -dx)+max(dy, -dy)))
		}
		all = append(all, p)
	}
	return all
}

func total(all []place) (millis int) {
	for _, p := range all {
		millis += int(p.millis[p.to])
	}
	return millis
}

// TestAssignmentsSaveLatencyWithinBounds: whatever is known, and whoever is down, crawlers have at most their bound of what
// is known, what is unknown stays, and assignments come to rest.
func TestAssignmentsSaveLatencyWithinBounds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		crawlers := 2 + rng.IntN(9)
		all := plane(rng, 50+rng.IntN(500), crawlers)
		up := make([]bool, crawlers)
		for i := range up {
			up[i] = i == 0 || rng.IntN(8) > 0
		}
		unknown := rng.IntN(3)
		for i := range all {
			if all[i].holder = rng.IntN(crawlers); rng.IntN(10) < unknown {
				all[i].millis[rng.IntN(crawlers)] = 0
			}
		}
		var before []place
		for range 20 {
			before = slices.Clone(all)
			assign(all, up)
			if slices.EqualFunc(all, before, func(a, b place) bool { return a.holder == b.to && a.to == b.to }) {
				break
			}
			for i := range all {
				all[i].holder = all[i].to
			}
		}
		counts, known, open := make([]int, crawlers), 0, 0
		for i, p := range all {
			switch {
			case !p.known(up):
				if p.to != p.holder {
					t.Fatalf("seed %d: a feed moved that is not known", seed)
				}
			default:
				known++
				counts[p.to]++
				if !up[p.to] {
					t.Fatalf("seed %d: a feed is at a crawler that is down", seed)
				}
			}
			if p.to != before[i].to {
				t.Fatalf("seed %d: assignments do not come to rest", seed)
			}
		}
		for _, ok := range up {
			if ok {
				open++
			}
		}
		if bound := overload*float64(known)/float64(open) + 1; float64(slices.Max(counts)) > bound {
			t.Fatalf("seed %d: a crawler has %d of %d feeds, of %d crawlers", seed, slices.Max(counts), known, open)
		}
	}
}

// TestAssignmentsAreNearTheBest compares assignments with the best one, found by trying all.
func TestAssignmentsAreNearTheBest(t *testing.T) {
	const feeds, crawlers, most = 9, 3, 4 // ceil(1.2 * 9 / 3)
	sum, best := 0, 0
	for seed := range uint64(100) {
		all := plane(rand.New(rand.NewPCG(seed, 2)), feeds, crawlers)
		assign(all, []bool{true, true, true})
		sum += total(all)
		least := 1 << 30
		var try func(i, cost int, counts [crawlers]int)
		try = func(i, cost int, counts [crawlers]int) {
			if i == feeds {
				least = min(least, cost)
				return
			}
			for c := range crawlers {
				if counts[c] < most {
					next := counts
					next[c]++
					try(i+1, cost+int(all[i].millis[c]), next)
				}
			}
		}
		try(0, 0, [crawlers]int{})
		if total(all) < least {
			t.Fatalf("seed %d: better than the best, so the bound is broken", seed)
		}
		best += least
	}
	if excess := float64(sum)/float64(best) - 1; excess > 0.06 {
		t.Errorf("latencies are %.1f %% above the best", 100*excess)
	} else {
		t.Logf("latencies are %.1f %% above the best", 100*excess)
	}
}
