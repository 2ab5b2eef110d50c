package tiers

import (
	"errors"
	"strings"
	"testing"
)

// A node goes on with the plan that it runs if its file has an earlier one or another one of the same revision, also after a
// restart. It takes a later one, with the same nodes as an earlier one too, once nothing is under way.
func TestNodesTakeLaterPlansOnly(t *testing.T) {
	plan := func(digest string) Plan {
		p := fourNodes
		p.Digest = digest
		return p
	}
	m := newMemory()
	n := startIn(t, plan("2-b"), "r", m, &keeper{})
	for _, refused := range []string{"1-a", "2-a", "a"} {
		if err := n.SetPlan(plan(refused)); err == nil || !strings.Contains(err.Error(), "is not later than the 2 of the one") {
			t.Errorf("%s: %v", refused, err)
		}
		if n = startIn(t, plan(refused), "r", m, &keeper{}); n.State().Plan != "2-b" {
			t.Errorf("after a restart with %s, the node runs %s", refused, n.State().Plan)
		}
	}
	if err := n.SetPlan(plan("3-a")); !errors.Is(err, ErrUnsettled) {
		t.Errorf("a later one: %v", err)
	}
	if n = startIn(t, plan("3-a"), "r", m, &keeper{}); n.State().Plan != "3-a" {
		t.Errorf("after a restart with a later one, the node runs %s", n.State().Plan)
	}
}
