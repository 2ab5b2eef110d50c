package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// feedSwarm is a network whose channels are polled every minute.
func feedSwarm(seed uint64, c Config) *Swarm {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	c.Seed = seed
	return NewSwarm(SwarmConfig{World: c, Network: network})
}

// serveFeeds serves n feeds that gain an item every few minutes, up to a limit.
func (s *Swarm) serveFeeds(n int, every time.Duration, limit int) (urls []string) {
	for i := range n {
		url := fmt.Sprintf("http://feed%d.example/", i)
		s.Serve(url, script.NewLively(script.Config{
			Seed: s.Seed()*1000 + uint64(i), Format: script.Format(i % 3), Every: every, Limit: limit, Rebuild: 5 * time.Minute,
		}))
		urls = append(urls, url)
	}
	return urls
}

func TestItemsReachReaders(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	urls := s.serveFeeds(4, 3*time.Minute, 10)
	for i, p := range s.Peers() {
		for j, url := range urls {
			if (i+j)%2 == 0 {
				p.SubscribeFeed(url)
			}
		}
	}
	s.World.Run(45 * time.Minute)
	s.CheckReaders()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	for _, url := range urls {
		f := s.feeds.byURL[url]
		t.Logf("%s: %d polls, %d full", url, f.Polls, f.Full)
	}
}

// The main world of the end-to-end layers: 64 members and 200 channels in the long tier, 1 % loss,
// and a crash every minute. TestPartitionedFeeds also splits the network for 25 minutes, longer
// than a lease. Only one seed is run unless -seeds asks for more, because a seed of the long tier
// takes half a minute.
func TestFeedsWithCrashes(t *testing.T) {
	seeds(t, 1, 1, func(t *testing.T, seed uint64) { feedsWithCrashes(t, seed, false) })
}

func TestPartitionedFeeds(t *testing.T) {
	seeds(t, 1, 1, func(t *testing.T, seed uint64) { feedsWithCrashes(t, seed, true) })
}

func feedsWithCrashes(t *testing.T, seed uint64, partitioned bool) {
	members, channels := longtest.Pick(16, 64), longtest.Pick(9, 200)
	s := feedSwarm(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.01}})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.serveFeeds(channels, 5*time.Minute, 12)
	rng := rand.New(rand.NewPCG(seed, 5))
	for _, url := range urls {
		for range 1 + rng.Uint64()%10 {
			s.Peers()[rng.Uint64()%uint64(members)].SubscribeFeed(url)
		}
	}
	s.World.Run(time.Minute)
	if partitioned {
		var side []*Host
		for i, p := range s.Peers() {
			if i%2 == 0 {
				side = append(side, p.Host)
			}
		}
		s.Partition(side)
		s.After(25*time.Minute, s.Heal)
	}
	minutes := 30 // during which a partition heals
	if !partitioned {
		minutes = longtest.Pick(15, 30)
	}
	for range minutes {
		p := s.Peers()[rng.Uint64()%uint64(members)]
		if p.Up() {
			p.Kill(rng.Uint64()%2 == 0)
			s.After(time.Duration(rng.Uint64()%120)*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
	}
	s.World.Run(30 * time.Minute) // until all items have arrived, and some time more
	s.CheckReaders()
	sum := s.FeedStats()
	t.Logf("seed %d: %+v", seed, sum)
	for i, v := range s.Violations() {
		if i < 20 {
			t.Error(v)
		}
	}
	if len(s.Violations()) > 0 {
		t.Fatalf("%d violations", len(s.Violations()))
	}
}
