package corona

import (
	"math"
	"testing"
	"time"

	"tidings/honeycomb"
	"tidings/internal/longtest"
)

// simulation is a network whose members each decide for the channels that they lead, once a round.
// Each knows the sums of all other channels with a delay: one round for the members of its leaf
// set, and one more for each row.
type simulation struct {
	*scenario
	t        testing.TB
	own      [][]int // indexes of each member's channels
	shares   []*honeycomb.Bins
	rest     []*honeycomb.Bins    // all other members' bins and subscribers, which do not change
	told     [][]honeycomb.Totals // by round, the latest first
	pollers  []float64            // as decided
	declined float64              // part of the pollers that decline
	rounds   int
}

// oldest is the largest age of a member's information, in rounds.
const oldest = 3

func newSimulation(t testing.TB, s *scenario, homes []int, declined float64) *simulation {
	c := &simulation{scenario: s, t: t, own: make([][]int, len(s.members)), declined: declined}
	c.pollers = make([]float64, len(s.channels))
	for i, m := range homes {
		c.own[m] = append(c.own[m], i)
	}
	all := &honeycomb.Bins{}
	first := make([]honeycomb.Totals, len(s.members))
	for m := range s.members {
		b := honeycomb.NewBins(&s.Problem, c.channelsOf(m))
		b.Nodes = 1
		first[m] = b.Totals
		c.shares = append(c.shares, b)
		all.Merge(b)
	}
	for _, b := range c.shares {
		rest := all.Clone()
		for i, cost := range b.StepCosts {
			rest.StepCosts[b.FirstBin+i-rest.FirstBin] = max(rest.StepCosts[b.FirstBin+i-rest.FirstBin]-cost, 0)
		}
		rest.BaseCost -= b.BaseCost
		c.rest = append(c.rest, rest)
	}
	for range oldest {
		c.told = append(c.told, first)
	}
	return c
}

func (c *simulation) channelsOf(m int) []honeycomb.Channel {
	of := make([]honeycomb.Channel, len(c.own[m]))
	for i, channel := range c.own[m] {
		of[i] = c.channels[channel]
	}
	return of
}

// hears returns the totals of the whole network as each member knows them: members that share two
// digits with it as of one round ago, those that share one digit as of two, and all others as of
// three.
func (c *simulation) hears() []honeycomb.Totals {
	add := func(t *honeycomb.Totals, o honeycomb.Totals, sign float64) {
		t.Subscribers += sign * o.Subscribers
		t.DecidedSubscribers += sign * o.DecidedSubscribers
		t.Load += sign * o.Load
		t.Delay += sign * o.Delay
		t.TargetTerm += sign * o.TargetTerm
	}
	var old honeycomb.Totals
	byDigit, byTwo := map[uint64][2]honeycomb.Totals{}, map[uint64][2]honeycomb.Totals{}
	for m, id := range c.members {
		add(&old, c.told[2][m], 1)
		one, two := byDigit[id>>60], byTwo[id>>56]
		add(&one[0], c.told[2][m], 1)
		add(&one[1], c.told[1][m], 1)
		add(&two[0], c.told[1][m], 1)
		add(&two[1], c.told[0][m], 1)
		byDigit[id>>60], byTwo[id>>56] = one, two
	}
	all := make([]honeycomb.Totals, len(c.members))
	for m, id := range c.members {
		one, two := byDigit[id>>60], byTwo[id>>56]
		all[m] = old
		add(&all[m], one[0], -1)
		add(&all[m], one[1], 1)
		add(&all[m], two[0], -1)
		add(&all[m], two[1], 1)
	}
	return all
}

