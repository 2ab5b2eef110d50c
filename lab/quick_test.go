package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"tidings/internal/longtest"
)

// Every command has --quick and --json. Its JSON object has marks of one form, and its exit code
// says whether one is missed. The marks need not be met, because the machine may be busy.
func TestQuick(t *testing.T) {
	slow := map[string]bool{ // they take more than a few seconds, so only the long tier runs them
		"sim churn": true, "sim deployment": true, "sim table2": true, "sim trust": true, "sim aim": true, "bench liars": true, "bench deployment": true, "bench firehose": true, "bench websub": true, "bench tree": true, "bench capacity": true,
	}
	var commands []string
	for _, c := range parser(t.Context(), stdio{io.Discard, io.Discard}).Model.Leaves(true) {
		commands = append(commands, c.Path())
	}
	if len(commands) != 25 {
		t.Errorf("%d commands: %q", len(commands), commands)
	}
	for _, command := range commands {
		command = strings.TrimPrefix(command, "tidings-lab ")
		t.Run(command, func(t *testing.T) {
			if slow[command] != longtest.Long() {
				t.Skip("the other tier runs it")
			}
			t.Parallel()
			args := append(strings.Fields(command), "--quick", "--json")
			if command == "sim figures" {
				args = append(args, "--out", t.TempDir())
			}
			checkQuick(t, args)
		})
	}
}

// checkQuick runs a command and checks the marks of its object.
func checkQuick(t *testing.T, args []string) {
	t.Helper()
	code, out, told := lab(t, args...)
	var object struct {
		Marks []map[string]any `json:"marks"`
	}
	if err := json.Unmarshal([]byte(out), &object); err != nil || len(object.Marks) == 0 {
		t.Fatalf("exit %d, %q, %v: %d marks in %s", code, told, err, len(object.Marks), out)
	}
	want, judged := exitDone, 0
	for _, m := range object.Marks {
		got, hasGot := m["got"]
		met, hasMet := m["met"]
		asked, isText := m["asked"].(string)
		if figure, _ := m["figure"].(string); figure == "" || !hasGot || !hasMet || !isText {
			t.Errorf("not a mark: %v", m)
		}
		if _, isNumber := got.(float64); got != nil && !isNumber {
			t.Errorf("a figure that is no number: %v", m)
		}
		switch met {
		case true, false:
			judged++
			if asked == "" {
				t.Errorf("nothing is asked, and it is judged: %v", m)
			}
			if met == false {
				want = exitFailed
			}
		case nil:
		default:
			t.Errorf("neither met nor missed: %v", m)
		}
	}
	if judged == 0 {
		t.Errorf("no mark is judged: %s", out)
	}
	if code != want || (code == exitFailed) != strings.Contains(told, " marks missed") {
		t.Errorf("exit %d, want %d: %q", code, want, told)
	}
}

// The values that --quick sets are defaults, and flags on the command line override them.
func TestQuickSetsFlags(t *testing.T) {
	k, err := parser(t.Context(), stdio{io.Discard, io.Discard}).Parse(strings.Fields("sim publishing --quick --feeds 3"))
	if err != nil {
		t.Fatal(err)
	}
	c := k.Selected().Target.Addr().Interface().(*publishingCommand)
	if c.Nodes != 24 || c.Feeds != 3 || len(c.Scenario) != 3 {
		t.Errorf("%+v", c)
	}
	if _, out, _ := lab(t, "sim", "publishing", "--help"); !strings.Contains(strings.Join(strings.Fields(out), " "), "--nodes 24 --feeds 2") {
		t.Errorf("the help does not say what --quick sets:\n%s", out)
	}
	for _, command := range []string{"bench crawl", "eval difference"} {
		if code, _, err := lab(t, strings.Fields(command)...); code != exitUsage || !strings.Contains(err, "--data is missing") {
			t.Errorf("%s without --data: exit %d, %q", command, code, err)
		}
	}
}
