package table2

import (
	"math"
	"testing"
	"time"

	"tidings/honeycomb"
)

// FeedTree §5: "On average, an RSS feed with a minimum polling period of T will have an effective
// FeedTree refresh period of T/N", where it has more followers than N.
func TestVolunteersOverload(t *testing.T) {
	load := NewWorkload(1, 256, 200, 20_000) // the least popular channel has 50
	for _, n := range []float64{1, 4, 20} {
		if got := newVolunteers(load, PollInterval, n, 1).rate(); got < n || got > 1.15*n+0.3 {
			t.Errorf("N = %g: %.2f polls an interval", n, got)
		}
	}
}

// Members that hear of no polls each poll for themselves, and so do all members if N is that large.
func TestVolunteersAlone(t *testing.T) {
	load := NewWorkload(1, 64, 100, 2000)
	members := 0
	for _, list := range load.Memberships() {
		members += len(list)
	}
	want := float64(members) / 100
	if got := newVolunteers(load, PollInterval, 1000, 1).rate(); math.Abs(got/want-1) > 0.02 {
		t.Errorf("%.2f polls an interval, of %.2f followers", got, want)
	}
	lone := NewWorkload(1, 64, 10, 10)
	v := newVolunteers(lone, PollInterval, 1, 1)
	for i := range v.channels {
		last := int64(0)
		v.run(&v.channels[i], 20*v.interval, func(p poll) {
			if gap := p.at - last; len(v.channels[i].next) == 1 && last > 0 && time.Duration(gap) > PollInterval*11/10 {
				t.Errorf("who reads alone waits %v", time.Duration(gap))
			}
			last = p.at
		})
	}
}

// There is an N for all channels that gives the allowed load. Its polls are worth less than
// Honeycomb's, and more than those of readers alone.
func TestVolunteersBesideHoneycomb(t *testing.T) {
	s := Config{Load: NewWorkload(1, 128, 500, 25_000), Objective: honeycomb.Lite, Scheme: Scheme{Name: feedTree}, Hours: 6, LoadShare: 0.3}
	row, err := s.Run(t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if r := row.Load / row.BoundLoad; r < 0.95 || r > 1.05 {
		t.Errorf("%.2f polls are made of the %.2f that are allowed, N = %g", row.Load, row.BoundLoad, row.Overload)
	}
	if row.Event < row.Bound || row.Event > PollInterval.Seconds()/2 || row.Detection < row.Bound || len(row.Before) != 3 || row.Updates == 0 {
		t.Errorf("%+v", row)
	}
}
