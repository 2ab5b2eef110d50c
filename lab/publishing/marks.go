package publishing

import (
	"math"
	"time"
)

// cleanLimit is within what time a reader has an item who has a clean way.
const cleanLimit = 2 * time.Minute

// A Mark is a figure beside what was asked for.
type Mark struct {
	What    string
	Got     float64 // NaN: not known
	Most    float64 // infinite: nothing was asked
	Stretch float64 // NaN: nothing more
	Why     string  // it is not known
}

// IsCalm says whether it is the run without troubles.
func (r *Result) IsCalm() bool { return r.Scenario == calm }

// Met says whether the figure is as good as was asked for.
func (m Mark) Met() bool { return m.Got <= m.Most }

func asked(what string, got, most float64) Mark {
	return Mark{What: what, Got: got, Most: most, Stretch: math.NaN()}
}

func fact(what string, got float64) Mark {
	return Mark{What: what, Got: got, Most: math.Inf(1), Stretch: math.NaN()}
}

// Marks are the figures of a run; of calm is that without troubles, nil if it was not made.
func (r *Result) Marks(ofCalm *Result) []Mark {
	live, late := r.Part(partLive), r.Part(partLate)
	var of []Mark
	switch {
	case r.Scenario == calm:
		of = append(of,
			Mark{What: "published to shown, p99 s", Got: live.P99, Most: 2, Stretch: 1},
			Mark{What: "published to shown, most s", Got: live.worst(), Most: live.LimitS, Stretch: 5})
	case r.Part(partClean).Wanted+r.Part(partUnclean).Wanted > 0:
		return r.swallowMarks()
	case r.Part(partHealed).Wanted > 0 || r.Part(partApart).Wanted > 0:
		healed := r.Part(partHealed)
		of = append(of,
			asked("after the healing: all shown what lacked, after s", healed.worst(), healed.LimitS),
			asked("published before it and after: most s", live.worst(), live.LimitS),
			asked("later than that, or not at all", float64(healed.Late+healed.Lost+live.Late+live.Lost), 0),
			fact("lacking at the healing", float64(r.Behind)), fact("logs begun anew while parted", float64(r.Jumps)))
	case r.Scenario == offline:
		of = append(of,
			asked("back after a day: all shown, after s", late.worst(), late.LimitS),
			asked("there all the time: most s", live.worst(), live.LimitS),
			asked("later than that, or not at all", float64(late.Late+late.Lost+live.Late+live.Lost), 0),
			asked("shown again in the next life", float64(r.Again), 0),
			fact("items that were missed", float64(r.Behind)))
	case r.SessionMin > 0:
		of = append(of,
			asked("published to shown, most s", live.worst(), live.LimitS),
			asked("come later, or back: most s", late.worst(), late.LimitS),
			asked("later than that, or waited for so long in vain", float64(live.Late+late.Late), 0),
			fact("p99 s", live.P99), fact("held by owners, most s", r.HeldMost), fact("shown again in a next life", float64(r.Again)))
	case r.Loss > 0:
		times := asked("p99, of calm", math.NaN(), r.asks())
		if times.Why = "calm was not run"; ofCalm != nil {
			times.Got, times.Why = live.P99/ofCalm.Part(partLive).P99, ""
		}
		of = append(of, times, fact("p99 s", live.P99), fact("most s", live.worst()))
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
func (r *Result) always() []Mark {
	return []Mark{
		asked("lost", float64(r.Lost()), 0),
		asked("shown twice", float64(r.Twice+r.Doubled), 0),
		asked("gone again, or not its publisher's", float64(r.Gone+r.Unsigned), 0),
		asked("said to be left out of a log, where nobody withholds", float64(r.Lacking), 0),
		asked("broken invariants", float64(len(r.Wrong)), 0),
	}
}

// swallowMarks are those of a run in which members swallow.
func (r *Result) swallowMarks() []Mark {
	clean, unclean := r.Part(partClean), r.Part(partUnclean)
	part := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	of := []Mark{
		asked("a clean way: most s", clean.worst(), clean.LimitS),
		asked("a clean way: later, or not at all", float64(clean.Late+clean.Lost), 0),
		asked("none: most s", unclean.worst(), unclean.LimitS),
		asked("none: later, or not at all", float64(unclean.Late+unclean.Lost), 0),
		fact("none: p50 s", unclean.P50),
		fact("part of pairs without a clean way", part(unclean.Wanted, unclean.Wanted+clean.Wanted)),
		fact("of these not shown to the end", part(unclean.Lost, unclean.Wanted)),
		fact("members with children in a tree", float64(r.Interior)), fact("of these swallow", float64(r.Swallow)),
		fact("channels of a member", r.Channels),
		fact("places in second trees", float64(r.Shadowed)),
		fact("digests a member and minute", r.Digests),
		fact("audits a member and hour", r.Audits),
	}
	if unclean.Wanted == 0 {
		for i := range of[:4] {
			of[i].Got, of[i].Why = math.NaN(), "nobody swallows who is above a reader: too small a world"
		}
	}
	return append(of, r.always()[1:]...)
}
