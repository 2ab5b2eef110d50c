package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/lab/churn"
)

func TestChurnUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"--scenario unrest", `no run "unrest": there are calm, sessions-60m`},
		{"--scenario calm --session 5m", "--session and --loss make another run"},
		{"--workers=-1", "not less than nothing"},
		{"--length 1s", "at least a minute"},
		{"--quick --lookups=-3", "at least one"},
	} {
		code, out, err := lab(t, append([]string{"sim", "churn"}, strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, err)
		}
	}
}

// Runs are made by name, some at a time; their results come in the order of the list.
func TestChurnScenarios(t *testing.T) {
	args := []string{"sim", "churn", "--quick", "--nodes", "32", "--workers", "2", "--scenario", "sequencer-leaves,calm,idle-16"}
	code, out, err := lab(t, append(args, "--json")...)
	var got struct {
		Runs []struct {
			Scenario string `json:"scenario"`
		} `json:"runs"`
	}
	if bad := json.Unmarshal([]byte(out), &got); code != exitDone || err != "" || bad != nil || len(got.Runs) != 3 ||
		got.Runs[0].Scenario != "calm" || got.Runs[1].Scenario != "idle-16" || got.Runs[2].Scenario != "sequencer-leaves" {
		t.Fatalf("exit %d, %q, %v: %s", code, err, bad, out)
	}
}

// Beside a figure stands what was asked for, if anything was, and whether it is met.
func TestChurnTable(t *testing.T) {
	var b strings.Builder
	err := printChurn(&b, []churn.Report{
		&churn.EndingResult{Scenario: "sequencer-dies", Nodes: 8, Way: churn.Dies, MostS: 46, MedianS: 3, Trials: 2},
		&churn.IdleResult{Scenario: "idle-8", Nodes: 8, BytesPerNode: 1024},
	})
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"run members figure got asked",
		"sequencer-dies 8 a new sequencer after s 46 ≤ 45 MISSED",
		"sequencer-dies 8 keys without one in the end 0 ≤ 0 met",
		"sequencer-dies 8 median s 3",
		"sequencer-dies 8 p99 s 0",
		"sequencer-dies 8 keys that lost theirs 2",
		"idle-8 8 bytes a node 1.02e+03 ≤ 4.1e+04 met",
	}
	if err != nil || strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

func TestChurnCurvesAreDrawn(t *testing.T) {
	dir := t.TempDir()
	if err := drawChurn(dir, []churn.Report{
		&churn.KilledResult{Killed: 3, Nodes: 10, Right: []float64{0.5, 0.9, 1}},
		&churn.EndingResult{Way: churn.Closes, Took: []float64{1, 4, 9}},
		&churn.PartedResult{Roots: []int{3, 1, 0}, Heads: []int{3, 3, 2}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"churn-killed.svg", "churn-sequencer.svg", "churn-parted.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "churn-hops.svg")); err == nil {
		t.Error("hops are drawn of a run that measured none")
	}
}
