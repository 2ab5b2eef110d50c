package corona

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/honeycomb"
	"tidings/overlay"
	"tidings/overlay/sums"
)

// Aggregate publishes a value and returns the sum of all other nodes' values. A *sums.Sums
// implements it.
type Aggregate interface {
	Set(value []byte) error
	Rest() (sum any, whole bool)
	Disturbed()
}

const (
	// firstDecision is the delay between a node's first channel and its first decision. If no node
	// in the network has decided yet, the first round only publishes the channels. quickCount
	// decisions follow at intervals of quickPause, as long as sums travel quickly. Then the
	// interval doubles up to the maintenance interval, as that of sums does.
	firstDecision = 15 * time.Second
	quickPause    = 20 * time.Second
	quickCount    = 4
	// minQuickPauses is the least number of quick pauses in a maintenance interval.
	minQuickPauses = 6
	// hysteresis is the relative change in the number of pollers at which a wedge is told, times a
	// random factor from 0 to 1, so that not all channels change at once.
	hysteresis = 0.03
	// readersFactor is the factor by which the readers of a channel must have changed since its
	// last decision to bring the next one forward.
	readersFactor = 2
	// networkFactor is the same for the readers of all channels, because a node cannot spend the
	// part of the target T that it has not heard of.
	networkFactor = 1.1
)

// Adder returns the adder of other nodes' shares, for Join.
func (c *Corona) Adder() sums.Adder {
	if c.cfg.Clusters {
		return ClustersAdder{c.currentProblem}
	}
	return BinsAdder{Problem: c.currentProblem, costs: new([]float64)}
}

// currentProblem returns the problem for the network's current size. A node adds up shares even if
// it has nothing to decide itself.
func (c *Corona) currentProblem() *honeycomb.Problem {
	c.problem.Nodes = max(c.node.Count(0), 1)
	return &c.problem
}

// Join gives the Corona the aggregate of the other nodes' shares.
func (c *Corona) Join(s Aggregate) { c.aggregate = s }

// startDecisions plans the first decision of a node that has got its first channel. Further ones
// follow quickly, while the node hears of others.
func (c *Corona) startDecisions(now time.Time) {
	if c.decideAt.IsZero() {
		c.decideAt = now.Add(c.shorten(firstDecision))
		c.decideUrgently()
	}
}

// shorten limits a quick pause in a network with a short maintenance interval.
func (c *Corona) shorten(d time.Duration) time.Duration {
	return min(d, max(c.cfg.MaintenanceInterval/minQuickPauses, time.Second))
}

// decideUrgently starts a series of quick decisions, and makes sums travel quickly.
func (c *Corona) decideUrgently() {
	c.quickDecisions, c.decisionPause = quickCount, c.shorten(quickPause)
	c.aggregate.Disturbed()
}

// decideSoon brings the next decision forward, because a channel is new or its readers have
// changed.
func (c *Corona) decideSoon(now time.Time) {
	if at := now.Add(c.shorten(quickPause)); at.Before(c.decideAt) {
		c.decideAt = at
	}
}

