package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/lab/table2"
)

func TestTable2Usage(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"--objective light", `objective "light" is none of lite, fast`},
		{"--scheme corona", `no scheme "corona"; the schemes are legacy, paper-formula`},
		{"--nodes 8", "from 16 to"},
		{"--nodes 0", "from 16 to"},
		{"--hours 0", "must be more than zero"},
		{"--part 0", "from 0.001 to 1"},
		{"--channels=-1", "at least one"},
		{"--hours 1", "at least two"},
		{"--formulas=-1", "must not be negative"},
		{"--dead 0.3,0.1", "in increasing order"},
		{"--domains domains.csv --hours 4", "at least 6 hours at --maintenance 1h0m0s"},
	} {
		code, out, err := lab(t, append([]string{"sim", "table2"}, strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, err)
		}
	}
}

// The table has a row for each objective and scheme, with the paper's figures and the bounds. What
// is computed needs no world. Figures are drawn as well.
func TestTable2(t *testing.T) {
	args := []string{"sim", "table2", "--nodes", "24", "--channels", "60", "--subscriptions", "1200", "--hours", "2", "--formulas", "1"}
	out := filepath.Join(t.TempDir(), "figures")
	code, printed, err := lab(t, append(args, "--objective", "lite,fair", "--scheme", "legacy,paper-formula,rank-cut-coordinated", "--json", "--out", out)...)
	var got table2Result
	if bad := json.Unmarshal([]byte(printed), &got); code != exitDone || err != "" || bad != nil {
		t.Fatalf("exit %d, %q, %v: %s", code, err, bad, printed)
	}
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, r.Objective+" "+r.Scheme)
		switch {
		case r.Nodes != 24 || r.Channels != 60 || r.Paper == 0 || r.PaperLoad == 0 || r.Bound <= 0:
			t.Errorf("%+v", r)
		case r.Scheme == "legacy" && (r.Detection != 900 || r.Load < 15 || r.Load > 21):
			t.Errorf("who polls for himself waits %.1f s, at %.2f polls", r.Detection, r.Load)
		case r.Scheme != "legacy" && (r.Detection < r.Bound || r.Detection > 900 || math.IsNaN(r.Load)):
			t.Errorf("%+v", r)
		}
	}
	if want := "lite legacy, lite paper-formula, lite rank-cut-coordinated, fair legacy, fair paper-formula, fair rank-cut-coordinated"; strings.Join(rows, ", ") != want {
		t.Errorf("%v, want %s", rows, want)
	}
	if len(got.Formulas) != 5 || got.Seed != 1 || got.Wall <= 0 {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"table2-lite.svg", "table2-fair.svg"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// With budgets the default number of hours is large enough, and a smaller one is refused.
func TestTable2HoursOfDomains(t *testing.T) {
	for _, c := range []struct {
		of   table2Command
		want int
	}{
		{table2Command{reporter: reporter{Quick: true}, Maintenance: time.Hour}, 3},
		{table2Command{reporter: reporter{Quick: true}, Maintenance: time.Hour, Domains: "f"}, 6},
		{table2Command{reporter: reporter{Quick: true}, Maintenance: 10 * time.Minute, Domains: "f"}, 3},
		{table2Command{Maintenance: 2 * time.Hour, Domains: "f"}, 12},
		{table2Command{Hours: 8, Maintenance: time.Hour, Domains: "f"}, 8},
	} {
		if got := c.of.sized().Hours; got != c.want {
			t.Errorf("%+v: %d hours, want %d", c.of, got, c.want)
		}
	}
}

// The formula is printed for every seed. Its target is only for seeds with as many orphans as, by
// our inference, the paper's simulation has.
func TestTable2SaysThatItDoesNotCompare(t *testing.T) {
	few := &table2Result{Formulas: []table2.Formula{{Seed: 1, Objective: "lite", Orphans: 0.002, Detection: 26.5}}}
	table := shown(func(line printer) { printTable2(line, few) }, marksOf(few))
	for _, want := range []string{
		"\nlite 1 0.20 0.00 26.5 0.500\n", "That it is 1 to 1.4 % is our inference", "skipped no seed is in this range of orphans, which is our inference\n", "all seeds 0.5\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// Each figure is printed with its target and whether it is met.
func TestTable2Marks(t *testing.T) {
	row := &table2.Row{Objective: "lite", Scheme: "rank-cut-coordinated", Bound: 16, BoundLoad: 50}
	row.Detection, row.Load, row.Evenness, row.MemberMax = 16.1, 50.5, 1.02, 1.5
	result := &table2Result{Rows: []*table2.Row{row}, Formulas: []table2.Formula{
		{Seed: 1, Objective: "lite", Orphans: 0.012, Detection: 54},
		{Seed: 2, Objective: "lite", Orphans: 0.002, Detection: 20},
		{Seed: 1, Objective: "fast", Orphans: 0.012, Detection: 36},
		{Seed: 1, Objective: "fair", Orphans: 0.012, Detection: 36},
	}}
	table := shown(func(line printer) { printTable2(line, result) }, marksOf(result))
	for _, want := range []string{
		"lite the paper's formula, relative to its figure, seeds with 1 to 1.4 % of orphans 1.019 0.95 … 1.05 met 1 of 2 seeds; this range of orphans is our inference",
		"lite the paper's formula, relative to its figure, all seeds 0.6981",
		"fast the paper's formula, relative to its figure, seeds with 1 to 1.4 % of orphans 1.125 0.95 … 1.05 MISSED 1 of 1 seeds; this range of orphans is our inference",
		"lite detection, relative to the bound 1.006 ≤ 1.061 met", "lite load, relative to the allowed load 1.01 0.995 … 1 MISSED", "lite evenness 1.02 ≤ 1.03 met",
		"lite polls per member, maximum by mean 1.5 ≤ 1.4 MISSED",
	} {
		if !strings.Contains(table, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "fair the paper's formula") {
		t.Errorf("the paper's updates of Fair are not published:\n%s", table)
	}
}
