package corona

import (
	"slices"

	"tidings/honeycomb"
	"tidings/overlay"
	"tidings/overlay/sums"
)

// scheme is how a node describes its channels to other nodes, and what it takes for the sizes of
// wedges with polling levels (Corona §3.2): the wedge of level l consists of all members that share
// l digits with the channel's key.
type scheme interface {
	// adder adds up what other nodes publish. problem returns the problem for the current size of
	// the network.
	adder(problem func() *honeycomb.Problem) sums.Adder

	// encode encodes channels and their totals for other nodes. level returns a channel's polling
	// level.
	encode(channels []honeycomb.Channel, level func(i int) int, t honeycomb.Totals) []byte

	// sizes returns the sizes of a channel's wedges, from its owner's level up; nil for an orphan (a
	// channel whose owner is alone at the level above its own).
	sizes(key overlay.ID) []float32

	// level is the polling level of a choice among sizes.
	level(key overlay.ID, sizes []float32, pick int) int
}

// counting is our scheme: channels are published in bins, and the members of wedges are counted.
type counting struct {
	*base
	problem *honeycomb.Problem
}

func (s counting) adder(problem func() *honeycomb.Problem) sums.Adder {
	return BinsAdder{Problem: problem, costs: new([]float64)}
}

func (s counting) encode(channels []honeycomb.Channel, _ func(i int) int, t honeycomb.Totals) []byte {
	sum := honeycomb.NewBins(s.problem, channels)
	sum.Totals = t
	return EncodeBins(sum)
}

func (s counting) sizes(key overlay.ID) []float32 { return honeycomb.Wedges(s.counts(key)) }

// counts returns the number of members at each level of a key, down to the first level with at most
// one.
func (s counting) counts(key overlay.ID) (of []int) {
	for l := 0; ; l++ {
		n := s.sharing(key, l*s.digit())
		if of = append(of, n); n <= 1 {
			return of
		}
	}
}

func (s counting) level(key overlay.ID, sizes []float32, pick int) int {
	of := s.counts(key)
	if len(sizes) == 0 || sizes[pick] <= 1 {
		return len(of) - 1
	}
	narrower := slices.IndexFunc(of, func(n int) bool { return float32(n) < sizes[pick] })
	return max(narrower, 1) - 1
}

// clustering is the paper's scheme: channels are published in tradeoff clusters, and a wedge is
// believed to have N/b^l members.
type clustering struct {
	*base
	problem *honeycomb.Problem
}

func (s clustering) adder(problem func() *honeycomb.Problem) sums.Adder {
	return ClustersAdder{problem}
}

func (s clustering) encode(channels []honeycomb.Channel, level func(i int) int, t honeycomb.Totals) []byte {
	sum := honeycomb.NewClusters(s.problem, channels, level)
	sum.Totals = t
	return EncodeClusters(sum)
}

func (s clustering) sizes(key overlay.ID) []float32 {
	of := s.problem.EstimatedWedges()
	if owners := len(of) - 1; owners > 0 && s.sharing(key, (owners-1)*s.digit()) <= 1 {
		return nil
	}
	return of
}

func (s clustering) level(_ overlay.ID, _ []float32, pick int) int {
	return len(s.problem.EstimatedWedges()) - 1 - pick
}
