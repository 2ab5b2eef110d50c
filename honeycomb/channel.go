package honeycomb

import (
	"math"
	"time"

	"tidings/internal/env"
)

// A Channel holds the tradeoff factors of one channel, as its owner knows them. Factors outside
// the bounds below count as the nearest bound.
type Channel struct {
	// Subscribers is q, the clients of the channel.
	Subscribers float64
	// Size is s, the content's size relative to the mean. Zero means 1.
	Size float64
	// Update is u, the mean time between two updates. Zero means MaxUpdate, which the paper
	// assumes for channels that were not seen to change (§5.1).
	Update time.Duration
	// Interval is the time between two polls of one node, if the origin asks for more than the
	// network's interval. Zero means the network's.
	Interval time.Duration
	// MaxPollers bounds the pollers. Zero means N.
	MaxPollers int
	// Wedges are the choices with Levels: sizes of wedges, rising from 1. A channel without any
	// is an orphan, which one node polls. Sizes that do not rise, or exceed MaxPollers or N,
	// are skipped.
	Wedges []float32
	// Key breaks ties between channels in the same way on all nodes: some bits of the channel's
	// id.
	Key uint64
}

// Bounds of the factors. They were measured on content that others control, so no single number
// may move all polls of the network.
const (
	// MaxSubscribers is about the number of people who read feeds.
	MaxSubscribers = 1e9
	// MinSubscribers is the least weight of a channel. With a weight of zero, slopes would have
	// no order.
	MinSubscribers = 1. / 1024
	// MinSize and MaxSize bound the relative size of content: the largest document (10 MiB) is
	// about a hundred times the mean.
	MinSize, MaxSize = 1. / 128, 128.
	// MinUpdate is the update interval of a page that differs at every poll, which says nothing
	// about news.
	MinUpdate = time.Minute
	// MaxUpdate is what the paper assumes for channels that do not change. Updates that are
	// rarer are too few to estimate an interval.
	MaxUpdate = 7 * 24 * time.Hour
)

// clamp moves x into [lo, hi], and NaN to lo.
func clamp(x, lo, hi float64) float64 {
	if !(x > lo) {
		return lo
	}
	return min(x, hi)
}

// subscribers returns the channel's contribution to Q.
func (c *Channel) subscribers() float64 { return clamp(c.Subscribers, 0, MaxSubscribers) }

// A tradeoff is the cost of a channel as a function of its pollers: delay/n and load*n, for n
// up to maxPollers.
type tradeoff struct {
	delay, rate, load, maxPollers float64 // rate is polls of one poller per network interval; load is rate times size
}

// ratio returns the square of the n at which delay and load are equal.
func (c tradeoff) ratio() float64 { return c.delay / c.load }

// tradeoff returns the tradeoff of a channel: delay in weighted seconds, load in polls of
// content of mean size per network interval.
func (p *Problem) tradeoff(c *Channel) tradeoff {
	tau := p.Interval.Seconds()
	own := max(tau, min(c.Interval, MaxInterval).Seconds())
	u := MaxUpdate
	if c.Update > 0 {
		u = min(max(c.Update, MinUpdate), MaxUpdate)
	}
	size := 1.
	if c.Size != 0 {
		size = clamp(c.Size, MinSize, MaxSize)
	}
	most := p.Nodes
	if c.MaxPollers != 0 {
		most = min(max(c.MaxPollers, 1), p.Nodes)
	}
	weight := clamp(c.Subscribers, MinSubscribers, MaxSubscribers) * p.Objective.weight(tau, u.Seconds())
	return tradeoff{delay: weight * own / 2, rate: tau / own, load: size * tau / own, maxPollers: float64(most)}
}

// values returns the objective f and the bounded g of n pollers: delay/n and load*n, or the
// reverse for Fast.
func (p *Problem) values(c tradeoff, n float64) (f, g float64) {
	if p.Objective == Fast {
		return c.load * n, c.delay / n
	}
	return c.delay / n, c.load * n
}

// keyFraction maps a key to a number in [0, 1).
func keyFraction(key uint64) float64 { return math.Ldexp(float64(env.Mix(key)>>11), -53) }
