package corona

import (
	"math"
	"time"

	"tidings/honeycomb"
)

// The load that results differs from the load that was decided: members decline, and wedges are
// inaccurate because members join and leave. So each node measures the actual load (Totals.Polled
// and Asked; for Fast, the delay), and decides for c times T instead of T. T counts polls of
// content of mean size. If most polls are of smaller content, there are more polls than T, and
// their number is the measure: origins must not be polled more often than readers alone would, nor
// transfer more. What nodes aimed at is published together with the result:
//
//	c = (mean of what all aimed at) × T / (what is spent)
//
// Both values have the same age, however old, so the correction does not oscillate: nodes that
// aimed at 1.02 T and spent T aim at 1.02 T again. T and all factors are those of the readers at
// that time; the next decision accounts for later changes. All nodes have the same c once they have
// heard the same.
//
// While readers join, nodes decide with a T that other nodes know only in part, and spend less than
// the T that exists when the load is measured. That ends when no more readers join, and
// compensation would then be too much. So a shortfall counts only as far as it exceeds the growth
// in readers since. If most channels of the network still wait for their grants, decisions cover
// only a part of the load, and the correction counts for as much.

// targetPart is the part of T that nodes aim at, so that errors fall on the side that origins do
// not notice.
const targetPart = 0.998

// maxCorrectionRise bounds the increase of log c from one decision to the next. When many readers
// join at once and their pollers are still being told, it looks as if nobody polled. A decrease
// takes effect at once.
const maxCorrectionRise = 0.05

// fewPolls is a T, in polls, below which targetPart would cost a whole poll.
const fewPolls = 50

// Correction returns c for the next decision. all is the sum over the whole network, including the
// node's own share.
func Correction(p *honeycomb.Problem, all honeycomb.Totals) float64 {
	c, part := 0., 1.
	if all.DecidedSubscribers > 0 {
		c, part = all.TargetTerm/all.DecidedSubscribers, all.DecidedSubscribers/max(all.Subscribers, all.DecidedSubscribers)
	}
	spent := max(all.Load, all.Polls)
	if p.Objective == honeycomb.Fast {
		spent = all.Delay
	}
	if due := p.Budget(all.DecidedSubscribers); spent > 0 && due > 0 {
		if due >= fewPolls {
			due *= targetPart
		}
		if more := part * math.Log(due/spent); p.Objective == honeycomb.Fast {
			c += max(more, -maxCorrectionRise)
		} else {
			c += min(more, max(more+math.Log(part), 0), maxCorrectionRise)
		}
	}
	return math.Exp(bounded(c))
}

// bounded limits the logarithm of a correction.
func bounded(c float64) float64 {
	most := math.Log(honeycomb.MaxCorrection)
	return min(max(c, -most), most)
}

// TargetTerm is what a node adds to Totals.Aim beside the load of its channels, if it has decided
// for so many subscribers. c is the correction that it used, times the part of the decision that is
// in force (shareInForce).
func TargetTerm(decided, c float64) float64 { return decided * bounded(math.Log(c)) }

// Corrected returns the problem with c times T.
func Corrected(p honeycomb.Problem, c float64) honeycomb.Problem {
	p.Load = min(p.Load*c, honeycomb.MaxLoad)
	p.Detection = min(time.Duration(float64(p.Detection)*c), honeycomb.MaxInterval)
	return p
}
