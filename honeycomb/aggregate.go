package honeycomb

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// A RemoteAggregate represents channels that are not known one by one: Bins or Clusters.
type RemoteAggregate interface {
	// Len returns the number of bins or clusters that represent a channel.
	Len() int
	// totals returns the totals over all its channels.
	totals() Totals
	// costCurve returns what the channels spend as a function of lambda.
	costCurve(p *Problem) *costCurve
}

// Totals are sums over channels and over the nodes that lead them. Each channel counts at one
// node, its sequencer.
type Totals struct {
	Nodes       int
	Channels    int
	Subscribers float64 // Q
	// DecidedSubscribers counts the subscribers of channels whose number of pollers was
	// decided, at the time of the decision. Load, Polls, Delay and TargetTerm cover only these
	// channels, with the factors of that time, because a correction must not react to later
	// changes of factors.
	DecidedSubscribers float64
	// Load is the actual load: polls of content of mean size per interval. It differs from the
	// decided load while a decision is not carried out.
	Load float64
	// Polls is the actual number of polls per interval, whatever their size.
	Polls float64
	// Delay is the actual delay: seconds of detection time, summed over subscribers.
	Delay float64
	// PollBytes is the sum over channels of what one poll costs, in bytes.
	PollBytes float64
	// TargetTerm is the sum of q ln c over nodes, where a node with q decided subscribers used
	// c T as its load target.
	TargetTerm float64
}

// ActualCost returns the load, the polls and the delay of channels as they are polled now, for
// Totals. The delay of a channel without pollers counts as with one poller.
func ActualCost(p *Problem, channels []Channel, pollers func(i int) float64) (load, polls, delay float64) {
	plain := Problem{Objective: Lite, Nodes: p.Nodes, Interval: p.Interval}
	for i := range channels {
		c, n := plain.tradeoff(&channels[i]), pollers(i)
		load += c.load * n
		polls += c.rate * n
		delay += c.delay / max(n, 1)
	}
	return load, polls, delay
}

// MeanPollBytes returns the mean cost of a poll in bytes, to which Channel.Size is relative. It
// is 0 if there are no channels.
func (t Totals) MeanPollBytes() float64 {
	if t.Channels == 0 {
		return 0
	}
	return t.PollBytes / float64(t.Channels)
}

// With returns the sum of t and the totals of an aggregate.
func (t Totals) With(remote RemoteAggregate) Totals {
	t.add(remote.totals())
	return t
}

func (t *Totals) add(o Totals) {
	t.Nodes += o.Nodes
	t.Channels += o.Channels
	t.Subscribers += o.Subscribers
	t.DecidedSubscribers += o.DecidedSubscribers
	t.Load += o.Load
	t.Polls += o.Polls
	t.Delay += o.Delay
	t.PollBytes += o.PollBytes
	t.TargetTerm += o.TargetTerm
}

// A costCurve is the cost of other nodes' channels as a function of lambda: base at the least,
// plus segments of steps.
type costCurve struct {
	base     float64
	segments []segment // by falling slope
}

// A segment holds steps with slopes between hi and lo. If both are equal it is a block, which
// may be taken in part.
type segment struct {
	hi, lo, cost float64
	before       float64 // cost of the segments before this one
}

// newCostCurve sorts segments.
func newCostCurve(base float64, segments []segment) *costCurve {
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(b.lo, a.lo) })
	before := 0.
	for i := range segments {
		segments[i].before = before
		before += segments[i].cost
	}
	return &costCurve{base: base, segments: segments}
}

// costAt returns the cost after all steps steeper than lambda. Within a segment the cost is
// proportional to lambda^-½, as it is for channels that may have any number of pollers.
func (f *costCurve) costAt(lambda float64) float64 {
	s := f.segments
	i := sort.Search(len(s), func(i int) bool {
		return s[i].lo < lambda || s[i].lo == lambda && s[i].hi == lambda
	})
	if i == len(s) {
		if i == 0 {
			return f.base
		}
		return f.base + s[i-1].before + s[i-1].cost
	}
	spent := f.base + s[i].before
	if top := s[i].hi; top > lambda {
		a, x, b := 1/math.Sqrt(top), 1/math.Sqrt(lambda), 1/math.Sqrt(s[i].lo)
		spent += s[i].cost * (x - a) / (b - a)
	}
	return spent
}

// lambdaAt returns the lambda at which budget is spent; zero if less is spent at every lambda.
func (f *costCurve) lambdaAt(budget float64) float64 {
	budget -= f.base
	s := f.segments
	i := sort.Search(len(s), func(i int) bool { return s[i].before+s[i].cost > budget })
	if i == len(s) {
		return 0
	}
	if s[i].hi == s[i].lo {
		return s[i].lo
	}
	a, b := 1/math.Sqrt(s[i].hi), 1/math.Sqrt(s[i].lo)
	x := a + (b-a)*max(budget-s[i].before, 0)/s[i].cost
	return 1 / (x * x)
}
