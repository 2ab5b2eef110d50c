package corona

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums"
)

// Aggregate publishes a value and returns the sum of all other nodes' values. A
// *sums.Aggregator implements it.
type Aggregate interface {
	Set(value []byte) error
	Remote() (sum any, complete bool)
	RequestQuickRounds()
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
	// networkFactor is the same for the readers of all channels, because a node can spend only
	// what the readers allow that it knows of.
	networkFactor = 1.1
)

// allocator decides how many nodes poll each channel that is led here.
type allocator struct {
	*base
	permits   *permits
	aggregate Aggregate
	scheme    scheme
	up        leading

	problem            honeycomb.Problem
	correction         float64                   // factor c on the load target in the last decision
	targetShare        float64                   // correction, times the part of the decision that is in force
	solution           honeycomb.Solution        // the last decision; valid if decided
	decided            bool                      // a decision was made
	totals             honeycomb.Totals          // of the whole network, before the last decision
	totalsWhole        bool                      // no node's share is missing in totals
	announced          bool                      // a node without a decision has published its channels once
	remote             honeycomb.RemoteAggregate // aggregate of the other nodes' channels in the last decision
	meanSize           float64                   // size of a channel's content in bytes, over all channels; 0: not known
	decideAt           time.Time                 // zero: there is nothing to decide
	quickDecisions     int                       // decisions that are still to follow in quick succession
	decisionPause      time.Duration             // time until the next decision, before jitter
	lastOwnSubscribers float64                   // subscribers of the channels led here at the last decideUrgently
	lastAllSubscribers float64                   // subscribers of all channels at the last decideUrgently
}

// leading leads the channels that an allocator decides about.
type leading interface {
	// active returns the channels led here that are polled, in any order.
	active() []allocated

	// enlist orders a number of pollers for a channel.
	enlist(key overlay.ID, pollers int, now time.Time)
}

// allocated is a channel that is led here, as a decision needs it.
type allocated struct {
	*channelBudget
	*allocation
	*estimates
	readers  int
	interval time.Duration // between two polls of one node
	pushed   bool          // one node polls it, because its hub is trusted
}

// allocation is what has been decided about a channel.
type allocation struct {
	pollers int                // number of pollers ordered
	level   int                // polling level that the wedge is to reach, with Levels
	factors *honeycomb.Channel // tradeoff factors of the last decision; nil: there was none
}

func newAllocator(b *base, ps *permits) *allocator {
	a := &allocator{
		base: b, permits: ps, correction: 1, targetShare: 1,
		problem: honeycomb.Problem{
			Objective: b.cfg.Objective, Granularity: b.cfg.Cut, Base: b.cfg.Base, Interval: b.cfg.PollInterval,
			Load: b.cfg.Load, Detection: b.cfg.Detection,
		},
	}
	if a.scheme = (counting{b, &a.problem}); b.cfg.Clusters {
		a.scheme = clustering{b, &a.problem}
	}
	return a
}

// run decides if it is time to. polls says whether this node polls a channel; then it may have to
// decide for others (Config.DAG).
func (a *allocator) run(now time.Time, polls bool) {
	if !a.decideAt.IsZero() && !now.Before(a.decideAt) {
		a.decide(now, polls)
	}
}

// Adder returns the adder of other nodes' shares, for Join.
func (a *allocator) Adder() sums.Adder { return a.scheme.adder(a.currentProblem) }

// currentProblem returns the problem for the network's current size. A node adds up shares even if
// it has nothing to decide itself.
func (a *allocator) currentProblem() *honeycomb.Problem {
	a.problem.Nodes = max(a.node.Count(0), 1)
	return &a.problem
}

// Join gives the Corona the aggregate of the other nodes' shares.
func (a *allocator) Join(s Aggregate) { a.aggregate = s }

