package honeycomb

import (
	"math"
	"slices"
)

// levels are the rows of channels that choose among wedges.
type levels struct {
	p        *Problem
	channels []Channel
	curves   []tradeoff
	// dither raises slopes by up to one bin of Bins, depending on the channel's key. All nodes
	// decide alike about the steps of one bin, and thousands of channels with equal factors
	// must not move at once.
	dither bool
}

func (v *levels) count() int          { return len(v.curves) }
func (v *levels) tieKey(i int) uint64 { return v.channels[i].Key }

// sizeOf returns the number of pollers of a choice.
func (v *levels) sizeOf(i int, pick int32) float64 {
	if w := v.channels[i].Wedges; len(w) > 0 {
		return clamp(float64(w[pick]), 1, v.curves[i].maxPollers)
	}
	return 1
}

// row goes through the wedges from the smallest. If delay is bounded (Fast), steps go down
// instead, from the largest wedge; the choice is then the smallest wedge whose step down was
// not taken.
func (v *levels) row(i int, hi, lo float64, to []step) (pick int32, worth Value, _ []step) {
	c, w := v.curves[i], v.channels[i].Wedges
	fast := v.p.Objective == Fast
	k := c.ratio()
	if v.dither {
		k *= math.Exp2(keyFraction(v.tieKey(i)) / BinsPerOctave)
	}
	// A step between n and m has slope k/nm, or nm/k for Fast. Steps with a product nm below
	// minProduct are certainly not listed.
	minProduct := k / hi
	if fast {
		minProduct = k * lo
	}
	minProduct *= 1 - 1e-12
	n, begin := v.sizeOf(i, 0), len(to)
	at, reached := int32(0), n
	for j := 1; j < len(w); j++ {
		m := float64(w[j])
		if !(m > n && m <= c.maxPollers) {
			continue
		}
		if nm := n * m; nm >= minProduct {
			s := step{slope: k / nm, gain: c.delay * (m - n) / nm, cost: c.load * (m - n), item: int32(i), choice: int32(j)}
			if fast {
				s = step{slope: nm / k, gain: s.cost, cost: s.gain, item: s.item, choice: at}
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
