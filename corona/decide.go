package corona

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/honeycomb"
	"tidings/overlay"
	"tidings/overlay/sums"
)

// Sums tell a node what all others know, added up: a *sums.Sums.
type Sums interface {
	Set(value []byte) error
	Rest() (sum any, whole bool)
	Disturbed()
}

const (
	// decideFirst is how long after its first channel a node decides, by what it knows: but for a
	// network in which nobody has yet, where all tell each other first what they lead. Then
	// it does so each decideQuick as long as sums travel quickly, decideQuicks times; from then
	// on the time from one decision to the next doubles, up to the maintenance interval, as
	// that of sums does.
	decideFirst  = 15 * time.Second
	decideQuick  = 20 * time.Second
	decideQuicks = 4
	// briskly is how many of these times there are at least in a maintenance interval.
	briskly = 6
	// hysteresis is by which part a number of pollers must change for its wedge to be told,
	// times a part that is drawn each time, so that not all channels move at once.
	hysteresis = 0.03
	// grown is how many times more, or fewer, readers a channel must have than when its
	// pollers were decided, for that to be done again soon.
	grown = 2
	// swollen is the same of the readers of all channels: what of T is not heard of is not spent.
	swollen = 1.1
)

// Adder returns what adds up the shares of other nodes for Join.
func (c *Corona) Adder() sums.Adder {
	if c.cfg.Clusters {
		return ClustersAdder{c.current}
	}
	return BinsAdder{Problem: c.current, costs: new([]float64)}
}

// current is the problem of the network as it is: a node adds up for others that has nothing to
// decide itself.
func (c *Corona) current() *honeycomb.Problem {
	c.problem.Nodes = max(c.node.Count(0), 1)
	return &c.problem
}

// Join gives the Corona the sums of what other nodes tell.
func (c *Corona) Join(s Sums) { c.sums = s }

// begin has a node decide that has its first channel: soon, by what it knows, and again and
// again while it hears of others.
func (c *Corona) begin(now time.Time) {
	if c.decideAt.IsZero() {
		c.decideAt = now.Add(c.brisk(decideFirst))
		c.hurry()
	}
}

// brisk is one of the times of quick decisions in a network whose maintenance interval may be
// short.
func (c *Corona) brisk(d time.Duration) time.Duration {
	return min(d, max(c.cfg.MaintenanceInterval/briskly, time.Second))
}

// hurry has decisions follow each other quickly, and sums travel.
func (c *Corona) hurry() {
	c.quick, c.pause = decideQuicks, c.brisk(decideQuick)
	c.sums.Disturbed()
}

// decideSoon brings the next decision forward: a channel is new, or has other readers.
func (c *Corona) decideSoon(now time.Time) {
	if at := now.Add(c.brisk(decideQuick)); at.Before(c.decideAt) {
		c.decideAt = at
	}
}

// decide chooses how many nodes poll each channel that is led here, as if all sequencers
// sat at one table: the own channels' tradeoff factors are known exactly, those of others as
// a sum (Corona §3.2, §3.3).
func (c *Corona) decide(now time.Time) {
	quick := c.quick > 0
	if quick {
		c.quick--
	} else {
		c.pause = min(2*c.pause, c.cfg.MaintenanceInterval)
	}
	pause := c.pause*3/4 + time.Duration(c.rand.Int64N(int64(c.pause)/2+1))
	leads := c.active()
	if len(leads) == 0 && (!c.cfg.DAG || c.duties.Len() == 0) {
		c.decideAt, c.decided, c.told = time.Time{}, false, false
		_ = c.sums.Set(nil) // of nothing, which is never too large
		return
	}
	c.decideAt = now.Add(pause)
	c.problem.Nodes = c.node.Count(0)
	if c.problem.Nodes == 0 {
		return // no member: nobody can be enlisted
	}
	sum, whole := c.sums.Rest()
	rest := sum.(honeycomb.Rest)
	own := c.channels(leads, rest, now)
	if q := subscribersOf(own); q > grown*c.weighed || grown*q < c.weighed {
		c.weighed = q
		c.hurry()
	}
	all := c.share(leads, own, rest, now)
	if q := all.Subscribers; whole && (q > swollen*c.network || swollen*q < c.network) {
		c.network = q
		c.hurry()
	}
	if !c.decided && !c.told && all.Decided == 0 {
		c.told = true
		return
	}
	if !whole && c.decided {
		return // what is missing would be given away
	}
	if !c.cfg.DAG && !quick { // there nobody knows how many poll a channel, nor do they until wedges have told: it stays
		c.correction = Correction(&c.problem, all)
	}
	p := Corrected(c.problem, c.correction)
	s, err := honeycomb.Solve(&p, own, rest)
	if err != nil {
		c.log.Error("numbers of pollers could not be optimised", "err", err)
		return
	}
	c.solution, c.others, c.decided = s, rest, true
	chosen := make([]float64, len(leads))
	for i, l := range leads {
		chosen[i] = s.Pollers(&p, own, i)
		l.by = &own[i]
		n := int(chosen[i])
		if l.want = c.wish(&p, l, own[i]); c.problem.Cut == honeycomb.Levels {
			l.level = c.level(l.key, own[i].Wedges, int(s.Pick[i]))
		}
		if !c.moves(l, n) {
			n = l.pollers
		}
		c.enlist(l, n, now)
	}
	c.aim = c.correction * c.inForce(leads, own, chosen, now)
	if c.problem.Objective != honeycomb.Fast && s.Fits { // what bounds leave is not to be made up for
		c.aim *= min(s.Spent/s.Budget, 1)
	}
	if c.cfg.DAG && quick { // a level in each maintenance interval would be long to begin with
		c.wedges.Relevel()
	}
}

