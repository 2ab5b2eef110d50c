package corona

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay/sums"
)

// Bounds on what some members may publish about the channels that they lead. They reject impossible
// values; overlay/sums discards values that merely differ too much from those of others.
const (
	// countTolerance bounds how far a part of the network may exceed its counted members: by one
	// for every two counted, because counts are learned one after the other and a network may grow
	// by half in the meantime. In a small part, countAllowance more may have joined.
	countTolerance = 2
	countAllowance = 4
	// maxChannelsPerMember is as many channels as the paper's whole network has. No node can lead
	// more than a few thousand.
	maxChannelsPerMember = 100_000
	// maxSubscribersPerMember bounds the subscribers of one channel behind one member: overlay's
	// maxClients children and the member itself, with scribe's Config.MaxWeight each.
	maxSubscribersPerMember = (128 + 1) * 64
)

// limitsOf returns the largest totals that a part of the network with about so many members and so
// many channels may have.
func limitsOf(p *honeycomb.Problem, nodes, channels int) honeycomb.Totals {
	most := honeycomb.Totals{Nodes: 1}
	if nodes > 1 {
		most.Nodes = nodes + nodes/countTolerance + countAllowance
	}
	most.Channels = most.Nodes * maxChannelsPerMember
	each := float64(min(channels, most.Channels))
	most.Subscribers = each * min(float64(p.Nodes)*countTolerance*maxSubscribersPerMember, honeycomb.MaxSubscribers)
	most.PollBytes = each * feed.MaxDocument
	most.Load = each * float64(p.Nodes) * countTolerance * honeycomb.MaxSize
	return most
}

// EncodeBins encodes bins for other members.
func EncodeBins(b *honeycomb.Bins) []byte {
	m := newShare(&b.Totals)
	m.Bins = &coronapb.Bins{Base: float32(b.BaseCost)}
	// A new run is smaller than this many bins without cost.
	const gap = 3
	var run *coronapb.Run
	for i, c := range b.StepCosts {
		cost := float32(c)
		if cost == 0 {
			continue
		}
		at := int32(b.FirstBin + i)
		if run == nil || int(at-run.First) >= len(run.Cost)+gap {
			run = &coronapb.Run{First: at}
			m.Bins.Runs = append(m.Bins.Runs, run)
		}
		for int(at-run.First) > len(run.Cost) {
			run.Cost = append(run.Cost, 0)
		}
		run.Cost = append(run.Cost, cost)
	}
	return wire.Encode(m)
}

// decodeBins decodes bins from another member, for the channels of about so many members. It reuses
// the memory of costs.
func decodeBins(value []byte, p *honeycomb.Problem, nodes int, costs []float64) (*honeycomb.Bins, error) {
	m, t, err := decode(value)
	if err != nil {
		return nil, err
	}
	b := &honeycomb.Bins{Totals: t, BaseCost: float64(m.GetBins().GetBase())}
	if m.Bins == nil || m.Clusters != nil {
		return nil, errors.New("share: bins are missing")
	}
	end := honeycomb.MinBin
	for i, r := range m.Bins.Runs {
		first := int(r.First)
		if first < end || first > honeycomb.MaxBin || len(r.Cost) == 0 || len(r.Cost) > honeycomb.MaxBin+1-first {
			return nil, fmt.Errorf("share: %d bins from %d after bin %d", len(r.Cost), first, end-1)
		}
		if i == 0 {
			last := m.Bins.Runs[len(m.Bins.Runs)-1]
			b.FirstBin = first
			b.StepCosts = slices.Grow(costs[:0], max(0, min(int(last.First)+len(last.Cost), honeycomb.MaxBin+1)-first))
		}
		for range first - b.FirstBin - len(b.StepCosts) {
			b.StepCosts = append(b.StepCosts, 0)
		}
		for _, c := range r.Cost {
			b.StepCosts = append(b.StepCosts, float64(c))
		}
		end = first + len(r.Cost)
	}
	if err := b.Check(p, limitsOf(p, nodes, t.Channels)); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	return b, nil
}

// EncodeClusters encodes clusters for other members.
func EncodeClusters(s *honeycomb.Clusters) []byte {
	m := newShare(&s.Totals)
	m.Clusters = &coronapb.Clusters{}
	for _, list := range s.Levels {
		m.Clusters.Levels = append(m.Clusters.Levels, level(list...))
	}
	if s.Slack.Channels > 0 {
		m.Clusters.Slack = level(s.Slack)
	}
	return wire.Encode(m)
}

func level(list ...honeycomb.Cluster) *coronapb.Level {
	l := &coronapb.Level{}
	for _, c := range list {
		l.Channels = append(l.Channels, uint64(c.Channels))
		l.Delay = append(l.Delay, float32(c.Delay))
		l.Load = append(l.Load, float32(c.Load))
	}
	return l
}

// DecodeClusters decodes clusters from another member, for the channels of about so many members.
func DecodeClusters(value []byte, p *honeycomb.Problem, nodes int) (*honeycomb.Clusters, error) {
	m, t, err := decode(value)
	if err != nil {
		return nil, err
	}
	if m.Clusters == nil || m.Bins != nil {
		return nil, errors.New("share: clusters are missing")
	}
	if n := len(m.Clusters.Levels); n > honeycomb.MaxLevels {
		return nil, fmt.Errorf("share: clusters of %d levels, more than %d", n, honeycomb.MaxLevels)
	}
	s := &honeycomb.Clusters{Totals: t}
	for _, l := range m.Clusters.Levels {
		list, err := clusters(l)
		if err != nil {
			return nil, err
		}
		s.Levels = append(s.Levels, list)
	}
	slack, err := clusters(m.Clusters.Slack)
	switch {
	case err != nil:
		return nil, err
	case len(slack) > 1:
		return nil, fmt.Errorf("share: %d slack clusters", len(slack))
	case len(slack) == 1:
		s.Slack = slack[0]
	}
	if err := s.Check(p, limitsOf(p, nodes, t.Channels)); err != nil {
		return nil, fmt.Errorf("share: %w", err)
	}
	return s, nil
}

