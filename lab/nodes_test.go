package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidings/lab/nodes"
)

// TestMain lets this test binary run as a process that holds nodes, or that serves feeds, as the
// program does.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) >= 2 && args[0] == "bench" && slices.Contains([]string{"house", "street", "liar", "watcher"}, args[1]) {
		os.Exit(run(context.Background(), args, stdio{os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

// Twelve whole nodes find each other over QUIC, and over TCP, where four of them die.
func TestNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ transport, args, keys string }{
		{"quic", "--phase join --rest 1s", "phase transport nodes seed right_s curve count_error busy idle"},
		{"tcp", "--phase closed --kill 4", "phase transport nodes killed seed right_s curve count_error"},
	} {
		t.Run(c.transport, func(t *testing.T) {
			t.Parallel()
			args := "bench nodes --nodes 12 --pause 10ms --transport " + c.transport + " --json " + c.args
			code, out, err := lab(t, strings.Fields(args)...)
			if code != exitDone && !strings.Contains(err, "marks missed") { // the machine may be busy
				t.Fatalf("exit %d, %q", code, err)
			}
			var got struct {
				Runs []map[string]any `json:"runs"`
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Runs) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			for key := range strings.FieldsSeq(c.keys) {
				if _, ok := got.Runs[0][key]; !ok {
					t.Errorf("no %s in %s", key, out)
				}
			}
			if s, _ := got.Runs[0]["right_s"].(float64); s <= 0 || s > 60 {
				t.Errorf("tables are right after %v s", s)
			}
		})
	}
}

func TestNodesAreDrawnAndJudged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	results := []nodes.Result{
		{Phase: nodes.Join, Transport: nodes.Both, Nodes: 60, RightS: 21, Busy: &nodes.Cost{RSSBytes: 11e6}, Idle: &nodes.Cost{RSSBytes: 11e6, CPUPercent: 0.5}},
		{Phase: nodes.Silent, Transport: nodes.Both, Nodes: 60, Killed: 20, RightS: 50, RightShares: []nodes.Point{{S: 1, Right: 0}, {S: 50, Right: 1}}},
		{Phase: nodes.Sequencer, Transport: nodes.QUIC, SequencerExits: []nodes.SequencerExit{
			{Mode: nodes.Leave, SequencerS: 2}, {Mode: nodes.Closed, SequencerS: 20}, {Mode: nodes.Silent, SequencerS: 30}, {Mode: nodes.Silent, SequencerS: 50},
		}},
	}
	if err := drawNodes(dir, results); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nodes-sequencer.svg", "nodes-tables.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var table strings.Builder
	if err := (&nodesCommand{}).show(&table, results); err == nil || err.Error() != "2 of 7 marks missed" {
		t.Error(err)
	}
	for _, want := range []struct {
		line    string
		verdict string
	}{
		{"tables right after the last start", "MISSED"},
		{"resident memory per node, rested", "met"},
		{"tables right after the death", "met"},
		{"new sequencer, mode leave", "met"},
		{"new sequencer, mode closed", "met"},
		{"new sequencer, mode silent", "MISSED"},
	} {
		found := false
		for line := range strings.Lines(table.String()) {
			found = found || strings.Contains(line, want.line) && strings.HasSuffix(strings.TrimSpace(line), want.verdict)
		}
		if !found {
			t.Errorf("no line %q that ends with %q in\n%s", want.line, want.verdict, table.String())
		}
	}
}

func TestNodesUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--nodes", "1"}, "--nodes 1: from 2"},
		{[]string{"--nodes", "8", "--kill", "8"}, "--kill 8: at least one"},
		{[]string{"--transport", "pigeon"}, "pigeon"},
		{[]string{"--phase", "join,nothing"}, "nothing"},
		{[]string{"--rest=-1s"}, "times must not be negative"},
		{[]string{"--phase", "sequencer", "--nodes", "12"}, "--nodes cannot be used with --phase: sequencer has 15"},
		{[]string{"--phase", "sequencer,join", "--nodes", "30", "--kill", "3"}, "--kill cannot be used with --phase"},
		{[]string{"--phase", "silent", "--rest", "1s"}, "--rest cannot be used with --phase"},
	} {
		code, out, err := lab(t, append([]string{"bench", "nodes"}, c.args...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, c.says) || strings.Count(err, "\n") != 1 {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, out, err)
		}
	}
}

// If the folder for figures cannot be created, the command says so before the work begins. Results
// are printed before they are drawn.
func TestNodesWithoutAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := lab(t, "bench", "nodes", "--out", file); code != exitFailed || out != "" || !strings.Contains(err, "folder for figures") {
		t.Errorf("exit %d, %q, %q", code, out, err)
	}
	c := nodesCommand{Out: file}
	var o strings.Builder
	results := []nodes.Result{{Phase: nodes.Silent, Transport: nodes.Both, RightShares: []nodes.Point{{S: 1, Right: 1}}}}
	if err := c.show(&o, results); err == nil || !strings.Contains(o.String(), "tables right") {
		t.Errorf("%v, %q", err, o.String())
	}
}
