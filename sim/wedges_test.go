package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/wire"
)

// Members poll for each other, in total as often as their readers would alone: by ranks, by the
// paper's own scheme, and by schemes in between.
func TestMembersPollForEachOther(t *testing.T) {
	t.Parallel()
	members, channels := longtest.Pick(16, 24), longtest.Pick(6, 12)
	for name, c := range map[string]struct {
		choices     wire.Choices
		least, most float64 // polls relative to those that readers would make alone
	}{
		"bound":  {wire.Bound, 0.9, 1.05}, // the load limit is in polls
		"random": {wire.Choices{Wedge: "base2", Clusters: "paper", Phases: "random", Decide: "sequencer"}, 0.3, 1.1},
		"paper":  {wire.Paper, 0.05, 1.1}, // levels of 1, 24/16 and 24 members: the last is mostly too large
	} {
		t.Run(name, func(t *testing.T) {
			if name != "bound" {
				longtest.Only(t, "so few members cannot divide polls by levels")
			}
			network := wire.DefaultNetwork("sim")
			network.PollInterval = time.Minute
			network.Wedge, network.Clusters, network.Phases, network.Decide = c.choices.Wedge, c.choices.Clusters, c.choices.Phases, c.choices.Decide
			s := NewSwarm(SwarmConfig{World: Config{Seed: 1}, Network: network})
			s.Grow(members, 100*time.Millisecond)
			s.World.Run(time.Minute)
			urls := s.serveFeeds(channels, 8*time.Minute, 5)
			rng := rand.New(rand.NewPCG(1, 1))
			readers := 0
			for i, url := range urls {
				for _, p := range s.Peers() {
					if rng.IntN(channels) >= i {
						p.SubscribeFeed(url)
						readers++
					}
				}
			}
			s.World.Run(time.Hour) // six rounds of decisions
			polled := func() (n int) {
				for _, url := range urls {
					n += s.feeds.byURL[url].Polls
				}
				return n
			}
			before := polled()
			s.World.Run(30 * time.Minute)
			s.CheckReaders()
			for _, v := range s.Violations() {
				t.Error(v)
			}
			for _, url := range urls {
				n, served := 0, 0
				for _, p := range s.Peers() {
					if v, ok := p.Layers().Corona.View(s.Key(url)); ok {
						n += v.State.Pollers
					}
					if _, ok := p.Layers().Corona.Slot(s.Key(url)); ok {
						served++
					}
				}
				t.Logf("%s: %d pollers ordered, %d poll", url, n, served)
				if off := n - served; name != "paper" && (off < -1 || off > 1) {
					t.Errorf("%s: %d pollers ordered, %d poll", url, n, served)
				}
			}
			polls := float64(polled()-before) / 30
			t.Logf("%d readers, %.1f polls in an interval", readers, polls)
			if x := polls / float64(readers); x < c.least || x > c.most {
				t.Errorf("%.2f of the polls that readers would make alone, want %v to %v", x, c.least, c.most)
			}
		})
	}
}
