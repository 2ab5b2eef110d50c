package plot

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"
)

// An extent is the range of values.
type extent struct {
	least, most float64
	known, log  bool
	parts       bool // not all values are whole numbers
}

func (e *extent) add(v float64) {
	if math.Abs(v) > maxValue || e.log && v < leastLog {
		return
	}
	if !e.known {
		e.least, e.most, e.known = v, v, true
	}
	e.least, e.most = min(e.least, v), max(e.most, v)
	e.parts = e.parts || v != math.Trunc(v)
}

// A scale gives values their places on an axis.
type scale struct {
	least, most float64
	log         bool
	ticks       []Tick
}

// newScale returns the scale of an axis. A linear scale from zero begins at 0, or below it if values do.
func newScale(a Axis, e extent, fromZero bool) scale {
	if a.Min != 0 || a.Max != 0 {
		e.add(a.Min)
		e.add(a.Max)
	}
	s := scale{least: e.least, most: e.most, log: a.Log}
	if !e.known {
		s.least, s.most = 0, 1
		if a.Log {
			s.least, s.most = 1, 10
		}
	}
	switch {
	case a.Log:
		if s.ticks = a.Ticks; s.ticks == nil {
			if fromZero || s.least == s.most {
				s.least, s.most = tickRange(s.least, s.most)
			}
			s.ticks = logTicks(s.least, s.most)
		} else {
			s.least, s.most = around(s.ticks, s.least, s.most)
		}
	default:
		if fromZero {
			s.least = min(0, s.least)
		}
		if s.least == s.most {
			s.most = s.least + 1
		}
		if s.ticks = a.Ticks; s.ticks == nil {
			step := roundStep((s.most - s.least) / 5)
			if !e.parts { // half an item says nothing
				step = max(1, step)
			}
			if fromZero { // the axis ends at a tick
				s.least, s.most = step*math.Floor(s.least/step), step*math.Ceil(s.most/step-1e-9)
			}
			s.ticks = linearTicks(s.least, s.most, step)
		}
	}
	s.ticks = slices.DeleteFunc(slices.Clone(s.ticks), func(t Tick) bool {
		margin := (s.most - s.least) * 1e-9
		return t.At < s.least-margin || t.At > s.most+margin
	})
	return s
}

// share returns where a value is between the ends of the scale, from 0 to 1. Values outside are at the nearer end, as 0 is
// on a logarithmic scale.
func (s scale) share(v float64) float64 {
	least, most := s.least, s.most
	if s.log {
		v, least, most = math.Log(v), math.Log(least), math.Log(most)
	}
	share := (v - least) / (most - least)
	if !(share > 0) {
		return 0
	}
	return min(share, 1)
}

// roundStep returns the least of 1, 2 or 5 times a power of ten that is not below a step.
func roundStep(step float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(step)))
	for _, k := range []float64{1, 2, 5} {
		if k*ten >= step*(1-1e-9) {
			return k * ten
		}
	}
	return 10 * ten
}

// maxTicks bounds the ticks of a linear axis, which are about five.
const maxTicks = 12

// linearTicks returns the multiples of a step in a range.
func linearTicks(least, most, step float64) (of []Tick) {
	decimals := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	first := math.Ceil(least/step - 1e-9)
	for i := range maxTicks {
		at := (first + float64(i)) * step
		if at > most+step*1e-9 {
			break
		}
		of = append(of, Tick{at, strconv.FormatFloat(at+0, 'f', decimals, 64)})
	}
	return of
}

// logTicks returns the ticks of a logarithmic axis: 1 to 9 times each power of ten. The first, second and fifth have a
// label, so that an axis of less than a decade has labels, too; over many decades only the first has one. An axis that would have
// fewer than two labels has those of a linear one.
func logTicks(least, most float64) (of []Tick) {
	wide, labels := most/least > 1e4, 0
	for ten := math.Pow(10, math.Floor(math.Log10(least))); ten <= most*(1+1e-9); ten *= 10 {
		for k := 1.; k < 10; k++ {
			at := k * ten
			if at < least*(1-1e-9) || at > most*(1+1e-9) {
				continue
			}
			label := ""
			if k == 1 || !wide && (k == 2 || k == 5) {
				label = strconv.FormatFloat(at, 'g', 6, 64)
				labels++
			}
			of = append(of, Tick{at, label})
		}
	}
	if labels < 2 && least < most {
		return linearTicks(least, most, roundStep((most-least)/5))
	}
	return of
}

// tickRange returns the labelled ticks just outside a range, so that the axis has at least two.
func tickRange(least, most float64) (float64, float64) {
	var ticks []Tick
	for ten := math.Pow(10, math.Floor(math.Log10(least))-1); ten <= 10*most; ten *= 10 {
		ticks = append(ticks, Tick{At: ten}, Tick{At: 2 * ten}, Tick{At: 5 * ten})
	}
	below, above := around(ticks, least, most)
	if below == above {
		above *= 2
	}
	return below, above
}

// around returns the closest of sorted ticks at or outside both ends of a range, or the range where there is none.
func around(ticks []Tick, least, most float64) (below, above float64) {
	below, above = least, most
	for _, t := range ticks {
		if t.At <= least {
			below = t.At
		}
	}
	for _, t := range slices.Backward(ticks) {
		if t.At >= most {
			above = t.At
		}
	}
	if below == above && len(ticks) > 1 {
		i, _ := slices.BinarySearchFunc(ticks, above, func(t Tick, v float64) int { return cmp.Compare(t.At, v) })
		if i+1 < len(ticks) {
			above = ticks[i+1].At
		} else {
			below = ticks[max(0, i-1)].At
		}
	}
	return below, above
}

// timeSteps are the distances of ticks on an axis of times, and how many of them a chart shows at most.
var timeSteps = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour}

const maxTimes = 9

// Times returns the ticks of an axis of times, in seconds of Unix time: hours in the zone of from within two days, months and
// days beyond.
func Times(from, to time.Time) (of []Tick) {
	for _, step := range timeSteps {
		if to.Sub(from) > maxTimes*step {
			continue
		}
		_, zone := from.Zone()
		shift := time.Duration(zone) * time.Second
		for t := from.Add(shift).Truncate(step).Add(-shift); !t.After(to); t = t.Add(step) {
			of = append(of, Tick{float64(t.Unix()), t.In(from.Location()).Format("15:04")})
		}
		return of
	}
	days := max(1, int(math.Ceil(to.Sub(from).Hours()/24/maxTimes)))
	year, month, day := from.Date()
	for i := 0; ; i += days {
		t := time.Date(year, month, day+i, 0, 0, 0, 0, from.Location())
		if t.After(to) {
			return of
		}
		of = append(of, Tick{float64(t.Unix()), t.Format("01-02")})
	}
}
