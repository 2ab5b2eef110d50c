package honeycomb

import (
	"math"
	"slices"
	"testing"
	"time"
)

// "A system of 1024 nodes, 100,000 channels, and 5,000,000 subscriptions" (§5.1). The expected
// numbers are the bound of any schedule at that load, and what wedges of actual sizes reach.
func TestBoundsOfThePapersScenario(t *testing.T) {
	t.Parallel()
	s := newScenario(1024, 100_000, 5e6, 1)
	for _, c := range []struct {
		objective                  Objective
		load                       float64 // T/Q
		bound, ranks, two, sixteen float64
		of                         func(Measurement) float64
	}{
		{Lite, 1, 16.03, 16.04, 16.8, 32.8, detection},
		{Lite, 48.97 / 50, 16.37, 16.38, 17.1, 34.6, detection},
		{Fast, 0, 26.72, 26.73, 28.0, 51.6, load},
		{Fair, 1, 46.5, 46.5, 48.4, 108, detection},
		{Fair, 1, 5.43, 5.43, 5.66, 11.1, notification},
		{FairSqrt, 1, 21.2, 21.2, 22.2, 38.2, detection},
		{FairLog, 1, 16.2, 16.2, 16.95, 33.6, detection},
	} {
		s.Objective, s.Load = c.objective, c.load
		n := Ideal(&s.Problem, s.channels)
		bound := c.of(Measure(&s.Problem, s.channels, func(i int) float64 { return n[i] }))
		near(t, c.objective.String()+", bound", bound, c.bound, 0.002)

		s.Granularity = Ranks
		_, m := s.solved(t)
		near(t, c.objective.String()+", ranks", c.of(m), c.ranks, 0.002)
		near(t, c.objective.String()+", ranks against the bound", c.of(m), bound, 0.001)
		s.Granularity = Levels
		s.trueWedges(2)
		_, m = s.solved(t)
		near(t, c.objective.String()+", base 2", c.of(m), c.two, 0.005)
		s.trueWedges(16)
		_, m = s.solved(t)
		near(t, c.objective.String()+", base 16", c.of(m), c.sixteen, 0.005)
	}
}

func detection(m Measurement) float64    { return m.Detection }
func notification(m Measurement) float64 { return m.Notification }
func load(m Measurement) float64         { return m.Load }

// For Lite, if no channel reaches a bound, the best is tau/2 (Σ √(q s))² / T Q.
func TestIdealIsCauchySchwarz(t *testing.T) {
	s := newScenario(1024, 10_000, 5e5, 1)
	roots, q := 0., 0.
	for i := range s.channels {
		s.channels[i].Size = 0.5 + float64(i%7)
		roots += math.Sqrt(s.channels[i].Subscribers * s.channels[i].Size)
		q += s.channels[i].Subscribers
	}
	n := Ideal(&s.Problem, s.channels)
	got := Measure(&s.Problem, s.channels, func(i int) float64 { return n[i] })
	near(t, "detection", got.Detection, 900*roots*roots/q/q, 1e-6)
	near(t, "load", got.Load*10_000, q, 1e-6)
}

// Except for Fair, the paper's Table 2 is what the formula of §3.1 gives if wedges are assumed
// to have N/b^l nodes, for a set of ids with 1.2 % orphans. Sets of ids with more orphans give
// more, because orphans, at 900 s each, dominate the mean.
func TestPapersTable2(t *testing.T) {
	s := newScenario(1024, 100_000, 5e6, 3)
	orphans := s.estimatedWedges(16)
	near(t, "orphans", float64(orphans), 1190, 0.01)
	for _, c := range []struct {
		objective Objective
		load      float64
		detection float64
	}{{Lite, 48.97, 53}, {FairSqrt, 49.46, 55}, {FairLog, 49.43, 53}} {
		s.Objective, s.Load = c.objective, c.load/50
		_, m := s.solved(t)
		near(t, c.objective.String(), m.Detection, c.detection, 0.05)
	}
	// Fast and Lite are two ends of one curve: the load at which Fast detects within 32 s is
	// the load that Lite needs for it.
	s.Objective, s.Load = Lite, 58.75/50
	_, lite := s.solved(t)
	near(t, "detection at Fast's load", lite.Detection, 32, 0.05)
	s.Objective, s.Detection = Fast, time.Duration(lite.Detection*float64(time.Second))
	_, fast := s.solved(t)
	near(t, "Fast's load", fast.Load, 58.75, 0.001)
}

// "a channel with polling level l has, on average, N/b^l nodes polling it" (§3.1), from
// "level K = ⌈log N⌉" (§3.3), where "only the owner nodes" poll.
func TestEstimatedWedges(t *testing.T) {
	for _, c := range []struct {
		base, nodes int
		want        []float32
	}{
		{16, 1, []float32{1}},
		{16, 1024, []float32{1, 4, 64, 1024}},
		{16, 60, []float32{1, 3.75, 60}},
		{16, 256, []float32{1, 16, 256}},
		{2, 8, []float32{1, 2, 4, 8}},
	} {
		p := Problem{Base: c.base, Nodes: c.nodes}
		if got := p.EstimatedWedges(); !slices.Equal(got, c.want) {
			t.Errorf("base %d, %d nodes: %v, want %v", c.base, c.nodes, got, c.want)
		}
	}
}

// A level without members, or with the members of the level below it, is skipped.
func TestWedges(t *testing.T) {
	for _, c := range []struct {
		counts []int
		want   []float32
	}{
		{nil, []float32{1}},
		{[]int{1024, 64, 4, 1, 0}, []float32{1, 4, 64, 1024}},
		{[]int{1024, 64, 64, 0, 0}, []float32{1, 64, 1024}},
		{[]int{1024, 0}, []float32{1, 1024}}, // an orphan in the paper
		{[]int{MaxNodes + 1}, []float32{1, MaxNodes}},
	} {
		if got := Wedges(c.counts); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.counts, got, c.want)
		}
	}
}
