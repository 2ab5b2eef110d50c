package honeycomb

import (
	"fmt"
	"math"
)

// Solve chooses for the own channels, beside a rest that stands for all others (nil: there
// are none). T is the whole network's: what is decided here is right if all others decide
// by the same sums. A rest that came from strangers must have passed Check. Solve fails
// only if the problem does not pass it.
//
// Beside Bins, slopes of Levels count as up to a bin (9 %) steeper than they are, by each
// channel's key: elsewhere, too, thousands of channels may stand at one slope, and all of
// them would move, or none.
func Solve(p *Problem, own []Channel, rest Rest) (Solution, error) {
	if err := p.Check(); err != nil {
		return Solution{}, fmt.Errorf("solve: %w", err)
	}
	others, subscribers, spread := &fluid{}, 0., false
	if rest != nil {
		others, subscribers = rest.fluid(p), rest.totals().Subscribers
		_, spread = rest.(*Bins)
	}
	curves := make([]curve, len(own))
	for i := range own {
		curves[i] = p.curve(&own[i])
		subscribers += own[i].subscribers()
	}
	budget := p.Budget(subscribers)
	if p.Cut == Ranks {
		v := &ranks{p: p, channels: own, curves: curves}
		return v.choose(others, budget), nil
	}
	s := choose(&levels{p: p, channels: own, curves: curves, spread: spread}, others, budget)
	s.spread = spread
	return s, nil
}

// Level returns the choice of wedge for a channel that was not among the own ones, as the
// solution's lambda has it: an index of Channel.Wedges. So decides who has a part in a
// channel's wedge, but is not its owner (Corona, §3.3).
func (s *Solution) Level(p *Problem, c *Channel) int {
	v := levels{p: p, channels: []Channel{*c}, curves: []curve{p.curve(c)}, spread: s.spread}
	pick, _, _ := v.row(0, s.Lambda, s.Lambda, nil)
	return int(pick)
}

// At returns how many nodes would poll a channel by the solution's lambda, whether it was among
// the own ones or not, and whatever bounds it had there: by what one more poller has to be worth.
func (s *Solution) At(p *Problem, c *Channel) float64 {
	if p.Cut == Ranks {
		return p.pollers(p.curve(c), s.Lambda)
	}
	v := levels{p: p, channels: []Channel{*c}, curves: []curve{p.curve(c)}}
	return v.sizeOf(0, int32(s.Level(p, c)))
}

// Minimise chooses for items with any tradeoffs, so that the sum of G is at most budget and
// that of F least. Each item needs at least one choice, as many F as G, and finite numbers.
func Minimise(items []Tradeoff, budget float64) (Solution, error) {
	for i, t := range items {
		if len(t.F) == 0 || len(t.F) != len(t.G) {
			return Solution{}, fmt.Errorf("minimise: item %d has %d f and %d g", i, len(t.F), len(t.G))
		}
		for l := range t.F {
			if finite := t.F[l] - t.F[l] + t.G[l] - t.G[l]; finite != 0 {
				return Solution{}, fmt.Errorf("minimise: item %d at %d: f %v, g %v", i, l, t.F[l], t.G[l])
			}
		}
	}
	if math.IsNaN(budget) {
		return Solution{}, fmt.Errorf("minimise: budget %v", budget)
	}
	return choose(newHulls(items), &fluid{}, budget), nil
}

// Pollers returns how many nodes poll own[i] by the solution.
func (s *Solution) Pollers(p *Problem, own []Channel, i int) float64 {
	if p.Cut == Ranks {
		return float64(s.Pick[i])
	}
	v := levels{p: p, channels: own[i : i+1], curves: []curve{p.curve(&own[i])}}
	return v.sizeOf(0, s.Pick[i])
}
