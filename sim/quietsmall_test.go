package sim

import (
	"testing"
	"time"

	"tidings/internal/wire"
)

// A quiet reader in the smallest network that has a circuit gets its items, whichever of the members own the feed.
func TestQuietReadersOfASmallNetwork(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4, 5} {
		s := idSwarm(uint64(n), wire.KeyIDs)
		s.Grow(n, 100*time.Millisecond)
		s.World.Run(time.Minute)
		url := s.serveFeeds(1, 3*time.Minute, 10)[0]
		s.Peers()[0].SubscribeFeed(url)
		s.World.Run(5 * time.Minute)
		reader := s.Peers()[n-1]
		reader.SubscribeQuietly(url)
		took := time.Duration(0)
		for ; took < 30*time.Minute && len(reader.subscriptions[url].firstShown) == 0; took += 10 * time.Second {
			s.World.Run(10 * time.Second)
		}
		if took > time.Minute {
			t.Errorf("%d nodes: the first item came after %v", n, took)
		}
		s.World.Run(45 * time.Minute)
		s.CheckReaders()
		report(t, s)
	}
}
