package corona

import (
	"math"
	"time"

	"tidings/honeycomb"
)

// What is decided is not what is done: members decline, and wedges are off by who came and
// went. So each node looks at the load that there is (Totals.Polled and Asked; for Fast, at the delay),
// and decides for c times T instead of T. T counts polls of content of mean size; where most polls
// are of smaller content, there are more polls than that, and then these are what is looked at:
// origins shall be asked no oftener than readers alone would ask them, and for no more. What others aim at travels with what came of it:
//
//	c = (mean of what all aimed at) × T / (what is spent)
//
// The two are of one age, however old, so that nothing swings: who aimed at 1.02 T and spent T
// aims at 1.02 T again. T, too, is that of the readers there were then, and all factors are: what
// has changed since, the next decision sees to. And all nodes have one c, as soon as they have
// heard the same.
//
// While readers come, decisions are made by a T that others have heard of in part, and less is spent
// than there is by the time it is looked at. That ends when no more come; made up for, it would be too much then.
// So what is missing counts as far as it is more than what readers have grown by since. Nor is what was decided of
// some channels, where most still wait for their grants, more than a part of what all spend: it counts for as much.

// aimBelow is the part of T that is aimed at: whatever is off shall be so on the side that
// origins do not feel.
const aimBelow = 0.998

// maxRise is by how much, as a logarithm, c comes to ask for more polls from one decision to the
// next, at most: when readers come in crowds, and their pollers are still being told, it looks as
// if nobody polled. It asks for fewer at once.
const maxRise = 0.05

// fewPolls is a T, in polls, of which the part that is not aimed at is a small part of one
// poll, and would cost a whole one.
const fewPolls = 50

// Correction returns c for the next decision. all is the sum over the whole network, the node's
// own share included.
func Correction(p *honeycomb.Problem, all honeycomb.Totals) float64 {
	c, part := 0., 1.
	if all.Decided > 0 {
		c, part = all.Aim/all.Decided, all.Decided/max(all.Subscribers, all.Decided)
	}
	spent := max(all.Polled, all.Asked)
	if p.Objective == honeycomb.Fast {
		spent = all.Waited
	}
	if due := p.Budget(all.Decided); spent > 0 && due > 0 {
		if due >= fewPolls {
			due *= aimBelow
		}
		if more := part * math.Log(due/spent); p.Objective == honeycomb.Fast {
			c += max(more, -maxRise)
		} else {
			c += min(more, max(more+math.Log(part), 0), maxRise)
		}
	}
	return math.Exp(bounded(c))
}

// bounded is the logarithm of a correction within its bounds.
func bounded(c float64) float64 {
	most := math.Log(honeycomb.MaxCorrection)
	return min(max(c, -most), most)
}

// Aim is what a node that has decided for so many subscribers adds to Totals.Aim beside what their
// channels spend. c is what it decided with; where not all of that is in force, because small
// changes are not made, times what is, divided by what was decided, in the unit of what is
// bounded.
func Aim(decided, c float64) float64 { return decided * bounded(math.Log(c)) }

// Corrected returns the problem with c times T.
func Corrected(p honeycomb.Problem, c float64) honeycomb.Problem {
	p.Load = min(p.Load*c, honeycomb.MaxLoad)
	p.Detection = min(time.Duration(float64(p.Detection)*c), honeycomb.MaxInterval)
	return p
}
