package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/overlay"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the worlds of one seed only")
	seedsFlag = flag.Int("seeds", 20, "how many seeds the worlds are run with")
)

// seeds runs a world with each seed; one that fails says how to replay it.
func seeds(t *testing.T, count int, world func(t *testing.T, seed uint64)) {
	t.Helper()
	first, last := uint64(1), uint64(min(count, *seedsFlag))
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("replay: go test ./sim -run '^%s$' -seed %d", t.Name()[:len(t.Name())-len(fmt.Sprintf("/seed=%d", seed))], seed)
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

// rough is the world of 64 members in which one crashes every minute and one
// frame of a hundred is lost, while messages are routed and groups multicast to.
func rough(seed uint64, messages int, minutes int) *Swarm {
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
	dice := rand.New(rand.NewPCG(seed, 64))
	s.Grow(64, time.Second)
	s.World.Run(3 * time.Minute)
	s.SetFaults(Faults{Loss: 0.01})

	groups := make([]overlay.ID, 200)
	for i := range groups {
		groups[i] = s.Key(fmt.Sprintf("http://feed%d.example/", i))
		for _, j := range dice.Perm(64)[:10+dice.IntN(31)] {
			s.Peers()[j].Subscribe(groups[i], 1+dice.IntN(3))
		}
	}
	s.World.Run(2 * time.Minute)

	length := time.Duration(minutes) * time.Minute
	for m := range minutes {
		s.After(time.Duration(m)*time.Minute+time.Duration(dice.IntN(60))*time.Second, func() {
			live := s.Live()
			p := live[dice.IntN(len(live))]
			p.Kill(dice.IntN(2) == 0)
			s.After(time.Duration(60+dice.IntN(180))*time.Second, p.Start)
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

func TestRough(t *testing.T) {
	seeds(t, 20, func(t *testing.T, seed uint64) {
		s := rough(seed, 100_000, 30)
		report(t, s)
		t.Logf("%+v", s.RouteStats())
		t.Logf("%+v", s.MailStats())
	})
}
