package table2

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/honeycomb"
)

// The workload has the sums of the paper's, and the popularity of its first and last channel.
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

// Feeds belong to their registrable domains, but below a public suffix each has a domain of its
// own. Budgets limit channels of crowded domains, and the others get the polls that are left.
func TestDomains(t *testing.T) {
	feeds, err := ReadDomains(strings.NewReader("domain,feeds\nwordpress.com,300\ngithub.io,299\nexample.org,1\n"))
	if err != nil || len(feeds) != 301 || feeds[0] != 300 || slices.Max(feeds[1:]) != 1 {
		t.Fatalf("%v, %v", feeds, err)
	}
	for _, bad := range []string{"", "domain,feeds\n", "domain,feeds\na.org\n", "domain,feeds\na.org,none\n", "domain,feeds\na.org,0\n"} {
		if feeds, err := ReadDomains(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, feeds)
		}
	}
	w := NewWorkload(1, 1024, 600, 600*50)
	p, channels := w.Problem(honeycomb.Lite, 30*time.Minute, 1, 0)
	free, crowded := w.PoliteBound(p, channels)
	if plain := Bound(p, channels); free != plain || slices.Contains(crowded, true) {
		t.Errorf("each of its own domain: %+v, want %+v", free, plain)
	}
	w.AssignDomains(feeds)
	bound, crowded := w.PoliteBound(p, channels)
	on, others := 0, 0 // on: a crowded domain; others: those that share another domain, and get more polls
	for i, c := range crowded {
		switch {
		case w.domains[i] == 0 && !c:
			t.Fatalf("channel %d is not on a crowded domain", i)
		case c && w.domains[i] == 0:
			on++
		case c:
			others++
		}
	}
	if on < 250 || on > 350 || bound.Detection < 3*free.Detection || bound.Polls > 1.0001*free.Polls {
		t.Errorf("%d channels on a crowded domain, %d others: %+v, without %+v", on, others, bound, free)
	}
}
