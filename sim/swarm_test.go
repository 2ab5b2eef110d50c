package sim

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the worlds of one seed only")
	seedsFlag = flag.Int("seeds", 0, "how many seeds the worlds are run with; 0: as many as the tier has")
)

// seeds runs a world with each seed from 1 on: as many as the tier has, unless -seeds or -seed says
// otherwise. A world that fails prints the command that replays it.
func seeds(t *testing.T, fast, long int, world func(t *testing.T, seed uint64)) {
	t.Helper()
	t.Parallel()
	first, last := uint64(1), uint64(cmp.Or(*seedsFlag, longtest.Pick(fast, long)))
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("replay: %sgo test ./sim -run '^%s$' -seed %d", longtest.Prefix(), t.Name()[:len(t.Name())-len(fmt.Sprintf("/seed=%d", seed))], seed)
				}
			}()
			world(t, seed)
		})
	}
}

// report fails the test with what the checkers found.
func report(t *testing.T, s *Swarm) {
	t.Helper()
	for i, v := range s.Violations() {
		if i == 10 {
			t.Errorf("and %d more", len(s.Violations())-i)
			break
		}
		t.Error(v)
	}
}

// crashingWorld is a world with a crash every minute and 1 % loss, while messages are routed and
// multicast. It has 64 members and 200 groups in the long tier.
func crashingWorld(seed uint64, messages int, minutes int) *Swarm {
	return crashingEvery(seed, messages, minutes, time.Minute, func(rng *rand.Rand) time.Duration {
		return time.Duration(60+rng.IntN(180)) * time.Second
	})
}

// crashingEvery is such a world with a crash every pause; a crashed member is back after the time
// that back draws.
func crashingEvery(seed uint64, messages, minutes int, pause time.Duration, back func(*rand.Rand) time.Duration) *Swarm {
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
	rng := rand.New(rand.NewPCG(seed, 64))
	members := longtest.Pick(32, 64)
	s.Grow(members, time.Second)
	s.World.Run(3 * time.Minute)
	s.SetNetworkFaults(NetworkFaults{Loss: 0.01})

	groups := make([]overlay.ID, longtest.Pick(60, 200))
	for i := range groups {
		groups[i] = s.Key(fmt.Sprintf("http://feed%d.example/", i))
		for _, j := range rng.Perm(members)[:10+rng.IntN(members/2-1)] {
			s.Peers()[j].JoinGroup(groups[i], 1+rng.IntN(3))
		}
	}
	s.World.Run(2 * time.Minute)

	length := time.Duration(minutes) * time.Minute
	for at := time.Duration(0); at < length; at += pause {
		s.After(at+time.Duration(rng.Int64N(int64(pause))), func() {
			live := s.Live()
			p := live[rng.IntN(len(live))]
			p.Kill(rng.IntN(2) == 0)
			s.After(back(rng), p.Start)
		})
	}
	for range messages {
		s.After(time.Duration(rng.Int64N(int64(length))), func() {
			live := s.Live()
			var key overlay.ID
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			s.Route(live[rng.IntN(len(live))], key)
		})
	}
	for at := time.Duration(0); at < length; at += 500 * time.Millisecond {
		s.After(at, func() {
			live := s.Live()
			s.Publish(live[rng.IntN(len(live))], groups[rng.IntN(len(groups))], 500)
		})
	}
	s.World.Run(length)
	s.SetNetworkFaults(NetworkFaults{})
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	return s
}

