package loop

import (
	"sync"
	"time"
)

// A clock goes on from the wall time at which it was made, by the monotonic clock,
// so that it never goes back. That one stands still while the machine sleeps: when
// the wall has got ahead by more than aheadMost, the clock leaps after it.
type clock struct {
	begin time.Time // with its monotonic reading

	mu    sync.Mutex
	leapt time.Duration // in all
}

// aheadMost is more than clocks are corrected by, and less than anybody would want
// a node to be behind.
const aheadMost = time.Minute

func (c *clock) now() time.Time { return c.at(time.Since(c.begin), time.Now()) }

// at is what the clock shows when so much time has passed and the wall shows that.
func (c *clock) at(passed time.Duration, wall time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.begin.Round(0).Add(passed + c.leapt)
	if ahead := wall.Round(0).Sub(now); ahead > aheadMost {
		c.leapt += ahead
		now = now.Add(ahead)
	}
	return now
}
