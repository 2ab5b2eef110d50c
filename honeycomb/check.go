package honeycomb

import (
	"fmt"
	"math"
)

// What a sum may say is bounded by what a channel may, times the channels; beyond that it
// is inconsistent. How many channels a part of the network can have is for others to know.

// miscount is how far another node may be off about the network's size: while that grows,
// some have counted half of it.
const miscount = 2

// rounding is how far sums may lie beyond what they can be: each time one is told, its numbers
// may lose a part in 2^24, and it is told a few times.
const rounding = 1e-6

// MaxCorrection is how many times T a node may decide for, or how many times less, to make up
// for what is not carried out as decided.
const MaxCorrection = 1.25

// check compares totals with the most that is believed.
func (t *Totals) check(most Totals) error {
	switch {
	case t.Nodes < 0 || t.Nodes > most.Nodes:
		return fmt.Errorf("a sum over %d nodes: want at most %d", t.Nodes, most.Nodes)
	case t.Channels < 0 || t.Channels > most.Channels:
		return fmt.Errorf("a sum over %d channels: want at most %d", t.Channels, most.Channels)
	case !(t.Subscribers >= 0 && t.Subscribers <= most.Subscribers):
		return fmt.Errorf("a sum over %v subscribers: want at most %v", t.Subscribers, most.Subscribers)
	case !(t.Polled >= 0 && t.Polled <= most.Polled):
		return fmt.Errorf("a sum over %v polls: want at most %v", t.Polled, most.Polled)
	case !(t.Asked >= 0 && t.Asked <= most.Polled):
		return fmt.Errorf("a sum over %v polls, asked: want at most %v", t.Asked, most.Polled)
	case !(t.Decided >= 0 && t.Decided <= most.Subscribers):
		return fmt.Errorf("a sum over %v subscribers, decided: want at most %v", t.Decided, most.Subscribers)
	case !(t.Waited >= 0 && t.Waited <= t.mostWaited(t.Decided)*(1+rounding)):
		return fmt.Errorf("a sum over %v seconds: want at most %v", t.Waited, t.mostWaited(t.Decided))
	case !(t.Content >= 0 && t.Content <= most.Content):
		return fmt.Errorf("a sum over %v bytes: want at most %v", t.Content, most.Content)
	case !(math.Abs(t.Aim) <= t.Decided*math.Log(MaxCorrection)*(1+rounding)):
		return fmt.Errorf("an aim of %v for %v subscribers", t.Aim, t.Decided)
	}
	return nil
}

// mostWaited is the delay of so many subscribers if one node polls each channel, as seldom as an
// origin may ask for.
func (t *Totals) mostWaited(subscribers float64) float64 {
	return (subscribers + float64(t.Channels)*MinSubscribers) * MaxInterval.Seconds() / 2
}

// checkCost says whether that many channels and subscribers can have such costs: base of
// the cheapest choices, sum of all steps.
func (t *Totals) checkCost(p *Problem, base, sum float64) error {
	n := float64(p.Nodes) * miscount
	least := float64(t.Channels) * p.leastLoad()
	most := float64(t.Channels) * MaxSize
	if p.Objective == Fast {
		least = t.Subscribers * p.Interval.Seconds() / 2 / n
		most = t.mostWaited(t.Subscribers)
	}
	if !(base >= least*(1-rounding) && base <= most*(1+rounding)) {
		return fmt.Errorf("%d channels cost %v: want %v to %v", t.Channels, base, least, most)
	}
	if !(sum <= base*(n-1)*(1+rounding)) {
		return fmt.Errorf("steps cost %v beyond %v: want at most %v times as much", sum, base, n-1)
	}
	return nil
}

// leastLoad is the least load of a channel, and mostDelay the most delay, with one poller.
func (p *Problem) leastLoad() float64 {
	return MinSize * p.Interval.Seconds() / MaxInterval.Seconds()
}

func (p *Problem) mostDelay() float64 {
	tau := p.Interval.Seconds()
	worth := max(p.Objective.weight(tau, MinUpdate.Seconds()), p.Objective.weight(tau, MaxUpdate.Seconds()))
	return MaxSubscribers * worth * MaxInterval.Seconds() / 2
}