// round lets every member decide.
func (c *simulation) round() {
	heard := c.hears()
	said := make([]honeycomb.Totals, len(c.members))
	c.rounds++
	for m := range c.members {
		aim := Correction(&c.Problem, heard[m])
		p := Corrected(c.Problem, aim)
		own := c.channelsOf(m)
		rest := c.rest[m].Clone()
		rest.Subscribers = heard[m].Subscribers - c.shares[m].Subscribers
		sol, err := honeycomb.Solve(&p, own, rest)
		if err != nil {
			c.t.Fatal(err)
		}
		for i, channel := range c.own[m] {
			// A change is made if it exceeds 3 % × h. h is between 0 and 1 by channel and round, so
			// that not all channels change at once.
			n, was := sol.Pollers(&p, own, i), c.pollers[channel]
			h := fraction(c.channels[channel].Key, uint64(c.rounds))
			if math.Abs(n-was) > 0.03*h*was {
				c.pollers[channel] = n
			}
		}
		said[m] = honeycomb.Totals{Nodes: 1, Channels: len(own), Subscribers: c.shares[m].Subscribers, DecidedSubscribers: c.shares[m].Subscribers}
		said[m].Load, said[m].Polls, said[m].Delay = honeycomb.ActualCost(&p, own, func(i int) float64 { return c.polling(c.own[m][i]) })
		inForce, decided := 0., 0.
		for i, channel := range c.own[m] {
			inForce += c.counted(&own[i], c.pollers[channel])
			decided += c.counted(&own[i], sol.Pollers(&p, own, i))
		}
		if len(own) > 0 {
			said[m].TargetTerm = TargetTerm(said[m].Subscribers, aim*inForce/decided)
		}
	}
	c.told = append([][]honeycomb.Totals{said}, c.told[:oldest-1]...)
}

