package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/cobra/firehose"
	"tidings/internal/node"
)

// firehoseSwarm is a swarm of members some of whom are filters, with readers of some feeds.
func firehoseSwarm(t *testing.T, seed uint64, c Config, members, filters, channels int) *Swarm {
	t.Helper()
	s := feedSwarm(seed, c)
	tune := s.config.Tune
	s.config.Tune = func(c *node.Config) {
		if tune != nil {
			tune(c)
		}
		c.Firehose.Shards = firehose.DefaultShards
	}
	s.Grow(members, 100*time.Millisecond)
	for i := range filters {
		s.Peers()[i*members/filters].Filter()
	}
	s.World.Run(30 * time.Second)
	dice := rand.New(rand.NewPCG(seed, 5))
	for _, url := range s.lively(channels, 5*time.Minute, 12) {
		for range 1 + dice.IntN(4) {
			s.Peers()[dice.IntN(members)].Read(url)
		}
	}
	s.World.Run(2 * time.Minute)
	return s
}

func checkFilters(t *testing.T, s *Swarm, since, until time.Time, limit time.Duration) FilterStats {
	t.Helper()
	st := s.CheckFilters(since, until)
	slices.Sort(st.Delays)
	for i, v := range s.Wrong() {
		if i < 20 {
			t.Error(v)
		}
	}
	if st.Filters == 0 || st.Wanted == 0 || st.Got < st.Wanted {
		t.Errorf("%d filters got %d of %d", st.Filters, st.Got, st.Wanted)
	}
	if n := len(st.Delays); n > 0 {
		t.Logf("%d filters, %d of %d, %d again; p50 %v, p99 %v, most %v", st.Filters, st.Got, st.Wanted, st.Again, st.Delays[n/2], st.Delays[n*99/100], st.Delays[n-1])
		if st.Delays[n-1] > limit {
			t.Errorf("the slowest entry took %v, want at most %v", st.Delays[n-1], limit)
		}
	}
	t.Logf("%+v", st.Firehose)
	return st
}

// "Each new article must reach every filter": in a calm network, by the topic alone.
func TestFiltersGetEveryEntry(t *testing.T) {
	seeds(t, 1, func(t *testing.T, seed uint64) {
		s := firehoseSwarm(t, seed, Config{}, 48, 6, 40)
		since := s.Now()
		s.World.Run(20 * time.Minute)
		until := s.Now()
		s.World.Run(2 * time.Minute)
		checkFilters(t, s, since, until, 5*time.Second)
	})
}

// The world of TestRoughFeeds: a frame in a hundred lost, a crash a minute, silent or seen.
func TestFiltersInTroubledTimes(t *testing.T) {
	seeds(t, 1, func(t *testing.T, seed uint64) {
		const members, filters = 64, 6
		s := firehoseSwarm(t, seed, Config{Faults: Faults{Loss: 0.01}}, members, filters, 60)
		dice := rand.New(rand.NewPCG(seed, 6))
		since := s.Now()
		for range 25 {
			p := s.Peers()[dice.IntN(members)]
			if p.Up() && p.filters == nil {
				p.Kill(dice.IntN(2) == 0)
				s.After(time.Duration(dice.IntN(120))*time.Second, p.Start)
			}
			s.World.Run(time.Minute)
		}
		until := s.Now()
		s.World.Run(3 * time.Minute)
		checkFilters(t, s, since, until, time.Minute)
	})
}

// Who was away for a while gets what it missed, by the owners' digests.
func TestAFilterThatWasAway(t *testing.T) {
	seeds(t, 1, func(t *testing.T, seed uint64) {
		const members, filters = 48, 4
		s := firehoseSwarm(t, seed, Config{}, members, filters, 40)
		since := s.Now()
		s.World.Run(time.Minute)
		away := s.Peers()[members/filters] // no founder
		s.Partition([]*Host{away.Host})
		s.World.Run(20 * time.Minute)
		s.Heal()
		until := s.Now()
		s.World.Run(12 * time.Minute)
		st := checkFilters(t, s, since, until, 25*time.Minute)
		// The one that was alone has given up what it owned there.
		if want := firehose.DefaultShards * 5; st.Firehose.Served != want {
			t.Errorf("shards have %d owners in all, want %d", st.Firehose.Served, want)
		}
	})
}
