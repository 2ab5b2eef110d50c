package sim

import (
	"testing"
	"time"
)

// Where every frame takes longer than nodes first wait for an answer, members still join, and feeds
// reach their readers, even if sequencers die.
func TestSlowLinksCostReadersNothing(t *testing.T) {
	for _, delay := range []time.Duration{900 * time.Millisecond, 1300 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) {
				s := slow(seed, delay)
				report(t, s)
				if live := len(s.Live()); live != len(s.members) {
					t.Errorf("%d of %d members are active", live, len(s.members))
				}
			})
		})
	}
}

// slow is a world in which every frame takes delay, and a sequencer dies every three minutes.
func slow(seed uint64, delay time.Duration) *Swarm {
	s := feedSwarm(seed, Config{Topology: Uniform(delay)})
	s.Grow(8, time.Second)
	s.World.Run(time.Minute)
	urls := s.serveFeeds(4, time.Minute, 25)
	for i, p := range s.Peers() {
		for j := range 2 {
			p.SubscribeFeed(urls[(i+j)%len(urls)])
		}
	}
	s.World.Run(3 * time.Minute)
	for i := range 6 {
		if p := s.leader(urls[i%len(urls)]); p != nil {
			p.Kill(true)
			s.After(150*time.Second, p.Start)
		}
		s.World.Run(3 * time.Minute)
	}
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	return s
}
