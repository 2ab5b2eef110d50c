package sim

import (
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/wire"
)

// Members of a wedge that pass no orders on, and say that they did, keep ranks from others, so that channels are polled more
// rarely. Nobody notices, but most ranks remain.
func TestLiarsKeepRanksFromOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ share, least float64 }{{0, 0.9}, {0.1, 0.5}} { // least: share of the honest members that poll
		members, channels := longtest.Pick(48, 64), longtest.Pick(3, 5)
		network := wire.DefaultNetwork("sim")
		network.PollInterval, network.MaintenanceInterval = 5*time.Minute, 5*time.Minute
		s := NewSwarm(SwarmConfig{World: Config{Seed: 1}, Network: network})
		l := s.GrowWithLiars(members, 100*time.Millisecond, c.share, Lies{Ranks: true})
		s.World.Run(2 * time.Minute)
		urls := s.serveFeeds(channels, time.Hour, 5)
		for _, url := range urls {
			for _, p := range s.Peers() {
				p.SubscribeFeed(url)
			}
		}
		s.World.Run(30 * time.Minute)
		served, honest := 0, 0
		for _, url := range urls {
			for _, p := range s.Live() {
				if l.Has(p) {
					continue
				}
				honest++
				if _, ok := p.Layers().Corona.Slot(s.Key(url)); ok {
					served++
				}
			}
		}
		part := float64(served) / float64(honest)
		t.Logf("%d of %d members keep orders for themselves: %.0f %% of the others poll", len(l.members), members, 100*part)
		if part < c.least {
			t.Errorf("%d of %d members lie: %.2f of the others poll", len(l.members), members, part)
		}
	}
}
