package table2

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// volunteers is FeedTree's heuristic (Sandler et al., IPTPS 2005, §5), for comparison: "To
// 'overload' a feed by a factor of N, ftproxy will choose to volunteer if it observes fewer than N
// FeedTree events for that feed during its polling interval." Each member that follows a channel,
// with any number of clients, looks back at the end of each of its polling intervals. If it has
// heard of fewer than N polls of others, with or without news, it polls, and all members hear of
// that. The schedule has jitter. There is one N for all channels, as in the paper, chosen to give
// the allowed load. The fraction of N is the share of channels that have one more.
//
// Deaths, politeness, and the way of an event down its tree (seconds, relative to half hours) are
// left out.
type volunteers struct {
	load     *Workload
	interval int64
	channels []overloadedChannel
	rng      *rand.Rand
}

// An overloadedChannel is a channel with its threshold.
type overloadedChannel struct {
	channel   int32
	threshold int32  // N
	events    uint32 // that went down its tree so far
	next      intervalEnds
}

// An intervalEnd is the end of a polling interval of one member.
type intervalEnd struct {
	at     int64
	member int32
	seen   uint32 // events that had gone down the tree when the interval began
}

type intervalEnds []intervalEnd

func (t intervalEnds) Len() int           { return len(t) }
func (t intervalEnds) Less(i, j int) bool { return t[i].at < t[j].at }
func (t intervalEnds) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *intervalEnds) Push(any)          { panic("table2: members do not come") }
func (t *intervalEnds) Pop() any          { panic("table2: members do not go") }

// intervalJitter is the largest relative deviation of a polling interval.
const intervalJitter = 0.1

// newVolunteers returns the members of a workload, each of which follows its channels from a random
// time within the first interval on. Only every every-th channel is simulated.
func newVolunteers(load *Workload, interval time.Duration, n float64, every int) *volunteers {
	v := &volunteers{load: load, interval: int64(interval), rng: rand.New(rand.NewPCG(uint64(load.Seed), 0xfeed))}
	place := make([]int32, len(load.Channels))
	for i := range load.Channels {
		place[i] = -1
		if i%every == every/2 {
			place[i] = int32(len(v.channels))
			least, part := math.Modf(n)
			if v.rng.Float64() < part {
				least++
			}
			v.channels = append(v.channels, overloadedChannel{channel: int32(i), threshold: int32(least)})
		}
	}
	for member, list := range load.Memberships() {
		for _, m := range list {
			if at := place[m.Channel]; at >= 0 {
				c := &v.channels[at]
				c.next = append(c.next, intervalEnd{at: v.rng.Int64N(v.interval), member: int32(member)})
			}
		}
	}
	for i := range v.channels {
		heap.Init(&v.channels[i].next)
	}
	return v
}

// run simulates the members of a channel until a time, and reports their polls.
func (v *volunteers) run(c *overloadedChannel, until int64, polled func(poll)) {
	for len(c.next) > 0 && c.next[0].at < until {
		t := &c.next[0]
		if c.events-t.seen < uint32(c.threshold) {
			polled(poll{at: t.at, channel: c.channel, member: t.member})
			c.events++
		}
		t.seen = c.events
		t.at += int64(float64(v.interval) * (1 - intervalJitter + 2*intervalJitter*v.rng.Float64()))
		heap.Fix(&c.next, 0)
	}
}

// rate returns the mean number of polls per interval and channel, of the simulated channels, after
// an initial period.
func (v *volunteers) rate() float64 {
	const apart, counted = 4, 4 // intervals
	polls := 0
	for i := range v.channels {
		v.run(&v.channels[i], apart*v.interval, func(poll) {})
		v.run(&v.channels[i], (apart+counted)*v.interval, func(poll) { polls++ })
	}
	return float64(polls) / counted / float64(len(v.channels))
}

// overload returns the N that gives the allowed load, or, if that is less, the smallest N at which
// all members poll.
func overload(load *Workload, interval time.Duration, allowed float64) float64 {
	every := max(len(load.Channels)/sampledChannels, 1)
	lo, hi := 0., float64(load.Members)
	if newVolunteers(load, interval, hi, every).rate() < allowed {
		allowed *= math.MaxFloat64 // it cannot be reached
	}
	for range 20 {
		if n := (lo + hi) / 2; newVolunteers(load, interval, n, every).rate() < allowed {
			lo = n
		} else {
			hi = n
		}
	}
	return hi
}

// sampledChannels is about the number of channels that are simulated to find N.
const sampledChannels = 500

// volunteer measures the value of volunteers' polls.
func (s *Config) volunteer(ctx context.Context, row *Row, progress func(float64)) error {
	row.Overload = overload(s.Load, PollInterval, row.BoundLoad)
	v := newVolunteers(s.Load, PollInterval, row.Overload, 1)
	polls := newPolls(s.Load, PollInterval)
	polls.open(0)
	for hour := range s.Hours {
		until := int64(hour+1) * int64(time.Hour)
		for i := range v.channels {
			if i%1000 == 0 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				progress((float64(hour) + float64(i)/float64(len(v.channels))) / float64(s.Hours))
			}
			v.run(&v.channels[i], until, polls.note)
		}
		if hour < s.Hours/2 {
			row.Before = append(row.Before, polls.Close(until))
		}
	}
	end := int64(s.Hours) * int64(time.Hour)
	row.Channel, row.Span = polls.Channels(end), polls.Close(end)
	return nil
}
