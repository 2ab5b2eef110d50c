package honeycomb

import (
	"fmt"
	"math"
)

// Bounds of the grid of Bins.
const (
	// BinsPerOctave is the number of bins for each factor of two. The steps of one bin cost at
	// most 4.4 % of the load.
	BinsPerOctave = 8
	// maxOctave bounds the grid; the slopes of channels within their bounds lie inside it.
	maxOctave = 128
	// MinBin and MaxBin are the first and the last bin. Bin b holds slopes from
	// 2^(b/BinsPerOctave) to the lower edge of bin b+1.
	MinBin, MaxBin = -maxOctave * BinsPerOctave, maxOctave*BinsPerOctave - 1
)

// Bins aggregate channels: the cost of all their steps, by slope. The zero value aggregates
// none.
//
// Merge is commutative. It is associative except for the rounding of floats, which adds less
// than 2^-40 of the sum over a million merges. So each channel counts once, whatever path the
// aggregates take.
type Bins struct {
	Totals
	// BaseCost is the cost of the cheapest choices.
	BaseCost float64
	// FirstBin is the bin of StepCosts[0].
	FirstBin int
	// StepCosts are the costs of the steps in each bin, in the unit of the constraint: polls
	// per interval, or weighted seconds for Fast.
	StepCosts []float64
}

// NewBins aggregates channels. The caller sets Nodes and the other totals except Channels and
// Subscribers.
func NewBins(p *Problem, own []Channel) *Bins {
	b := &Bins{}
	b.Channels = len(own)
	v := levels{p: p, channels: own, dither: true}
	var row []step
	for i := range own {
		c := p.tradeoff(&own[i])
		b.Subscribers += own[i].subscribers()
		if p.Granularity == Ranks {
			b.addRanks(p, c)
			continue
		}
		v.curves = append(v.curves, c)
		var least Value
		_, least, row = v.row(i, math.Inf(1), 0, row[:0])
		b.BaseCost += least.G
		for _, s := range row {
			b.add(binOf(s.slope), s.cost)
		}
	}
	return b
}

// addRanks adds a channel that may have any number of pollers. For each bin, it adds the
// difference between the costs at both edges.
func (b *Bins) addRanks(p *Problem, c tradeoff) {
	n, last := 1., c.maxPollers
	if p.Objective == Fast {
		n, last = last, n
	}
	_, spent := p.values(c, n)
	b.BaseCost += spent
	if c.maxPollers == 1 {
		return
	}
	for bin := binOf(p.slope(c, max(n, 2))); n != last; bin-- {
		if n = last; bin > MinBin {
			n = p.pollers(c, lowerEdge(bin))
		}
		_, g := p.values(c, n)
		b.add(bin, g-spent)
		spent = g
	}
}

func binOf(slope float64) int {
	return int(clamp(math.Floor(math.Log2(slope)*BinsPerOctave), MinBin, MaxBin))
}

// lowerEdge returns the least slope of a bin.
func lowerEdge(bin int) float64 { return math.Exp2(float64(bin) / BinsPerOctave) }

// add adds the cost of a step.
func (b *Bins) add(bin int, cost float64) {
	if !(cost > 0) {
		return
	}
	b.widen(bin, bin+1)
	b.StepCosts[bin-b.FirstBin] += cost
}

// widen makes room for bins from first up to end.
func (b *Bins) widen(first, end int) {
	switch {
	case len(b.StepCosts) == 0:
		b.FirstBin, b.StepCosts = first, make([]float64, end-first)
	case first >= b.FirstBin && end > b.FirstBin+len(b.StepCosts):
		b.StepCosts = append(b.StepCosts, make([]float64, end-b.FirstBin-len(b.StepCosts))...)
	case first < b.FirstBin:
		from, to := min(first, b.FirstBin), max(end, b.FirstBin+len(b.StepCosts))
		wide := make([]float64, to-from)
		copy(wide[b.FirstBin-from:], b.StepCosts)
		b.FirstBin, b.StepCosts = from, wide
	}
}

// Merge adds the aggregate of other channels and keeps no reference to it.
func (b *Bins) Merge(o *Bins) {
	b.Totals.add(o.Totals)
	b.BaseCost += o.BaseCost
	if len(o.StepCosts) > 0 {
		b.widen(o.FirstBin, o.FirstBin+len(o.StepCosts))
	}
	for i, cost := range o.StepCosts {
		b.StepCosts[o.FirstBin-b.FirstBin+i] += cost
	}
}

// Clone returns a deep copy.
func (b *Bins) Clone() *Bins {
	c := *b
	c.StepCosts = append([]float64(nil), b.StepCosts...)
	return &c
}

// Check returns an error if an aggregate from a stranger is implausible. The caller knows
// limit, the most that its channels may total, from another source.
func (b *Bins) Check(p *Problem, limit Totals) error {
	if err := b.Totals.check(limit); err != nil {
		return err
	}
	if len(b.StepCosts) > 0 && (b.FirstBin < MinBin || b.FirstBin > MaxBin || len(b.StepCosts) > MaxBin+1-b.FirstBin) {
		return fmt.Errorf("%d bins from %d: want them from %d to %d", len(b.StepCosts), b.FirstBin, MinBin, MaxBin)
	}
	sum := 0.
	for _, cost := range b.StepCosts {
		if !(cost >= 0) {
			return fmt.Errorf("bin costs %v: want at least 0", cost)
		}
		sum += cost
	}
	return b.checkCost(p, b.BaseCost, sum)
}

func (b *Bins) totals() Totals { return b.Totals }

// Len returns the number of bins with a cost.
func (b *Bins) Len() (n int) {
	for _, cost := range b.StepCosts {
		if cost > 0 {
			n++
		}
	}
	return n
}

func (b *Bins) costCurve(*Problem) *costCurve {
	segments := make([]segment, 0, len(b.StepCosts))
	for i, cost := range b.StepCosts {
		if cost > 0 {
			bin := b.FirstBin + i
			segments = append(segments, segment{hi: lowerEdge(bin + 1), lo: lowerEdge(bin), cost: cost})
		}
	}
	return newCostCurve(b.BaseCost, segments)
}
