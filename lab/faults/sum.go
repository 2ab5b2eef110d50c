package faults

import (
	"cmp"
	"slices"

	"tidings/sim"
)

// A Line sums up the worlds in which one kind of trouble took part.
type Summary struct {
	Kind         string         `json:"trouble"` // "all": whatever took part
	Worlds       int            `json:"worlds"`
	Events       uint64         `json:"events"`
	Lookups      int            `json:"lookups"`
	Failed       int            `json:"failed"`
	Published    int            `json:"published"`
	Delivered    int            `json:"delivered"`
	Items        int            `json:"items"`
	Wrong        int            `json:"wrong"`      // worlds in which something was violated
	Violations   map[string]int `json:"violations"` // worlds, by invariant
	NotRecovered int            `json:"unhealed"`   // worlds that were not right in the end
	RecoveryP50S float64        `json:"heal_p50_s"` // of the others, as what follows
	RecoveryP99S float64        `json:"heal_p99_s"`
	RecoveryMaxS float64        `json:"heal_most_s"`
}

// Sum returns a line for each kind of trouble that took part anywhere, and one for all.
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

// part is the value that a share of sorted ones does not exceed; 0 of none.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// Broken are the invariants that were violated anywhere, the most often violated first.
func ViolatedInvariants(results []Result) (of []string) {
	all := summarise("", results).Violations
	for what := range all {
		of = append(of, what)
	}
	slices.SortFunc(of, func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return of
}
