package sim

import (
	"testing"
	"time"

	"tidings/internal/wire"
)

// The root of a feed's tree stalls as its sequencer, so it is left out of the owners and keeps no log. It still tells the next
// sequencer that the feed has readers, and that one has the feed polled. (In sim trust --scenario stall two feeds of 500
// were never polled again.)
func TestARootThatIsNoOwnerCountsReaders(t *testing.T) {
	t.Parallel()
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.MaintenanceInterval = 5*time.Minute, 5*time.Minute
	for _, seed := range []uint64{4, 25, 28} { // the root forgets the log before it tells
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: network})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 8*time.Minute, 40)[0]
		near := nearestPeers(s, url)
		for _, p := range near[8:] {
			p.SubscribeFeed(url)
		}
		s.World.Run(time.Hour)
		near[0].LieAsOwner(OwnerLies{Stall: true, Refuse: true})
		s.World.Run(45 * time.Minute)
		next := s.leader(url)
		if v, _ := next.node.Owners.View(s.Key(url)); next == near[0] || v.Weight == 0 {
			t.Errorf("seed %d: host %d leads, the root is host %d, and it counts %d readers", seed, next.Index(), near[0].Index(), v.Weight)
		}
		polls := s.feeds.byURL[url].Polls
		s.World.Run(15 * time.Minute)
		if s.feeds.byURL[url].Polls == polls {
			t.Errorf("seed %d: nobody polls the feed", seed)
		}
	}
}
