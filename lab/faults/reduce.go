package faults

import (
	"context"
	"slices"

	"tidings/sim"
)

// Reduce leaves out faults of a plan as long as an invariant is still violated, and returns the
// reduced scenario: first half of them at a time, then fewer, and at the end one by one (Zeller and
// Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 2002). It calls tried
// after each run with the number of faults that are left.
func Reduce(ctx context.Context, n sim.Scenario, what string, tried func(left int)) (sim.Scenario, error) {
	for part := max(len(n.Plan)/2, 1); part > 0; part /= 2 {
		for at := 0; at < len(n.Plan); {
			less := n
			less.Plan = slices.Delete(slices.Clone(n.Plan), at, min(at+part, len(n.Plan)))
			r := runOnce(ctx, less, func(float64) {})
			if err := context.Cause(ctx); err != nil {
				return n, err
			}
			if r.Violations[what] > 0 {
				n = less
			} else {
				at += part
			}
			tried(len(n.Plan))
		}
	}
	return n, nil
}
