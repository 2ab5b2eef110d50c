package corona

import (
	"math"
	"slices"

	"tidings/honeycomb"
	"tidings/overlay"
)

// Wedges of polling levels, as the paper has them (Corona §3.2): the wedge of level l are all
// members that have l digits in common with the channel's key.

// digit is how many bits a digit of polling levels has.
func (c *Corona) digit() int {
	if c.cfg.Base == 2 {
		return 1
	}
	return 4
}

// sharing is how many members share so many bits of their ids with a key. Beyond what this
// node has in common with it, it knows those of its leaf: the owners of the key live there,
// and nobody has more in common with it than they.
func (c *Corona) sharing(key overlay.ID, bits int) int {
	if bits <= c.node.ID().Common(key) {
		return c.node.Count(bits)
	}
	n := 0
	for _, m := range c.node.Leaf().Members() {
		if m.ID.Common(key) >= bits {
			n++
		}
	}
	return n
}

// sizes are those of a channel's wedges, from its owner's level up: N/b^l, if clusters are the
// paper's, else as members are counted. They are nil for an orphan, a channel whose owner is
// alone at the level above its own, and where any number of members may poll.
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

// counts are the members at each level of a key, down to the first with one or none.
func (c *Corona) counts(key overlay.ID) (of []int) {
	for l := 0; ; l++ {
		n := c.sharing(key, l*c.digit())
		if of = append(of, n); n <= 1 {
			return of
		}
	}
}

// level is that of a choice among sizes.
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

// Level is asked of nodes that decide for others: down to which level the wedge of a channel
// is to reach (wedge.Application). They know its tradeoff factors from its words, and what
// all others weigh from the sums (Corona §3.3).
func (c *Corona) Level(key overlay.ID) int {
	d := c.duties.Get(key)
	if !c.decided || d == nil {
		return math.MaxInt
	}
	ch := honeycomb.Channel{
		Subscribers: float64(d.said.brief.readers),
		Size:        d.said.brief.size,
		Update:      d.said.brief.update,
		Interval:    d.grid.Interval,
		Max:         c.most(d.domain, d.extras().permit, d.said.brief.readers, d.grid.Interval),
		Wedges:      c.sizes(key),
		Key:         tie(key),
	}
	return c.level(key, ch.Wedges, c.solution.Level(&c.problem, &ch))
}
