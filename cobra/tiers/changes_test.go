package tiers

import (
	"errors"
	"strings"
	"testing"
)

// A running node does not go back to the plan before the present one, which neighbours could not tell from a node that has not
// changed yet. It takes that plan with another digest, once nothing is under way by the earlier ones.
func TestANodeDoesNotGoBackToThePlanBefore(t *testing.T) {
	first, second := threeTiers, fourNodes
	first.Digest, second.Digest = "first", "second"
	m := newMemory()
	n := startIn(t, second, "r", m, &keeper{})
	n.plans.before = first
	if err := n.SetPlan(first); err == nil || !strings.Contains(err.Error(), `"revision"`) || n.State().Plan != "second" {
		t.Errorf("%v, runs %q", err, n.State().Plan)
	}
	first.Digest = "first again"
	if err := n.SetPlan(first); err != nil && !errors.Is(err, ErrUnsettled) {
		t.Error(err)
	}
}