func clusters(l *coronapb.Level) (list []honeycomb.Cluster, err error) {
	channels, delay, load := l.GetChannels(), l.GetDelay(), l.GetLoad()
	if n := len(channels); n > honeycomb.MaxClusters || len(delay) != n || len(load) != n {
		return nil, fmt.Errorf("share: lists of %d, %d and %d clusters: the lengths must be equal and at most %d",
			n, len(delay), len(load), honeycomb.MaxClusters)
	}
	for i, n := range channels {
		if n > math.MaxInt32 {
			return nil, fmt.Errorf("share: a cluster of %d channels", n)
		}
		list = append(list, honeycomb.Cluster{Channels: int(n), Delay: float64(delay[i]), Load: float64(load[i])})
	}
	return list, nil
}

// newShare returns a message with the totals.
func newShare(t *honeycomb.Totals) *coronapb.Share {
	return &coronapb.Share{
		Nodes:       uint64(t.Nodes),
		Channels:    uint64(t.Channels),
		Subscribers: float32(t.Subscribers),
		Decided:     float32(t.DecidedSubscribers),
		Polled:      float32(t.Load),
		Asked:       float32(t.Polls),
		Waited:      float32(t.Delay),
		Aim:         float32(t.TargetTerm),
		Content:     float32(t.PollBytes),
	}
}

// decode decodes a message and its totals. The caller checks the totals, because it knows the
// number of members.
func decode(value []byte) (*coronapb.Share, honeycomb.Totals, error) {
	m := new(coronapb.Share)
	if err := proto.Unmarshal(value, m); err != nil {
		return nil, honeycomb.Totals{}, fmt.Errorf("share: %w", err)
	}
	if m.Nodes > honeycomb.MaxNodes || m.Channels > math.MaxInt32 {
		return nil, honeycomb.Totals{}, fmt.Errorf("share: %d channels at %d nodes", m.Channels, m.Nodes)
	}
	return m, honeycomb.Totals{
		Nodes:              int(m.Nodes),
		Channels:           int(m.Channels),
		Subscribers:        float64(m.Subscribers),
		DecidedSubscribers: float64(m.Decided),
		Load:               float64(m.Polled),
		Polls:              float64(m.Asked),
		Delay:              float64(m.Waited),
		TargetTerm:         float64(m.Aim),
		PollBytes:          float64(m.Content),
	}, nil
}

// BinsAdder adds up bins for overlay/sums. Problem returns the problem for the network's current
// size.
type BinsAdder struct {
	Problem func() *honeycomb.Problem

	costs *[]float64 // memory of the last added value, for reuse; nil: memory is not reused
}

// Zero implements sums.Adder; a sum is a *honeycomb.Bins.
func (BinsAdder) Zero() any { return &honeycomb.Bins{} }

// Add implements sums.Adder.
func (a BinsAdder) Add(sum any, value []byte, about sums.Scope) error {
	var costs []float64
	if a.costs != nil {
		costs = *a.costs
	}
	b, err := decodeBins(value, a.Problem(), about.Nodes, costs)
	if err != nil {
		return err
	}
	sum.(*honeycomb.Bins).Merge(b) // Merge keeps no reference to b
	if a.costs != nil {
		*a.costs = b.StepCosts
	}
	return nil
}

// Measure implements sums.Adder.
func (BinsAdder) Measure(sum any) sums.Measure {
	b := sum.(*honeycomb.Bins)
	cost := b.BaseCost
	for _, c := range b.StepCosts {
		cost += c
	}
	return measure(&b.Totals, cost)
}

// Encode implements sums.Adder.
func (BinsAdder) Encode(sum any) []byte { return EncodeBins(sum.(*honeycomb.Bins)) }

// ClustersAdder adds up clusters for overlay/sums.
type ClustersAdder struct{ Problem func() *honeycomb.Problem }

// Zero implements sums.Adder; a sum is a *honeycomb.Clusters.
func (ClustersAdder) Zero() any { return &honeycomb.Clusters{} }

// Add implements sums.Adder.
func (a ClustersAdder) Add(sum any, value []byte, about sums.Scope) error {
	c, err := DecodeClusters(value, a.Problem(), about.Nodes)
	if err == nil {
		sum.(*honeycomb.Clusters).Merge(c)
	}
	return err
}

// Measure implements sums.Adder.
func (ClustersAdder) Measure(sum any) sums.Measure {
	s := sum.(*honeycomb.Clusters)
	delay := s.Slack.Delay
	for _, list := range s.Levels {
		for _, c := range list {
			delay += c.Delay
		}
	}
	return measure(&s.Totals, delay)
}

// Encode implements sums.Adder.
func (ClustersAdder) Encode(sum any) []byte { return EncodeClusters(sum.(*honeycomb.Clusters)) }

// measure makes shares comparable by channel, because channels are assigned to members at random.
func measure(t *honeycomb.Totals, cost float64) sums.Measure {
	return sums.Measure{Items: float64(t.Channels), Amounts: [6]float64{t.Subscribers, t.Load, t.Polls, t.Delay, t.PollBytes, cost}}
}
