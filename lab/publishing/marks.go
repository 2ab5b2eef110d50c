package publishing

import (
	"math"
	"time"

	"tidings/lab/mark"
)

// cleanLimit is within what time a reader has an item who has a clean way.
const cleanLimit = 2 * time.Minute

// IsCalm says whether it is the run without troubles.
func (r *Result) IsCalm() bool { return r.Scenario == calm }

// Marks are the figures of a run; of calm is that without troubles, nil if it was not made.
func (r *Result) Marks(ofCalm *Result) []mark.Mark {
	live, late := r.Part(partLive), r.Part(partLate)
	var of []mark.Mark
	switch {
	case r.Scenario == calm:
		of = append(of,
			mark.AtMost("published to shown, p99", "s", live.P99, 2).Better(1),
			mark.AtMost("published to shown, most", "s", live.worst(), live.LimitS).Better(5))
	case r.Part(partClean).Wanted+r.Part(partUnclean).Wanted > 0:
		return r.swallowMarks()
	case r.Part(partHealed).Wanted > 0 || r.Part(partApart).Wanted > 0:
		healed := r.Part(partHealed)
		of = append(of,
			mark.AtMost("after the healing: all shown what lacked, after", "s", healed.worst(), healed.LimitS),
			mark.AtMost("published before it and after: most", "s", live.worst(), live.LimitS),
			mark.None("later than that, or not at all", healed.Late+healed.Lost+live.Late+live.Lost),
			mark.Fact("lacking at the healing", "", float64(r.Behind)), mark.Fact("logs begun anew while parted", "", float64(r.Jumps)))
	case r.Scenario == offline:
		of = append(of,
			mark.AtMost("back after a day: all shown, after", "s", late.worst(), late.LimitS),
			mark.AtMost("there all the time: most", "s", live.worst(), live.LimitS),
			mark.None("later than that, or not at all", late.Late+late.Lost+live.Late+live.Lost),
			mark.None("shown again in the next life", r.Again),
			mark.Fact("items that were missed", "", float64(r.Behind)))
	case r.SessionMin > 0:
		of = append(of,
			mark.AtMost("published to shown, most", "s", live.worst(), live.LimitS),
			mark.AtMost("come later, or back: most", "s", late.worst(), late.LimitS),
			mark.None("later than that, or waited for so long in vain", live.Late+late.Late),
			mark.Fact("p99", "s", live.P99), mark.Fact("held by owners, most", "s", r.HeldMost), mark.Fact("shown again in a next life", "", float64(r.Again)))
	case r.Loss > 0:
		times := mark.AtMost("p99, of calm", "", math.NaN(), r.asks()).Without("calm was not run")
		if ofCalm != nil {
			times = mark.AtMost("p99, of calm", "", live.P99/ofCalm.Part(partLive).P99, r.asks())
		}
		of = append(of, times, mark.Fact("p99", "s", live.P99), mark.Fact("most", "s", live.worst()))
	}
	return append(of, r.always()...)
}

// asks is what is asked of the p99 with loss, of that in calm.
func (r *Result) asks() float64 {
	switch {
	case r.Loss > 0.05:
		return 8
	case r.Loss > 0.01:
		return 4
	}
	return 2
}

// worst is the longest wait of a part: without an end if something was lost.
func (p *Part) worst() float64 {
	if p.Lost > 0 {
		return math.Inf(1)
	}
	return p.Most
}

// always is asked of all runs.
func (r *Result) always() []mark.Mark {
	return []mark.Mark{
		mark.None("lost", r.Lost()),
		mark.None("shown twice", r.Twice+r.Doubled),
		mark.None("gone again, or not its publisher's", r.Gone+r.Unsigned),
		mark.None("said to be left out of a log, where nobody withholds", r.Lacking),
		mark.None("broken invariants", len(r.Wrong)),
	}
}

// swallowMarks are those of a run in which members swallow.
func (r *Result) swallowMarks() []mark.Mark {
	clean, unclean := r.Part(partClean), r.Part(partUnclean)
	part := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	of := []mark.Mark{
		mark.AtMost("a clean way: most", "s", clean.worst(), clean.LimitS),
		mark.None("a clean way: later, or not at all", clean.Late+clean.Lost),
		mark.AtMost("none: most", "s", unclean.worst(), unclean.LimitS),
		mark.None("none: later, or not at all", unclean.Late+unclean.Lost),
		mark.Fact("none: p50", "s", unclean.P50),
		mark.Fact("part of pairs without a clean way", "", part(unclean.Wanted, unclean.Wanted+clean.Wanted)),
		mark.Fact("of these not shown to the end", "", part(unclean.Lost, unclean.Wanted)),
		mark.Fact("members with children in a tree", "", float64(r.Interior)), mark.Fact("of these swallow", "", float64(r.Swallow)),
		mark.Fact("channels of a member", "", r.Channels),
		mark.Fact("places in second trees", "", float64(r.Shadowed)),
		mark.Fact("digests a member and minute", "", r.Digests),
		mark.Fact("audits a member and hour", "", r.Audits),
	}
	if unclean.Wanted == 0 {
		for i := range of[:4] {
			of[i] = of[i].Without("nobody swallows who is above a reader: too small a world")
		}
	}
	return append(of, r.always()[1:]...)
}