// Each message is acknowledged by the live root of its key within a minute, and each multicast
// reaches all subscribers once. In seed 1 a member looked up whose message went unanswered while the nearest member was coming
// back, and believed that list for the rest of the minute. The long tier routes 100,000 messages in each of eight worlds;
// -seeds 20 makes twenty of them.
func TestRoutingAndMulticastWithCrashes(t *testing.T) {
	seeds(t, 1, 4, func(t *testing.T, seed uint64) {
		s := crashingWorld(seed, longtest.Pick(4_000, 100_000), longtest.Pick(10, 30))
		report(t, s)
		r, m := s.RouteStats(), s.MulticastStats()
		t.Logf("%+v", r)
		t.Logf("%+v", m)
		if r.Acked+r.OriginDied+r.RootJustDiedFailed != r.Sent || r.OriginDied > 50 || r.RootJustDiedFailed > 5 {
			t.Errorf("routed %+v", r)
		}
		if m.Delivered+m.Excused != m.Expected || m.Excused > m.Expected/1000 {
			t.Errorf("multicast %+v", m)
		}
		if live := len(s.Live()); live != len(s.Peers()) {
			t.Errorf("%d of %d members are active in the end", live, len(s.Peers()))
		}
	})
}

// When roots die and are back before any node has noticed, no subscriber is lost.
func TestQuickRestarts(t *testing.T) {
	seeds(t, 1, 4, func(t *testing.T, seed uint64) {
		s := crashingEvery(seed, 1000, 10, 10*time.Second, func(rng *rand.Rand) time.Duration {
			return time.Duration(1+rng.IntN(5)) * time.Second
		})
		report(t, s)
		t.Logf("%+v %+v", s.RouteStats(), s.MulticastStats())
	})
}

// One seed gives one run, bit for bit.
func TestOneSeedOneTrace(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) uint64 { return crashingWorld(seed, longtest.Pick(1000, 2000), 5).TraceHash() }
	a, again, b := run(1), run(1), run(2)
	if a != again {
		t.Errorf("two runs of one seed: %x and %x", a, again)
	}
	if a == b {
		t.Errorf("two seeds gave one trace: %x", a)
	}
}

// After a partition the two halves find each other without help: each key has one root and each
// group one tree.
func TestHalvesFindEachOther(t *testing.T) {
	seeds(t, 1, 3, func(t *testing.T, seed uint64) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
		s.Grow(64, time.Second)
		s.World.Run(3 * time.Minute)
		var groups []overlay.ID
		for i := range 20 {
			g := s.Key(fmt.Sprintf("http://feed%d.example/", i))
			groups = append(groups, g)
			for j := range 64 {
				if (i+j)%3 == 0 {
					s.Peers()[j].JoinGroup(g, 1)
				}
			}
		}
		s.World.Run(2 * time.Minute)

		var half []*Host
		for _, p := range s.Peers()[:32] {
			half = append(half, p.Host)
		}
		s.Partition(half)
		for i, p := range s.Peers()[1:] { // a third of each half restarts meanwhile
			if i%3 == 0 {
				s.After(time.Duration(1+i/3)*time.Minute, func() { p.Kill(true) })
				s.After(time.Duration(2+i/3)*time.Minute, p.Start)
			}
		}
		s.World.Run(30 * time.Minute)
		s.Heal()
		healedAt := s.Now()
		whole := func() bool {
			for _, p := range s.Peers() {
				leaf := p.node.Overlay.Leaf()
				for _, q := range s.Peers() {
					if leaf.Covers(q.id) != (leaf.Has(q.id) != nil) {
						return false
					}
				}
			}
			return true
		}
		if !s.RunUntil(whole, time.Second, 5*time.Minute) {
			t.Error("leaves are still apart five minutes after healing")
		}
		healed := s.Now()
		s.violations = nil // during the partition each half had a root of its own
		s.World.Run(2 * time.Minute)
		for i := range 200 {
			s.Route(s.Peers()[i%64], s.Key(fmt.Sprint("key", i)))
		}
		for i, g := range groups {
			s.Publish(s.Peers()[i], g, 100)
		}
		s.World.Run(30 * time.Minute)
		s.CheckQuiet()
		report(t, s)
		if r, m := s.RouteStats(), s.MulticastStats(); r.Acked != 200 || m.Delivered != m.Expected || m.Excused > 0 {
			t.Errorf("routed %+v, multicast %+v", r, m)
		}
		t.Logf("leaves complete %v after healing", healed.Sub(healedAt))
	})
}
