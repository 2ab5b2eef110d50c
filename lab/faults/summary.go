package faults

import (
	"cmp"
	"slices"

	"tidings/sim"
)

// A Summary sums up the runs in which one kind of fault took part.
type Summary struct {
	Kind         string         `json:"trouble"` // or "all", for all runs
	Worlds       int            `json:"worlds"`
	Events       uint64         `json:"events"`
	Lookups      int            `json:"lookups"`
	Failed       int            `json:"failed"`
	Published    int            `json:"published"`
	Delivered    int            `json:"delivered"`
	Items        int            `json:"items"`
	Wrong        int            `json:"wrong"`      // runs with a violation
	Violations   map[string]int `json:"violations"` // runs, by invariant
	NotRecovered int            `json:"unhealed"`   // runs in which an invariant did not hold at the end
	RecoveryP50S float64        `json:"heal_p50_s"` // of the other runs, as the next two
	RecoveryP99S float64        `json:"heal_p99_s"`
	RecoveryMaxS float64        `json:"heal_most_s"`
}

// Summarise returns a summary for each kind of fault that took part in any run, and one of all
// runs.
func Summarise(results []Result) (lines []Summary) {
	for _, kind := range sim.FaultKinds {
		with := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !slices.Contains(r.Kinds(), kind) })
		if len(with) > 0 {
			lines = append(lines, summarise(string(kind), with))
		}
	}
	return append(lines, summarise("all", results))
}

func summarise(name string, of []Result) Summary {
	l := Summary{Kind: name, Worlds: len(of), Violations: map[string]int{}}
	var heal []float64
	for _, r := range of {
		l.Events += r.Events
		l.Lookups += r.Lookups
		l.Failed += r.Failed
		l.Published += r.Published
		l.Delivered += r.Delivered
		l.Items += r.Items
		for what := range r.Violations {
			l.Violations[what]++
		}
		if len(r.Violations) > 0 {
			l.Wrong++
		}
		if r.Recovered {
			heal = append(heal, r.RecoveryS)
		}
	}
	slices.Sort(heal)
	l.NotRecovered = l.Worlds - len(heal)
	l.RecoveryP50S, l.RecoveryP99S, l.RecoveryMaxS = quantile(heal, 0.5), quantile(heal, 0.99), quantile(heal, 1)
	return l
}

// quantile returns a quantile of sorted values; 0 if there are none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// ViolatedInvariants returns the invariants that were violated in any run, the most frequent first.
func ViolatedInvariants(results []Result) (of []string) {
	all := summarise("", results).Violations
	for what := range all {
		of = append(of, what)
	}
	slices.SortFunc(of, func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return of
}
