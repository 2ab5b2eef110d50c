package overlay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// grown returns a quiet swarm with the smallest possible leaves, so that the routing tables
// have entries.
func grown(n int) *sim.Swarm {
	network := wire.DefaultNetwork("paper")
	network.LeafSplit, network.LeafMerge = 9, 8
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 31}, Network: network})
	s.Grow(n, 100*time.Millisecond)
	s.World.Run(time.Duration(n)*100*time.Millisecond + 3*time.Minute)
	return s
}

func report(t *testing.T, s *sim.Swarm) {
	t.Helper()
	for _, v := range s.Violations() {
		t.Error(v)
	}
}

// Corona, NSDI 2006, §3.1 and §3.3, in a network of 120 nodes.
func TestOverlayKeepsThePromisesOfThePaper(t *testing.T) {
	t.Parallel()
	s := grown(120)
	if live := len(s.Live()); live != 120 {
		t.Fatalf("%d are active", live)
	}

	// §3.1: "The entry in the ith row and jth column of a node's routing table
	// points to a node whose identifier shares i prefix digits and whose
	// (i+1)th digit is j."
	t.Run("rows and columns", func(t *testing.T) {
		entries := 0
		for _, p := range s.Peers() {
			p.Layers().Overlay.EachEntry(func(row, col int, c *overlay.Contact) {
				entries++
				if p.OverlayID().Common(c.ID)/4 != row || c.ID.Digit(row) != col {
					t.Errorf("entry (%d, %d) of %v points to %v", row, col, p.OverlayID(), c.ID)
				}
			})
		}
		if entries < 120*8 {
			t.Errorf("%d entries in all", entries)
		}
	})

	// No entry is missing: if a member exists for a slot, the slot has an entry.
	t.Run("no entry is missing", func(t *testing.T) {
		for _, p := range s.Peers() {
			has := map[[2]int]bool{}
			p.Layers().Overlay.EachEntry(func(row, col int, _ *overlay.Contact) { has[[2]int{row, col}] = true })
			for _, q := range s.Peers() {
				row := p.OverlayID().Common(q.OverlayID()) / 4
				if p != q && !p.Layers().Overlay.Leaf().Covers(q.OverlayID()) && !has[[2]int{row, q.OverlayID().Digit(row)}] {
					t.Errorf("host %d has no entry for the slot of host %d", p.Index(), q.Index())
				}
			}
		}
	})

	// §3.1: "Essentially, the routing table defines a directed acyclic graph
	// (DAG) rooted at each node, enabling a node to reach any other node in
	// log_b N hops." One more is needed where the leaf is wider than a row.
	t.Run("hops", func(t *testing.T) {
		for i, p := range s.Peers() {
			s.Route(p, s.Peers()[(i*37+11)%120].OverlayID())
			s.Route(p, s.Key(fmt.Sprint(i)))
		}
		s.World.Run(time.Minute)
		r := s.RouteStats()
		if mean := float64(r.HopsTotal) / float64(r.Acked); r.Acked != r.Sent || mean > math.Log(120)/math.Log(16)+0.5 {
			t.Errorf("%d of %d arrived, after %.2f hops", r.Acked, r.Sent, mean)
		}
	})

	// §3.3: "the primary owner of a channel is the Corona node with the numerically closest
	// identifier to the channel's identifier. [...] These owners are the F closest neighbors
	// of the primary owner along the ring. In the event an owner fails, a new neighbor
	// automatically replaces it." Here distance is XOR, so the owners are the first members in
	// an order that all agree on.
	t.Run("owners", func(t *testing.T) {
		const owners = 5
		key := s.Key("http://example.org/feed")
		agree := func() []*overlay.Contact {
			t.Helper()
			live := s.Live()
			slices.SortFunc(live, func(a, b *sim.Peer) int {
				if overlay.Nearer(key, a.OverlayID(), b.OverlayID()) {
					return -1
				}
				return 1
			})
			of := s.Root(key).Layers().Overlay.Leaf().NearestN(key, owners)
			for i, c := range of {
				theirs := live[i].Layers().Overlay.Leaf().NearestN(key, owners)
				if c.ID != live[i].OverlayID() || !slices.EqualFunc(of, theirs, func(a, b *overlay.Contact) bool { return a.ID == b.ID }) {
					t.Errorf("owner %d of %s is %s, but disagrees", i, key.Short(), c.ID.Short())
				}
			}
			return of
		}
		was := agree()
		for _, p := range s.Peers() {
			if p.OverlayID() == was[0].ID || p.OverlayID() == was[2].ID {
				p.Kill(false)
			}
		}
		s.World.Run(2 * time.Minute)
		is := agree()
		if is[0].ID != was[1].ID || is[1].ID != was[3].ID || is[2].ID != was[4].ID {
			t.Error("the next member did not become an owner")
		}
	})

	// §3.3: "If the current contact in the routing table fails, the underlying
	// overlay automatically replaces it with another contact."
	t.Run("contacts are replaced", func(t *testing.T) {
		dead := map[overlay.ID]bool{}
		for _, p := range s.Live()[:12] {
			dead[p.OverlayID()] = true
			p.Kill(false)
		}
		s.World.Run(25 * time.Minute)
		for _, p := range s.Live() {
			has := map[[2]int]bool{}
			p.Layers().Overlay.EachEntry(func(row, col int, c *overlay.Contact) {
				has[[2]int{row, col}] = true
				if dead[c.ID] {
					t.Errorf("host %d still has %s for a contact", p.Index(), c.ID.Short())
				}
			})
			for _, q := range s.Live() {
				row := p.OverlayID().Common(q.OverlayID()) / 4
				if p != q && !p.Layers().Overlay.Leaf().Covers(q.OverlayID()) && !has[[2]int{row, q.OverlayID().Digit(row)}] {
					t.Errorf("host %d has no entry for the slot of host %d", p.Index(), q.Index())
				}
			}
		}
	})
	report(t, s)
}

// After a power failure all nodes start before the network between them works. Each acts
// alone, and none has seen another die.
func TestNodesThatStartedAloneFindEachOther(t *testing.T) {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 8}})
	s.Grow(4, time.Second)
	s.World.Run(5 * time.Minute)
	var sides [][]*sim.Host
	for _, p := range s.Peers() {
		p.Kill(false)
		sides = append(sides, []*sim.Host{p.Host})
	}
	s.Partition(sides...)
	for _, p := range s.Peers() {
		p.Start()
	}
	s.World.Run(2 * time.Minute)
	if live := len(s.Live()); live != 4 {
		t.Fatalf("%d act alone", live)
	}
	s.Heal()
	s.World.Run(10 * time.Minute)
	s.CheckQuiet()
	report(t, s)
}
