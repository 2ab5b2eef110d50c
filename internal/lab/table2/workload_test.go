package table2

import (
	"math"
	"testing"
	"time"
)

// The workload is that of the paper: its sums, and how popular the first and the last
// channel are.
func TestPapersWorkload(t *testing.T) {
	w := Paper(1)
	if n := w.Subscriptions(); math.Abs(float64(n)-5e6) > 1000 {
		t.Errorf("%d subscriptions", n)
	}
	if first, last := w.Channels[0].Subscribers, w.Channels[len(w.Channels)-1].Subscribers; first < 7924 || first > 7925 || last < 25 || last > 26 {
		t.Errorf("%d subscribe to the most popular channel, %d to the least", first, last)
	}
	var hour, never, updates float64
	for _, c := range w.Channels {
		if c.Update < time.Hour {
			hour++
		}
		if c.Update == 7*24*time.Hour {
			never++
		}
		updates += 6 / c.Update.Hours()
	}
	if hour < 9_500 || hour > 10_500 || never < 49_000 || never > 51_000 || updates < 215_000 || updates > 225_000 {
		t.Errorf("%g channels are updated within the hour, %g never, %g updates in six hours", hour, never, updates)
	}
}

func TestEachSubscriptionIsSomeMembers(t *testing.T) {
	w := NewWorkload(3, 16, 100, 3000)
	had := make([]int, len(w.Channels))
	for _, list := range w.Memberships() {
		seen := map[int32]bool{}
		for _, s := range list {
			if seen[s.Channel] || s.Weight < 1 {
				t.Errorf("%+v", s)
			}
			seen[s.Channel] = true
			had[s.Channel] += int(s.Weight)
		}
	}
	for i, c := range w.Channels {
		if had[i] != c.Subscribers {
			t.Errorf("channel %d has %d subscribers, %d are some member's", i, c.Subscribers, had[i])
		}
	}
}

// The same arguments give the same workload, another seed another one.
func TestWorkloadIsItsSeeds(t *testing.T) {
	a, b, c := NewWorkload(1, 4, 1000, 20_000), NewWorkload(1, 4, 1000, 20_000), NewWorkload(2, 4, 1000, 20_000)
	same, other := 0, 0
	for i := range a.Channels {
		if a.Channels[i] == b.Channels[i] {
			same++
		}
		if a.Channels[i].Update != c.Channels[i].Update {
			other++
		}
	}
	if same != 1000 || other < 300 || a.ChannelID(7) != b.ChannelID(7) || a.MemberID(3) == c.MemberID(3) {
		t.Errorf("%d channels are the same for one seed, %d others for another", same, other)
	}
}
