package churn

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// The figures of a small network under churn are those of a working network.
func TestRunMeasures(t *testing.T) {
	lookups, length := longtest.Pick(800, 2000), longtest.Pick(4*time.Minute, 10*time.Minute)
	calm := measure(t, Scenario{Name: "calm", Seed: 1, Nodes: 32, Lookups: lookups, Length: length})
	if calm.Lookups != lookups || calm.Failed+calm.WrongRoot+calm.Deaths != 0 || calm.HopsMean < 0.5 || calm.Joins != joiners ||
		calm.JoinS <= 0 || calm.JoinMsgs <= 0 || calm.MsgsPerNodeS <= 0 || calm.ContactsMean < 20 {
		t.Errorf("calm: %+v", calm)
	}
	rough := measure(t, Scenario{Name: "rough", Seed: 1, Nodes: 32, Session: 5 * time.Minute, Silent: 1, Lookups: lookups, Length: length})
	if rough.Deaths < 5 || rough.Joins < 5 || rough.JoinMsgs < 20 || rough.MsgsPerNodeS <= calm.MsgsPerNodeS || rough.Lookups < lookups*95/100 {
		t.Errorf("rough: %+v", rough)
	}
	for _, m := range rough.Marks(&calm) {
		if m.Missed() {
			t.Errorf("%+v", m)
		}
	}
	lossy := measure(t, Scenario{Name: "lossy", Seed: 1, Nodes: 32, Loss: 0.5, Lookups: 200, Length: time.Minute})
	if lossy.Failed == 0 && lossy.LookupMaxS < 5 {
		t.Errorf("half of all messages lost, and nobody notices: %+v", lossy)
	}
}

func measure(t *testing.T, c Scenario) Result {
	t.Helper()
	last := -1.0
	r, err := c.Run(t.Context(), func(done float64) {
		if done < last || done > 1 {
			t.Fatalf("progress goes from %v to %v", last, done)
		}
		last = done
	})
	if err != nil || last < 0.95 {
		t.Fatalf("%s: %v, at %v", c.Name, err, last)
	}
	return r
}

func TestRunStopsWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Scenario{Nodes: 8, Lookups: 1, Length: time.Hour}).Run(ctx, func(float64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The targets are those of the docs. Without a calm run the relative figures are unknown, and small
// networks have no target for bytes.
func TestMarks(t *testing.T) {
	calm := Result{Nodes: 1024, Lookups: 1e6, MsgsPerNodeS: 0.4, BytesPerNodeS: 100, HopsMean: 2.1}
	for _, c := range []struct {
		change func(*Result)
		missed string
	}{
		{func(*Result) {}, ""},
		{func(r *Result) { r.HopsMean = 3.8 }, "mean hops"},
		{func(r *Result) { r.MsgsPerNodeS = 0.6 }, "control"},
		{func(r *Result) { r.WrongRoot = 1 }, "share with a wrong root"},
		{func(r *Result) { r.ContactsMax = 121 }, "maximum number of contacts"},
		{func(r *Result) { r.SessionMin, r.Failed = 60, 100 }, ""},
		{func(r *Result) { r.SessionMin, r.Failed = 60, 101 }, "share of lookups that failed"},
		{func(r *Result) { r.SessionMin, r.WrongRoot = 15, 101 }, "share with a wrong root"},
		{func(r *Result) { r.SessionMin, r.MsgsPerNodeS = 5, 3.3 }, "control messages, relative to calm"},
		{func(r *Result) { r.Loss, r.Failed = 0.01, 101 }, "share of lookups that failed"},
		{func(r *Result) { r.Loss, r.Failed = 0.05, 101 }, ""},
		{func(r *Result) { r.Loss, r.BytesPerNodeS = 0.05, 401 }, "control bytes, relative to calm"},
		{func(r *Result) { r.Loss, r.BytesPerNodeS, r.Nodes = 0.05, 401, 64 }, ""},
	} {
		r := calm
		c.change(&r)
		missed := ""
		for _, m := range r.Marks(&calm) {
			if m.Missed() {
				missed += m.Figure
			}
		}
		if missed != c.missed {
			t.Errorf("%+v: missed %q, want %q", r, missed, c.missed)
		}
	}
	r := calm
	r.Loss = 0.05
	for _, m := range r.Marks(nil)[:2] {
		if !math.IsNaN(m.Value) || m.Met() || m.Missed() || m.Max != 4 {
			t.Errorf("without a calm run: %+v", m)
		}
	}
}
