package honeycomb

import (
	"fmt"
	"math"
)

// The grid of Bins.
const (
	// PerOctave bins are one factor of two wide. What one bin has is at most 4.4 % of the load.
	PerOctave = 8
	// maxOctave bounds the grid; no slope of a channel within its bounds lies beyond.
	maxOctave = 128
	// MinBin and MaxBin are the first and last bin; bin b has slopes from 2^(b/PerOctave).
	MinBin, MaxBin = -maxOctave * PerOctave, maxOctave*PerOctave - 1
)

// Bins are a sum of channels: what all their steps cost, by slope. The zero value is the
// sum of none.
//
// Merge is commutative, and associative but for the rounding of floats, which adds less
// than 2^-40 of the sum over a million merges: so each channel counts once whatever the way
// sums travel.
type Bins struct {
	Totals
	// Base is the cost of the cheapest choices.
	Base float64
	// First is the bin of Cost[0].
	First int
	// Cost are the costs of the steps of each bin, in the units of what is bounded: polls
	// in an interval, or weighted seconds.
	Cost []float64
}

// NewBins sums channels up. Who sends it sets Nodes and Polled.
func NewBins(p *Problem, own []Channel) *Bins {
	b := &Bins{}
	b.Channels = len(own)
	v := levels{p: p, channels: own, spread: true}
	var row []step
	for i := range own {
		c := p.curve(&own[i])
		b.Subscribers += own[i].subscribers()
		if p.Cut == Ranks {
			b.addRanks(p, c)
			continue
		}
		v.curves = append(v.curves, c)
		var least Value
		_, least, row = v.row(i, math.Inf(1), 0, row[:0])
		b.Base += least.G
		for _, s := range row {
			b.add(binAt(s.slope), s.cost)
		}
	}
	return b
}

// addRanks adds a channel that may have any number of pollers, bin by bin: what it spends
// at the lower edge of each.
func (b *Bins) addRanks(p *Problem, c curve) {
	n, last := 1., c.most
	if p.Objective == Fast {
		n, last = last, n
	}
	_, spent := p.values(c, n)
	b.Base += spent
	if c.most == 1 {
		return
	}
	for bin := binAt(p.slope(c, max(n, 2))); n != last; bin-- {
		if n = last; bin > MinBin {
			n = p.pollers(c, edge(bin))
		}
		_, g := p.values(c, n)
		b.add(bin, g-spent)
		spent = g
	}
}

func binAt(slope float64) int {
	return int(within(math.Floor(math.Log2(slope)*PerOctave), MinBin, MaxBin))
}

// edge is the least slope of a bin.
func edge(bin int) float64 { return math.Exp2(float64(bin) / PerOctave) }

// add adds the cost of a step.
func (b *Bins) add(bin int, cost float64) {
	if !(cost > 0) {
		return
	}
	b.widen(bin, bin+1)
	b.Cost[bin-b.First] += cost
}

// widen makes room for bins from first up to end.
func (b *Bins) widen(first, end int) {
	switch {
	case len(b.Cost) == 0:
		b.First, b.Cost = first, make([]float64, end-first)
	case first >= b.First && end > b.First+len(b.Cost):
		b.Cost = append(b.Cost, make([]float64, end-b.First-len(b.Cost))...)
	case first < b.First:
		from, to := min(first, b.First), max(end, b.First+len(b.Cost))
		wide := make([]float64, to-from)
		copy(wide[b.First-from:], b.Cost)
		b.First, b.Cost = from, wide
	}
}

// Merge adds the sum of other channels; it keeps nothing of it.
func (b *Bins) Merge(o *Bins) {
	b.Totals.add(o.Totals)
	b.Base += o.Base
	if len(o.Cost) > 0 {
		b.widen(o.First, o.First+len(o.Cost))
	}
	for i, cost := range o.Cost {
		b.Cost[o.First-b.First+i] += cost
	}
}

// Clone returns a copy.
func (b *Bins) Clone() *Bins {
	c := *b
	c.Cost = append([]float64(nil), b.Cost...)
	return &c
}

// Check returns what is wrong with a sum that came from a stranger. It may say of its
// channels no more than most, which whoever asks knows from elsewhere.
func (b *Bins) Check(p *Problem, most Totals) error {
	if err := b.Totals.check(most); err != nil {
		return err
	}
	if len(b.Cost) > 0 && (b.First < MinBin || b.First > MaxBin || len(b.Cost) > MaxBin+1-b.First) {
		return fmt.Errorf("%d bins from %d: want them from %d to %d", len(b.Cost), b.First, MinBin, MaxBin)
	}
	sum := 0.
	for _, cost := range b.Cost {
		if !(cost >= 0) {
			return fmt.Errorf("a bin costs %v", cost)
		}
		sum += cost
	}
	return b.checkCost(p, b.Base, sum)
}

func (b *Bins) totals() Totals { return b.Totals }

// Len is how many bins have a cost.
func (b *Bins) Len() (n int) {
	for _, cost := range b.Cost {
		if cost > 0 {
			n++
		}
	}
	return n
}

func (b *Bins) fluid(*Problem) *fluid {
	segments := make([]segment, 0, len(b.Cost))
	for i, cost := range b.Cost {
		if cost > 0 {
			bin := b.First + i
			segments = append(segments, segment{hi: edge(bin + 1), lo: edge(bin), mass: cost})
		}
	}
	return newFluid(b.Base, segments)
}
