package sim

import (
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/longtest"
)

// freezeOrigin makes a peer see the document that the origin has next, for good, as if a replica of the origin lagged.
func (p *Peer) freezeOrigin() {
	var body []byte
	p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
		if body == nil {
			body = a.Body
		}
		if a.Body != nil {
			a.Body = body
		}
		return a
	}
}

// Two owners say that items are missing, and a third one, whose copy of the origin lags, believes them. The honest sequencer
// keeps the feed, whether the two tell it what they say or the other owners only, because an owner that counts a contest tells
// the sequencer.
func TestASequencerHearsOfContests(t *testing.T) {
	t.Parallel()
	for seed := range longtest.Pick[uint64](1, 3) {
		for _, silent := range []bool{false, true} {
			s := feedSwarm(seed+1, Config{})
			s.Grow(16, 100*time.Millisecond)
			s.World.Run(20 * time.Second)
			url := s.serveFeeds(1, 10*time.Minute, 12)[0]
			near := nearestPeers(s, url)
			for _, p := range near {
				p.SubscribeFeed(url)
			}
			s.World.Run(20 * time.Minute)
			leader := near[0].ID()
			if near[15].leaderOf(url) != leader {
				t.Fatal("the nearest node does not lead the feed")
			}
			for i, p := range near[1:4] { // two liars, and an owner whose replica lags
				p.freezeOrigin()
				if i < 2 && silent {
					p.filterOutgoing = func(to env.Peer, frame []byte) []byte {
						if to.ID == leader && aboutSightings(frame) {
							return nil
						}
						return frame
					}
				}
			}
			s.World.Run(30 * time.Minute)
			if got := near[15].leaderOf(url); got != leader {
				t.Errorf("seed %d, silent %v: an honest sequencer has lost the feed", seed, silent)
			}
			for i, p := range near {
				if n := p.node.Owners.Stats().Barred; n > 0 {
					t.Errorf("seed %d, silent %v: %d bars by node %d", seed, silent, n, i)
				}
			}
			contested := 0
			for _, of := range near[15].provenances(url) {
				if of == feedtree.Contested {
					contested++
				}
			}
			if contested == 0 {
				t.Errorf("seed %d, silent %v: the log has no contest", seed, silent)
			}
		}
	}
}
