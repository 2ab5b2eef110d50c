package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
)

// grown returns a quiet swarm of n members.
func grown(seed uint64, n int) *Swarm {
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
	s.Grow(n, 200*time.Millisecond)
	s.World.Run(time.Duration(n)*200*time.Millisecond + 5*time.Minute)
	return s
}

// After quiet, all members of a leaf know the same set, and the eight members nearest to any key
// are in one leaf.
func TestLeavesAreTheSameForAll(t *testing.T) {
	t.Parallel()
	for _, n := range longtest.Pick([]int{64, 160}, []int{64, 256, 1024}) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := grown(uint64(n), n)
			if live := len(s.Live()); live != n {
				t.Fatalf("%d of %d members are active", live, n)
			}
			s.checkLeaves(s.Live(), s.reportViolation)
			report(t, s)
			checkNearest(t, s, longtest.Pick(10_000, 100_000))
		})
	}
}

// checkNearest checks, for random keys, that the leaf that covers the key contains the eight
// members nearest to it.
func checkNearest(t *testing.T, s *Swarm, keys int) {
	t.Helper()
	const owners = 8
	ids := make([]overlay.ID, 0, len(s.Peers()))
	for _, p := range s.Peers() {
		ids = append(ids, p.OverlayID())
	}
	slices.SortFunc(ids, func(a, b overlay.ID) int { return slices.Compare(a[:], b[:]) })
	rng := rand.New(rand.NewPCG(s.Seed(), 8))
	for range keys {
		var key overlay.ID
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		leaf := s.Root(key).Layers().Overlay.Leaf()
		if !leaf.Covers(key) || leaf.Len() < owners {
			t.Fatalf("key %v: its root's leaf has %d members at depth %d, covers it: %v", key, leaf.Len(), leaf.Depth(), leaf.Covers(key))
		}
		// Members with a longer common prefix are nearer, so the nearest eight are all below the
		// longest prefix that holds eight.
		if d := leaf.Depth(); d > 0 {
			lo, _ := slices.BinarySearchFunc(ids, key, func(a, k overlay.ID) int { return prefixCompare(a, k, d) })
			hi := lo
			for hi < len(ids) && prefixCompare(ids[hi], key, d) == 0 {
				hi++
			}
			if hi-lo < owners {
				t.Fatalf("key %v: %d members below its leaf's %d bits", key, hi-lo, d)
			}
		}
		for _, c := range leaf.NearestN(key, owners) {
			if other := s.byID[c.ID].Layers().Overlay.Leaf(); other.Digest() != leaf.Digest() {
				t.Fatalf("key %v: two of its owners have different leaves", key)
			}
		}
	}
}

// prefixCompare orders a before, at or after all ids that share d bits with k.
func prefixCompare(a, k overlay.ID, d int) int {
	if a.Common(k) >= d {
		return 0
	}
	return slices.Compare(a[:], k[:])
}

// A network of one member works, and grows to 2, 5 and 64 without manual steps.
func TestGrowsFromOne(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 7}})
	group := s.Key("http://one.example/feed")
	for _, n := range []int{1, 2, 5, 64} {
		before := len(s.Peers())
		s.Grow(n, time.Second)
		s.World.Run(time.Duration(n-before)*time.Second + time.Minute)
		if live := len(s.Live()); live != n {
			t.Fatalf("%d of %d members are active", live, n)
		}
		for _, p := range s.Peers()[before:] {
			p.JoinGroup(group, 1)
		}
		s.World.Run(2 * time.Minute)
		for _, p := range s.Peers() {
			s.Route(p, s.Key(fmt.Sprint("key of ", p.Index(), n)))
		}
		for range 5 {
			s.Publish(s.Peers()[n-1], group, 100)
		}
		s.World.Run(2 * time.Minute)
		if r := s.RouteStats(); r.Acked != r.Sent {
			t.Errorf("%d members: %d of %d messages acknowledged", n, r.Acked, r.Sent)
		}
	}
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	report(t, s)
	if m := s.MulticastStats(); m.Delivered != m.Expected || m.Delivered != 5*(1+2+5+64) {
		t.Errorf("multicast: %+v", m)
	}
}

