package daemon

import (
	"testing"
	"time"
)

// A feed has a heartbeat when three quarters of its interval have passed since the last push, and a failed one is tried again after a
// quarter, by the interval that the node knows then.
func TestHeartbeatsAreDue(t *testing.T) {
	began := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		interval func(passed time.Duration) time.Duration
		accepts  func(try int) bool
		during   time.Duration
		tries    int
		first    time.Duration // the second try
	}{
		{"steady", func(time.Duration) time.Duration { return time.Minute }, func(int) bool { return true }, 10 * time.Minute, 14, 45 * time.Second},
		{"failing", func(time.Duration) time.Duration { return time.Minute }, func(int) bool { return false }, 10 * time.Minute, 40, 15 * time.Second},
		{"an hour", func(time.Duration) time.Duration { return time.Hour }, func(int) bool { return true }, 6 * time.Hour, 8, 45 * time.Minute},
		{"learned with the first push", func(passed time.Duration) time.Duration {
			if passed == 0 {
				return time.Hour
			}
			return 4 * time.Second
		}, func(int) bool { return true }, time.Minute, 20, 3 * time.Second},
		{"shortened", func(passed time.Duration) time.Duration {
			if passed < 2*time.Minute {
				return time.Hour
			}
			return 20 * time.Second
		}, func(int) bool { return true }, 3 * time.Minute, 5, 2 * time.Minute},
	} {
		var plan heartbeatPlan
		var pushed time.Time
		var tries []time.Duration
		looks := 0
		for passed := time.Duration(0); passed < c.during; passed += heartbeatCheckInterval {
			now := began.Add(passed)
			if now.Before(plan.lookAt) {
				continue
			}
			looks++
			if !plan.due(now, c.interval(passed), now.Sub(pushed)) {
				continue
			}
			if tries = append(tries, passed); c.accepts(len(tries)) {
				pushed = now
			}
		}
		if len(tries) != c.tries || tries[0] != 0 || tries[1] < c.first || tries[1] > c.first+maxHeartbeatPause {
			t.Errorf("%s: %d tries, want %d, the second after %v: %v", c.name, len(tries), c.tries, c.first, tries)
		}
		if most := int(c.during/maxHeartbeatPause) + 3*len(tries) + 1; looks > most {
			t.Errorf("%s: %d looks, at most %d", c.name, looks, most)
		}
	}
}
