package loop

import (
	"sync"
	"time"
)

// A clock continues from the wall time at its creation by the monotonic clock, so that it never
// goes back. The monotonic clock stops while the machine sleeps: when the wall clock is ahead by
// more than maxLag, the clock jumps to the wall time.
type clock struct {
	start time.Time // wall time at creation, with its monotonic reading

	mu      sync.Mutex
	skipped time.Duration // sum of all jumps
}

// maxLag is longer than the usual corrections of a wall clock, and shorter than a delay that would
// harm a node.
const maxLag = time.Minute

func (c *clock) now() time.Time { return c.timeAt(time.Since(c.start), time.Now()) }

// timeAt returns the time for a given monotonic time since start and a given wall time.
func (c *clock) timeAt(passed time.Duration, wall time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.start.Round(0).Add(passed + c.skipped)
	if ahead := wall.Round(0).Sub(now); ahead > maxLag {
		c.skipped += ahead
		now = now.Add(ahead)
	}
	return now
}
