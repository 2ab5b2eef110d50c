package honeycomb

import (
	"math"
	"slices"
)

// levels are the rows of channels that choose among wedges.
type levels struct {
	p        *Problem
	channels []Channel
	curves   []curve
	// spread moves slopes apart that are equal, by up to a bin of Bins: all nodes decide
	// alike on what is in one bin, and thousands of channels with as many subscribers must
	// not move at once.
	spread bool
}

func (v *levels) count() int       { return len(v.curves) }
func (v *levels) tie(i int) uint64 { return v.channels[i].Key }

// sizeOf returns the pollers of a choice.
func (v *levels) sizeOf(i int, pick int32) float64 {
	if w := v.channels[i].Wedges; len(w) > 0 {
		return within(float64(w[pick]), 1, v.curves[i].most)
	}
	return 1
}

// row goes up the wedges. Where delay is what is bounded each step is one down, taken from
// the top: the choice is then the first wedge whose next one was left.
func (v *levels) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	c, w := v.curves[i], v.channels[i].Wedges
	fast := v.p.Objective == Fast
	k := c.ratio()
	if v.spread {
		k *= math.Exp2(fraction(v.tie(i)) / PerOctave)
	}
	// A step between n and m has slope k/nm, or its inverse. Those with a smaller product
	// than this are surely not in the list.
	sure := k / hi
	if fast {
		sure = k * lo
	}
	sure *= 1 - 1e-12
	n, begin := v.sizeOf(i, 0), len(to)
	at, reached := int32(0), n
	for j := 1; j < len(w); j++ {
		m := float64(w[j])
		if !(m > n && m <= c.most) {
			continue
		}
		if nm := n * m; nm >= sure {
			s := step{slope: k / nm, gain: c.delay * (m - n) / nm, cost: c.load * (m - n), row: int32(i), to: int32(j)}
			if fast {
				s = step{slope: nm / k, gain: s.cost, cost: s.gain, row: s.row, to: at}
			}
			if fast && s.slope >= hi || !fast && s.slope < lo {
				break
			}
			if s.slope >= lo && s.slope < hi {
				to = append(to, s)
			}
		}
		n, at = m, int32(j)
		if fast || len(to) == begin {
			reached, pick = n, at
		}
	}
	if fast {
		slices.Reverse(to[begin:])
	}
	f, g := v.p.values(c, reached)
	return pick, Value{f, g}, to
}
