package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/sim"
)

// In random scenarios no safety invariant is violated, and the network recovers in time. The long
// tier runs two dozen scenarios of 64 members and half an hour each, some of them twice; the fast tier
// runs three small ones. For a hundred: go -C lab run . sim faults --seeds 100. For a night: --for
// 8h.
func TestScenarios(t *testing.T) {
	checkScenarios(t, Config{}, 1, longtest.Pick(3, 24))
}

// In these, an owner that had promised its votes to a candidate that failed took no entries for half a minute.
func TestScenariosWithCandidatesThatFail(t *testing.T) {
	longtest.Only(t, "two scenarios of full size")
	for _, seed := range []uint64{46, 48} {
		checkScenarios(t, Config{}, seed, 1)
	}
}

// The same holds where domains have budgets.
func TestScenariosWithPublicFeeds(t *testing.T) {
	checkScenarios(t, Config{Public: true}, 31, longtest.Pick(1, 6))
}

// checkScenarios runs scenarios of the tier's size, all of which must pass.
func checkScenarios(t *testing.T, c Config, from uint64, count int) {
	t.Helper()
	c.Members, c.Length = longtest.Pick(24, 64), longtest.Pick(10*time.Minute, 30*time.Minute)
	var results []Result
	err := RunSeeds(t.Context(), c, from, count, runtime.GOMAXPROCS(0), func() bool { return true }, func(r Result) { results = append(results, r) })
	if err != nil || len(results) != count {
		t.Fatalf("%d worlds: %v", len(results), err)
	}
	flags := fmt.Sprintf(" --members %d --length %v", c.Members, c.Length)
	if c.Public {
		flags += " --public"
	}
	for _, r := range results {
		for _, facts := range r.First {
			t.Errorf("seed %d (%s): %s\nreplay: go -C lab run . sim faults --seeds 1 --from %d%s", r.Seed, r.Scenario, facts, r.Seed, flags)
		}
	}
	all := Summarise(results)
	t.Logf("%+v", all[len(all)-1])
}

// One seed gives one run, also beside others, and another seed another run.
func TestRunsAreReproducible(t *testing.T) {
	c := Config{Members: longtest.Pick(10, 16), Length: longtest.Pick(3*time.Minute, 5*time.Minute)}
	traces := map[string]int{}
	for range 2 {
		if err := RunSeeds(t.Context(), c, 20, 3, 2, func() bool { return true }, func(r Result) {
			traces[fmt.Sprint(r.Seed, " ", r.TraceHash)]++
			if r.Violations[NotReproducible] > 0 || r.Events == 0 || r.Lookups == 0 || r.Published == 0 || r.Items == 0 || r.Faults == 0 {
				t.Errorf("%+v", r)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(traces) != 3 {
		t.Errorf("three seeds twice: %v", traces)
	}
}

func TestRunSeedsStops(t *testing.T) {
	c := Config{Members: 8, Length: time.Minute}
	found, left := 0, 2
	more := func() bool { left--; return left >= 0 }
	if err := RunSeeds(t.Context(), c, 1, 0, 1, more, func(Result) { found++ }); err != nil || found != 2 {
		t.Errorf("%d worlds, when there was time for 2: %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := RunSeeds(ctx, c, 1, 0, 1, func() bool { return true }, func(Result) { found++; cancel() }); !errors.Is(err, context.Canceled) || found != 3 {
		t.Errorf("%d worlds, when it was cancelled after one more: %v", found, err)
	}
}

// A panic counts as a violation.
func TestPanicIsAViolation(t *testing.T) {
	n := sim.Scenario{Seed: 1, Members: 8, Length: time.Minute, Plan: []sim.Fault{{Kind: sim.Crash, Hosts: []int{99}}}}
	r, err := Run(t.Context(), n, func(float64) {})
	if err != nil || r.Recovered || r.Violations[Panicked] != 1 || !strings.Contains(strings.Join(r.First, ""), "out of range") {
		t.Errorf("%v: %+v", err, r)
	}
}

// Reduce leaves only the fault that causes the violation, here a panic.
func TestReduce(t *testing.T) {
	n := Config{Members: 8, Length: 3 * time.Minute, Kinds: []sim.FaultKind{sim.Pause}}.Scenario(1)
	bad := sim.Fault{At: time.Minute, Kind: sim.Crash, Hosts: []int{99}}
	n.Plan = slices.Insert(n.Plan, len(n.Plan)/2, bad)
	less, err := Reduce(t.Context(), n, Panicked, func(int) {})
	if err != nil || len(n.Plan) < 3 || len(less.Plan) != 1 || less.Plan[0].String() != bad.String() {
		t.Errorf("%v: %d of %d faults are left: %v", err, len(less.Plan), len(n.Plan), less.Plan)
	}
	falls := sim.Scenario{Seed: 1, Plan: []sim.Fault{bad}} // it panics without members, whatever its plan
	if less, err = Reduce(t.Context(), falls, Panicked, func(int) {}); err != nil || len(less.Plan) > 0 {
		t.Errorf("%v: a fault that is not needed is left: %v", err, less.Plan)
	}
}

// A network in which an invariant does not hold at the end has not recovered.
func TestNotRecovered(t *testing.T) {
	n := sim.Scenario{Seed: 1, Members: 8, Length: 2 * time.Minute, Plan: []sim.Fault{
		{At: time.Minute, Duration: time.Hour, Kind: sim.Pause, Hosts: []int{3}},
	}}
	r, err := Run(t.Context(), n, func(float64) {})
	if err != nil || r.Recovered || r.RecoveryS < (sim.RecoveryPeriod-time.Minute).Seconds() || len(r.Violations) == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestSummarise(t *testing.T) {
	of := func(kinds string, heal float64, broken ...string) Result {
		r := Result{Scenario: kinds, Events: 1, Lookups: 10, RecoveryS: heal, Recovered: heal < 600, Violations: map[string]int{}}
		for _, what := range broken {
			r.Violations[what] = 5
		}
		return r
	}
	lines := Summarise([]Result{of("crash+loss", 4), of("crash", 2, sim.Cycle), of("loss", 8, sim.Cycle, sim.Duplicate), of("clock", 606)})
	got := ""
	for _, l := range lines {
		got += fmt.Sprintf("%s %d/%d %d %v %v %d; ", l.Kind, l.Wrong, l.Worlds, l.Lookups, l.RecoveryP50S, l.RecoveryMaxS, l.NotRecovered)
	}
	if want := "crash 1/2 20 4 4 0; loss 1/2 20 8 8 0; clock 0/1 10 0 0 1; all 2/4 40 4 8 1; "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if b := ViolatedInvariants([]Result{of("", 0, sim.Duplicate), of("", 0, sim.Cycle), of("", 0, sim.Cycle)}); fmt.Sprint(b) != "[cycle duplicate]" {
		t.Errorf("%q", b)
	}
}
