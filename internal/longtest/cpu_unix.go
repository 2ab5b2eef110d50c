//go:build unix

package longtest

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of the process, on all threads.
func processorTime() (time.Duration, error) {
	var of syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &of)
	return time.Duration(of.Utime.Nano() + of.Stime.Nano()), err
}
