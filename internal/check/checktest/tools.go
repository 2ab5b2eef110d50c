package checktest

import (
	"os"
	"os/exec"
	"testing"
)

// Lacks ends a test that lacks something, such as a program. In CI it fails, because what tests need is installed there
// (.ci/run), and a test that does not run would prove nothing. Elsewhere it is skipped.
func Lacks(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI is to have it: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Tool returns the path of a program, which the test lacks otherwise. why says what it is needed for.
func Tool(t testing.TB, name, why string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacks(t, "%s is not installed: %s", name, why)
	}
	return path
}