// decide chooses the number of pollers of each channel that is led here. It solves the problem of
// the whole network, with exact tradeoff factors for this node's channels and an aggregate for all
// others (Corona §3.2, §3.3).
func (c *Corona) decide(now time.Time) {
	quick := c.quickDecisions > 0
	if quick {
		c.quickDecisions--
	} else {
		c.decisionPause = min(2*c.decisionPause, c.cfg.MaintenanceInterval)
	}
	pause := c.decisionPause*3/4 + time.Duration(c.rand.Int64N(int64(c.decisionPause)/2+1))
	leaders := c.activeLeaders()
	if len(leaders) == 0 && (!c.cfg.DAG || c.assignments.Len() == 0) {
		c.decideAt, c.decided, c.announced = time.Time{}, false, false
		_ = c.aggregate.Set(nil) // an empty value is never too large
		return
	}
	c.decideAt = now.Add(pause)
	c.problem.Nodes = c.node.Count(0)
	if c.problem.Nodes == 0 {
		return // not a member yet: nobody can be enlisted
	}
	sum, whole := c.aggregate.Rest()
	remote := sum.(honeycomb.Rest)
	channels := c.channels(leaders, remote, now)
	if q := subscribersOf(channels); q > readersFactor*c.lastOwnSubscribers || readersFactor*q < c.lastOwnSubscribers {
		c.lastOwnSubscribers = q
		c.decideUrgently()
	}
	all := c.publishShare(leaders, channels, remote, now)
	if q := all.Subscribers; whole && (q > networkFactor*c.lastAllSubscribers || networkFactor*q < c.lastAllSubscribers) {
		c.lastAllSubscribers = q
		c.decideUrgently()
	}
	if !c.decided && !c.announced && all.Decided == 0 {
		c.announced = true
		return
	}
	if !whole && c.decided {
		return // missing shares would be allocated twice, so keep the previous decision
	}
	if !c.cfg.DAG && !quick { // with a DAG nobody knows the number of pollers before wedges have reported, so the correction stays
		c.correction = Correction(&c.problem, all)
	}
	p := Corrected(c.problem, c.correction)
	s, err := honeycomb.Solve(&p, channels, remote)
	if err != nil {
		c.log.Error("the number of pollers could not be optimised", "err", err)
		return
	}
	c.solution, c.remote, c.decided = s, remote, true
	chosen := make([]float64, len(leaders))
	for i, l := range leaders {
		chosen[i] = s.Pollers(&p, channels, i)
		l.factors = &channels[i]
		n := int(chosen[i])
		if l.desiredPollers = c.unboundPollers(&p, l, channels[i]); c.problem.Cut == honeycomb.Levels {
			l.level = c.level(l.key, channels[i].Wedges, int(s.Pick[i]))
		}
		if !c.worthTelling(l, n) {
			n = l.pollers
		}
		c.enlist(l, n, now)
	}
	c.targetShare = c.correction * c.shareInForce(leaders, channels, chosen, now)
	if c.problem.Objective != honeycomb.Fast && s.Fits { // load that bounds on channels leave unused is not to be made up for
		c.targetShare *= min(s.Spent/s.Budget, 1)
	}
	if c.cfg.DAG && quick { // one level in each maintenance interval would be too slow at the start
		c.wedges.AdjustLevels()
	}
}

// shareInForce is the part of the decision that is in force, because small changes are not made. It
// is measured in the quantity that T bounds.
func (c *Corona) shareInForce(leaders []*leaderState, channels []honeycomb.Channel, chosen []float64, now time.Time) float64 {
	var of []honeycomb.Channel
	var then, is []float64
	for i, l := range leaders {
		if !c.permits.awaitsGrant(&l.channelBudget, now) {
			of, then, is = append(of, channels[i]), append(then, chosen[i]), append(is, float64(l.pollers))
		}
	}
	spent := func(pollers []float64) float64 {
		polled, asked, waited := honeycomb.Spent(&c.problem, of, func(i int) float64 { return pollers[i] })
		if c.problem.Objective == honeycomb.Fast {
			return waited
		}
		return max(polled, asked)
	}
	if all := spent(then); all > 0 {
		return spent(is) / all
	}
	return 1
}

// unboundPollers is the number of pollers that a channel would have if its domain had no budget, at
// the current price of a poll. Solving again with only the own channels unbound would let each node
// have everything that the bounds of all nodes leave.
func (c *Corona) unboundPollers(p *honeycomb.Problem, l *leaderState, of honeycomb.Channel) int {
	if n := c.permits.readerLimit(c.readers(l), l.interval); of.Max != 0 && of.Max < n {
		of.Max = n
	}
	return int(c.solution.At(p, &of))
}

// subscribersOf is the sum of the channels' subscribers.
func subscribersOf(channels []honeycomb.Channel) (sum float64) {
	for i := range channels {
		sum += channels[i].Subscribers
	}
	return sum
}

