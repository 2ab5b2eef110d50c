// Package firehose measures whether every filter gets every item of all feeds, and how fast. It
// uses the real nodes of package sim, whose topics model how GossipSub fails to reach members
// without connections.
package firehose

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/cobra/firehose"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/sim"
)

// A Config describes a run.
type Config struct {
	Seed     uint64
	Members  int
	Filters  int
	Channels int
	Length   time.Duration // in which items count
	Loss     float64       // of all frames, including those of topics
	Session  time.Duration // median stay of members, filters included; 0: no member leaves
}

// A Result is the outcome. Its fields are its JSON.
type Result struct {
	Seed       uint64         `json:"seed"`
	Members    int            `json:"nodes"`
	Filters    int            `json:"filters"` // filters that were up all the time
	Channels   int            `json:"channels"`
	Loss       float64        `json:"loss"`
	SessionMin float64        `json:"session_min"`
	Expected   int            `json:"wanted"` // pairs of a filter and an item
	Delivered  int            `json:"got"`
	Twice      int            `json:"twice"` // entries that one filter got twice
	Repeated   int            `json:"again"` // items that came in a second entry, as when two branches of a log meet
	P50        float64        `json:"p50_s"` // from the first reader of the feed to the filter
	P99        float64        `json:"p99_s"`
	Max        float64        `json:"most_s"`
	Late       int            `json:"late"`  // pairs that took more than a minute
	Fetched    uint64         `json:"asked"` // entries that filters had to fetch
	Topics     float64        `json:"topic_bytes_per_delivery"`
	Stats      firehose.Stats `json:"-"`
	Wrong      []string       `json:"wrong"`
}

const (
	// pollInterval is the polling interval. It has no effect on the figures.
	pollInterval = time.Minute
	// itemInterval is the time between two items of a feed.
	itemInterval = 5 * time.Minute
	// settleTime is how long filters run before items count, so that sequencers know of them;
	// tailTime is for the last items to arrive.
	settleTime, tailTime = 3 * time.Minute, 3 * time.Minute
	// silentShare is the share of departures that no other node is told of; returningShare that of
	// arrivals that were there before.
	silentShare, returningShare = 0.5, 0.5
)

// Run makes the run.
func (c Config) Run(ctx context.Context, progress func(float64)) (r Result, err error) {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = pollInterval
	s := sim.NewSwarm(sim.SwarmConfig{
		World:   sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)},
		Network: network,
		Tune:    func(n *node.Config) { n.Firehose.Shards = firehose.DefaultShards },
	})
	s.Grow(c.Members, 100*time.Millisecond)
	for i := range c.Filters {
		s.Peers()[i*c.Members/c.Filters].MakeFilter()
	}
	grow := time.Duration(c.Members)*100*time.Millisecond + 30*time.Second
	total := grow + settleTime + c.Length + tailTime
	var passed time.Duration
	run := func(d time.Duration) error {
		for end := passed + d; passed < end; {
			step := min(5*time.Second, end-passed)
			s.World.Run(step)
			passed += step
			progress(float64(passed) / float64(total))
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}
	if err := run(grow); err != nil {
		return r, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 5))
	for i := range c.Channels {
		url := fmt.Sprintf("http://feed%d.example/", i)
		s.Serve(url, script.NewLively(script.Config{Seed: c.Seed<<20 + uint64(i), Format: script.Format(i % 3), Every: itemInterval}))
		for range 1 + rng.IntN(4) {
			s.Peers()[rng.IntN(c.Members)].SubscribeFeed(url)
		}
	}
	s.SetNetworkFaults(sim.NetworkFaults{Loss: c.Loss})
	if err := run(settleTime); err != nil {
		return r, err
	}
	end := func() {}
	if c.Session > 0 {
		end = s.Churn(sim.Churn{Sessions: sim.Sessions{Median: c.Session}, Silent: silentShare, Returning: returningShare})
	}
	before := s.TopicBytes()
	since := s.Now()
	if err := run(c.Length); err != nil {
		return r, err
	}
	until := s.Now()
	topics := s.TopicBytes() - before
	if err := run(tailTime); err != nil {
		return r, err
	}
	end()
	st := s.CheckFilters(since, until)
	r = Result{
		Seed: c.Seed, Members: c.Members, Filters: st.Filters, Channels: c.Channels, Loss: c.Loss, SessionMin: c.Session.Minutes(),
		Expected: st.Expected, Delivered: st.Delivered, Repeated: st.Repeated, Fetched: st.Firehose.Lacked, Stats: st.Firehose,
	}
	slices.Sort(st.Delays)
	if n := len(st.Delays); n > 0 {
		r.P50, r.P99, r.Max = st.Delays[n/2].Seconds(), st.Delays[n*99/100].Seconds(), st.Delays[n-1].Seconds()
		i, _ := slices.BinarySearch(st.Delays, time.Minute+1)
		r.Late = n - i
		r.Topics = float64(topics) / float64(n)
	}
	for _, v := range s.Violations() {
		if v.Invariant == sim.DispatchedTwice {
			r.Twice++
		}
		if len(r.Wrong) < maxViolations {
			r.Wrong = append(r.Wrong, v.String())
		}
	}
	return r, nil
}

// maxViolations bounds the violations that are reported.
const maxViolations = 20
