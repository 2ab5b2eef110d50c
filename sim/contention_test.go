package sim

import (
	"testing"
	"time"

	"tidings/internal/script"
	"tidings/internal/wire"
)

// Small worlds in which owners quarrel about who leads: readers get all items
// once, and nothing that anybody was shown is forgotten.
func TestQuarrelsOfOwnersCostReadersNothing(t *testing.T) {
	for name, world := range map[string]func(seed uint64) *Swarm{"contested": contested, "lossy": lossy, "lonely": lonely} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 1, 3, func(t *testing.T, seed uint64) { report(t, world(seed)) })
		})
	}
}

// contested is a world in which the owners of feeds are parted and meet again, and
// the sequencers crash.
func contested(seed uint64) *Swarm {
	s := feedSwarm(seed, Config{Faults: Faults{Loss: 0.02}})
	s.Grow(10, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.lively(6, 3*time.Minute, 12)
	for i, p := range s.Peers() {
		p.Read(urls[i%len(urls)])
		p.Read(urls[(i+1)%len(urls)])
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

// lossy is a world in which so much is lost that to make an epoch takes longer than
// the next owner waits before it tries too.
func lossy(seed uint64) *Swarm {
	s := feedSwarm(seed, Config{})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	urls := s.lively(10, time.Minute, 12)
	for i, p := range s.Peers() {
		p.Read(urls[i%len(urls)])
		p.Read(urls[(i+3)%len(urls)])
	}
	s.World.Run(2 * time.Minute)
	s.SetFaults(Faults{Loss: 0.3})
	for i := range 8 {
		if p := s.leader(urls[i]); p != nil {
			p.Kill(true)
			s.After(40*time.Second, p.Start)
		}
		s.World.Run(time.Minute)
	}
	s.SetFaults(Faults{})
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	return s
}

// lonely is a world in which the sequencer of a feed is parted from all others,
// polls, and dies, again and again; items roll off the origin's document soon. A
// client comes late.
//
// Items come every three seconds, so that some do before the others take over.
func lonely(seed uint64) *Swarm {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Second
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: network})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	const url = "http://short.example/"
	s.Serve(url, script.NewLively(script.Config{Seed: seed, Every: 3 * time.Second, Window: 1, Limit: 150}))
	for _, p := range s.Peers() {
		p.Read(url)
	}
	late := s.Add(false, s.Peers()[0])
	late.Start()
	s.World.Run(2 * time.Minute)
	late.Read(url)
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

// leader is the member that polls a feed, nil if none does.
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
