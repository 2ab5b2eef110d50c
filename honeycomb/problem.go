package honeycomb

import (
	"fmt"
	"time"
)

// A Problem holds the parameters and the size of a network, which all its nodes optimise
// together. All fields are required, except that only one of Detection and Load is used.
type Problem struct {
	Objective   Objective
	Granularity Granularity
	// Base is the base of the digits of Levels, 2 to MaxBase: the paper's 16, or 2. Only
	// EstimatedWedges and Clusters use it.
	Base int
	// Nodes is N, the members of the network, 1 to MaxNodes.
	Nodes int
	// Interval is tau, the time between two polls of one node, MinInterval to MaxInterval.
	Interval time.Duration
	// Load bounds the load for all objectives except Fast. It is T/Q: polls of content of mean
	// size per interval, for each subscription. The paper's T = Q is 1.
	Load float64
	// Detection bounds the mean detection time of Fast.
	Detection time.Duration
}

// A Granularity determines the numbers of pollers that a channel may have.
type Granularity uint8

const (
	// Levels allows the sizes of its wedges, Channel.Wedges.
	Levels Granularity = iota
	// Ranks allows all integers from 1 to N.
	Ranks
)

// Bounds of a problem. Check refuses a problem outside them, because the network's operator
// sets these parameters and should learn of a mistake.
const (
	// MaxNodes exceeds any real network. Up to it, sizes are exact as float32, and products of
	// two sizes as float64.
	MaxNodes = 1 << 24
	// MaxBase is the number of values of the largest digit of an id.
	MaxBase = 256
	// MaxInterval is the longest polling interval. Rarer polls gain nothing from cooperation.
	MaxInterval = 30 * 24 * time.Hour
	// MinInterval is the shortest polling interval that any origin can be expected to bear.
	MinInterval = time.Second
	// MaxLoad is far beyond what origins can bear.
	MaxLoad = 1e6
)

// Check returns an error if the problem is out of bounds.
func (p *Problem) Check() error {
	switch {
	case int(p.Objective) >= len(objectives):
		return fmt.Errorf("objective %d is unknown", p.Objective)
	case p.Granularity > Ranks:
		return fmt.Errorf("granularity %d is unknown", p.Granularity)
	case p.Base < 2 || p.Base > MaxBase:
		return fmt.Errorf("digits of base %d: want 2 to %d", p.Base, MaxBase)
	case p.Nodes < 1 || p.Nodes > MaxNodes:
		return fmt.Errorf("a network of %d nodes: want 1 to %d", p.Nodes, MaxNodes)
	case p.Interval < MinInterval || p.Interval > MaxInterval:
		return fmt.Errorf("polling interval %v: want %v to %v", p.Interval, MinInterval, MaxInterval)
	case p.Objective == Fast && (p.Detection <= 0 || p.Detection > MaxInterval):
		return fmt.Errorf("detection target %v: want at most %v", p.Detection, MaxInterval)
	case p.Objective != Fast && !(p.Load > 0 && p.Load <= MaxLoad):
		return fmt.Errorf("load of %v polls a subscription: want at most %v", p.Load, MaxLoad)
	}
	return nil
}

// Budget returns T for that many subscriptions: polls of content of mean size per interval, or
// weighted seconds for Fast.
func (p *Problem) Budget(subscribers float64) float64 {
	if p.Objective == Fast {
		return p.Detection.Seconds() * subscribers
	}
	return p.Load * subscribers
}

// EstimatedWedges returns the sizes of wedges by the paper's estimate N/b^l, from the owner's
// level K = ⌈log N⌉, where the wedge is one node, to level 0. Channels use these choices if
// their wedges were not counted. Levels of less than one node are left out, except K.
func (p *Problem) EstimatedWedges() []float32 {
	var down []float64
	for n := float64(p.Nodes); n > 1; n /= float64(p.Base) {
		down = append(down, n)
	}
	sizes := make([]float32, 1, len(down)+1)
	sizes[0] = 1
	for i := len(down) - 1; i >= 0; i-- {
		sizes = append(sizes, float32(down[i]))
	}
	return sizes
}

// Wedges returns the choices of a channel from actual counts: counts[l] members share l digits
// with its id. The counts fall with l, and the deepest may be zero. A level without members, or
// with the same members as the level below, is skipped. So no channel becomes an orphan because
// one wedge is empty.
func Wedges(counts []int) []float32 {
	rising := func(yield func(float32)) {
		last := float32(1)
		for l := len(counts) - 1; l >= 0; l-- {
			if n := float32(min(counts[l], MaxNodes)); n > last {
				yield(n)
				last = n
			}
		}
	}
	// The slice is allocated once at its final size, because simulations have millions of them.
	choices := 1
	rising(func(float32) { choices++ })
	sizes := append(make([]float32, 0, choices), 1)
	rising(func(n float32) { sizes = append(sizes, n) })
	return sizes
}
