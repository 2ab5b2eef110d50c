package corona

import (
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand"
	"slices"
	"time"

	"tidings/honeycomb"
)

// scenario is the paper's simulation (§5.1), as in honeycomb's tests: members, and channels with
// Zipf popularity of exponent 0.5, each led by the member nearest to its key.
type scenario struct {
	honeycomb.Problem
	members  []uint64 // sorted
	channels []honeycomb.Channel
}

func newScenario(nodes, channels int, subscriptions float64, seed int64) *scenario {
	s := &scenario{Problem: honeycomb.Problem{
		Base: 16, Nodes: nodes, Interval: 30 * time.Minute, Load: 1, Detection: 30 * time.Second,
	}}
	for i := range nodes {
		s.members = append(s.members, id("10.%d.%d.%d:4000", seed, i/256, i%256))
	}
	slices.Sort(s.members)
	dice := rand.New(rand.NewSource(seed*7919 + 17))
	sum := 0.
	for i := range channels {
		sum += 1 / math.Sqrt(float64(i+1))
	}
	between := func(lo, hi time.Duration) time.Duration {
		return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), dice.Float64()))
	}
	for i := range channels {
		c := honeycomb.Channel{
			Subscribers: math.Ceil(subscriptions / sum / math.Sqrt(float64(i+1))),
			Key:         id("http://feed%d.example/%d", i, seed),
			Update:      7 * 24 * time.Hour,
		}
		switch class := dice.Float64(); {
		case class < 0.1:
			c.Update = between(10*time.Minute, time.Hour)
		case class < 0.5:
			c.Update = between(time.Hour, 5*24*time.Hour)
		}
		s.channels = append(s.channels, c)
	}
	return s
}

func id(format string, args ...any) uint64 {
	sum := sha1.Sum(fmt.Appendf(nil, format, args...))
	return binary.BigEndian.Uint64(sum[:])
}

// cut gives all channels their choices: with a base the true wedge sizes, with zero any number of
// pollers.
func (s *scenario) cut(base int) {
	s.Granularity = honeycomb.Ranks
	if base == 0 {
		return
	}
	s.Granularity, s.Base = honeycomb.Levels, base
	digit := bits.Len(uint(base)) - 1
	for i := range s.channels {
		counts := []int{len(s.members)}
		for l := 1; l*digit <= 64 && counts[l-1] > 0; l++ {
			lo := s.channels[i].Key &^ (1<<(64-l*digit) - 1)
			from, _ := slices.BinarySearch(s.members, lo)
			to, found := slices.BinarySearch(s.members, lo|(1<<(64-l*digit)-1))
			if found {
				to++
			}
			counts = append(counts, to-from)
		}
		s.channels[i].Wedges = honeycomb.Wedges(counts)
	}
}

// homes returns the index of the member that leads each channel, the nearest by XOR.
func (s *scenario) homes() []int {
	homes := make([]int, len(s.channels))
	for i, c := range s.channels {
		for m := range s.members {
			if s.members[m]^c.Key < s.members[homes[i]]^c.Key {
				homes[i] = m
			}
		}
	}
	return homes
}
