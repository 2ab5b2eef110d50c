package sim

import (
	"testing"
	"time"
)

// A node that drops messages keeps its children, and exactly those below it lack what is published.
func TestDroppersKeepTheirChildren(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1}, Network: feedSwarm(1, Config{}).config.Network})
	s.Grow(48, 100*time.Millisecond)
	s.World.Run(time.Minute)
	g := s.Key("http://group.example/")
	for _, p := range s.Peers()[:40] {
		p.JoinGroup(g, 1)
	}
	s.World.Run(2 * time.Minute)
	root := s.Root(g)
	var bad *Peer
	for _, p := range s.Live() {
		if place, _ := p.node.Scribe.Place(g); p != root && len(place.Children) > 1 {
			bad = p
		}
	}
	if bad == nil {
		t.Fatal("no node but the root has children")
	}
	bad.DropForwards()
	below := 0
	for _, p := range s.Peers()[:40] {
		if p != bad && !s.HonestPath(p, g) {
			below++
		}
	}
	children, _ := bad.node.Scribe.Place(g)
	s.Publish(root, g, 100)
	s.World.Run(5 * time.Minute)
	still, _ := bad.node.Scribe.Place(g)
	missing := 0
	for _, v := range s.Violations() {
		if v.Invariant == Lost {
			missing++
		} else {
			t.Error(v)
		}
	}
	if below == 0 || missing != below || len(still.Children) != len(children.Children) {
		t.Errorf("%d nodes below, %d lack the message; %d children before, %d after", below, missing, len(children.Children), len(still.Children))
	}
	if lost := bad.node.Scribe.Stats().Lost; lost > 0 {
		t.Errorf("the dropper counts %d lost messages", lost)
	}
}
