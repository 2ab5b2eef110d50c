package tidings_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The first command about tests that README.md tells a newcomer is one that CI runs, word
// for word and in an environment without settings of its own.
func TestCIRunsTheCommandOfTheREADME(t *testing.T) {
	lines := func(name string) (of []string) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(b), "\n")
	}
	const command = "go test ./..."
	readme := lines("README.md")
	if i := slices.IndexFunc(readme, func(l string) bool { return strings.Contains(l, "go test") }); i < 0 || readme[i] != "    "+command {
		t.Errorf("README.md does not tell first to run %q, on a line of its own", command)
	}
	ci := lines(".ci/run")
	if !slices.Contains(ci, command) {
		t.Errorf(".ci/run does not run %q, on a line of its own", command)
	}
	for _, l := range ci {
		if strings.Contains(l, "export GOGC") || strings.Contains(l, "export TIDINGS_TESTS") {
			t.Errorf(".ci/run sets what a newcomer does not: %s", l)
		}
	}
}
