// Package longtest reads the one switch that chooses how much the tests do: the
// environment variable TIDINGS_TESTS. It also measures what hostile documents
// cost (Bounded).
//
// Without it the tests are the fast tier: every test runs, with few seeds, in
// short worlds of few nodes. "go test ./..." takes three minutes on two
// idle cores then. With TIDINGS_TESTS=long each test has all its seeds and its full
// size, which takes most of an hour of processor time. CI runs both tiers.
//
// A test asks for its size while it runs, not in the initial value of a package
// variable or a flag: go test records the variables that a running test reads, and
// takes the result of the other tier from its cache if it has not seen the question.
package longtest

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

// Switch is the environment variable that chooses the tier.
const Switch = "TIDINGS_TESTS"

// Long reports whether the long tier runs. It panics if the switch has a value
// other than "long" or the empty one: a misspelt value would otherwise run the fast
// tier and report that all is well.
func Long() bool {
	long, err := parse(os.Getenv(Switch))
	if err != nil {
		panic(err)
	}
	return long
}

// parse reads the value of the switch.
func parse(value string) (long bool, err error) {
	switch value {
	case "":
		return false, nil
	case "long":
		return true, nil
	}
	return false, fmt.Errorf("read the environment variable %s: %q is no tier; set it to \"long\", or not at all", Switch, value)
}

// Pick returns the size that a test has in the tier that runs.
func Pick[T any](fast, long T) T {
	if Long() {
		return long
	}
	return fast
}

// Prefix is what a command line that repeats a test begins with, so that the test has
// the same size again: the setting of the switch, or nothing in the fast tier.
func Prefix() string { return Pick("", Switch+"=long ") }

// Only skips a test in the fast tier. It is for measurements that show nothing at a
// smaller size, and why says what is measured; every other test uses Pick.
func Only(t testing.TB, why string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s: only with %s=long", why, Switch)
	}
}

// Main runs the tests of a package whose simulated worlds live on short-lived messages, and gives
// the garbage collector more room than usual: it costs them a sixth less. Call it from TestMain.
func Main(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	m.Run()
}
