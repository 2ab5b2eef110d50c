package churn

import (
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/sim"
)

// No single lie, nor all of them together, misleads a checked lookup or more than doubles the
// control traffic of honest members; leaves stay right.
func TestEachLieIsBounded(t *testing.T) {
	var calm *LiarResult
	for _, c := range []struct {
		name string
		lies sim.Lies
	}{
		{"none", sim.Lies{}},
		{"rows", sim.Lies{Rows: true}},
		{"leaves", sim.Lies{Leaves: true}},
		{"depths", sim.Lies{Depths: true}},
		{"counts", sim.Lies{Counts: true}},
		{"deaths", sim.Lies{Deaths: true}},
		{"routes", sim.Lies{Routes: true}},
		{"all", sim.AllLies()},
	} {
		l := LiarRun{Name: c.name, Seed: 1, Nodes: longtest.Pick(32, 64), Share: 0.1, Lies: c.lies, Lookups: longtest.Pick(200, 400), Length: 5 * time.Minute}
		r := do[*LiarResult](t, run(l.Name, l.Run))
		if calm == nil {
			calm = r
		}
		if r.CheckedWrong+r.CheckedImplausible > 0 || r.LeavesWrong > 0 || r.MsgsPerNodeS > 2*calm.MsgsPerNodeS {
			t.Errorf("%+v", r)
		}
	}
}

// In a network of any size at least one member lies.
func TestSmallNetworksHaveALiar(t *testing.T) {
	o := Quick()
	o.Nodes = 8
	runs, err := Pick(Runs(o), []string{"liars-10"})
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	if r := do[*LiarResult](t, runs[1]); r.Liars != 1 {
		t.Errorf("%+v", r)
	}
}