// fraction maps two numbers to one between 0 and 1.
func fraction(key, n uint64) float64 {
	x := (key ^ n*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return math.Ldexp(float64(x>>11), -53)
}

// polling is the number of members that poll a channel; some decline.
func (c *simulation) polling(i int) float64 {
	n := c.pollers[i]
	// Of a few pollers one declines now and then, depending on the channel's key.
	lost := math.Floor(n*c.declined + fraction(c.channels[i].Key, 0))
	return max(n-lost, 1)
}

// counted is a channel's part of the quantity that T bounds.
func (c *simulation) counted(of *honeycomb.Channel, pollers float64) float64 {
	polled, _, waited := honeycomb.ActualCost(&c.Problem, []honeycomb.Channel{*of}, func(int) float64 { return pollers })
	if c.Objective == honeycomb.Fast {
		return waited
	}
	return polled
}

// stands returns the bounded quantity relative to T, and the objective relative to the best one for
// the same cost.
func (c *simulation) stands() (spent, worse float64) {
	subscribers := 0.
	for i := range c.channels {
		subscribers += c.channels[i].Subscribers
	}
	polled, asked, waited := honeycomb.ActualCost(&c.Problem, c.channels, c.polling)
	there := max(polled, asked)
	if c.Objective == honeycomb.Fast {
		there = waited
	}
	spent = there/c.Budget(subscribers) - 1
	best := Corrected(c.Problem, 1+spent)
	sol, err := honeycomb.Solve(&best, c.channels, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	central := honeycomb.Measure(&best, c.channels, func(i int) float64 { return sol.Pollers(&best, c.channels, i) })
	here := honeycomb.Measure(&best, c.channels, c.polling)
	return spent, here.Objective/central.Objective - 1
}

// quickly lets all members hear the latest information, as in quick rounds.
func (c *simulation) quickly() {
	for i := range c.told {
		c.told[i] = c.told[0]
	}
}

// The decisions that members make by themselves converge to T from below although some pollers
// decline, and no better result is possible for the same cost. The first rounds are quick; later
// sums are three rounds old.
func TestLoadConvergesToItsTarget(t *testing.T) {
	t.Parallel()
	s := newScenario(1024, longtest.Pick(10_000, 50_000), longtest.Pick(5e5, 2.5e6), 1)
	homes := s.homes()
	for _, base := range longtest.Pick([]int{2}, []int{0, 2}) {
		s.cut(base)
		for _, s.Objective = range []honeycomb.Objective{honeycomb.Lite, honeycomb.Fast, honeycomb.Fair} {
			for _, declined := range []float64{0, 0.02} {
				c := newSimulation(t, s, homes, declined)
				look := func(when string, wrong bool) {
					spent, worse := c.stands()
					t.Logf("%-4v base %d, %.0f %% decline, round %2d %-8s %+.3f %% of T, objective %+.3f %%",
						s.Objective, base, 100*c.declined, c.rounds, when, 100*spent, 100*worse)
					if wrong && (spent > 0 || spent < -0.005 || worse > 0.002) {
						t.Error("that is too far")
					}
				}
				for c.rounds < 3 {
					c.round()
					c.quickly()
					look("", c.rounds == 3)
				}
				if declined == 0 {
					continue
				}
				c.declined *= 2
				for c.rounds < 10 {
					c.round()
					look("", c.rounds > 8)
				}
			}
		}
	}
}

// Missing or invalid totals do not change the correction.
func TestCorrectionIsBounded(t *testing.T) {
	for objective := range honeycomb.FairLog + 1 {
		p := honeycomb.Problem{Objective: objective, Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1, Detection: time.Minute}
		polled, waited := targetPart*p.Budget(100), targetPart*p.Budget(100)
		// Load rises in small steps: by a larger T, or with Fast by a shorter time. While readers
		// join, a larger T is not used.
		rise := func(to float64) float64 { return min(to, math.Exp(maxCorrectionRise)) }
		fall := func(to float64) float64 { return to }
		if objective == honeycomb.Fast {
			rise, fall = fall, func(to float64) float64 { return max(to, math.Exp(-maxCorrectionRise)) }
		}
		for _, c := range []struct {
			all  honeycomb.Totals
			want float64
		}{
			{honeycomb.Totals{}, 1},
			{honeycomb.Totals{DecidedSubscribers: 100}, 1},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: polled, Delay: waited}, 1},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: polled, Delay: waited, TargetTerm: TargetTerm(100, 1.1)}, 1.1},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: polled / 0.97, Delay: waited / 0.97, TargetTerm: TargetTerm(100, 1.1)}, 1.1 * 0.97},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: 0.97 * polled, Delay: 0.97 * waited, TargetTerm: TargetTerm(100, 0.97)}, 1},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: 0.8 * polled, Delay: 0.8 * waited, TargetTerm: TargetTerm(100, 0.9)}, 0.9 * rise(1.25)},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: 1e-9 * polled, Delay: 1e-9 * waited}, rise(honeycomb.MaxCorrection)},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: 1e-9 * polled, Delay: 1e-9 * waited, TargetTerm: TargetTerm(100, 1.24)}, rise(honeycomb.MaxCorrection/1.24) * 1.24},
			{honeycomb.Totals{Subscribers: 110, DecidedSubscribers: 100, Load: 0.97 * polled, Delay: waited, TargetTerm: TargetTerm(100, 0.97)}, 0.97},
			{honeycomb.Totals{Subscribers: 101, DecidedSubscribers: 100, Load: 0.97 * polled, Delay: 0.97 * waited * math.Pow(1.01, 1.01)}, math.Pow(1/0.97, 1/1.01) / 1.01},
			// If decisions cover only some channels, as when most wait for their grants, the rest
			// is unknown.
			{honeycomb.Totals{Subscribers: 2000, DecidedSubscribers: 100, Load: polled * 1.2, Delay: waited * 1.2}, math.Pow(1/1.2, 0.05)},
			{honeycomb.Totals{Subscribers: 2000, DecidedSubscribers: 100, Load: polled / 1.2, Delay: waited}, 1},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: 1e9, Delay: 1e9}, fall(1 / honeycomb.MaxCorrection)},
			{honeycomb.Totals{DecidedSubscribers: 100, Load: polled, Delay: waited, TargetTerm: TargetTerm(100, 99)}, honeycomb.MaxCorrection},
		} {
			got := Correction(&p, c.all)
			if math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%v: %+v is corrected by %v, want %v", objective, c.all, got, c.want)
			}
			if corrected := Corrected(p, got); corrected.Check() != nil {
				t.Errorf("%+v", corrected)
			}
		}
	}
	most := Corrected(honeycomb.Problem{Base: 16, Nodes: 1, Interval: time.Hour, Load: honeycomb.MaxLoad, Detection: honeycomb.MaxInterval}, 1.25)
	if err := most.Check(); err != nil {
		t.Error(err)
	}
}
