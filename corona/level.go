package corona

import (
	"math"

	"tidings/honeycomb"
	"tidings/overlay"
)

// Wedges of polling levels, as in the paper (Corona §3.2): the wedge of level l consists of all
// members that share l digits with the channel's key.

// Level returns the level down to which a channel's wedge should reach (wedge.Application). It is
// called on nodes that decide for others. They know the channel's tradeoff factors from its
// parameters, and the load of all others from the aggregate (Corona §3.3).
func (c *Corona) Level(key overlay.ID) int {
	d := c.assignments.Get(key)
	if !c.allocator.decided || d == nil {
		return math.MaxInt
	}
	p, interval := &d.target.params, d.schedule.Interval
	return c.allocator.levelOf(key, honeycomb.Channel{
		Subscribers: float64(p.readers), Size: p.size, Update: p.update, Interval: interval,
		Max: c.permits.pollerLimit(d.domain, d.extras().permit, p.readers, interval),
	})
}
