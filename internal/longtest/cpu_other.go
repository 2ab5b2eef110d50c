//go:build !unix

package longtest

import "time"

var started = time.Now()

// processorTime returns the elapsed time, which is at least the processor time of one thread.
func processorTime() (time.Duration, error) { return time.Since(started), nil }
