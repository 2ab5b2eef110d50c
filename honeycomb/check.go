package honeycomb

import (
	"fmt"
	"math"
)

// An aggregate is plausible if it stays within the bounds of one channel times the number of
// channels. How many channels a part of the network can have is for the caller to know.

// countTolerance is the factor by which another node's count of the network may differ. While
// the network grows, some nodes have counted only half of it.
const countTolerance = 2

// rounding is the relative error that an aggregate may have. Each time it is sent its numbers
// lose up to one part in 2^24, and it is sent a few times.
const rounding = 1e-6

// MaxCorrection is the greatest factor by which a node may raise or lower T to make up for
// decisions that are not carried out exactly.
const MaxCorrection = 1.25

// check compares totals with the largest plausible ones.
func (t *Totals) check(limit Totals) error {
	switch {
	case t.Nodes < 0 || t.Nodes > limit.Nodes:
		return fmt.Errorf("aggregate of %d nodes: want at most %d", t.Nodes, limit.Nodes)
	case t.Channels < 0 || t.Channels > limit.Channels:
		return fmt.Errorf("aggregate of %d channels: want at most %d", t.Channels, limit.Channels)
	case !(t.Subscribers >= 0 && t.Subscribers <= limit.Subscribers):
		return fmt.Errorf("aggregate of %v subscribers: want at most %v", t.Subscribers, limit.Subscribers)
	case !(t.Load >= 0 && t.Load <= limit.Load):
		return fmt.Errorf("aggregate with a load of %v: want at most %v", t.Load, limit.Load)
	case !(t.Polls >= 0 && t.Polls <= limit.Load):
		return fmt.Errorf("aggregate of %v polls: want at most %v", t.Polls, limit.Load)
	case !(t.DecidedSubscribers >= 0 && t.DecidedSubscribers <= limit.Subscribers):
		return fmt.Errorf("aggregate of %v decided subscribers: want at most %v", t.DecidedSubscribers, limit.Subscribers)
	case !(t.Delay >= 0 && t.Delay <= t.maxDelay(t.DecidedSubscribers)*(1+rounding)):
		return fmt.Errorf("aggregate with a delay of %v s: want at most %v s", t.Delay, t.maxDelay(t.DecidedSubscribers))
	case !(t.PollBytes >= 0 && t.PollBytes <= limit.PollBytes):
		return fmt.Errorf("aggregate with polls of %v bytes: want at most %v", t.PollBytes, limit.PollBytes)
	case !(math.Abs(t.TargetTerm) <= t.DecidedSubscribers*math.Log(MaxCorrection)*(1+rounding)):
		return fmt.Errorf("aggregate with a target term of %v for %v subscribers", t.TargetTerm, t.DecidedSubscribers)
	}
	return nil
}

// maxDelay returns the delay of that many subscribers if one node polls each channel, as seldom
// as an origin may ask for.
func (t *Totals) maxDelay(subscribers float64) float64 {
	return (subscribers + float64(t.Channels)*MinSubscribers) * MaxInterval.Seconds() / 2
}

// checkCost checks costs against the numbers of channels and subscribers: base is the cost of
// the cheapest choices, sum that of all steps.
func (t *Totals) checkCost(p *Problem, base, sum float64) error {
	n := float64(p.Nodes) * countTolerance
	minBase := float64(t.Channels) * p.minChannelLoad()
	maxBase := float64(t.Channels) * MaxSize
	if p.Objective == Fast {
		minBase = t.Subscribers * p.Interval.Seconds() / 2 / n
		maxBase = t.maxDelay(t.Subscribers)
	}
	if !(base >= minBase*(1-rounding) && base <= maxBase*(1+rounding)) {
		return fmt.Errorf("%d channels cost %v: want %v to %v", t.Channels, base, minBase, maxBase)
	}
	if !(sum <= base*(n-1)*(1+rounding)) {
		return fmt.Errorf("steps cost %v in addition to %v: want at most %v times as much", sum, base, n-1)
	}
	return nil
}

// minChannelLoad returns the least load of a channel, and maxChannelDelay the greatest delay,
// both with one poller.
func (p *Problem) minChannelLoad() float64 {
	return MinSize * p.Interval.Seconds() / MaxInterval.Seconds()
}

func (p *Problem) maxChannelDelay() float64 {
	tau := p.Interval.Seconds()
	worth := max(p.Objective.weight(tau, MinUpdate.Seconds()), p.Objective.weight(tau, MaxUpdate.Seconds()))
	return MaxSubscribers * worth * MaxInterval.Seconds() / 2
}
