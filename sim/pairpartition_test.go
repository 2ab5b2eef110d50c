package sim

import (
	"testing"
	"time"

	"tidings/internal/script"
	"tidings/internal/wire"
)

func TestReadersSeeOnlyCommittedItems(t *testing.T) {
	seeds(t, 1, 3, func(t *testing.T, seed uint64) { report(t, isolatedPair(seed)) })
}

// isolatedPair is a world in which the sequencer of a feed and another of its owners, both readers,
// are repeatedly separated from all others, poll, and die. The origin's document soon drops old
// items.
func isolatedPair(seed uint64) *Swarm {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Second
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: network})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	const url = "http://short.example/"
	s.Serve(url, script.NewLively(script.Config{Seed: seed, Every: 3 * time.Second, Window: 1, Limit: 150}))
	for _, p := range s.Peers() {
		p.SubscribeFeed(url)
	}
	s.World.Run(2 * time.Minute)
	for range 3 {
		p := s.leader(url)
		if p == nil {
			break
		}
		pair := []*Peer{p, s.otherOwner(url, p)}
		s.Partition([]*Host{pair[0].Host, pair[1].Host})
		s.World.Run(20 * time.Second)
		for _, p := range pair {
			p.Kill(false)
		}
		s.Heal()
		s.World.Run(time.Minute)
		for _, p := range pair {
			p.Start()
		}
		s.World.Run(20 * time.Second)
	}
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	return s
}

// otherOwner returns an owner of a feed that is not its sequencer.
func (s *Swarm) otherOwner(url string, leader *Peer) *Peer {
	for _, p := range s.members {
		if p != leader && p.Up() {
			if v, ok := p.node.Owners.View(s.Key(url)); ok && v.Owns {
				return p
			}
		}
	}
	return nil
}
