//go:build unix

package page

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time of the process, on all threads.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var of syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &of); err != nil {
		t.Fatal(err)
	}
	return time.Duration(of.Utime.Nano() + of.Stime.Nano())
}
