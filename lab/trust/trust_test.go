package trust

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// The expected number of captured channels is that of draws without replacement.
func TestMostAre(t *testing.T) {
	for _, c := range []struct {
		owners, liars, members int
		want                   float64
	}{
		{5, 0, 100, 0},
		{5, 2, 100, 0},
		{5, 100, 100, 1},
		{1, 30, 100, 0.3},
		{3, 2, 4, 0.5},                // 2 of the 4 ways to draw 3 of 4 have both
		{5, 300_000, 1e6, 0.16308},    // 10 p³q² + 5 p⁴q + p⁵, about
		{5, 205, 1024, 0.0578 + 1e-4}, // 20 %
	} {
		if got := mostAre(c.owners, c.liars, c.members); math.Abs(got-c.want) > 3e-4 {
			t.Errorf("most of %d owners, %d liars of %d: %.5f, want %.5f", c.owners, c.liars, c.members, got, c.want)
		}
	}
}

// If nearly all members lie, what they invent is witnessed, so the count of such items can fail. The
// same seed gives the same figures.
func TestForgedItemsAreCounted(t *testing.T) {
	t.Parallel()
	run := func(liars float64) Result {
		r, err := Config{Seed: 1, Members: 12, Channels: 3, Subscriptions: 30, Liars: liars, Interval: 5 * time.Minute, Length: 6}.Run(t.Context(), func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	honest, lied := run(0), run(0.9)
	if honest.Forged+honest.Captured+honest.ForgedWitnessed > 0 || honest.Marked == 0 || honest.Marked != honest.Pairs {
		t.Errorf("without liars: %+v", honest)
	}
	if lied.Captured != 3 || lied.ForgedInCaptured == 0 || lied.ForgedWitnessed > 0 {
		t.Errorf("with liars: %+v", lied)
	}
	if again := run(0.9); fmt.Sprint(again) != fmt.Sprint(lied) {
		t.Errorf("the same seed: %+v and %+v", lied, again)
	}
}
