package faults

import (
	"cmp"
	"slices"

	"tidings/sim"
)

// A Line sums up the worlds in which one kind of trouble took part.
type Line struct {
	Trouble    string         `json:"trouble"` // "all": whatever took part
	Worlds     int            `json:"worlds"`
	Events     uint64         `json:"events"`
	Lookups    int            `json:"lookups"`
	Failed     int            `json:"failed"`
	Published  int            `json:"published"`
	Delivered  int            `json:"delivered"`
	Items      int            `json:"items"`
	Wrong      int            `json:"wrong"`      // worlds in which something was violated
	Violations map[string]int `json:"violations"` // worlds, by invariant
	Unhealed   int            `json:"unhealed"`   // worlds that were not right in the end
	HealP50S   float64        `json:"heal_p50_s"` // of the others, as what follows
	HealP99S   float64        `json:"heal_p99_s"`
	HealMostS  float64        `json:"heal_most_s"`
}

// Sum returns a line for each kind of trouble that took part anywhere, and one for all.
func Sum(results []Result) (lines []Line) {
	for _, kind := range sim.FaultKinds {
		with := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !slices.Contains(r.Kinds(), kind) })
		if len(with) > 0 {
			lines = append(lines, sum(string(kind), with))
		}
	}
	return append(lines, sum("all", results))
}

func sum(name string, of []Result) Line {
	l := Line{Trouble: name, Worlds: len(of), Violations: map[string]int{}}
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
		if r.Healed {
			heal = append(heal, r.HealS)
		}
	}
	slices.Sort(heal)
	l.Unhealed = l.Worlds - len(heal)
	l.HealP50S, l.HealP99S, l.HealMostS = part(heal, 0.5), part(heal, 0.99), part(heal, 1)
	return l
}

// part is the value that a share of sorted ones does not exceed; 0 of none.
func part(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// Broken are the invariants that were violated anywhere, the most often violated first.
func Broken(results []Result) (of []string) {
	all := sum("", results).Violations
	for what := range all {
		of = append(of, what)
	}
	slices.SortFunc(of, func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return of
}
