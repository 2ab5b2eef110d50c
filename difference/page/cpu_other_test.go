//go:build !unix

package page

import (
	"testing"
	"time"
)

var started = time.Now()

// cpu returns the elapsed time, which is at least the processor time of one thread.
func cpu(*testing.T) time.Duration { return time.Since(started) }
