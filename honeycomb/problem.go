package honeycomb

import (
	"fmt"
	"time"
)

// A Problem is what all nodes of a network optimise: its parameters, and its size. All
// fields but Detection and Load, of which one is used, must be set.
type Problem struct {
	Objective Objective
	Cut       Cut
	// Base is that of the digits of Levels, from 2 to MaxBase: the paper's 16, or 2. Only
	// Believed and Clusters go by it.
	Base int
	// Nodes is N, the members of the network, 1 to MaxNodes.
	Nodes int
	// Interval is tau, the time between two polls of one node, MinInterval to MaxInterval.
	Interval time.Duration
	// Load bounds the load of all objectives but Fast: T/Q, polls of content of mean size
	// in an interval, for each subscription. The paper's T = Q is 1.
	Load float64
	// Detection bounds the mean detection time of Fast.
	Detection time.Duration
}

// A Cut says which numbers of pollers a channel may have.
type Cut uint8

const (
	// Levels are the sizes of its wedges, Channel.Wedges.
	Levels Cut = iota
	// Ranks are all integers.
	Ranks
)

// Bounds of a problem. Outside of them it is refused: the parameters are the network's own,
// and a wrong one is a mistake to be told.
const (
	// MaxNodes is more than any network has; up to it sizes are exact as float32, and
	// products of them as float64.
	MaxNodes = 1 << 24
	// MaxBase is the largest digit that an id has.
	MaxBase = 256
	// MaxInterval is the longest interval; who polls once a month has no use for others.
	MaxInterval = 30 * 24 * time.Hour
	// MinInterval is the shortest interval; shorter ones are for no origin.
	MinInterval = time.Second
	// MaxLoad is far beyond what origins bear: each reader polls that often anyway.
	MaxLoad = 1e6
)

// Check returns what is wrong with the problem.
func (p *Problem) Check() error {
	switch {
	case int(p.Objective) >= len(objectives):
		return fmt.Errorf("objective %d is unknown", p.Objective)
	case p.Cut > Ranks:
		return fmt.Errorf("cut %d is unknown", p.Cut)
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

// Budget is T, for that many subscriptions: polls of content of mean size in an interval, for
// Fast weighted seconds.
func (p *Problem) Budget(subscribers float64) float64 {
	if p.Objective == Fast {
		return p.Detection.Seconds() * subscribers
	}
	return p.Load * subscribers
}

// Believed returns the sizes of wedges by the paper's estimate N/b^l, from the owner's
// level K = ⌈log N⌉, where it is one node, to level 0: the choices of a channel whose
// wedges were not counted. Levels of less than one node but K are left out.
func (p *Problem) Believed() []float32 {
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

// Wedges returns the choices of a channel from true counts: counts[l] members share l
// digits with its id, so that they fall with l, and the deepest may be zero. A level that
// is empty or has the same members as the one below it is no choice: thus no channel is an
// orphan, that is, kept at one poller because one wedge is empty.
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
	// One allocation of its size: a laboratory has millions of them.
	choices := 1
	rising(func(float32) { choices++ })
	sizes := append(make([]float32, 0, choices), 1)
	rising(func(n float32) { sizes = append(sizes, n) })
	return sizes
}
