package honeycomb

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Bounds of Clusters.
const (
	// MaxClusters is the paper's Tradeoff_Bins (§3.2, §4), for each polling level.
	MaxClusters = 16
	// MaxLevels exceeds ⌈log N⌉ in base 2. Deeper levels count as the deepest.
	MaxLevels = 32
)

// A Cluster is the sum of channels with similar ratios of delay to load, both with one poller.
type Cluster struct {
	Channels    int
	Delay, Load float64
}

// Clusters are the paper's aggregate of channels. The zero value aggregates none.
//
// Merge is commutative. All totals are associative except for rounding, so each channel counts
// once. The clusters themselves are not associative, because neighbours are merged for good if
// there are more than MaxClusters.
type Clusters struct {
	Totals
	// Levels are the clusters at each polling level, by ratio.
	Levels [][]Cluster
	// Slack holds the orphans. No decision can change them, so their cost is subtracted from T
	// (§4).
	Slack Cluster
}

// NewClusters aggregates channels; level returns the polling level of each. The caller sets
// Nodes and Load.
func NewClusters(p *Problem, own []Channel, level func(i int) int) *Clusters {
	s := &Clusters{}
	s.Channels = len(own)
	for i := range own {
		c := p.tradeoff(&own[i])
		s.Subscribers += own[i].subscribers()
		one := Cluster{1, c.delay, c.load}
		if p.Granularity == Levels && len(own[i].Wedges) < 2 {
			s.Slack = s.Slack.plus(one)
			continue
		}
		l := min(max(level(i), 0), MaxLevels-1)
		for len(s.Levels) <= l {
			s.Levels = append(s.Levels, nil)
		}
		s.Levels[l] = merged(append(s.Levels[l], one))
	}
	return s
}

// Merge adds the aggregate of other channels and keeps no reference to it.
func (s *Clusters) Merge(o *Clusters) {
	s.Totals.add(o.Totals)
	s.Slack = s.Slack.plus(o.Slack)
	for l, more := range o.Levels {
		if l == len(s.Levels) {
			s.Levels = append(s.Levels, nil)
		}
		s.Levels[l] = merged(append(s.Levels[l], more...))
	}
}

// Clone returns a deep copy.
func (s *Clusters) Clone() *Clusters {
	c := *s
	c.Levels = make([][]Cluster, len(s.Levels))
	for l := range s.Levels {
		c.Levels[l] = slices.Clone(s.Levels[l])
	}
	return &c
}

func (c Cluster) plus(o Cluster) Cluster {
	return Cluster{c.Channels + o.Channels, c.Delay + o.Delay, c.Load + o.Load}
}

func (c Cluster) ratio() float64 { return c.Delay / c.Load }

// merged sorts clusters and merges neighbours until at most MaxClusters remain. It merges those
// first that lose least, by Ward's criterion over the logarithm of the ratio.
func merged(list []Cluster) []Cluster {
	slices.SortFunc(list, byRatio)
	for len(list) > MaxClusters {
		best, least := 0, math.Inf(1)
		for i := range len(list) - 1 {
			a, b := list[i], list[i+1]
			distance := math.Log(b.ratio() / a.ratio())
			if loss := distance * distance * a.Load / (a.Load + b.Load) * b.Load; loss < least {
				best, least = i, loss
			}
		}
		list[best] = list[best].plus(list[best+1])
		list = slices.Delete(list, best+1, best+2)
	}
	slices.SortFunc(list, byRatio) // equal ratios may have changed order in their last bits
	return list
}

func byRatio(a, b Cluster) int {
	return cmp.Or(cmp.Compare(a.ratio(), b.ratio()), cmp.Compare(a.Load, b.Load), cmp.Compare(a.Channels, b.Channels))
}

// Check returns an error if an aggregate from a stranger is implausible. The caller knows
// limit, the most that its channels may total, from another source.
func (s *Clusters) Check(p *Problem, limit Totals) error {
	if err := s.Totals.check(limit); err != nil {
		return err
	}
	if len(s.Levels) > MaxLevels {
		return fmt.Errorf("clusters of %d levels: want at most %d", len(s.Levels), MaxLevels)
	}
	channels := 0
	for l, list := range append(slices.Clone(s.Levels), []Cluster{s.Slack}) {
		if len(list) > MaxClusters {
			return fmt.Errorf("%d clusters at level %d: want at most %d", len(list), l, MaxClusters)
		}
		for _, c := range list {
			if c == (Cluster{}) && l == len(s.Levels) { // no orphans
				continue // no orphans
			}
			n := float64(c.Channels)
			if !(c.Channels > 0 && c.Channels <= limit.Channels && c.Delay > 0 && c.Delay <= n*p.maxChannelDelay()*(1+rounding) &&
				c.Load >= n*p.minChannelLoad()*(1-rounding) && c.Load <= n*MaxSize*(1+rounding)) {
				return fmt.Errorf("a cluster of %d channels with delay %v, load %v", c.Channels, c.Delay, c.Load)
			}
			channels += c.Channels
		}
	}
	if channels != s.Channels {
		return fmt.Errorf("clusters of %d channels: want %d", channels, s.Channels)
	}
	return nil
}

func (s *Clusters) totals() Totals { return s.Totals }

// Len returns the number of clusters, including the slack cluster.
func (s *Clusters) Len() (n int) {
	for _, list := range s.Levels {
		n += len(list)
	}
	if s.Slack.Channels > 0 {
		n++
	}
	return n
}

// costCurve treats all channels of a cluster as equal, with wedges of the sizes that the paper
// assumes. The steps of one cluster form blocks, which may be taken in part.
func (s *Clusters) costCurve(p *Problem) *costCurve {
	var ranks Bins
	var segments []segment
	_, base := p.values(tradeoff{delay: s.Slack.Delay, load: s.Slack.Load}, 1)
	rows := levels{p: p, channels: []Channel{{Wedges: p.EstimatedWedges()}}}
	for _, list := range s.Levels {
		for _, c := range list {
			of := tradeoff{delay: c.Delay, load: c.Load, maxPollers: float64(p.Nodes)}
			if p.Granularity == Ranks {
				ranks.addRanks(p, of)
				continue
			}
			rows.curves = []tradeoff{of}
			_, least, row := rows.row(0, math.Inf(1), 0, nil)
			base += least.G
			for _, st := range row {
				segments = append(segments, segment{hi: st.slope, lo: st.slope, cost: st.cost})
			}
		}
	}
	if p.Granularity == Ranks {
		f := ranks.costCurve(p)
		f.base += base
		return f
	}
	return newCostCurve(base, segments)
}
