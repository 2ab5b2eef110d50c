package loop

import (
	"testing"
	"time"
)

// The clock never goes back, whatever happens to the wall clock, and jumps forward after the
// machine has slept.
func TestTheClockJumpsAfterASleepAndNeverGoesBack(t *testing.T) {
	begin := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	c := clock{start: begin}
	for _, step := range []struct {
		what               string
		passed, wall, want time.Duration // since start
	}{
		{"all is well", time.Hour, time.Hour, time.Hour},
		{"the wall is corrected forward", 2 * time.Hour, 2*time.Hour + 30*time.Second, 2 * time.Hour},
		{"the machine slept for a night", 2*time.Hour + time.Second, 10 * time.Hour, 10 * time.Hour},
		{"it goes on from there", 3*time.Hour + time.Second, 11 * time.Hour, 11 * time.Hour},
		{"the wall is set back", 3*time.Hour + 2*time.Second, time.Hour, 11*time.Hour + time.Second},
		{"and right again", 4*time.Hour + 2*time.Second, 12 * time.Hour, 12*time.Hour + time.Second},
		{"a second sleep", 4*time.Hour + 3*time.Second, 24 * time.Hour, 24 * time.Hour},
	} {
		if got := c.timeAt(step.passed, begin.Add(step.wall)).Sub(begin); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
}
