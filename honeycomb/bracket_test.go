package honeycomb

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
)

// exhaustive tries all choices of items. It returns the least F within the budget, or infinity
// if there is none.
func exhaustive(items []hullItem, budget float64) float64 {
	if budget < 0 && len(items) == 0 {
		return math.Inf(1)
	}
	if len(items) == 0 {
		return 0
	}
	best := math.Inf(1)
	for l, f := range items[0].F {
		best = min(best, f+exhaustive(items[1:], budget-items[0].G[l]))
	}
	return best
}

// checkBracket checks the properties of every solution: "L_d and L_u differ in at most one
// channel", "the minimum determined by L* will be bounded by the minima determined by L_d and
// L_u", and L_d "satisfies the constraint T strictly" (§3.2).
func checkBracket(t *testing.T, seed uint64, items []hullItem, s Solution) {
	t.Helper()
	const bits = 1e-9
	scale := math.Abs(s.Down.F) + math.Abs(s.Up.F) + 1
	sum := func(odd int) (v Value) {
		for i, pick := range s.Pick {
			if i == odd {
				pick = s.MarginalPick
			}
			v.F += items[i].F[pick]
			v.G += items[i].G[pick]
		}
		return v
	}
	for _, c := range []struct{ got, want Value }{{s.Down, sum(-1)}, {s.Up, sum(s.Marginal)}} {
		if math.Abs(c.got.F-c.want.F) > bits*scale || math.Abs(c.got.G-c.want.G) > bits*(math.Abs(c.want.G)+1) {
			t.Fatalf("seed %d: worth %v, says %v", seed, c.want, c.got)
		}
	}
	best := exhaustive(items, s.Budget)
	switch {
	case s.Feasible == math.IsInf(best, 1):
		t.Fatalf("seed %d: fits: %v, but the best is %v", seed, s.Feasible, best)
	case !s.Feasible:
		return
	case s.Down.G > s.Budget+bits*math.Abs(s.Budget):
		t.Fatalf("seed %d: costs %v of %v", seed, s.Down.G, s.Budget)
	case s.Marginal >= 0 && s.Up.G <= s.Budget:
		t.Fatalf("seed %d: L_u would have fit: %v of %v", seed, s.Up.G, s.Budget)
	case !(s.Up.F <= best+bits*scale && best <= s.Down.F+bits*scale):
		t.Fatalf("seed %d: the best is %v, not in [%v, %v]", seed, best, s.Up.F, s.Down.F)
	case s.Lambda == 0 && s.Marginal >= 0:
		t.Fatalf("seed %d: all steps taken, but one is marginal", seed)
	}
}

func TestBracketOfAnyTradeoffs(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		number := func() float64 { return 10 * rng.Float64() }
		if seed%2 == 0 { // many ties
			number = func() float64 { return float64(rng.IntN(7)) }
		}
		items := make([]hullItem, 1+rng.IntN(6))
		for i := range items {
			for range 1 + rng.IntN(5) {
				items[i].F, items[i].G = append(items[i].F, number()), append(items[i].G, number())
			}
		}
		checkBracket(t, seed, items, minimise(items, 40*rng.Float64()-1))
	}
}

// The objectives, written out as tradeoffs, have the same bracket.
func TestBracketOfObjectives(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := Problem{
			Objective:   Objective(rng.IntN(len(objectives))),
			Granularity: Granularity(rng.IntN(2)),
			Base:        16,
			Nodes:       1 + rng.IntN(8),
			Interval:    30 * time.Minute,
			Load:        3 * (1 - rng.Float64()),
			Detection:   time.Duration(60+rng.IntN(1000)) * time.Second,
		}
		own := make([]Channel, 1+rng.IntN(5))
		items := make([]hullItem, len(own))
		for i := range own {
			c := Channel{
				Subscribers: float64(rng.IntN(10)),
				Size:        float64(1 + rng.IntN(4)),
				Update:      time.Duration(1+rng.IntN(200)) * time.Hour,
				Interval:    time.Duration(rng.IntN(4)) * 20 * time.Minute,
				MaxPollers:  rng.IntN(10),
				Key:         rng.Uint64(),
			}
			for n := 1; n <= p.Nodes; n++ {
				if n == 1 || rng.IntN(2) == 0 {
					c.Wedges = append(c.Wedges, float32(n))
				}
			}
			own[i] = c
			items[i] = writtenOut(&p, &c)
		}
		s, err := Solve(&p, own, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Granularity == Ranks { // picks are numbers of pollers, from 1
			for i := range s.Pick {
				s.Pick[i]--
			}
			s.MarginalPick--
		}
		checkBracket(t, seed, items, s)
	}
}

