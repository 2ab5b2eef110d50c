package faults

import (
	"context"
	"slices"

	"tidings/sim"
)

// Thin leaves strikes out of a plan as long as an invariant is still violated, and
// returns the world that is left: half of them at a time at first, then fewer, one by
// one in the end (Zeller and Hildebrandt, Simplifying and isolating failure-inducing
// input, IEEE TSE 2002). tried is told how many strikes are left, after each world.
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
