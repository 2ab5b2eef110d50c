//go:build !unix

package page

import (
	"testing"
	"time"
)

var started = time.Now()

// cpu is the time that went by: no less than one thread can have run.
func cpu(*testing.T) time.Duration { return time.Since(started) }
