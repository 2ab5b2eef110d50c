package node_test

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/sim"
)

// Useful peers are the members of the leaf and the table, clients and hosts. Other known peers are not
// useful.
func TestUsefulPeers(t *testing.T) {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 5, Topology: sim.Uniform(10 * time.Millisecond)}, Network: quick("sim")})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	var clients []*sim.Peer
	for range 6 {
		c := s.Add(false, s.Peers()[0])
		c.Start()
		clients = append(clients, c)
	}
	stranger := s.Add(true)
	s.World.Run(30 * time.Second)

	m := s.Peers()[1]
	ids := []env.PeerID{stranger.ID()}
	for _, p := range append(s.Peers()[2:8], clients...) {
		ids = append(ids, p.ID())
	}
	var useful []bool
	m.Do(func() { useful = m.Layers().Useful(ids) })
	if useful[0] {
		t.Error("a stranger is of use")
	}
	for i := 1; i <= 6; i++ {
		if !useful[i] {
			t.Errorf("member %d is of no use", i+1)
		}
	}
	served := 0
	for i, c := range clients {
		if acts := m.Layers().Overlay.ActsFor(c.ID()); acts != useful[7+i] {
			t.Errorf("client %d is of use: %v, though it hangs below the node: %v", i, useful[7+i], acts)
		} else if acts {
			served++
		}
		for _, h := range c.Layers().Overlay.Hosts() {
			var of []bool
			c.Do(func() { of = c.Layers().Useful([]env.PeerID{h.Peer.ID, stranger.ID()}) })
			if !of[0] || of[1] {
				t.Errorf("client %d has use for its host: %v, for a stranger: %v", i, of[0], of[1])
			}
		}
	}
	if served == 0 || served == len(clients) {
		t.Errorf("%d of %d clients hang below the node: this shows nothing", served, len(clients))
	}
}
