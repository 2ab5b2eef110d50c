package scribe_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/node"
	"tidings/overlay"
	"tidings/sim"
)

// FeedTree, IPTPS 2005, §4.2, in a network of 64.
func TestFeedTreeOnItsSubstrate(t *testing.T) {
	t.Parallel()
	const n, trees, subscribers = 64, 64, 12
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 42}})
	s.Grow(n, 100*time.Millisecond)
	s.World.Run(3 * time.Minute)
	sum := func(of func(*node.Node) uint64) (total uint64) {
		for _, p := range s.Peers() {
			total += of(p.Layers())
		}
		return total
	}
	messages := func() uint64 { // number of messages for joins: hops of routed ones, and those of this layer
		return sum(func(n *node.Node) uint64 {
			return n.Overlay.Stats().Forwarded + n.Overlay.Stats().Routed + n.Scribe.Stats().Control
		})
	}
	before := messages()
	dice := rand.New(rand.NewPCG(4, 2))
	var groups []overlay.ID
	for i := range trees {
		groups = append(groups, s.Key(fmt.Sprintf("http://feed%d.example/", i)))
		for _, j := range dice.Perm(n)[:subscribers] {
			s.Peers()[j].JoinGroup(groups[i], 1)
		}
	}
	s.World.Run(10 * time.Second)

	// "Membership management is decentralized and requires less than log n
	// messages on average, where n is the number of nodes in the overlay."
	t.Run("membership", func(t *testing.T) {
		each := float64(messages()-before) / (trees * subscribers)
		if each >= math.Log2(n) {
			t.Errorf("%.1f messages for each subscription", each)
		}
	})

	s.World.Run(5 * time.Minute)

	// "The nodes subscribed to each group form a multicast tree, consisting of the union of Pastry
	// routes from all group members to the node with nodeId numerically closest to the groupId."
	// This package departs from it: a node on the route that has not subscribed lets the Join pass.
	// The tree consists of the subscribers and the root, and its edges still lead nearer to the
	// key.
	t.Run("tree", func(t *testing.T) {
		for _, g := range groups {
			root := s.Root(g)
			for _, p := range s.Peers() {
				place, ok := p.Layers().Scribe.Place(g)
				if !ok {
					continue
				}
				if place.Root != (p == root) || place.Root != (len(place.Parents) == 0) {
					t.Errorf("host %d in group %s: root %v, %d parents", p.Index(), g.Short(), place.Root, len(place.Parents))
				}
				if place.Own == 0 && !place.Root {
					t.Errorf("host %d forwards for group %s without having subscribed", p.Index(), g.Short())
				}
				for _, up := range place.Parents {
					if !overlay.Nearer(g, up, p.OverlayID()) {
						t.Errorf("host %d in group %s has a parent that is farther from the key", p.Index(), g.Short())
					}
				}
			}
		}
	})

	// "When there are a large number of groups in the system, as is expected in
	// FeedTree, the load is naturally balanced among the participating nodes."
	t.Run("load", func(t *testing.T) {
		edges, most, idle := 0, 0, 0
		for _, p := range s.Peers() {
			children := p.Layers().Scribe.Stats().Children
			edges += children
			most = max(most, children)
			if children == 0 {
				idle++
			}
		}
		if most > 6*edges/n || idle > n/2 {
			t.Errorf("of %d edges one node serves %d, %d nodes none", edges, most, idle)
		}
	})

	// "Scribe uses a periodic heartbeat mechanism to detect broken edges in the tree": a node that
	// loses its parent has another within three minutes, whether anything is published or not.
	t.Run("broken edges", func(t *testing.T) {
		for _, p := range s.Peers()[10:16] {
			p.Kill(false)
		}
		s.World.Run(3 * time.Minute)
		for _, g := range groups {
			s.Publish(s.Peers()[0], g, 100)
		}
		s.World.Run(6 * time.Minute)
		if m := s.MulticastStats(); m.Delivered != m.Expected || m.Delivered < trees*subscribers*3/4 {
			t.Errorf("multicast %+v", m)
		}
	})
	for _, v := range s.Violations() {
		t.Error(v)
	}
}

// A client has two parents, and counts once from the first moment on.
func TestClientCountsOnce(t *testing.T) {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 9}})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(time.Minute)
	client := s.Add(false, s.Peers()[0])
	client.Start()
	s.World.Run(time.Minute)
	for i := range 5 {
		client.JoinGroup(s.Key(fmt.Sprint(i)), 3)
	}
	for range 120 {
		s.World.Run(500 * time.Millisecond)
		for i := range 5 {
			g := s.Key(fmt.Sprint(i))
			if w, ok := s.Root(g).Layers().Scribe.Weight(g); ok && w > 3 {
				t.Fatalf("a client of weight 3 counts %d", w)
			}
		}
	}
	for i := range 5 {
		g := s.Key(fmt.Sprint(i))
		place, _ := client.Layers().Scribe.Place(g)
		if w, _ := s.Root(g).Layers().Scribe.Weight(g); w != 3 || len(place.Parents) != 2 {
			t.Errorf("counts %d, and has %d parents", w, len(place.Parents))
		}
	}
}

// A whole network restarts while a tenth of all frames are lost, and as many repeated and late.
// Batches are lost with everything in them, and in the end every tree is right.
func TestAllSubscribeAtOnceOnALossyNetwork(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 3, 5, 7} { // with the first three, children were once miscounted for long
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { allSubscribeInBadWeather(t, seed) })
	}
}

func allSubscribeInBadWeather(t *testing.T, seed uint64) {
	const n, trees = 32, 120
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: seed}})
	s.Grow(n, 100*time.Millisecond)
	s.World.Run(3 * time.Minute)
	joins := func() (joins, control uint64) {
		for _, p := range s.Peers() {
			st := p.Layers().Scribe.Stats()
			joins, control = joins+st.Joins, control+st.Control
		}
		return joins, control
	}
	_, before := joins()
	dice := rand.New(rand.NewPCG(4, 2))
	weights := map[overlay.ID]int{}
	s.World.SetNetworkFaults(sim.NetworkFaults{Loss: 0.1, Duplicate: 0.1, Reorder: 0.1})
	for i := range trees {
		g := s.Key(fmt.Sprintf("http://feed%d.example/", i))
		for _, j := range dice.Perm(n)[:n*3/4] {
			s.Peers()[j].JoinGroup(g, 1+j)
			weights[g] += 1 + j
		}
	}
	s.World.Run(5 * time.Second)
	if asked, control := joins(); asked < trees*n*3/4 || control-before > asked*5/3 {
		t.Errorf("%d Joins and what came of them are %d messages", asked, control-before)
	}
	s.World.Run(time.Minute)
	s.World.SetNetworkFaults(sim.NetworkFaults{})
	s.World.Run(3 * time.Minute)
	s.CheckQuiet()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	for g, want := range weights {
		if w, _ := s.Root(g).Layers().Scribe.Weight(g); w != want {
			t.Errorf("the root of %s counts %d, not %d", g.Short(), w, want)
		}
	}
}
