package honeycomb

import (
	"cmp"
	"math"
	"slices"
)

// A Value is what a choice is worth: the sum of f, and of g.
type Value struct{ F, G float64 }

// A Solution is a choice for each item, and how near to the best it is.
type Solution struct {
	// Pick is L_d: the choice of each item. With Ranks it is n, else an index (of
	// Channel.Wedges, or of Tradeoff.F).
	Pick []int32
	// Lambda is the slope at which steps were no longer taken; zero if all were.
	Lambda float64
	// Budget is T, for all items: the own ones, and those the rest stands for.
	Budget float64
	// Spent is what L_d costs of it, for all items: less where bounds of the items leave some.
	Spent float64
	// Fits is false if even the cheapest choice costs more than T: then it is that one.
	Fits bool
	// Odd is the item in which L_u differs from L_d, and OddPick its choice there; Odd is
	// -1 if there is no such item, because every step was taken, or others take what is
	// left.
	Odd     int
	OddPick int32
	// Down and Up are the sums of L_d and L_u over the own items. Without a rest, no choice
	// within T has a smaller F than Up.
	Down, Up Value

	spread bool // see levels
}

// sampled is about how many rows lambda is guessed from, if there are many more.
const sampled = 2048

// choose takes steps by falling slope as long as the budget lasts, for what the rest
// spends, too.
func choose(r rows, rest *fluid, budget float64) Solution {
	hi, lo := math.Inf(1), 0.
	if stride := r.count() / sampled; stride > 1 {
		guess := choose(sample{r, stride}, rest, budget).Lambda
		hi, lo = guess*1.1, guess/1.1
	}
	for wider := 1.5; ; wider *= wider {
		s := Solution{Pick: make([]int32, r.count()), Budget: budget}
		list, listed := s.gather(r, hi, lo)
		spent := s.Down.G
		// What is listed must be enough, even if sums in another order differ in their last bits.
		over, under := spent+rest.at(hi) > budget, spent+listed+rest.at(lo) <= budget*(1+1e-9)
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
		s.walk(list, r, rest)
		return s
	}
}

// gather makes the choices at hi, and lists the steps from there to lo.
func (s *Solution) gather(r rows, hi, lo float64) (list []step, listed float64) {
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

// A sample is one row of each few, which stands for the others.
type sample struct {
	rows
	stride int
}

func (s sample) count() int       { return s.rows.count() / s.stride }
func (s sample) tie(i int) uint64 { return s.rows.tie(i * s.stride) }

func (s sample) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	begin, times := len(to), float64(s.stride)
	pick, worth, to = s.rows.row(i*s.stride, hi, lo, to)
	for j := range to[begin:] {
		to[begin+j].cost *= times
		to[begin+j].gain *= times
		to[begin+j].row = int32(i)
	}
	return pick, Value{worth.F * times, worth.G * times}, to
}

// The histogram has 512 bins in each octave of slopes, so that a bin has few steps: the
// first bits of a positive float order like the float.
const (
	binShift = 52 - 9
	firstBin = (1023 - maxOctave) << 9
	binCount = 2 * maxOctave << 9
)

// binOf returns the bin of a slope; the first and last ones take what lies beyond.
func binOf(slope float64) int {
	return min(max(int(math.Float64bits(slope)>>binShift)-firstBin, 0), binCount-1)
}

// few steps are sorted without a histogram, which costs more to clear.
const few = 4096

// skim takes the steps that are surely taken, drops those that surely are not, and returns
// what is left: those of one bin.
func (s *Solution) skim(list []step, rest *fluid) []step {
	bins := make([]float64, binCount)
	for i := range list {
		bins[binOf(list[i].slope)] += list[i].cost
	}
	top, spent := binCount-1, s.Down.G
	for ; top > 0; top-- {
		if bins[top] == 0 {
			continue
		}
		least := math.Float64frombits(uint64(top+firstBin) << binShift)
		if spent += bins[top]; spent+rest.at(least) > s.Budget {
			break
		}
	}
	end := top
	if spent <= s.Budget*(1+1e-9) { // in another order it may not be reached: the next bin has some more
		for end--; end > 0 && bins[end] == 0; end-- {
		}
	}
	left := list[:0]
	for _, c := range list {
		switch bin := binOf(c.slope); {
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
	s.Pick[c.row] = c.to
}

// ties orders items whose steps have one slope.
type ties interface{ tie(i int) uint64 }

// walk takes steps by falling slope while the budget lasts.
func (s *Solution) walk(list []step, keys ties, rest *fluid) {
	defer func() { s.Spent = s.Down.G + rest.at(s.Lambda) }()
	if len(list) > few {
		list = s.skim(list, rest)
	}
	type tied struct {
		step
		tie uint64
	}
	order := make([]tied, len(list))
	for i, st := range list {
		order[i] = tied{st, mix(keys.tie(int(st.row)))}
	}
	slices.SortFunc(order, func(a, b tied) int {
		if a.slope != b.slope {
			return cmp.Compare(b.slope, a.slope)
		}
		if a.tie != b.tie {
			return cmp.Compare(a.tie, b.tie)
		}
		return cmp.Compare(a.row, b.row)
	})
	s.Odd = -1
	for _, c := range order {
		others := rest.at(c.slope)
		if s.Down.G+others > s.Budget {
			break // the rest, of which single steps are not known, reaches it before
		}
		if s.Down.G+c.cost+others > s.Budget {
			s.Lambda, s.Odd, s.OddPick, s.Fits = c.slope, int(c.row), c.to, true
			s.Up = Value{s.Down.F - c.gain, s.Down.G + c.cost}
			return
		}
		s.take(c.step)
	}
	s.Up = s.Down
	if s.Fits = s.Down.G+rest.base <= s.Budget; s.Fits {
		s.Lambda = rest.slopeAt(s.Budget - s.Down.G)
	} else {
		s.Lambda = math.Inf(1)
	}
}
