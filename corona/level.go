package corona

import (
	"math"
	"slices"

	"tidings/honeycomb"
	"tidings/overlay"
)

// Wedges of polling levels, as in the paper (Corona §3.2): the wedge of level l consists of all
// members that share l digits with the channel's key.

// sizes returns the sizes of a channel's wedges, from its owner's level up: N/b^l with the paper's
// clusters, otherwise counted members. It returns nil for an orphan (a channel whose owner is alone
// at the level above its own), and if any number of members may poll.
func (c *Corona) sizes(key overlay.ID) []float32 {
	switch {
	case c.cfg.Cut == honeycomb.Ranks:
		return nil
	case !c.cfg.Clusters:
		return honeycomb.Wedges(c.counts(key))
	}
	of := c.problem.Believed()
	if owners := len(of) - 1; owners > 0 && c.sharing(key, (owners-1)*c.digit()) <= 1 {
		return nil
	}
	return of
}

// counts returns the number of members at each level of a key, down to the first level with at most
// one.
func (c *Corona) counts(key overlay.ID) (of []int) {
	for l := 0; ; l++ {
		n := c.sharing(key, l*c.digit())
		if of = append(of, n); n <= 1 {
			return of
		}
	}
}

// level is the polling level of a choice among sizes.
func (c *Corona) level(key overlay.ID, sizes []float32, pick int) int {
	if c.cfg.Clusters {
		return len(c.problem.Believed()) - 1 - pick
	}
	of := c.counts(key)
	if len(sizes) == 0 || sizes[pick] <= 1 {
		return len(of) - 1
	}
	narrower := slices.IndexFunc(of, func(n int) bool { return float32(n) < sizes[pick] })
	return max(narrower, 1) - 1
}

// Level returns the level down to which a channel's wedge should reach (wedge.Application). It is
// called on nodes that decide for others. They know the channel's tradeoff factors from its
// parameters, and the load of all others from the aggregate (Corona §3.3).
func (c *Corona) Level(key overlay.ID) int {
	d := c.assignments.Get(key)
	if !c.decided || d == nil {
		return math.MaxInt
	}
	ch := honeycomb.Channel{
		Subscribers: float64(d.target.params.readers),
		Size:        d.target.params.size,
		Update:      d.target.params.update,
		Interval:    d.schedule.Interval,
		Max:         c.permits.pollerLimit(d.domain, d.extras().permit, d.target.params.readers, d.schedule.Interval),
		Wedges:      c.sizes(key),
		Key:         tieBreak(key),
	}
	return c.level(key, ch.Wedges, c.solution.Level(&c.problem, &ch))
}