// A node that cannot be dialled becomes a client and subscribes through two members. When one of
// these is killed, no message is lost, and the client is counted once.
func TestClientLosesNothingWithOneOfItsMembers(t *testing.T) {
	t.Parallel()
	s := grown(3, 20)
	client := s.Add(false, s.Peers()[0], s.Peers()[1])
	client.Start()
	s.World.Run(time.Minute)
	if got := client.Layers().Overlay.State(); got != overlay.Attached {
		t.Fatalf("the node behind a NAT is %v", got)
	}
	groups := make([]overlay.ID, 5)
	for i := range groups {
		groups[i] = s.Key(fmt.Sprintf("http://feed%d.example/", i))
		client.JoinGroup(groups[i], 3)
		s.Peers()[2+i].JoinGroup(groups[i], 2)
	}
	s.World.Run(3 * time.Minute)
	for _, p := range s.Live() {
		if leaf := p.Layers().Overlay.Leaf(); leaf.Has(client.OverlayID()) != nil || p.Layers().Overlay.Count(0) != 20 {
			t.Fatalf("host %d counts the client: %d members", p.Index(), p.Layers().Overlay.Count(0))
		}
	}
	for _, g := range groups {
		if w, _ := s.Root(g).Layers().Scribe.Weight(g); w != 5 {
			t.Errorf("the root of %s counts %d clients, there are 5", g.Short(), w)
		}
	}
	hosts := client.Layers().Overlay.Hosts()
	if len(hosts) != 2 {
		t.Fatalf("%d members act for the client", len(hosts))
	}
	victim := s.byID[hosts[0].ID]
	for i := range 120 { // two minutes around the silent death
		from := s.Peers()[8+i%10]
		if from == victim {
			from = s.Peers()[18]
		}
		s.After(time.Duration(i)*time.Second, func() { s.Publish(from, groups[i%5], 200) })
	}
	s.After(30*time.Second, func() { victim.Kill(false) })
	s.World.Run(4 * time.Minute)

	got := 0
	for _, l := range s.multicasts.messages {
		if s.multicasts.has(client, l) {
			got++
		}
	}
	if got != 120 {
		t.Errorf("the client got %d of 120 messages", got)
	}
	if hosts := client.Layers().Overlay.Hosts(); len(hosts) != 2 || hosts[0].ID == victim.OverlayID() || hosts[1].ID == victim.OverlayID() {
		t.Errorf("after the death of one, %d members act for the client", len(hosts))
	}
	s.World.Run(5 * time.Minute)
	for _, g := range groups {
		want := 0
		for _, p := range s.Peers() {
			if p.Up() {
				want += p.groups[g]
			}
		}
		if w, _ := s.Root(g).Layers().Scribe.Weight(g); w != want {
			t.Errorf("the root of %s counts %d clients, there are %d", g.Short(), w, want)
		}
	}
	report(t, s)
}

// A tree has hardly more edges than subscribers, with and without children that were pushed down.
func TestEdgesPerDelivery(t *testing.T) {
	t.Parallel()
	members := longtest.Pick(80, 200)
	s := grown(200, members)
	rng := rand.New(rand.NewPCG(200, 1))
	var groups []overlay.ID
	for subscribers := 10; subscribers <= 40; subscribers++ {
		for i := range 4 {
			g := s.Key(fmt.Sprintf("http://feed.example/%d/%d", subscribers, i))
			for _, j := range rng.Perm(members)[:subscribers] {
				s.Peers()[j].JoinGroup(g, 1)
			}
			groups = append(groups, g)
		}
	}
	s.World.Run(10 * time.Minute)
	total, worst := 0.0, 0.0
	for _, g := range groups {
		e := s.EdgesPerDelivery(g)
		total += e
		worst = max(worst, e)
		for _, p := range s.Peers() {
			place, _ := p.Layers().Scribe.Place(g)
			if len(place.Children) > s.config.Network.FanOut {
				t.Errorf("host %d has %d children in one group", p.Index(), len(place.Children))
			}
		}
	}
	s.checkPaths(s.reportViolation)
	report(t, s)
	mean := total / float64(len(groups))
	t.Logf("edges per delivery: mean %.3f, worst %.3f over %d groups", mean, worst, len(groups))
	if mean > 1.1 || worst > 1.1 {
		t.Errorf("edges per delivery: mean %.3f, worst %.3f, want at most 1.1", mean, worst)
	}
}

// When subscribers leave, nodes that only forward leave the tree.
func TestForwarderHandsItsChildrenOn(t *testing.T) {
	t.Parallel()
	s := grown(40, 40)
	g := s.Key("http://popular.example/")
	for _, p := range s.Peers() {
		p.JoinGroup(g, 1)
	}
	s.World.Run(5 * time.Minute)
	for _, p := range s.Peers()[12:] {
		p.LeaveGroup(g)
	}
	s.World.Run(10 * time.Minute)
	s.checkPaths(s.reportViolation)
	report(t, s)
	if e := s.EdgesPerDelivery(g); e > 1.1 {
		t.Errorf("%.2f edges per delivery after most have left", e)
	}
	for _, p := range s.Peers()[:12] {
		p.LeaveGroup(g)
	}
	s.World.Run(5 * time.Minute)
	for _, p := range s.Peers() {
		if _, ok := p.Layers().Scribe.Place(g); ok {
			t.Errorf("host %d is still in a tree without subscribers", p.Index())
		}
	}
}
