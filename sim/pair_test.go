package sim

import (
	"testing"
	"time"
)

// Of two nodes, which most people begin with, one goes on polling within a minute when
// the other dies, though two have no quorum to spare; and all is one log again when it
// is back.
func TestOneOfTwoGoesOn(t *testing.T) {
	seeds(t, 1, 4, func(t *testing.T, seed uint64) {
		s := feedSwarm(seed, Config{})
		s.Grow(2, time.Second)
		s.World.Run(30 * time.Second)
		urls := s.lively(3, 20*time.Second, 95)
		for _, p := range s.Peers() {
			for _, url := range urls {
				p.Read(url)
			}
		}
		s.World.Run(3 * time.Minute)
		for range 3 {
			dead := s.leader(urls[0])
			dead.Kill(true)
			s.World.Run(time.Minute)
			other := s.leader(urls[0])
			if other == nil {
				t.Fatal("nobody polls a minute after one of two has died")
			}
			news := s.FeedStats().News
			s.World.Run(3 * time.Minute)
			if n := s.FeedStats().News - news; n < 15 { // 27 items came
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
