package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/lab/churn"
)

func TestChurnUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"--scenario unrest", `there is no run "unrest"; the runs are calm, sessions-60m`},
		{"--scenario calm --session 5m", "--scenario cannot be used with --session"},
		{"--scenario calm --loss 0.1", "--scenario cannot be used with --loss"},
		{"--session 5m --out x", "--out cannot be used with --session"},
		{"--scenario=", "no run is selected; the runs are calm"},
		{"--session=-3h", "at least 10s"},
		{"--session 1ns", "at least 10s"},
		{"--silent 0.5", "only with --session"},
		{"--workers=-1", "must not be negative"},
		{"--length 1s", "at least a minute"},
		{"--quick --lookups=-3", "at least one"},
	} {
		code, out, err := lab(t, append([]string{"sim", "churn"}, strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, err)
		}
	}
}

// Runs are selected by name and made several at a time; their results are in the order of the list.
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

// Each figure is printed with its target and whether it is met.
func TestChurnTable(t *testing.T) {
	var o, e strings.Builder
	err := (&churnCommand{}).show(stdio{&o, &e}, []churn.Report{
		&churn.SequencerExitResult{Scenario: "sequencer-dies", Nodes: 8, Mode: churn.Dies, MaxS: 46, MedianS: 3, Trials: 2},
		&churn.IdleResult{Scenario: "idle-8", Nodes: 8, BytesPerNode: 41000},
		&churn.Result{Scenario: "loss-1", Nodes: 64, Lookups: 100_000, Failed: 1, WrongRoot: 3, Loss: 0.01, ContactsMean: 45, Joins: 32, JoinS: 3, JoinMsgs: 99},
	})
	var lines []string
	for line := range strings.Lines(o.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"run members lookups failed wrong root mean hops slowest s control/s control B/s mean contacts joins mean join s messages per join",
		"loss-1 64 100000 1 3 0.00 0.0 0.00 0 45 32 3.0 99",
		"",
		"run figure value target",
		"sequencer-dies a new sequencer after 46 s ≤ 45 s MISSED",
		"sequencer-dies keys without a sequencer at the end 0 ≤ 0 met",
		"sequencer-dies median 3 s",
		"sequencer-dies p99 0 s",
		"sequencer-dies keys that lost their sequencer 2",
		"idle-8 heap of a node 41000 B ≤ 40960 B MISSED",
		"loss-1 control messages, relative to calm - ≤ 2 skipped calm was not run",
		"loss-1 control bytes, relative to calm - skipped calm was not run",
		"loss-1 share of lookups that failed 1e-05 ≤ 0.0001 met",
	}
	if err == nil || err.Error() != "2 of 4 marks missed" || strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

func TestChurnCurvesAreDrawn(t *testing.T) {
	dir := t.TempDir()
	if drawn, err := drawChurn(dir, []churn.Report{
		&churn.KilledResult{Killed: 3, Nodes: 10, Right: []float64{0.5, 0.9, 1}},
		&churn.SequencerExitResult{Mode: churn.Leaves, WithoutSequencer: 3}, // has no curve, and must not disturb the others
		&churn.SequencerExitResult{Mode: churn.Closes, Took: []float64{1, 4, 9}},
		&churn.PartitionResult{SeveralRoots: []int{3, 1, 0}, SeveralHeads: []int{3, 3, 2}},
	}); err != nil || drawn != 3 {
		t.Fatalf("%d drawn, %v", drawn, err)
	}
	for _, name := range []string{"churn-killed.svg", "churn-sequencer.svg", "churn-parted.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "churn-hops.svg")); err == nil {
		t.Error("hops are drawn of a run that measured none")
	}
}

// Results are printed before they are drawn. If there is nothing to draw, the command says so.
func TestChurnIsPrintedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := lab(t, "sim", "churn", "--out", file); code != exitFailed || out != "" || !strings.Contains(err, "folder for figures") {
		t.Errorf("exit %d, %q, %q", code, out, err)
	}
	curve := &churn.KilledResult{Scenario: "killed", Right: []float64{0.5, 1}}
	var o, e strings.Builder
	if err := (&churnCommand{Out: file}).show(stdio{&o, &e}, []churn.Report{curve}); err == nil || !strings.Contains(o.String(), "killed") {
		t.Errorf("%v, %q", err, o.String())
	}
	point := &churn.Result{Scenario: "calm", Nodes: 64, Lookups: 1}
	if err := (&churnCommand{Out: t.TempDir()}).show(stdio{&o, &e}, []churn.Report{point}); err != nil || !strings.Contains(e.String(), "nothing is drawn") {
		t.Errorf("%v, %q", err, e.String())
	}
}

// Runs that finished before an interrupt are reported.
func TestInterruptedChurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	do := func(name string, err error) churn.Run {
		return churn.Run{Name: name, Do: func(context.Context, func(float64)) (churn.Report, error) {
			if err != nil {
				cancel()
			}
			return &churn.IdleResult{Scenario: name}, err
		}}
	}
	c := churnCommand{Workers: 1}
	reports, err := c.measure(ctx, []churn.Run{do("first", nil), do("second", context.Canceled), do("third", nil)}, newProgress(nil, ""))
	if !errors.Is(err, context.Canceled) || len(reports) == 0 {
		t.Fatalf("%d reports, %v", len(reports), err)
	}
	for _, r := range reports {
		if name, _ := r.Describe(); name == "second" {
			t.Error("what was interrupted is a result")
		}
	}
}
