package honeycomb

import (
	"cmp"
	"math"
	"slices"

	"tidings/internal/env"
)

// A step goes from one choice to the next on the lower convex hull, away from the cheapest.
type step struct {
	slope  float64 // gain / cost
	gain   float64 // decrease of f
	cost   float64 // increase of g
	item   int32   // index of the item
	choice int32   // choice after the step
}

// rows are the choices of items as rows of steps; the slopes of a row fall strictly.
type rows interface {
	tieBreaker
	count() int
	// row returns the choice of an item after its steps with slopes of at least hi, and the
	// value of that choice. It appends the following steps with slopes of at least lo.
	row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step)
}

// A Value is the value of a choice: the sums of f and g.
type Value struct{ F, G float64 }

// A Solution is a choice for each item, and its distance from the best choice.
type Solution struct {
	// Pick is L_d: the choice of each item. With Ranks it is n, otherwise an index of
	// Channel.Wedges.
	Pick []int32
	// Lambda is the slope at which steps are no longer taken; zero if all were taken.
	Lambda float64
	// Budget is T for all items: the own ones and those of the remote aggregate.
	Budget float64
	// Spent is the cost of L_d for all items. It is clearly less than Budget only if bounds of
	// the items leave a remainder.
	Spent float64
	// Feasible is false if even the cheapest choice costs more than T; Pick is then that
	// choice.
	Feasible bool
	// Marginal is the item in which L_u differs from L_d, and MarginalPick its choice in L_u.
	// Marginal is -1 if there is no such item, because every step was taken or the remote
	// aggregate takes the remaining budget.
	Marginal     int
	MarginalPick int32
	// Down and Up are the values of L_d and L_u over the own items. Without a remote aggregate,
	// no choice within T has a smaller F than Up.
	Down, Up Value

	dither bool // see levels.dither
}

// sampleSize is about the number of rows from which lambda is estimated, if there are more than
// twice as many.
const sampleSize = 2048

// choose takes steps by falling slope until the budget is spent, including what the remote
// aggregate spends at the same slope.
func choose(r rows, remote *costCurve, budget float64) Solution {
	hi, lo := math.Inf(1), 0.
	if stride := r.count() / sampleSize; stride > 1 {
		guess := choose(sampledRows{r, stride}, remote, budget).Lambda
		hi, lo = guess*1.1, guess/1.1
	}
	for wider := 1.5; ; wider *= wider {
		s := Solution{Pick: make([]int32, r.count()), Budget: budget}
		list, listed := s.collect(r, hi, lo)
		spent := s.Down.G
		// The listed steps must exhaust the budget even if sums in another order differ in
		// their last bits.
		over, under := spent+remote.costAt(hi) > budget, spent+listed+remote.costAt(lo) <= budget*(1+1e-9)
		switch {
		case over && math.IsInf(hi, 1): // even the cheapest choice costs too much
			list = nil
		case over && wider < 1e9:
			hi *= wider
			continue
		case over:
			hi = math.Inf(1)
			continue
		case under && lo > 0 && wider < 1e9:
			lo /= wider
			continue
		case under && lo > 0:
			lo = 0
			continue
		}
		s.takeSteps(list, r, remote)
		return s
	}
}

// collect sets the choices at hi and lists the steps from there to lo.
func (s *Solution) collect(r rows, hi, lo float64) (list []step, listed float64) {
	for i := range s.Pick {
		var worth Value
		s.Pick[i], worth, list = r.row(i, hi, lo, list)
		s.Down.F += worth.F
		s.Down.G += worth.G
	}
	for i := range list {
		listed += list[i].cost
	}
	return list, listed
}

// sampledRows is every stride-th row, each of which represents stride rows.
type sampledRows struct {
	rows
	stride int
}

func (s sampledRows) count() int          { return s.rows.count() / s.stride }
func (s sampledRows) tieKey(i int) uint64 { return s.rows.tieKey(i * s.stride) }