// startDecisions plans the first decision of a node that has got its first channel. Further ones
// follow quickly, while the node hears of others.
func (a *allocator) startDecisions(now time.Time) {
	if a.decideAt.IsZero() {
		a.decideAt = now.Add(a.shorten(firstDecision))
		a.decideUrgently()
	}
}

// shorten limits a quick pause in a network with a short maintenance interval.
func (a *allocator) shorten(d time.Duration) time.Duration {
	return min(d, max(a.cfg.MaintenanceInterval/minQuickPauses, time.Second))
}

// decideUrgently starts a series of quick decisions, and makes sums travel quickly.
func (a *allocator) decideUrgently() {
	a.quickDecisions, a.decisionPause = quickCount, a.shorten(quickPause)
	a.aggregate.RequestQuickRounds()
}

// decideSoon brings the next decision forward, because a channel is new or its readers have
// changed.
func (a *allocator) decideSoon(now time.Time) {
	if at := now.Add(a.shorten(quickPause)); at.Before(a.decideAt) {
		a.decideAt = at
	}
}

// decide chooses the number of pollers of each channel that is led here. It solves the problem of
// the whole network, with exact tradeoff factors for this node's channels and an aggregate for all
// others (Corona §3.2, §3.3).
func (a *allocator) decide(now time.Time, polls bool) {
	quick := a.quickDecisions > 0
	if quick {
		a.quickDecisions--
	} else {
		a.decisionPause = min(2*a.decisionPause, a.cfg.MaintenanceInterval)
	}
	pause := env.Jitter(a.rand, a.decisionPause)
	leaders := a.up.active()
	slices.SortFunc(leaders, func(a, b allocated) int { return bytes.Compare(a.key[:], b.key[:]) }) // messages must not depend on the order of a map
	if len(leaders) == 0 && (!a.cfg.DAG || !polls) {
		a.decideAt, a.decided, a.announced = time.Time{}, false, false
		_ = a.aggregate.Set(nil) // an empty value is never too large
		return
	}
	a.decideAt = now.Add(pause)
	a.problem.Nodes = a.node.Count(0)
	if a.problem.Nodes == 0 {
		return // not a member yet: nobody can be enlisted
	}
	sum, whole := a.aggregate.Remote()
	remote := sum.(honeycomb.RemoteAggregate)
	channels := a.channels(leaders, remote, now)
	if q := subscribersOf(channels); q > readersFactor*a.lastOwnSubscribers || readersFactor*q < a.lastOwnSubscribers {
		a.lastOwnSubscribers = q
		a.decideUrgently()
	}
	all := a.publishShare(leaders, channels, remote, now)
	a.totals, a.totalsWhole = all, whole
	if q := all.Subscribers; whole && (q > networkFactor*a.lastAllSubscribers || networkFactor*q < a.lastAllSubscribers) {
		a.lastAllSubscribers = q
		a.decideUrgently()
	}
	if !a.decided && !a.announced && all.DecidedSubscribers == 0 {
		a.announced = true
		return
	}
	if !whole && a.decided {
		return // missing shares would be allocated twice, so keep the previous decision
	}
	if !a.cfg.DAG && !quick { // with a DAG nobody knows the number of pollers before wedges have reported, so the correction stays
		a.correction = Correction(&a.problem, all)
	}
	p := Corrected(a.problem, a.correction)
	s, err := honeycomb.Solve(&p, channels, remote)
	if err != nil {
		a.log.Error("the number of pollers could not be optimised", "err", err)
		return
	}
	a.solution, a.remote, a.decided = s, remote, true
	chosen := make([]float64, len(leaders))
	for i, l := range leaders {
		chosen[i] = s.Pollers(&p, channels, i)
		l.factors = &channels[i]
		n := int(chosen[i])
		if l.desiredPollers = a.unboundPollers(&p, l, channels[i]); a.problem.Granularity == honeycomb.Levels {
			l.level = a.scheme.level(l.key, channels[i].Wedges, int(s.Pick[i]))
		}
		if !a.worthTelling(l, n) {
			n = l.pollers
		}
		a.up.enlist(l.key, n, now)
	}
	a.targetShare = a.correction * a.shareInForce(leaders, channels, chosen, now)
	if a.problem.Objective != honeycomb.Fast && s.Feasible { // load that bounds on channels leave unused is not to be made up for
		a.targetShare *= min(s.Spent/s.Budget, 1)
	}
	if a.cfg.DAG && quick { // one level in each maintenance interval would be too slow at the start
		a.wedges.AdjustLevels()
	}
}

