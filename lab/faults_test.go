package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidings/lab/faults"
)

func TestFaultsUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--members", "3"}, "from 8"},
		{[]string{"--seeds", "0"}, "at least one"},
		{[]string{"--length", "1s"}, "at least a minute"},
		{[]string{"--for=-1h"}, "must be more than zero"},
		{[]string{"--for", "0s"}, "must be more than zero"},
		{[]string{"--fault", "flood"}, "no such kind"},
		{[]string{"--from", "18446744073709551615"}, "the last of 100 seeds"},
		{[]string{"--story", "x", "--members", "9"}, "--members cannot be used with --story"},
		{[]string{"--story", "x", "--length", "9m"}, "--length cannot be used with --story"},
		{[]string{"--story", "x", "--fault", "loss"}, "--fault cannot be used with --story"},
		{[]string{"--story", "x", "--from", "9"}, "--from cannot be used with --story"},
		{[]string{"--story", "x", "--seeds", "100"}, "--seeds cannot be used with --story"},
		{[]string{"--story", "x", "--plan"}, "--plan cannot be used with --story"},
		{[]string{"--for", "1m", "--seeds", "2"}, "--seeds cannot be used with --for"},
		{[]string{"--plan", "--json"}, "--json cannot be used with --plan"},
		{[]string{"--plan", "--out", "x"}, "--out cannot be used with --plan"},
	} {
		code, out, err := lab(t, append([]string{"sim", "faults"}, c.args...)...)
		if code != exitUsage || !strings.Contains(err, c.says) || out != "" {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, out, err)
		}
	}
	flood := filepath.Join(t.TempDir(), "flood.txt")
	if err := os.WriteFile(flood, []byte("seed 1 members 8 length 2m\n1m flood\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ story, says string }{
		{"there is none", "read the scenario"},
		{flood, "no kind of fault"},
	} {
		code, _, err := lab(t, "sim", "faults", "--story", c.story)
		if code != exitFailed || !strings.Contains(err, c.says) || strings.Contains(err, "worlds") {
			t.Errorf("%s: exit %d, %q", c.story, code, err)
		}
	}
}

// The JSON object has the keys that scripts rely on, the table has a line for each kind, and
// figures are drawn.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	small := []string{"sim", "faults", "--members", "16", "--length", "3m", "--seeds", "2", "--fault", "crash", "--fault", "loss", "--out", dir}
	code, out, err := lab(t, append(small, "--json")...)
	if code != exitDone || err != "" {
		t.Fatalf("exit %d, %q", code, err)
	}
	var got struct {
		Sums []map[string]any `json:"sums"`
		Runs []map[string]any `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Runs) != 2 || len(got.Sums) < 2 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, key := range []string{"scenario", "seed", "published", "delivered", "lost", "duplicates", "heal_s", "trace_hash"} {
		if _, ok := got.Runs[0][key]; !ok {
			t.Errorf("no %s in %s", key, out)
		}
	}
	code, out, err = lab(t, small...)
	if code != exitDone || err != "" || !strings.Contains(out, "\ncrash ") || !strings.Contains(out, "\nall ") {
		t.Errorf("exit %d, %q\n%s", code, err, out)
	}
	for _, name := range []string{"faults-heal.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failed run is printed at once, its command is in the table, and the exit code is 1. The reduced
// scenario has only the faults that matter. The run never recovered, and is drawn so.
func TestFaultsThatAreFound(t *testing.T) {
	dir := t.TempDir()
	story := filepath.Join(dir, "story.txt")
	text := "seed 1 members 8 length 2m\n10s loss lasts=5s loss=0.01\n1m pause lasts=1h hosts=3 # longer than anybody waits\n"
	if err := os.WriteFile(story, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"sim", "faults", "--story", story, "--thin", "--out", filepath.Join(dir, "figures")}
	code, out, err := lab(t, args...)
	if code != exitFailed || !strings.HasPrefix(err, "seed 1: ") || !strings.Contains(err, "3 of 3 marks missed") || !strings.Contains(out, "of 1; the first has seed 1") {
		t.Errorf("exit %d, %q", code, err)
	}
	if !strings.Contains(out, "tidings-lab sim faults --story "+story) || !strings.Contains(out, "pause lasts=1h0m0s") || strings.Contains(out, "loss=") {
		t.Errorf("%s", out)
	}
	if _, all, _ := strings.Cut(out, "\nall "); !strings.HasSuffix(strings.Join(strings.Fields(strings.SplitN(all, "\n", 2)[0]), " "), " - - - 1") {
		t.Errorf("it is reported as recovered:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "figures", "faults-heal.svg")); err != nil {
		t.Error(err)
	}
	_, out, _ = lab(t, append(args, "--json")...)
	var got struct {
		Sums, Runs []map[string]any
		Thinned    struct{ Violated, Story string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Thinned.Violated == "" || !strings.Contains(got.Thinned.Story, "pause lasts=1h0m0s") {
		t.Errorf("%v: %s", err, out)
	}
}

// If the folder for figures cannot be created, the command says so before the work begins. Results
// are printed before they are drawn.
func TestFaultsWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := lab(t, "sim", "faults", "--out", file); code != exitFailed || out != "" || !strings.Contains(err, "folder for figures") {
		t.Errorf("exit %d, %q, %q", code, out, err)
	}
	for _, asJSON := range []bool{false, true} {
		c := faultsCommand{reporter: reporter{JSON: asJSON}, Out: file}
		var o, e bytes.Buffer
		results := []faults.Result{{Scenario: "crash", Seed: 7, Recovered: true}}
		stopped := errors.New("interrupted")
		err := c.show(t.Context(), stdio{&o, &e}, nil, results, stopped)
		if !errors.Is(err, stopped) || !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(o.String(), "crash") {
			t.Errorf("JSON %v: %v, %q", asJSON, err, o.String())
		}
	}
}

func TestPlansArePrinted(t *testing.T) {
	code, out, err := lab(t, "sim", "faults", "--plan", "--seeds", "2", "--from", "7", "--fault", "halves")
	if code != exitDone || err != "" || !strings.Contains(out, "seed 7 members 64 length 30m0s\n") || !strings.Contains(out, "seed 8 ") || !strings.Contains(out, " halves lasts=") {
		t.Errorf("exit %d, %q\n%s", code, err, out)
	}
}

func TestInterruptedFaults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e bytes.Buffer
	code := run(ctx, []string{"sim", "faults", "--seeds", "3"}, stdio{&o, &e})
	if code != exitFailed || o.Len() > 0 || !strings.Contains(e.String(), "after 0 runs") {
		t.Errorf("exit %d, %q, %q", code, o.String(), e.String())
	}
}
