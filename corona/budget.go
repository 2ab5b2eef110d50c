package corona

import (
	"math"
	"time"

	"tidings/honeycomb"
)

// How often the whole network may poll a registrable domain, and how the domain's channels share
// that budget. The grants are made in steward.go.

const (
	// minChannelGap is the least time between two polls of a channel by the whole network, unless
	// its own readers would poll more often.
	minChannelGap = 40 * time.Second
	// budgetFloor is the time between two requests that any domain can bear.
	budgetFloor = 10 * time.Second
	// budgetCeil is the least time between two requests to a domain, however many readers it has,
	// unless one poller for each of its channels needs more.
	budgetCeil = time.Second
	// ungrantedGap is the least time between two requests of a member to a domain without a grant.
	ungrantedGap = 5 * time.Minute
	// reservePart is the part of a budget that is kept for new channels and for polls without a
	// grant.
	reservePart = 1. / 16
	// maxReaders bounds the readers behind one member that count in a budget.
	maxReaders = 64
	// maxStretch bounds the interval of a grant. A channel that would need a longer one gets no
	// grant.
	maxStretch = 7 * 24 * time.Hour
)

// claim says how a channel would be polled if its domain had no budget.
type claim struct {
	readers  float64       // q
	size     float64       // s, relative to the mean channel; 0: not known
	interval time.Duration // tau; above zero
	pollers  int           // n, at least 1
	tieBreak uint64        // some bits of its key
}

// onePollerRate is the rate of a single poller, in requests per second.
func (c claim) onePollerRate() float64 { return 1 / c.interval.Seconds() }

// portion is a channel's part of a budget: a number of pollers, and the interval of each.
type portion struct {
	pollers  int
	interval time.Duration
}

// rate is the rate of all pollers, in requests per second.
func (s portion) rate() float64 { return float64(s.pollers) / s.interval.Seconds() }

// budget is the rate at which a domain may be polled, in requests per second: as often as its
// readers would do by themselves, bounded by what any domain bears. once is the rate of one poller
// for each channel. Compression shortens all times in a laboratory.
func budget(readers, once, compression float64) float64 {
	least := compression / budgetFloor.Seconds()
	most := max(compression/budgetCeil.Seconds(), once)
	return min(max(readers, least), most)
}

// budgetOf is the budget of a domain with these claims.
func budgetOf(claims []claim, compression float64) float64 {
	readers, once := 0., 0.
	for _, c := range claims {
		readers += max(c.readers, 0) * c.onePollerRate()
		once += c.onePollerRate()
	}
	return budget(readers, once, compression)
}

// shareOut divides a budget, in requests per second, among channels so that their readers wait as
// little as possible. It is the same optimisation as for the whole network (honeycomb.Lite), except
// that requests are the cost, so a channel of large documents weighs less. Each channel gets at
// least one poller and at most as many as it claims. If even one poller each exceeds the budget,
// all intervals grow by one factor. It takes O(k log k).
func shareOut(claims []claim, budget float64) []portion {
	shares := make([]portion, len(claims))
	if len(claims) == 0 {
		return shares
	}
	tau, once, most := claims[0].interval, 0., 1
	for i, c := range claims {
		shares[i] = portion{1, c.interval}
		once += c.onePollerRate()
		tau, most = min(tau, c.interval), max(most, c.pollers)
	}
	if once >= budget {
		for i := range shares {
			s := claims[i].interval.Seconds() * once / budget
			shares[i].interval = time.Duration(math.Ceil(min(s, 2*maxStretch.Seconds()) * float64(time.Second)))
		}
		return shares
	}
	// Only the ratios of intervals matter, and the optimiser has bounds for intervals.
	const tick = 30 * time.Minute
	p := honeycomb.Problem{Objective: honeycomb.Lite, Granularity: honeycomb.Ranks, Base: 16, Nodes: min(most, honeycomb.MaxNodes), Interval: tick}
	channels := make([]honeycomb.Channel, len(claims))
	subscribers := 0.
	for i, c := range claims {
		weight := max(c.readers, honeycomb.MinSubscribers)
		if c.size > 0 {
			weight /= min(max(c.size, honeycomb.MinSize), honeycomb.MaxSize)
		}
		channels[i] = honeycomb.Channel{
			Subscribers: weight, MaxPollers: max(c.pollers, 1), Key: c.tieBreak,
			Interval: time.Duration(float64(tick) * (float64(c.interval) / float64(tau))),
		}
		subscribers += min(weight, honeycomb.MaxSubscribers)
	}
	const exact = 1 - 1e-9 // the optimiser adds in another order
	p.Load = min(budget*tau.Seconds()/subscribers*exact, honeycomb.MaxLoad)
	s, err := honeycomb.Solve(&p, channels, nil)
	if err != nil {
		return shares // after an impossible problem: one poller each is within any budget
	}
	for i := range shares {
		shares[i].pollers = int(s.Pick[i])
	}
	return shares
}
