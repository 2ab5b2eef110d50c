package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/wire"
)

// afterStorm is a world of members that poll for each other, after a third of them died, a
// partition separated some, and the dead came back.
func afterStorm(seed uint64) *Swarm {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	network.MaintenanceInterval = 3 * time.Minute
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: network})
	s.Grow(24, 100*time.Millisecond)
	s.World.Run(time.Minute)
	rng := rand.New(rand.NewPCG(seed, 1))
	channels := longtest.Pick(8, 12)
	for i, url := range s.serveFeeds(channels, 8*time.Minute, 5) {
		for _, p := range s.Peers() {
			if rng.IntN(channels) >= i {
				p.SubscribeFeed(url)
			}
		}
	}
	s.World.Run(15 * time.Minute)
	s.lookupsMayFail = true
	for _, p := range s.Peers()[16:] {
		p.Kill(false)
	}
	s.World.Run(3 * time.Minute)
	var few, many []*Host
	for i, p := range s.Peers() {
		if i < 6 {
			few = append(few, p.Host)
		} else {
			many = append(many, p.Host)
		}
	}
	s.Partition(few, many)
	s.World.Run(6 * time.Minute)
	s.Heal()
	for _, p := range s.Peers()[16:] {
		p.Start()
	}
	s.World.Run(30 * time.Minute)
	s.CheckRanks()
	s.CheckSums()
	return s
}

// After many faults every rank is served once, by the order of the channel's sequencer, and all
// members that need the sums know them.
func TestAfterAStormEveryRankIsServedOnce(t *testing.T) {
	t.Parallel()
	s := afterStorm(1)
	ranks := 0
	for _, url := range s.feeds.urls {
		_, n, _ := s.orderInForce(s.Key(url))
		ranks += n
	}
	if ranks < 24 {
		t.Errorf("%d ranks are ordered", ranks)
	}
	report(t, s)
}