// shareInForce is the part of the decision that is in force, because small changes are not made. It
// is measured in the quantity that T bounds.
func (a *allocator) shareInForce(leaders []allocated, channels []honeycomb.Channel, chosen []float64, now time.Time) float64 {
	of := make([]honeycomb.Channel, 0, len(leaders))
	then, is := make([]float64, 0, len(leaders)), make([]float64, 0, len(leaders))
	for i, l := range leaders {
		if !a.permits.awaitsGrant(l.channelBudget, now) {
			of, then, is = append(of, channels[i]), append(then, chosen[i]), append(is, float64(l.pollers))
		}
	}
	spent := func(pollers []float64) float64 {
		polled, asked, waited := honeycomb.ActualCost(&a.problem, of, func(i int) float64 { return pollers[i] })
		if a.problem.Objective == honeycomb.Fast {
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
func (a *allocator) unboundPollers(p *honeycomb.Problem, l allocated, of honeycomb.Channel) int {
	if n := a.permits.readerLimit(l.readers, l.interval); of.MaxPollers != 0 && of.MaxPollers < n {
		of.MaxPollers = n
	}
	return int(a.solution.PollersFor(p, &of))
}

// subscribersOf is the sum of the channels' subscribers.
func subscribersOf(channels []honeycomb.Channel) (sum float64) {
	for i := range channels {
		sum += channels[i].Subscribers
	}
	return sum
}

// publishShare publishes the sum of the channels led here. It returns the totals of the whole
// network: what is polled, and what the underlying decisions aimed at.
func (a *allocator) publishShare(leaders []allocated, channels []honeycomb.Channel, remote honeycomb.RemoteAggregate, now time.Time) honeycomb.Totals {
	p := &a.problem
	t := honeycomb.Totals{Nodes: 1, Channels: len(channels)}
	for i := range channels {
		t.Subscribers += channels[i].Subscribers
		t.PollBytes += leaders[i].pollBytes()
	}
	then := make([]honeycomb.Channel, 0, len(leaders))
	polled := make([]float64, 0, len(leaders))
	for _, l := range leaders {
		if l.factors != nil && !a.permits.awaitsGrant(l.channelBudget, now) {
			then, polled = append(then, *l.factors), append(polled, a.pollsOf(l, now))
			t.DecidedSubscribers += l.factors.Subscribers
		}
	}
	t.Load, t.Polls, t.Delay = honeycomb.ActualCost(p, then, func(i int) float64 { return polled[i] })
	t.TargetTerm = TargetTerm(t.DecidedSubscribers, a.targetShare)
	value := a.scheme.encode(channels, func(i int) int { return leaders[i].level }, t)
	if err := a.aggregate.Set(value); err != nil {
		a.log.Error("summary of feeds could not be sent to other nodes", "err", err)
	}
	return t.With(remote)
}

// pollsOf is the number of polls of a channel in an interval, those included that only confirm a new document or audit
// the log.
func (a *allocator) pollsOf(l allocated, now time.Time) float64 {
	polls := float64(a.servingPollers(l)) + l.looks.per(l.interval, now)
	if a.cfg.AuditOneIn > 0 {
		polls += float64(l.readers) / float64(a.cfg.AuditOneIn)
	}
	return polls
}

// servingPollers is the number of nodes that poll a channel.
func (a *allocator) servingPollers(l allocated) int {
	if a.cfg.DAG {
		return l.pollers
	}
	served, _ := a.wedges.Served(l.key)
	return served
}

// channels returns the tradeoff factors of channels, as far as they are known. rest stands for all
// other channels.
func (a *allocator) channels(leaders []allocated, remote honeycomb.RemoteAggregate, now time.Time) []honeycomb.Channel {
	all := honeycomb.Totals{Channels: len(leaders)}
	for _, l := range leaders {
		all.PollBytes += l.pollBytes()
	}
	a.meanSize = all.With(remote).MeanPollBytes()
	of := make([]honeycomb.Channel, len(leaders))
	for i, l := range leaders {
		of[i] = honeycomb.Channel{
			Subscribers: float64(l.readers),
			Size:        a.relativeSize(l.pollBytes()),
			Update:      l.updateRate.interval(now),
			Interval:    l.interval,
			MaxPollers:  a.permits.decisionLimit(l.channelBudget, l.readers, l.interval, now),
			Wedges:      a.sizes(l.key),
			Key:         tieBreak(l.key),
		}
		if l.pushed {
			of[i].MaxPollers = 1
		}
	}
	return of
}

// tieBreak orders channels that are otherwise equal.
func tieBreak(key overlay.ID) uint64 { return binary.BigEndian.Uint64(key[:]) }

// relativeSize is the cost of a poll in bytes, relative to the mean channel.
func (a *allocator) relativeSize(pollBytes float64) float64 {
	if a.meanSize <= 0 {
		return 1
	}
	return pollBytes / a.meanSize
}

// sizes returns the sizes of a channel's wedges; nil if any number of members may poll.
func (a *allocator) sizes(key overlay.ID) []float32 {
	if a.cfg.Cut == honeycomb.Ranks {
		return nil
	}
	return a.scheme.sizes(key)
}

// levelOf is the polling level that the last decision gives to a channel that is led by another
// node.
func (a *allocator) levelOf(key overlay.ID, ch honeycomb.Channel) int {
	ch.Wedges, ch.Key = a.sizes(key), tieBreak(key)
	return a.scheme.level(key, ch.Wedges, a.solution.Level(&a.problem, &ch))
}

// worthTelling says whether a change in the number of pollers is large enough to tell the wedge.
func (a *allocator) worthTelling(l allocated, n int) bool {
	off := max(n, l.pollers) - min(n, l.pollers)
	return float64(off) > hysteresis*a.rand.Float64()*float64(l.pollers)
}

// Decision describes the last optimisation.
type Decision struct {
	Lambda float64
	Fits   bool // one poller for each channel is within the load target
	// Polls is how often the whole network polls in a polling interval, and Target how often it may, for channels whose number
	// of pollers is decided. Both are 0 if the network bounds the detection time instead, or if the sums of other nodes are
	// missing.
	Polls, Target float64
	Clusters      int   // number of clusters or bins that represent the channels of other nodes
	Levels        []int // number of channels led here at each polling level, from 0; with Ranks, at the level whose wedge is as large, rounded down
}

// Decision returns the last decision; ok is false if there was none yet.
func (a *allocator) Decision() (v Decision, ok bool) {
	if !a.decided {
		return Decision{}, false
	}
	v = Decision{Lambda: a.solution.Lambda, Fits: a.solution.Feasible, Clusters: a.remote.Len()}
	if a.problem.Objective != honeycomb.Fast && a.totalsWhole {
		v.Polls, v.Target = max(a.totals.Load, a.totals.Polls), a.problem.Budget(a.totals.DecidedSubscribers)
	}
	for _, l := range a.up.active() {
		at := l.level
		if a.cfg.Cut == honeycomb.Ranks {
			at = int(math.Log(float64(a.problem.Nodes)/float64(l.pollers)) / math.Log(float64(a.cfg.Base)))
		}
		for at = max(at, 0); len(v.Levels) <= at; {
			v.Levels = append(v.Levels, 0)
		}
		v.Levels[at]++
	}
	return v, true
}