// activeLeaders returns the channels led here that are polled, sorted by key.
func (c *Corona) activeLeaders() []*leaderState {
	of := make([]*leaderState, 0, len(c.leaders))
	for _, l := range c.leaders {
		if l.pollers > 0 {
			of = append(of, l)
		}
	}
	slices.SortFunc(of, func(a, b *leaderState) int { return slices.Compare(a.key[:], b.key[:]) })
	return of
}

// publishShare publishes the sum of the channels led here. It returns the totals of the whole
// network: what is polled, and what the underlying decisions aimed at.
func (c *Corona) publishShare(leaders []*leaderState, channels []honeycomb.Channel, remote honeycomb.Rest, now time.Time) honeycomb.Totals {
	p := &c.problem
	t := honeycomb.Totals{Nodes: 1, Channels: len(channels)}
	for i := range channels {
		t.Subscribers += channels[i].Subscribers
		t.Content += leaders[i].pollBytes()
	}
	then := make([]honeycomb.Channel, 0, len(leaders))
	polled := make([]float64, 0, len(leaders))
	for _, l := range leaders {
		if l.factors != nil && !c.permits.awaitsGrant(&l.channelBudget, now) {
			then, polled = append(then, *l.factors), append(polled, float64(c.servingPollers(l)))
			t.Decided += l.factors.Subscribers
		}
	}
	t.Polled, t.Asked, t.Waited = honeycomb.Spent(p, then, func(i int) float64 { return polled[i] })
	t.Aim = TargetTerm(t.Decided, c.targetShare)
	var value []byte
	if c.cfg.Clusters {
		sum := honeycomb.NewClusters(p, channels, func(i int) int { return leaders[i].level })
		sum.Totals = t
		value = EncodeClusters(sum)
	} else {
		sum := honeycomb.NewBins(p, channels)
		sum.Totals = t
		value = EncodeBins(sum)
	}
	if err := c.aggregate.Set(value); err != nil {
		c.log.Error("summary of feeds could not be sent to other nodes", "err", err)
	}
	return t.With(remote)
}

// servingPollers is the number of nodes that poll a channel.
func (c *Corona) servingPollers(l *leaderState) int {
	if c.cfg.DAG {
		return l.pollers
	}
	served, _ := c.wedges.Served(l.key)
	return served
}

// channels returns the tradeoff factors of channels, as far as they are known. rest stands for all
// other channels.
func (c *Corona) channels(leaders []*leaderState, remote honeycomb.Rest, now time.Time) []honeycomb.Channel {
	all := honeycomb.Totals{Channels: len(leaders)}
	for _, l := range leaders {
		all.Content += l.pollBytes()
	}
	c.meanSize = all.With(remote).Mean()
	of := make([]honeycomb.Channel, len(leaders))
	for i, l := range leaders {
		of[i] = honeycomb.Channel{
			Subscribers: float64(c.readers(l)),
			Size:        c.relativeSize(l),
			Update:      l.updateRate.interval(now),
			Interval:    l.interval,
			Max:         c.permits.decisionLimit(&l.channelBudget, c.readers(l), l.interval, now),
			Wedges:      c.sizes(l.key),
			Key:         tieBreak(l.key),
		}
	}
	return of
}

// tieBreak orders channels that are otherwise equal.
func tieBreak(key overlay.ID) uint64 { return binary.BigEndian.Uint64(key[:]) }

// relativeSize is the cost of a poll of a channel, relative to the mean channel.
func (c *Corona) relativeSize(l *leaderState) float64 {
	if c.meanSize <= 0 {
		return 1
	}
	return l.pollBytes() / c.meanSize
}

// worthTelling says whether a change in the number of pollers is large enough to tell the wedge.
func (c *Corona) worthTelling(l *leaderState, n int) bool {
	off := max(n, l.pollers) - min(n, l.pollers)
	return float64(off) > hysteresis*c.rand.Float64()*float64(l.pollers)
}
