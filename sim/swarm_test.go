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

// seeds runs a world with each seed from 1 on: as many as the tier has, unless -seeds
// or -seed chooses others. A world that fails prints the command that replays it.
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
	for i, v := range s.Wrong() {
		if i == 10 {
			t.Errorf("and %d more", len(s.Wrong())-i)
			break
		}
		t.Error(v)
	}
}

// rough is the world in which a member crashes every minute and one frame of a
// hundred is lost, while messages are routed and groups multicast to. It has 64
// members and 200 groups in the long tier.
func rough(seed uint64, messages int, minutes int) *Swarm {
	return rougher(seed, messages, minutes, time.Minute, func(dice *rand.Rand) time.Duration {
		return time.Duration(60+dice.IntN(180)) * time.Second
	})
}

// rougher is such a world with a crash every pause; who crashed is back after a
// time that the dice say.
func rougher(seed uint64, messages, minutes int, pause time.Duration, back func(*rand.Rand) time.Duration) *Swarm {
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
	dice := rand.New(rand.NewPCG(seed, 64))
	members := longtest.Pick(32, 64)
	s.Grow(members, time.Second)
	s.World.Run(3 * time.Minute)
	s.SetFaults(Faults{Loss: 0.01})

	groups := make([]overlay.ID, longtest.Pick(60, 200))
	for i := range groups {
		groups[i] = s.Key(fmt.Sprintf("http://feed%d.example/", i))
		for _, j := range dice.Perm(members)[:10+dice.IntN(members/2-1)] {
			s.Peers()[j].Subscribe(groups[i], 1+dice.IntN(3))
		}
	}
	s.World.Run(2 * time.Minute)

	length := time.Duration(minutes) * time.Minute
	for at := time.Duration(0); at < length; at += pause {
		s.After(at+time.Duration(dice.Int64N(int64(pause))), func() {
			live := s.Live()
			p := live[dice.IntN(len(live))]
			p.Kill(dice.IntN(2) == 0)
			s.After(back(dice), p.Start)
		})
	}
	for range messages {
		s.After(time.Duration(dice.Int64N(int64(length))), func() {
			live := s.Live()
			var key overlay.ID
			for i := range key {
				key[i] = byte(dice.Uint32())
			}
			s.Route(live[dice.IntN(len(live))], key)
		})
	}
	for at := time.Duration(0); at < length; at += 500 * time.Millisecond {
		s.After(at, func() {
			live := s.Live()
			s.Publish(live[dice.IntN(len(live))], groups[dice.IntN(len(groups))], 500)
		})
	}
	s.World.Run(length)
	s.SetFaults(Faults{})
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	return s
}

// Each message is acknowledged by the live root of its key within a minute, and what
// is published reaches all subscribers once. The long tier routes 100,000 messages in
// each of eight worlds; -seeds 20 makes twenty of them.
func TestRough(t *testing.T) {
	seeds(t, 1, 8, func(t *testing.T, seed uint64) {
		s := rough(seed, longtest.Pick(4_000, 100_000), longtest.Pick(10, 30))
		report(t, s)
		r, m := s.RouteStats(), s.MailStats()
		t.Logf("%+v", r)
		t.Logf("%+v", m)
		if r.Acked+r.Orphaned+r.ShadowedFailed != r.Sent || r.Orphaned > 50 || r.ShadowedFailed > 5 {
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

// Roots that die and are back before anybody has noticed leave nobody behind.
func TestQuickRestarts(t *testing.T) {
	seeds(t, 1, 6, func(t *testing.T, seed uint64) {
		s := rougher(seed, 1000, 10, 10*time.Second, func(dice *rand.Rand) time.Duration {
			return time.Duration(1+dice.IntN(5)) * time.Second
		})
		report(t, s)
		t.Logf("%+v %+v", s.RouteStats(), s.MailStats())
	})
}

// One seed gives one run, bit for bit.
func TestOneSeedOneTrace(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) uint64 { return rough(seed, longtest.Pick(1000, 2000), 5).TraceHash() }
	a, again, b := run(1), run(1), run(2)
	if a != again {
		t.Errorf("two runs of one seed: %x and %x", a, again)
	}
	if a == b {
		t.Errorf("two seeds gave one trace: %x", a)
	}
}

// A network that falls apart into halves finds itself together again: one root
// for each key and one tree for each group, without anybody's help.
func TestHalvesFindEachOther(t *testing.T) {
	seeds(t, 1, 5, func(t *testing.T, seed uint64) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
		s.Grow(64, time.Second)
		s.World.Run(3 * time.Minute)
		var groups []overlay.ID
		for i := range 20 {
			g := s.Key(fmt.Sprintf("http://feed%d.example/", i))
			groups = append(groups, g)
			for j := range 64 {
				if (i+j)%3 == 0 {
					s.Peers()[j].Subscribe(g, 1)
				}
			}
		}
		s.World.Run(2 * time.Minute)

		var half []*Host
		for _, p := range s.Peers()[:32] {
			half = append(half, p.Host)
		}
		s.Partition(half)
		for i, p := range s.Peers()[1:] { // a third of each half is started anew meanwhile
			if i%3 == 0 {
				s.After(time.Duration(1+i/3)*time.Minute, func() { p.Kill(true) })
				s.After(time.Duration(2+i/3)*time.Minute, p.Start)
			}
		}
		s.World.Run(30 * time.Minute)
		s.Heal()
		parted := s.Now()
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
		s.wrong = nil // while apart, each half had a root of its own
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
		if r, m := s.RouteStats(), s.MailStats(); r.Acked != 200 || m.Delivered != m.Expected || m.Excused > 0 {
			t.Errorf("routed %+v, multicast %+v", r, m)
		}
		t.Logf("leaves whole %v after healing", healed.Sub(parted))
	})
}
