package sim

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// ParseScenario reads what String writes.
func TestScenariosAreParsedAsTheyArePrinted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		n := Scenario{Seed: seed, Members: 64, Length: 30 * time.Minute, Plan: NewFaultPlan(seed, 64, 30*time.Minute)}
		got, err := ParseScenario(n.String())
		if err != nil || !reflect.DeepEqual(got, n) {
			t.Fatalf("seed %d: %v\n%s\nis parsed as\n%s", seed, err, n, got)
		}
	}
}

func TestInvalidScenariosAreRefused(t *testing.T) {
	t.Parallel()
	const head = "seed 1 members 8 length 5m\n"
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"# nothing\n\n", "empty"},
		{"seed 1", "want seed N"},
		{"seed 1 members 8 length 5m members 64", "want seed N"},
		{"seed -1 members 8 length 5m", "invalid syntax"},
		{"seed 1 members many length 5m", "invalid syntax"},
		{"seed 1 members 0 length 5m", "members 0"},
		{"seed 1 members 8 length long", "duration"},
		{"seed 1 members 8 length -5m", "length -5m"},
		{"seed 1 members 8 length 0s", "length 0s"},
		{head + "1m", "want a time and a kind"},
		{head + "soon crash", "duration"},
		{head + "1m flood", "no kind of fault \"flood\""},
		{head + "1m crash depth=3", "no such field"},
		{head + "1m crash hosts=1,x", "invalid syntax"},
		{head + "1m crash hosts=9", "no machine 9"},
		{head + "1m disk disk=4", "out of range"},
		{head + "-1m crash", "the time is negative"},
		{head + "6m crash", "length of 5m"},
		{head + "1m crash lasts=-1s", "lasts: the time is negative"},
		{head + "1m loss late=-1s", "late: the time is negative"},
		{head + "1m loss loss=NaN", "loss: a probability"},
		{head + "1m loss duplicate=7", "duplicate: a probability"},
		{head + "1m loss reorder=-0.1", "reorder: a probability"},
		{head + "1m slow by=-1ms", "by is negative"},
	} {
		if _, err := ParseScenario(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// Each kind takes part in about half of the plans, and in every plan for which it is the only one
// allowed. Faults affect machines that exist, and are sorted by time.
func TestPlans(t *testing.T) {
	t.Parallel()
	const plans, members = 200, 16
	part := map[FaultKind]int{}
	for seed := range uint64(plans) {
		plan := NewFaultPlan(seed, members, 30*time.Minute)
		for _, kind := range FaultKinds {
			if slices.ContainsFunc(plan, func(s Fault) bool { return s.Kind == kind }) {
				part[kind]++
			}
		}
		if !slices.IsSortedFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) }) || len(plan) == 0 {
			t.Fatalf("seed %d: not sorted, or empty: %v", seed, plan)
		}
		if _, err := ParseScenario(Scenario{Members: members, Length: 30 * time.Minute, Plan: plan}.String()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, kind := range FaultKinds {
		if n := part[kind]; n < plans/4 || n > plans*3/4 {
			t.Errorf("%s takes part in %d of %d plans", kind, n, plans)
		}
		for _, s := range NewFaultPlan(1, members, 30*time.Minute, kind) {
			if s.Kind != kind {
				t.Errorf("asked for %s alone: %v", kind, s)
			}
		}
	}
}

// In a scenario without faults all invariants hold all the time.
func TestScenarioWithoutFaults(t *testing.T) {
	t.Parallel()
	told := 0.0
	o := Scenario{Seed: 1, Members: 16, Length: 5 * time.Minute}.Run(func(done float64) bool {
		if done < told || done > 1 {
			t.Fatalf("progress goes from %v to %v", told, done)
		}
		told = done
		return true
	})
	report(t, o.Swarm)
	r, m := o.RouteStats(), o.MulticastStats()
	if !o.Completed || !o.Recovered || told != 1 || len(o.RecoveredAfter) > 0 || r.Acked < 1000 || r.Acked != r.Sent || m.Delivered != m.Expected || m.Delivered == 0 || o.FeedStats().ItemsShown == 0 {
		t.Errorf("completed: %v, progress %v; violated at first: %v; %+v %+v", o.Completed, told, o.RecoveredAfter, r, m)
	}
}

// A run stops when progress returns false.
func TestScenarioStopsWhenProgressReturnsFalse(t *testing.T) {
	t.Parallel()
	if o := (Scenario{Seed: 1, Members: 8, Length: time.Hour}).Run(func(float64) bool { return false }); o.Completed {
		t.Error("the run completed")
	}
}

// Each fault has its effect on the machines that it names.
func TestFaultsHaveTheirEffect(t *testing.T) {
	t.Parallel()
	w := Scenario{Seed: 3, Members: 16, Length: 10 * time.Minute}
	w.Plan = []Fault{
		{At: 1 * time.Minute, Duration: 30 * time.Second, Kind: Crash, Hosts: []int{1}},
		{At: 2 * time.Minute, Duration: 30 * time.Second, Kind: Leave, Hosts: []int{2}},
		{At: 3 * time.Minute, Duration: 30 * time.Second, Kind: DiskLost, Hosts: []int{3}},
		{At: 4 * time.Minute, Duration: 30 * time.Second, Kind: TornWrite, Hosts: []int{4}},
		{At: 5 * time.Minute, Duration: 30 * time.Second, Kind: NoDiskSpace, Hosts: []int{5}, Disk: DiskFull},
		{At: 6 * time.Minute, Duration: 30 * time.Second, Kind: ClockJump, Hosts: []int{6}, Amount: time.Hour},
		{At: 7 * time.Minute, Duration: 30 * time.Second, Kind: ClockJump, Hosts: []int{7}, Amount: -time.Hour},
		{At: 8 * time.Minute, Duration: 30 * time.Second, Kind: Pause, Hosts: []int{8}},
		{At: 9 * time.Minute, Duration: 30 * time.Second, Kind: Loss, Network: NetworkFaults{Loss: 0.02}},
	}
	o := w.Run(func(float64) bool { return true })
	report(t, o.Swarm)
	of := o.Peers()
	for _, c := range []struct{ host, lives int }{{1, 2}, {2, 2}, {3, 1}, {4, 2}, {5, 1}, {6, 1}, {7, 2}, {8, 1}} {
		if of[c.host].lives != c.lives {
			t.Errorf("host %d had %d lives, want %d", c.host, of[c.host].lives, c.lives)
		}
	}
	if len(of) != 19 || of[3].Up() || !of[18].Up() || of[18].ID() == of[3].ID() {
		t.Error("the host whose disk was lost was not replaced")
	}
	if of[6].ClockOffset() != time.Hour || of[7].ClockOffset() != -time.Hour {
		t.Errorf("clocks are ahead by %v and %v", of[6].ClockOffset(), of[7].ClockOffset())
	}
	sum := Stats{}
	for _, p := range of {
		sum.Add(p.Stats())
	}
	if sum.Lost == 0 {
		t.Error("no frame was lost")
	}
}

// testdata/scenarios holds scenarios that failed once, reduced to the faults that matter. Each file
// says what it checks.
func TestKeptScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			n, err := ParseScenario(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if n.Members > 16 {
				longtest.Only(t, "a scenario with a large network")
			}
			report(t, n.Run(func(float64) bool { return true }).Swarm)
		})
	}
}
