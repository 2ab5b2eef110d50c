package honeycomb

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand"
	"slices"
	"testing"
	"time"
)

// A scenario is the paper's simulation (§5.1): members, and channels with a popularity of
// Zipf's exponent 0.5. Of update intervals the paper only says that a tenth are below an hour
// and half are never seen to change; the distribution below an hour is our choice.
type scenario struct {
	Problem
	members  []uint64 // sorted
	channels []Channel
}

func newScenario(nodes, channels int, subscriptions float64, seed int64) *scenario {
	s := &scenario{Problem: Problem{Base: 16, Nodes: nodes, Interval: 30 * time.Minute, Load: 1, Detection: 30 * time.Second}}
	for i := range nodes {
		s.members = append(s.members, id("10.%d.%d.%d:4000", seed, i/256, i%256))
	}
	slices.Sort(s.members)
	rng := rand.New(rand.NewSource(seed*7919 + 17))
	sum := 0.
	for i := range channels {
		sum += 1 / math.Sqrt(float64(i+1))
	}
	for i := range channels {
		whole, part := math.Modf(subscriptions / sum / math.Sqrt(float64(i+1)))
		if rng.Float64() < part {
			whole++
		}
		s.channels = append(s.channels, Channel{Subscribers: whole, Key: id("http://feed%d.example/%d", i, seed)})
	}
	between := func(lo, hi time.Duration) time.Duration {
		return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), rng.Float64()))
	}
	for i := range s.channels {
		switch class := rng.Float64(); {
		case class < 0.1:
			s.channels[i].Update = between(10*time.Minute, time.Hour)
		case class < 0.5:
			s.channels[i].Update = between(time.Hour, 5*24*time.Hour)
		default:
			s.channels[i].Update = 7 * 24 * time.Hour
		}
	}
	return s
}

func id(format string, args ...any) uint64 {
	sum := sha1.Sum(fmt.Appendf(nil, format, args...))
	return binary.BigEndian.Uint64(sum[:])
}

// counts returns how many members share l digits of that many bits with a key.
func (s *scenario) counts(key uint64, digit int) []int {
	counts := []int{len(s.members)}
	for l := 1; l*digit <= 64 && counts[l-1] > 0; l++ {
		lo := key &^ (1<<(64-l*digit) - 1)
		hi := lo | (1<<(64-l*digit) - 1)
		from, _ := slices.BinarySearch(s.members, lo)
		to, found := slices.BinarySearch(s.members, hi)
		if found {
			to++
		}
		counts = append(counts, to-from)
	}
	return counts
}

// trueWedges sets the wedges of all channels to their actual sizes.
func (s *scenario) trueWedges(base int) {
	s.Base = base
	for i := range s.channels {
		s.channels[i].Wedges = Wedges(s.counts(s.channels[i].Key, bits.Len(uint(base))-1))
	}
}

// estimatedWedges sets the wedges of all channels to the paper's estimate, and gives orphans
// none.
func (s *scenario) estimatedWedges(base int) (orphans int) {
	s.Base = base
	believed := s.EstimatedWedges()
	levels := len(believed) - 1 // K
	for i := range s.channels {
		s.channels[i].Wedges = believed
		if counts := s.counts(s.channels[i].Key, bits.Len(uint(base))-1); len(counts) < levels || counts[levels-1] == 0 {
			s.channels[i].Wedges = nil
			orphans++
		}
	}
	return orphans
}

// homes returns the channels of each member, which are those closest to it by XOR.
func (s *scenario) homes() [][]Channel {
	homes := make([][]Channel, len(s.members))
	for _, c := range s.channels {
		best := 0
		for m := range s.members {
			if s.members[m]^c.Key < s.members[best]^c.Key {
				best = m
			}
		}
		homes[best] = append(homes[best], c)
	}
	return homes
}

// solved decides for the whole network at once and measures the result.
func (s *scenario) solved(t testing.TB) (Solution, Measurement) {
	sol, err := Solve(&s.Problem, s.channels, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sol, Measure(&s.Problem, s.channels, func(i int) float64 { return sol.Pollers(&s.Problem, s.channels, i) })
}

// near fails the test unless got is within a fraction of want.
func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if !(math.Abs(got-want) <= part*want) {
		t.Errorf("%s: %.4g, want %.4g within %g %%", what, got, want, 100*part)
	}
}