func (s sampledRows) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	begin, times := len(to), float64(s.stride)
	pick, worth, to = s.rows.row(i*s.stride, hi, lo, to)
	for j := range to[begin:] {
		to[begin+j].cost *= times
		to[begin+j].gain *= times
		to[begin+j].item = int32(i)
	}
	return pick, Value{worth.F * times, worth.G * times}, to
}

// The histogram has 512 bins per octave of slopes, so that a bin has few steps. The leading
// bits of positive floats have the same order as the floats.
const (
	binShift = 52 - 9
	firstBin = (1023 - maxOctave) << 9
	binCount = 2 * maxOctave << 9
)

// histogramBin returns the bin of a slope; slopes outside the grid count in its first or last
// bin.
func histogramBin(slope float64) int {
	return min(max(int(math.Float64bits(slope)>>binShift)-firstBin, 0), binCount-1)
}

// minHistogramSteps is the number of steps from which on clearing the histogram costs less than
// sorting.
const minHistogramSteps = 4096

// preselect takes the steps that are certainly taken, drops those that certainly are not, and
// returns the remaining steps, which are those of one bin.
func (s *Solution) preselect(list []step, remote *costCurve) []step {
	bins := make([]float64, binCount)
	for i := range list {
		bins[histogramBin(list[i].slope)] += list[i].cost
	}
	top, spent := binCount-1, s.Down.G
	for ; top > 0; top-- {
		if bins[top] == 0 {
			continue
		}
		least := math.Float64frombits(uint64(top+firstBin) << binShift)
		if spent += bins[top]; spent+remote.costAt(least) > s.Budget {
			break
		}
	}
	end := top
	if spent <= s.Budget*(1+1e-9) { // in another order the sum may stay within the budget, so add the next bin that is not empty
		for end--; end > 0 && bins[end] == 0; end-- {
		}
	}
	left := list[:0]
	for _, c := range list {
		switch bin := histogramBin(c.slope); {
		case bin > top:
			s.take(c)
		case bin >= end:
			left = append(left, c)
		}
	}
	return left
}

func (s *Solution) take(c step) {
	s.Down.F -= c.gain
	s.Down.G += c.cost
	s.Pick[c.item] = c.choice
}

// A tieBreaker orders items whose steps have equal slopes.
type tieBreaker interface{ tieKey(i int) uint64 }

// takeSteps takes steps by falling slope until the budget is spent.
func (s *Solution) takeSteps(list []step, keys tieBreaker, remote *costCurve) {
	defer func() { s.Spent = s.Down.G + remote.costAt(s.Lambda) }()
	if len(list) > minHistogramSteps {
		list = s.preselect(list, remote)
	}
	type tied struct {
		step
		tie uint64
	}
	order := make([]tied, len(list))
	for i, st := range list {
		order[i] = tied{st, env.Mix(keys.tieKey(int(st.item)))}
	}
	slices.SortFunc(order, func(a, b tied) int {
		if a.slope != b.slope {
			return cmp.Compare(b.slope, a.slope)
		}
		if a.tie != b.tie {
			return cmp.Compare(a.tie, b.tie)
		}
		return cmp.Compare(a.item, b.item)
	})
	s.Marginal = -1
	for _, c := range order {
		others := remote.costAt(c.slope)
		if s.Down.G+others > s.Budget {
			break // the remote aggregate, whose single steps are not known, exhausts the budget first
		}
		if s.Down.G+c.cost+others > s.Budget {
			s.Lambda, s.Marginal, s.MarginalPick, s.Feasible = c.slope, int(c.item), c.choice, true
			s.Up = Value{s.Down.F - c.gain, s.Down.G + c.cost}
			return
		}
		s.take(c.step)
	}
	s.Up = s.Down
	if s.Feasible = s.Down.G+remote.base <= s.Budget; s.Feasible {
		s.Lambda = remote.lambdaAt(s.Budget - s.Down.G)
	} else {
		s.Lambda = math.Inf(1)
	}
}
