package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/lab/churn"
	"tidings/lab/mark"
)

func lab(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, stdio{&o, &e})
	return code, o.String(), e.String()
}

// shown returns the printed output of a command, with single spaces between words.
func shown(table func(printer), marks []mark.Mark) string {
	var b strings.Builder
	_ = reporter{}.report(&b, nil, table, marks) // a missed mark is an error, and is in the table
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"sim", "--help"}, exitDone, "churn"},
		{nil, exitUsage, "expected"},
		{[]string{"sim", "nothing"}, exitUsage, "nothing"},
		{[]string{"sim", "churn", "--nodes", "many"}, exitUsage, "many"},
		{[]string{"sim", "churn", "--nodes", "3"}, exitUsage, "--nodes 3: from 8"},
		{[]string{"sim", "churn", "--loss", "2"}, exitUsage, "between 0 and 1"},
	} {
		code, out, err := lab(t, c.args...)
		if code != c.code || !strings.Contains(out+err, c.says) {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, out, err)
		}
		if code != exitDone && strings.Count(err, "\n") != 1 {
			t.Errorf("%q: not one line: %q", c.args, err)
		}
	}
}

// The JSON object has the keys that scripts rely on, and the table has the targets.
func TestChurn(t *testing.T) {
	small := []string{"sim", "churn", "--nodes", "16", "--session", "10m", "--lookups", "200", "--length", "5m"}
	code, out, err := lab(t, append(small, "--json")...)
	if code != exitDone || err != "" {
		t.Fatalf("exit %d, %q", code, err)
	}
	var got struct {
		Runs []map[string]any `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Runs) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, key := range []string{
		"nodes", "session_min", "loss", "lookups", "failed", "wrong_root", "hops_mean", "msgs_per_node_s", "bytes_per_node_s",
		"contacts_mean", "join_s", "join_msgs",
	} {
		if _, ok := got.Runs[0][key]; !ok {
			t.Errorf("no %s in %s", key, out)
		}
	}
	code, out, err = lab(t, small...)
	if code != exitDone || err != "" || !strings.Contains(out, "wrong root") || !strings.Contains(out, "met") {
		t.Errorf("exit %d, %q\n%s", code, err, out)
	}
}

func TestFiguresAreDrawn(t *testing.T) {
	dir := t.TempDir()
	if _, err := drawChurn(dir, []churn.Report{
		&churn.Result{Nodes: 64, HopsMean: 1.3}, &churn.Result{Nodes: 1024, HopsMean: 2.1},
		&churn.Result{Nodes: 1024, SessionMin: 5, MsgsPerNodeS: 2}, &churn.Result{Nodes: 1024, SessionMin: 60, MsgsPerNodeS: 0.5},
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"churn-hops.svg", "churn-control.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnInterruptIsNoResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var o, e bytes.Buffer
	if code := run(ctx, []string{"sim", "churn", "--nodes", "8"}, stdio{&o, &e}); code != exitFailed || o.Len() > 0 {
		t.Errorf("exit %d, %q", code, o.String())
	}
}