// inForce is the part of what was chosen for channels that is in force: small changes are not made.
// What counts is what is bounded by T.
func (c *Corona) inForce(leads []*lead, own []honeycomb.Channel, chosen []float64, now time.Time) float64 {
	var of []honeycomb.Channel
	var then, is []float64
	for i, l := range leads {
		if !c.awaits(l, now) {
			of, then, is = append(of, own[i]), append(then, chosen[i]), append(is, float64(l.pollers))
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

// wish is how many pollers a channel would have if its domain had no budget, at the price that
// a poll has now. What is solved for once more with the own channels alone unbound would let each
// node have all that the bounds of all leave.
func (c *Corona) wish(p *honeycomb.Problem, l *lead, of honeycomb.Channel) int {
	if n := c.worth(c.readers(l), l.interval); of.Max != 0 && of.Max < n {
		of.Max = n
	}
	return int(c.solution.At(p, &of))
}

// subscribersOf is how many all of some channels have.
func subscribersOf(channels []honeycomb.Channel) (sum float64) {
	for i := range channels {
		sum += channels[i].Subscribers
	}
	return sum
}

// active are the channels led here that are polled, in the order of their keys.
func (c *Corona) active() []*lead {
	of := make([]*lead, 0, len(c.leads))
	for _, l := range c.leads {
		if l.pollers > 0 {
			of = append(of, l)
		}
	}
	slices.SortFunc(of, func(a, b *lead) int { return slices.Compare(a.key[:], b.key[:]) })
	return of
}

// share tells others of the channels led here, and returns the totals of all: what is polled,
// and what the decisions that it came from aimed at.
func (c *Corona) share(leads []*lead, own []honeycomb.Channel, rest honeycomb.Rest, now time.Time) honeycomb.Totals {
	p := &c.problem
	t := honeycomb.Totals{Nodes: 1, Channels: len(own)}
	for i := range own {
		t.Subscribers += own[i].Subscribers
		t.Content += leads[i].bytes()
	}
	then := make([]honeycomb.Channel, 0, len(leads))
	polled := make([]float64, 0, len(leads))
	for _, l := range leads {
		if l.by != nil && !c.awaits(l, now) {
			then, polled = append(then, *l.by), append(polled, float64(c.served(l)))
			t.Decided += l.by.Subscribers
		}
	}
	t.Polled, t.Asked, t.Waited = honeycomb.Spent(p, then, func(i int) float64 { return polled[i] })
	t.Aim = Aim(t.Decided, c.aim)
	var value []byte
	if c.cfg.Clusters {
		sum := honeycomb.NewClusters(p, own, func(i int) int { return leads[i].level })
		sum.Totals = t
		value = EncodeClusters(sum)
	} else {
		sum := honeycomb.NewBins(p, own)
		sum.Totals = t
		value = EncodeBins(sum)
	}
	if err := c.sums.Set(value); err != nil {
		c.log.Error("summary of feeds could not be sent to other nodes", "err", err)
	}
	return t.With(rest)
}

// served is how many nodes poll a channel.
func (c *Corona) served(l *lead) int {
	if c.cfg.DAG {
		return l.pollers
	}
	served, _ := c.wedges.Serving(l.key)
	return served
}

// channels are the tradeoff factors of channels, as far as they are known. rest stands for all
// others.
func (c *Corona) channels(leads []*lead, rest honeycomb.Rest, now time.Time) []honeycomb.Channel {
	all := honeycomb.Totals{Channels: len(leads)}
	for _, l := range leads {
		all.Content += l.bytes()
	}
	c.mean = all.With(rest).Mean()
	of := make([]honeycomb.Channel, len(leads))
	for i, l := range leads {
		of[i] = honeycomb.Channel{
			Subscribers: float64(c.readers(l)),
			Size:        c.relative(l),
			Update:      l.rhythm.interval(now),
			Interval:    l.interval,
			Max:         c.bound(l, now),
			Wedges:      c.sizes(l.key),
			Key:         tie(l.key),
		}
	}
	return of
}

// tie breaks ties between channels.
func tie(key overlay.ID) uint64 { return binary.BigEndian.Uint64(key[:]) }

// relative is what a poll of a channel costs, in those of a mean one.
func (c *Corona) relative(l *lead) float64 {
	if c.mean <= 0 {
		return 1
	}
	return l.bytes() / c.mean
}

// moves says whether another number of pollers is worth telling them.
func (c *Corona) moves(l *lead, n int) bool {
	off := max(n, l.pollers) - min(n, l.pollers)
	return float64(off) > hysteresis*c.rand.Float64()*float64(l.pollers)
}
