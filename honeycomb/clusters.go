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
	// MaxLevels is more than ⌈log N⌉ in base 2; deeper levels count as the deepest.
	MaxLevels = 32
)

// A Cluster is the sum of channels with about the same ratio of delay to load: that of one
// poller each.
type Cluster struct {
	Channels    int
	Delay, Load float64
}

// Clusters are the paper's sum of channels. The zero value is the sum of none.
//
// Merge is commutative. It is associative in all totals, but for rounding, so that each
// channel counts once; not in what clusters are made of, because where there are more than
// MaxClusters, neighbours are joined for good.
type Clusters struct {
	Totals
	// Levels are the clusters of channels at each polling level, by ratio.
	Levels [][]Cluster
	// Slack are orphans, which no decision can change: their cost is taken off the budget
	// (§4).
	Slack Cluster
}

// NewClusters sums channels up, which are at the polling levels that level returns. Who
// sends it sets Nodes and Polled.
func NewClusters(p *Problem, own []Channel, level func(i int) int) *Clusters {
	s := &Clusters{}
	s.Channels = len(own)
	for i := range own {
		c := p.curve(&own[i])
		s.Subscribers += own[i].subscribers()
		one := Cluster{1, c.delay, c.load}
		if p.Cut == Levels && len(own[i].Wedges) < 2 {
			s.Slack = s.Slack.with(one)
			continue
		}
		l := min(max(level(i), 0), MaxLevels-1)
		for len(s.Levels) <= l {
			s.Levels = append(s.Levels, nil)
		}
		s.Levels[l] = joined(append(s.Levels[l], one))
	}
	return s
}

// Merge adds the sum of other channels; it keeps nothing of it.
func (s *Clusters) Merge(o *Clusters) {
	s.Totals.add(o.Totals)
	s.Slack = s.Slack.with(o.Slack)
	for l, more := range o.Levels {
		if l == len(s.Levels) {
			s.Levels = append(s.Levels, nil)
		}
		s.Levels[l] = joined(append(s.Levels[l], more...))
	}
}

// Clone returns a copy.
func (s *Clusters) Clone() *Clusters {
	c := *s
	c.Levels = make([][]Cluster, len(s.Levels))
	for l := range s.Levels {
		c.Levels[l] = slices.Clone(s.Levels[l])
	}
	return &c
}

func (c Cluster) with(o Cluster) Cluster {
	return Cluster{c.Channels + o.Channels, c.Delay + o.Delay, c.Load + o.Load}
}

func (c Cluster) ratio() float64 { return c.Delay / c.Load }

// joined puts clusters in order and joins neighbours until there are few enough: those
// first that lose least, by Ward's criterion over the logarithm of the ratio.
func joined(list []Cluster) []Cluster {
	slices.SortFunc(list, byRatio)
	for len(list) > MaxClusters {
		best, least := 0, math.Inf(1)
		for i := range len(list) - 1 {
			a, b := list[i], list[i+1]
			apart := math.Log(b.ratio() / a.ratio())
			if loss := apart * apart * a.Load / (a.Load + b.Load) * b.Load; loss < least {
				best, least = i, loss
			}
		}
		list[best] = list[best].with(list[best+1])
		list = slices.Delete(list, best+1, best+2)
	}
	slices.SortFunc(list, byRatio) // equal ones may have changed places in their last bits
	return list
}

func byRatio(a, b Cluster) int {
	return cmp.Or(cmp.Compare(a.ratio(), b.ratio()), cmp.Compare(a.Load, b.Load), cmp.Compare(a.Channels, b.Channels))
}

// Check returns what is wrong with a sum that came from a stranger. It may say of its
// channels no more than most, which whoever asks knows from elsewhere.
func (s *Clusters) Check(p *Problem, most Totals) error {
	if err := s.Totals.check(most); err != nil {
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
			if c == (Cluster{}) && l == len(s.Levels) {
				continue // no orphans
			}
			n := float64(c.Channels)
			if !(c.Channels > 0 && c.Channels <= most.Channels && c.Delay > 0 && c.Delay <= n*p.mostDelay()*(1+rounding) &&
				c.Load >= n*p.leastLoad()*(1-rounding) && c.Load <= n*MaxSize*(1+rounding)) {
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

// Len is how many clusters there are, the slack cluster included.
func (s *Clusters) Len() (n int) {
	for _, list := range s.Levels {
		n += len(list)
	}
	if s.Slack.Channels > 0 {
		n++
	}
	return n
}

// fluid takes the channels of a cluster to be alike, with wedges of the sizes that the
// paper believes in: the steps of one cluster are blocks, of which a part may be taken.
func (s *Clusters) fluid(p *Problem) *fluid {
	var ranks Bins
	var segments []segment
	_, base := p.values(curve{delay: s.Slack.Delay, load: s.Slack.Load}, 1)
	like := levels{p: p, channels: []Channel{{Wedges: p.Believed()}}}
	for _, list := range s.Levels {
		for _, c := range list {
			of := curve{delay: c.Delay, load: c.Load, most: float64(p.Nodes)}
			if p.Cut == Ranks {
				ranks.addRanks(p, of)
				continue
			}
			like.curves = []curve{of}
			_, least, row := like.row(0, math.Inf(1), 0, nil)
			base += least.G
			for _, st := range row {
				segments = append(segments, segment{hi: st.slope, lo: st.slope, mass: st.cost})
			}
		}
	}
	if p.Cut == Ranks {
		f := ranks.fluid(p)
		f.base += base
		return f
	}
	return newFluid(base, segments)
}
