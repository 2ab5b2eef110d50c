//go:build !unix

package daemon

import "time"

// processorTime returns 0, because the time is not measured on this system.
func processorTime() time.Duration { return 0 }
