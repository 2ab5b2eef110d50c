package honeycomb

import (
	"math"
	"time"
)

// A Channel has the tradeoff factors of one channel, as its owner knows them. Whatever they
// are, they count as if moved into the bounds below; zero means unknown where it says so.
type Channel struct {
	// Subscribers is q, the clients of the channel.
	Subscribers float64
	// Size is s, the size of its content in those of a mean one. Zero: 1.
	Size float64
	// Update is u, the mean time between two updates. Zero: MaxUpdate, which the paper
	// takes for channels that were not seen to change (§5.1).
	Update time.Duration
	// Interval is the time between two polls of one node where the origin asks for more
	// than the network's. Zero, or less: the network's.
	Interval time.Duration
	// Max is the most pollers that it may have, whatever the reason. Zero: N.
	Max int
	// Wedges are the choices at Levels: sizes of wedges, rising, from 1. Without any it is
	// an orphan: one node polls it. Sizes that do not rise, or are more than Max or N, are
	// passed over.
	Wedges []float32
	// Key breaks ties between channels, alike on all nodes: some bits of its id.
	Key uint64
}

// Bounds of what a channel counts for. Its factors were measured on others' content, and
// nobody shall move all polls of the network by one number.
const (
	// MaxSubscribers is about as many as feeds have readers in the world.
	MaxSubscribers = 1e9
	// MinSubscribers is the least that a channel weighs. At zero, slopes would have no order.
	MinSubscribers = 1. / 1024
	// MinSize and MaxSize are the sizes of content that count as such: the largest document
	// (10 MiB) is about a hundred mean ones.
	MinSize, MaxSize = 1. / 128, 128.
	// MinUpdate is that of a page which is another one each time: there is no news in it.
	MinUpdate = time.Minute
	// MaxUpdate is what the paper takes for channels that do not change. Beyond it, too few
	// updates are seen to tell.
	MaxUpdate = 7 * 24 * time.Hour
)

// within moves x into [lo, hi], and what is no number to lo.
func within(x, lo, hi float64) float64 {
	if !(x > lo) {
		return lo
	}
	return min(x, hi)
}

// subscribers is how many a channel adds to Q.
func (c *Channel) subscribers() float64 { return within(c.Subscribers, 0, MaxSubscribers) }

// A curve is the tradeoff of a channel: n pollers cost delay/n and load*n, n at most most.
type curve struct {
	delay, rate, load, most float64 // rate: polls of one poller in the network's interval; load: times their size
}

// ratio is the square of the n at which delay and load weigh the same.
func (c curve) ratio() float64 { return c.delay / c.load }

// curve returns the tradeoff of a channel: delay in weighted seconds, load in polls of
// content of mean size, in the network's polling interval.
func (p *Problem) curve(c *Channel) curve {
	tau := p.Interval.Seconds()
	own := max(tau, min(c.Interval, MaxInterval).Seconds())
	u := MaxUpdate
	if c.Update > 0 {
		u = min(max(c.Update, MinUpdate), MaxUpdate)
	}
	size := 1.
	if c.Size != 0 {
		size = within(c.Size, MinSize, MaxSize)
	}
	most := p.Nodes
	if c.Max != 0 {
		most = min(max(c.Max, 1), p.Nodes)
	}
	weight := within(c.Subscribers, MinSubscribers, MaxSubscribers) * p.Objective.weight(tau, u.Seconds())
	return curve{delay: weight * own / 2, rate: tau / own, load: size * tau / own, most: float64(most)}
}

// values returns which of delay/n and load*n is f and which g: the objective, and what is
// bounded.
func (p *Problem) values(c curve, n float64) (f, g float64) {
	if p.Objective == Fast {
		return c.load * n, c.delay / n
	}
	return c.delay / n, c.load * n
}

// mix spreads the bits of a key: those of channels at one owner begin alike.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// fraction is a number in [0, 1) made from a key.
func fraction(key uint64) float64 { return math.Ldexp(float64(mix(key)>>11), -53) }
