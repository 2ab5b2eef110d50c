package quiet

import (
	"fmt"
	"testing"
	"time"
)

// Quiet readers get every item, about as soon as others, and the same seed gives the same figures.
func TestQuietReadersWaitLittle(t *testing.T) {
	t.Parallel()
	run := func() Result {
		r, err := Config{
			Seed: 2, Members: 16, Feeds: 3, Readers: 2, Interval: 2 * time.Minute, Every: 5 * time.Minute, Length: 45 * time.Minute,
		}.Run(t.Context(), func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run()
	if r.Quiet.Items < 30 || r.Quiet.Missing+r.Ordinary.Missing > 0 || r.Quiet.Mean > 1.5*r.Ordinary.Mean || r.Quiet.P99 > 1.5*r.Ordinary.P99 || len(r.Wrong) > 0 {
		t.Errorf("%+v", r)
	}
	if r.Quiet.WayMean <= r.Ordinary.WayMean || r.Circuits.Bytes == 0 || r.Circuits.Opened < 6 {
		t.Errorf("quiet readers are not behind circuits: %+v", r)
	}
	if again := run(); fmt.Sprint(again) != fmt.Sprint(r) {
		t.Errorf("the same seed: %+v and %+v", r, again)
	}
}
