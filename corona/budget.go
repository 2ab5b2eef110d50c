package corona

import (
	"math"
	"time"

	"tidings/honeycomb"
)

// How often a registrable domain may be asked by the whole network, and how its channels
// share that. Who grants it stands in steward.go.

const (
	// politeGap: a channel is asked once in as long, at most, unless its own readers would
	// ask oftener.
	politeGap = 40 * time.Second
	// budgetFloor: a request in as long is nothing to any domain.
	budgetFloor = 10 * time.Second
	// budgetCeil: more than a request in as long is much, however many read there, unless
	// the domain has so many channels that one poller for each needs more.
	budgetCeil = time.Second
	// soloGap: a member without a grant asks a domain once in as long, at most.
	soloGap = 5 * time.Minute
	// spared is the part of a budget that is not shared out to channels that have a poller
	// already: for those that come new, and for polls without a grant.
	spared = 1. / 16
	// maxReaders are the readers behind one member that count in a budget.
	maxReaders = 64
	// maxStretch bounds the interval of a grant; a channel that would get a longer one
	// gets none.
	maxStretch = 7 * 24 * time.Hour
)

// A claim is what a channel would be polled for if its domain had no budget.
type claim struct {
	readers  float64       // q
	size     float64       // s, in mean ones; 0: not known
	interval time.Duration // tau; above zero
	pollers  int           // n, at least 1
	tie      uint64        // some bits of its key
}

// once is how often the channel is asked by one poller, in requests a second.
func (c claim) once() float64 { return 1 / c.interval.Seconds() }

// A portion of a budget is what a channel may be polled: by so many, each once in an interval.
type portion struct {
	pollers  int
	interval time.Duration
}

// rate is how often its origin is asked, in requests a second.
func (s portion) rate() float64 { return float64(s.pollers) / s.interval.Seconds() }

// budget is how often a domain may be asked, in requests a second: as often as its readers
// would ask without us, as far as any domain bears, where one poller for each channel
// would make once requests. In a laboratory all times are shorter by compression.
func budget(readers, once, compression float64) float64 {
	least := compression / budgetFloor.Seconds()
	most := max(compression/budgetCeil.Seconds(), once)
	return min(max(readers, least), most)
}

// budgetOf is the budget of a domain's channels.
func budgetOf(claims []claim, compression float64) float64 {
	readers, once := 0., 0.
	for _, c := range claims {
		readers += max(c.readers, 0) * c.once()
		once += c.once()
	}
	return budget(readers, once, compression)
}

// shareOut shares a budget, in requests a second, among channels: so that their readers wait
// least for it, as the whole network is shared out (honeycomb.Lite; requests are what is
// spent, so that a channel of large documents weighs less). Each gets one poller, and no
// more than it claims. Where even that is too much, all intervals are longer by one factor.
// It takes O(k log k).
func shareOut(claims []claim, budget float64) []portion {
	shares := make([]portion, len(claims))
	if len(claims) == 0 {
		return shares
	}
	tau, once, most := claims[0].interval, 0., 1
	for i, c := range claims {
		shares[i] = portion{1, c.interval}
		once += c.once()
		tau, most = min(tau, c.interval), max(most, c.pollers)
	}
	if once >= budget {
		for i := range shares {
			s := claims[i].interval.Seconds() * once / budget
			shares[i].interval = time.Duration(math.Ceil(min(s, 2*maxStretch.Seconds()) * float64(time.Second)))
		}
		return shares
	}
	// Only the proportions of intervals count, and the optimiser has bounds for them.
	const tick = 30 * time.Minute
	p := honeycomb.Problem{Objective: honeycomb.Lite, Cut: honeycomb.Ranks, Base: 16, Nodes: min(most, honeycomb.MaxNodes), Interval: tick}
	channels := make([]honeycomb.Channel, len(claims))
	subscribers := 0.
	for i, c := range claims {
		weight := max(c.readers, honeycomb.MinSubscribers)
		if c.size > 0 {
			weight /= min(max(c.size, honeycomb.MinSize), honeycomb.MaxSize)
		}
		channels[i] = honeycomb.Channel{
			Subscribers: weight, Max: max(c.pollers, 1), Key: c.tie,
			Interval: time.Duration(float64(tick) * (float64(c.interval) / float64(tau))),
		}
		subscribers += min(weight, honeycomb.MaxSubscribers)
	}
	const exact = 1 - 1e-9 // the optimiser adds up in another order
	p.Load = min(budget*tau.Seconds()/subscribers*exact, honeycomb.MaxLoad)
	s, err := honeycomb.Solve(&p, channels, nil)
	if err != nil {
		return shares // of a problem that cannot be: one poller each is within any budget
	}
	for i := range shares {
		shares[i].pollers = int(s.Pick[i])
	}
	return shares
}