// writtenOut returns the tradeoff of a channel by Table 1; choices above its maximum have
// prohibitive costs.
func writtenOut(p *Problem, c *Channel) (t hullItem) {
	tau := p.Interval.Seconds()
	own := max(tau, c.Interval.Seconds())
	u := min(c.Update, MaxUpdate).Seconds()
	q := max(c.Subscribers, MinSubscribers)
	w := map[Objective]float64{
		Lite: q, Fast: q, Fair: q * tau / u, FairSqrt: q * math.Sqrt(tau) / math.Sqrt(u),
		FairLog: q * math.Log(tau) / math.Log(u),
	}[p.Objective]
	sizes := c.Wedges
	if p.Granularity == Ranks {
		sizes = nil
		for n := range p.Nodes {
			sizes = append(sizes, float32(n+1))
		}
	}
	for _, n := range sizes {
		delay, load := w*own/2/float64(n), c.Size*float64(n)*tau/own
		if c.MaxPollers > 0 && int(n) > c.MaxPollers {
			delay, load = math.MaxFloat32, math.MaxFloat32
		}
		if p.Objective == Fast {
			delay, load = load, delay
		}
		t.F, t.G = append(t.F, delay), append(t.G, load)
	}
	return t
}

// With many channels most steps are never examined, and lambda is estimated from one channel in
// four. The result equals that of sorting all steps, even if the sample misleads.
func TestHistogramAndSamplingChangeNoChoice(t *testing.T) {
	t.Parallel()
	s := newScenario(1024, 9000, 450_000, 1)
	s.trueWedges(2)
	for what, mislead := range map[string]func(c *Channel){
		"not":         func(*Channel) {},
		"more wanted": func(c *Channel) { c.Subscribers *= 1000 },
		"cheap":       func(c *Channel) { c.Size = MinSize },
	} {
		channels := slices.Clone(s.channels)
		for i := range channels {
			if i%4 == 0 {
				mislead(&channels[i])
			}
		}
		for _, objective := range []Objective{Lite, Fast, Fair} {
			for _, fraction := range []float64{0.00001, 0.001, 0.3, 1, 29} {
				p := s.Problem
				p.Objective, p.Load, p.Detection = objective, fraction, time.Duration(900*fraction/30*float64(time.Second))
				got, err := Solve(&p, channels, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := chooseBySorting(&p, channels, got.Budget); !slices.Equal(got.Pick, want) {
					t.Errorf("%v at %v, sample %s: another choice", objective, fraction, what)
				}
			}
		}
	}
}

// chooseBySorting makes the same choice by sorting all steps.
func chooseBySorting(p *Problem, own []Channel, budget float64) []int32 {
	v := &levels{p: p, channels: own}
	for i := range own {
		v.curves = append(v.curves, p.tradeoff(&own[i]))
	}
	picks, spent := make([]int32, len(own)), 0.
	var all []step
	for i := range own {
		var worth Value
		picks[i], worth, all = v.row(i, math.Inf(1), 0, all)
		spent += worth.G
	}
	slices.SortStableFunc(all, func(a, b step) int {
		return cmp.Or(cmp.Compare(b.slope, a.slope), cmp.Compare(env.Mix(own[a.item].Key), env.Mix(own[b.item].Key)))
	})
	for _, s := range all {
		if spent+s.cost > budget {
			break
		}
		spent += s.cost
		picks[s.item] = s.choice
	}
	return picks
}

// minimise chooses among many items as Solve does among channels.
func TestManyTradeoffsAreChosenAsChannels(t *testing.T) {
	s := newScenario(1024, 9000, 450_000, 1)
	s.trueWedges(2)
	items := make([]hullItem, len(s.channels))
	for i := range s.channels {
		s.channels[i].Size = 1
		items[i] = writtenOut(&s.Problem, &s.channels[i])
	}
	for _, fraction := range []float64{0.01, 0.05, 1, 10} {
		s.Load = fraction
		want, _ := s.solved(t)
		got := minimise(items, want.Budget)
		if got.Feasible != want.Feasible || got.Lambda != want.Lambda || math.Abs(got.Down.G-want.Down.G) > 1024 {
			t.Errorf("at %v: %v at %v, want %v at %v", fraction, got.Down, got.Lambda, want.Down, want.Lambda)
		}
	}
}

// Thousands of channels with equal factors are ordered by their keys, so they do not all move
// at once, and the load meets the budget.
func TestTiesAreBrokenByKeys(t *testing.T) {
	for _, granularity := range []Granularity{Levels, Ranks} {
		p := Problem{Granularity: granularity, Base: 16, Nodes: 1024, Interval: 30 * time.Minute, Load: 1}
		own := make([]Channel, 10_000)
		for i := range own {
			own[i] = Channel{Subscribers: 50.5, Key: id("%d", i), Wedges: []float32{1, 4, 64, 1024}}
		}
		s, err := Solve(&p, own, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Down.G > s.Budget || s.Down.G < s.Budget-64 {
			t.Errorf("granularity %d: load %v of %v", granularity, s.Down.G, s.Budget)
		}
		first := 0 // with most pollers, in the second half of the list
		most := slices.Max(s.Pick)
		for i := len(own) / 2; i < len(own); i++ {
			if s.Pick[i] == most {
				first++
			}
		}
		all := 0
		for _, pick := range s.Pick {
			if pick == most {
				all++
			}
		}
		if math.Abs(float64(first)/float64(all)-0.5) > 0.05 {
			t.Errorf("granularity %d: %d of %d channels with most pollers are in the second half", granularity, first, all)
		}
	}
}
