package publishing

import (
	"math"
	"time"

	"tidings/lab/mark"
)

// honestLimit is the time within which a reader with an honest path must be shown an item.
const honestLimit = 2 * time.Minute

// IsBaseline reports whether the run has no faults.
func (r *Result) IsBaseline() bool { return r.Scenario == calm }

// Marks returns the figures of a run. ofCalm is the run without faults; nil if it was not made.
func (r *Result) Marks(ofCalm *Result) []mark.Mark {
	live, late := r.Group(groupLive), r.Group(groupLate)
	var of []mark.Mark
	switch {
	case r.Scenario == calm:
		of = append(of,
			mark.AtMost("published to shown, p99", "s", live.P99, 2).WithStretch(1),
			mark.AtMost("published to shown, maximum", "s", live.worst(), live.LimitS).WithStretch(5))
	case r.Group(groupHonest).Expected+r.Group(groupDropped).Expected > 0:
		return r.dropperMarks()
	case r.Group(groupHealed).Expected > 0 || r.Group(groupPartitioned).Expected > 0:
		healed := r.Group(groupHealed)
		of = append(of,
			mark.AtMost("after the partition: missing items shown within", "s", healed.worst(), healed.LimitS),
			mark.AtMost("published before or after it: maximum", "s", live.worst(), live.LimitS),
			mark.Zero("later or never", healed.Late+healed.Lost+live.Late+live.Lost),
			mark.Info("missing at the end of the partition", "", float64(r.Missed)), mark.Info("forced reconfigurations in the partition", "", float64(r.ForcedReconfigs)))
	case r.Scenario == offline:
		of = append(of,
			mark.AtMost("back after a day: missing items shown within", "s", late.worst(), late.LimitS),
			mark.AtMost("readers that stayed: maximum", "s", live.worst(), live.LimitS),
			mark.Zero("later or never", late.Late+late.Lost+live.Late+live.Lost),
			mark.Zero("shown again in the next life", r.Repeated),
			mark.Info("missed items", "", float64(r.Missed)))
	case r.SessionMin > 0:
		of = append(of,
			mark.AtMost("published to shown, maximum", "s", live.worst(), live.LimitS),
			mark.AtMost("late or returning readers: maximum", "s", late.worst(), late.LimitS),
			mark.Zero("later, or not shown within that time", live.Late+late.Late),
			mark.Info("p99", "s", live.P99), mark.Info("committed within, maximum", "s", r.CommitMax), mark.Info("shown again in a later life", "", float64(r.Repeated)))
	case r.Loss > 0:
		times := mark.AtMost("p99, relative to calm", "", math.NaN(), r.p99Factor()).Skipped("calm was not run")
		if ofCalm != nil {
			times = mark.AtMost("p99, relative to calm", "", live.P99/ofCalm.Group(groupLive).P99, r.p99Factor())
		}
		of = append(of, times, mark.Info("p99", "s", live.P99), mark.Info("maximum", "s", live.worst()))
	}
	return append(of, r.commonMarks()...)
}

// p99Factor returns the target of the p99 with loss, relative to the run without faults.
func (r *Result) p99Factor() float64 {
	switch {
	case r.Loss > 0.05:
		return 8
	case r.Loss > 0.01:
		return 4
	}
	return 2
}

// worst returns the longest wait of a group; infinite if an item was lost.
func (p *Group) worst() float64 {
	if p.Lost > 0 {
		return math.Inf(1)
	}
	return p.Max
}

// commonMarks returns the figures that have a target in all runs.
func (r *Result) commonMarks() []mark.Mark {
	return []mark.Mark{
		mark.Zero("lost", r.Lost()),
		mark.Zero("shown twice", r.ShownTwice+r.Duplicated),
		mark.Zero("vanished, or not signed by the publisher", r.Vanished+r.Unsigned),
		mark.Zero("reported as withheld although none is", r.Lacking),
		mark.Zero("violated invariants", len(r.Wrong)),
	}
}

// dropperMarks returns the figures of a run in which members drop messages.
func (r *Result) dropperMarks() []mark.Mark {
	clean, unclean := r.Group(groupHonest), r.Group(groupDropped)
	part := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	of := []mark.Mark{
		mark.AtMost("with an honest path: maximum", "s", clean.worst(), clean.LimitS),
		mark.Zero("with an honest path: later or never", clean.Late+clean.Lost),
		mark.AtMost("without: maximum", "s", unclean.worst(), unclean.LimitS),
		mark.Zero("without: later or never", unclean.Late+unclean.Lost),
		mark.Info("without: p50", "s", unclean.P50),
		mark.Info("share of pairs without an honest path", "", part(unclean.Expected, unclean.Expected+clean.Expected)),
		mark.Info("of these never shown", "", part(unclean.Lost, unclean.Expected)),
		mark.Info("members with children in a tree", "", float64(r.Interior)), mark.Info("of these drop messages", "", float64(r.Droppers)),
		mark.Info("channels per member", "", r.Channels),
		mark.Info("places in shadow trees", "", float64(r.Shadowed)),
		mark.Info("digests per member and minute", "", r.Digests),
		mark.Info("audits per member and hour", "", r.Audits),
	}
	if unclean.Expected == 0 {
		for i := range of[:4] {
			of[i] = of[i].Skipped("no dropper is above a reader: the network is too small")
		}
	}
	return append(of, r.commonMarks()[1:]...)
}
