package honeycomb

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// A Rest stands for channels that are not known one by one: Bins, or Clusters.
type Rest interface {
	// Len is how many bins, or clusters, stand for some channel.
	Len() int
	// totals are what is known of them all.
	totals() Totals
	// fluid says what they spend at each lambda.
	fluid(p *Problem) *fluid
}

// Totals are sums over channels, and over the nodes at which they are homed: each channel
// counts at one node, its sequencer's.
type Totals struct {
	Nodes       int
	Channels    int
	Subscribers float64 // Q
	// Decided are the subscribers of channels for which it was decided how many poll them, as
	// many as they were then. Polled, Asked, Waited and Aim speak of these channels, and all by the
	// factors they had then: what has changed since is not for a correction to make up for.
	Decided float64
	// Polled is the load that there is: polls of content of mean size in an interval. What
	// was decided may be more, or less, as long as it is not carried out.
	Polled float64
	// Asked is the same whatever the content: polls in an interval.
	Asked float64
	// Waited is the delay that there is: seconds of detection time, for each subscriber.
	Waited float64
	// Content is what one poll of each channel costs, in bytes.
	Content float64
	// Aim is what nodes do about that: the sum of q ln c, where a node with q of Decided has
	// decided for c times T.
	Aim float64
}

// Spent returns the load, the polls and the delay of channels as they are polled, for Totals. A channel
// that nobody polls just now waits as if one node did.
func Spent(p *Problem, channels []Channel, pollers func(i int) float64) (polled, asked, waited float64) {
	plain := Problem{Objective: Lite, Nodes: p.Nodes, Interval: p.Interval}
	for i := range channels {
		c, n := plain.curve(&channels[i]), pollers(i)
		polled += c.load * n
		asked += c.rate * n
		waited += c.delay / max(n, 1)
	}
	return polled, asked, waited
}

// Mean is the mean cost of a poll in bytes, 0 if there are no channels: what Channel.Size is
// told in.
func (t Totals) Mean() float64 {
	if t.Channels == 0 {
		return 0
	}
	return t.Content / float64(t.Channels)
}

// With returns the sum of totals and those of a rest.
func (t Totals) With(rest Rest) Totals {
	t.add(rest.totals())
	return t
}

func (t *Totals) add(o Totals) {
	t.Nodes += o.Nodes
	t.Channels += o.Channels
	t.Subscribers += o.Subscribers
	t.Decided += o.Decided
	t.Polled += o.Polled
	t.Asked += o.Asked
	t.Waited += o.Waited
	t.Content += o.Content
	t.Aim += o.Aim
}

// A fluid is what others spend: base at the least, and then segments of steps.
type fluid struct {
	base     float64
	segments []segment // by falling slope
}

// A segment has steps with slopes between hi and lo. If they are equal it is a block.
type segment struct {
	hi, lo, mass float64
	above        float64 // mass of the segments before
}

// newFluid orders segments.
func newFluid(base float64, segments []segment) *fluid {
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(b.lo, a.lo) })
	above := 0.
	for i := range segments {
		segments[i].above = above
		above += segments[i].mass
	}
	return &fluid{base: base, segments: segments}
}

// at is what is spent when all steps steeper than lambda are taken. Within a segment the
// cost goes with lambda^-½, as with any number of pollers.
func (f *fluid) at(lambda float64) float64 {
	s := f.segments
	i := sort.Search(len(s), func(i int) bool {
		return s[i].lo < lambda || s[i].lo == lambda && s[i].hi == lambda
	})
	if i == len(s) {
		if i == 0 {
			return f.base
		}
		return f.base + s[i-1].above + s[i-1].mass
	}
	spent := f.base + s[i].above
	if top := s[i].hi; top > lambda {
		a, x, b := 1/math.Sqrt(top), 1/math.Sqrt(lambda), 1/math.Sqrt(s[i].lo)
		spent += s[i].mass * (x - a) / (b - a)
	}
	return spent
}

// slopeAt is the lambda at which as much as room is spent; zero if less is spent at any.
func (f *fluid) slopeAt(room float64) float64 {
	room -= f.base
	s := f.segments
	i := sort.Search(len(s), func(i int) bool { return s[i].above+s[i].mass > room })
	if i == len(s) {
		return 0
	}
	if s[i].hi == s[i].lo {
		return s[i].lo
	}
	a, b := 1/math.Sqrt(s[i].hi), 1/math.Sqrt(s[i].lo)
	x := a + (b-a)*max(room-s[i].above, 0)/s[i].mass
	return 1 / (x * x)
}
