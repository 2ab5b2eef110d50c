package trust

import (
	"fmt"
	"testing"
	"time"
)

// If nearly all members lie, most channels have a bad majority, and those are counted apart; without liars nothing waits for
// longer than a poll, though members die. The same seed gives the same figures.
func TestStallingOwners(t *testing.T) {
	t.Parallel()
	run := func(liars float64) StallResult {
		r, err := Config{Seed: 1, Members: 12, Channels: 6, Subscriptions: 40, Liars: liars, Interval: 5 * time.Minute, Length: 8}.RunStalling(t.Context(), func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	honest, lied := run(0), run(0.8)
	if honest.Captured+honest.Seen.Never+len(honest.Wrong) > 0 || honest.LeftOut > 0 || honest.Seen.Items == 0 || honest.Seen.Longest > 1 {
		t.Errorf("without liars: %+v", honest)
	}
	if lied.Captured < 4 {
		t.Errorf("with liars: %+v", lied)
	}
	if again := run(0.8); fmt.Sprint(again) != fmt.Sprint(lied) {
		t.Errorf("the same seed: %+v and %+v", lied, again)
	}
}
