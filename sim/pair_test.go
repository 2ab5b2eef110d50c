package sim

import (
	"testing"
	"time"
)

// Many people start with two nodes. When one dies, the other goes on polling within a minute,
// although no quorum is left; and there is one log again when both are back.
func TestOneOfTwoGoesOn(t *testing.T) {
	seeds(t, 1, 3, func(t *testing.T, seed uint64) {
		s := feedSwarm(seed, Config{})
		s.Grow(2, time.Second)
		s.World.Run(30 * time.Second)
		urls := s.serveFeeds(3, 20*time.Second, 95)
		for _, p := range s.Peers() {
			for _, url := range urls {
				p.SubscribeFeed(url)
			}
		}
		s.World.Run(3 * time.Minute)
		for range 3 {
			dead := s.leader(urls[0])
			dead.Kill(true)
			s.World.Run(time.Minute)
			other := s.leader(urls[0])
			if other == nil {
				t.Fatal("no node polls a minute after one of two has died")
			}
			news := s.FeedStats().ItemsShown
			s.World.Run(3 * time.Minute)
			if n := s.FeedStats().ItemsShown - news; n < 15 { // 27 items came
				t.Errorf("%d items in three minutes", n)
			}
			dead.Start()
			s.World.Run(4 * time.Minute)
		}
		s.World.Run(10 * time.Minute)
		s.CheckReaders()
		report(t, s)
	})
}
