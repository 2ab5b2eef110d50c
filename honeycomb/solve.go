package honeycomb

import "fmt"

// Solve chooses for the own channels, given an aggregate of all others (nil if there are none).
// T is for the whole network: a node's decision is right if all others decide by the same
// aggregates. An aggregate from strangers must have passed Check. Solve fails only if the
// problem does not pass Problem.Check.
//
// With Bins, slopes of Levels count as up to one bin (9 %) steeper, depending on the channel's
// key. Otherwise all of thousands of channels with one slope, here and on other nodes, would
// move at once, or none.
func Solve(p *Problem, own []Channel, remote RemoteAggregate) (Solution, error) {
	if err := p.Check(); err != nil {
		return Solution{}, fmt.Errorf("solve: %w", err)
	}
	others, subscribers, dither := &costCurve{}, 0., false
	if remote != nil {
		others, subscribers = remote.costCurve(p), remote.totals().Subscribers
		_, dither = remote.(*Bins)
	}
	curves := make([]tradeoff, len(own))
	for i := range own {
		curves[i] = p.tradeoff(&own[i])
		subscribers += own[i].subscribers()
	}
	budget := p.Budget(subscribers)
	if p.Granularity == Ranks {
		v := &ranks{p: p, channels: own, curves: curves}
		return v.choose(others, budget), nil
	}
	s := choose(&levels{p: p, channels: own, curves: curves, dither: dither}, others, budget)
	s.dither = dither
	return s, nil
}

// Level returns the choice of wedge for a channel that was not among the own ones, by the
// solution's lambda, as an index of Channel.Wedges. Nodes that are in a channel's wedge without
// being its owner decide in this way (Corona, §3.3).
func (s *Solution) Level(p *Problem, c *Channel) int {
	v := levels{p: p, channels: []Channel{*c}, curves: []tradeoff{p.tradeoff(c)}, dither: s.dither}
	pick, _, _ := v.row(0, s.Lambda, s.Lambda, nil)
	return int(pick)
}

// PollersFor returns how many nodes would poll a channel by the solution's lambda, that is, at
// the price that one more poller has for all channels. The channel need not be one of the own
// ones, and its bounds there are ignored.
func (s *Solution) PollersFor(p *Problem, c *Channel) float64 {
	if p.Granularity == Ranks {
		return p.pollers(p.tradeoff(c), s.Lambda)
	}
	v := levels{p: p, channels: []Channel{*c}, curves: []tradeoff{p.tradeoff(c)}}
	return v.sizeOf(0, int32(s.Level(p, c)))
}

// Pollers returns how many nodes poll own[i] by the solution.
func (s *Solution) Pollers(p *Problem, own []Channel, i int) float64 {
	if p.Granularity == Ranks {
		return float64(s.Pick[i])
	}
	v := levels{p: p, channels: own[i : i+1], curves: []tradeoff{p.tradeoff(&own[i])}}
	return v.sizeOf(0, s.Pick[i])
}
