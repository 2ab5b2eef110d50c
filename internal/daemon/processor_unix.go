//go:build unix

package daemon

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of the process, on all threads.
func processorTime() time.Duration {
	var of syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &of) != nil {
		return 0
	}
	return time.Duration(of.Utime.Nano() + of.Stime.Nano())
}
