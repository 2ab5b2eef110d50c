package sim

import (
	"testing"
	"time"

	"tidings/internal/script"
	"tidings/internal/wire"
)

// In small worlds in which owners compete to be the sequencer, readers get all items once, and no
// item that was shown is lost.
func TestCompetingOwnersCostReadersNothing(t *testing.T) {
	for name, world := range map[string]func(seed uint64) *Swarm{"contested": partitionedOwners, "lossy": lossyElections, "lonely": isolatedSequencer} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 2, func(t *testing.T, seed uint64) { report(t, world(seed)) })
		})
	}
}

// partitionedOwners is a world in which a partition separates the owners of feeds again and again,
// and sequencers crash.
func partitionedOwners(seed uint64) *Swarm {
	s := feedSwarm(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02}})
	s.Grow(10, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.serveFeeds(6, 3*time.Minute, 12)
	for i, p := range s.Peers() {
		p.SubscribeFeed(urls[i%len(urls)])
		p.SubscribeFeed(urls[(i+1)%len(urls)])
	}
	s.World.Run(2 * time.Minute)
	var side []*Host
	for i, p := range s.Peers() {
		if i%2 == 0 {
			side = append(side, p.Host)
		}
	}
	for range 4 {
		s.Partition(side)
		s.World.Run(3 * time.Minute)
		s.Heal()
		for _, url := range urls[:2] {
			if p := s.leader(url); p != nil {
				p.Kill(true)
				s.After(20*time.Second, p.Start)
			}
		}
		s.World.Run(time.Minute)
	}
	s.Partition(side)
	s.World.Run(15 * time.Minute)
	s.Heal()
	s.World.Run(25 * time.Minute)
	s.CheckReaders()
	return s
}

// lossyElections is a world with so much loss that making an epoch takes longer than the next owner
// waits before it tries too.
func lossyElections(seed uint64) *Swarm {
	s := feedSwarm(seed, Config{})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.serveFeeds(10, time.Minute, 12)
	for i, p := range s.Peers() {
		p.SubscribeFeed(urls[i%len(urls)])
		p.SubscribeFeed(urls[(i+3)%len(urls)])
	}
	s.World.Run(2 * time.Minute)
	s.SetNetworkFaults(NetworkFaults{Loss: 0.3})
	for i := range 8 {
		if p := s.leader(urls[i]); p != nil {
			p.Kill(true)
			s.After(40*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
	}
	s.SetNetworkFaults(NetworkFaults{})
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	return s
}

// isolatedSequencer is a world in which the sequencer of a feed is repeatedly separated from all
// others, polls, and dies; the origin's document soon drops old items. A client joins late.
//
// Items come every three seconds, so that some come before the other owners take over.
func isolatedSequencer(seed uint64) *Swarm {
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
	late := s.Add(false, s.Peers()[0])
	late.Start()
	s.World.Run(2 * time.Minute)
	late.SubscribeFeed(url)
	for range 3 {
		p := s.leader(url)
		if p == nil {
			break
		}
		s.Partition([]*Host{p.Host})
		s.World.Run(20 * time.Second)
		p.Kill(false)
		s.Heal()
		s.World.Run(time.Minute)
		p.Start()
		s.World.Run(20 * time.Second)
	}
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	return s
}

// leader returns the sequencer of a feed, nil if there is none.
func (s *Swarm) leader(url string) *Peer {
	for _, p := range s.members {
		if p.Up() {
			if v, ok := p.node.Owners.View(s.Key(url)); ok && v.Leads {
				return p
			}
		}
	}
	return nil
}
