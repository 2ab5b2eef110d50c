package honeycomb

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Factors outside their bounds count as the nearest bound.
func TestFactorsAreMovedIntoBounds(t *testing.T) {
	p := &Problem{Objective: Fair, Granularity: Ranks, Base: 16, Nodes: 1024, Interval: 30 * time.Minute, Load: 1}
	plain := Channel{Subscribers: 10, Size: 1, Update: time.Hour}
	with := func(change func(c *Channel)) Channel {
		c := plain
		change(&c)
		return c
	}
	q := func(q float64) Channel { return with(func(c *Channel) { c.Subscribers = q }) }
	s := func(s float64) Channel { return with(func(c *Channel) { c.Size = s }) }
	u := func(u time.Duration) Channel { return with(func(c *Channel) { c.Update = u }) }
	every := func(i time.Duration) Channel { return with(func(c *Channel) { c.Interval = i }) }
	most := func(n int) Channel { return with(func(c *Channel) { c.MaxPollers = n }) }
	for what, c := range map[string]struct{ is, as Channel }{
		"no subscribers":                {q(0), q(MinSubscribers)},
		"fewer than none":               {q(-1), q(MinSubscribers)},
		"NaN subscribers":               {q(math.NaN()), q(MinSubscribers)},
		"more than there are":           {q(math.Inf(1)), q(MaxSubscribers)},
		"size unknown":                  {s(0), s(1)},
		"size NaN":                      {s(math.NaN()), s(MinSize)},
		"size negative":                 {s(-1), s(MinSize)},
		"size infinite":                 {s(math.Inf(1)), s(MaxSize)},
		"never seen to change":          {u(0), u(MaxUpdate)},
		"change in the past":            {u(-1), u(MaxUpdate)},
		"another document at each poll": {u(1), u(MinUpdate)},
		"changes once a century":        {u(math.MaxInt64), u(MaxUpdate)},
		"interval unknown":              {every(0), every(30 * time.Minute)},
		"shorter than the network's":    {every(-time.Hour), every(30 * time.Minute)},
		"longer than any":               {every(math.MaxInt64), every(MaxInterval)},
		"no limit":                      {most(0), most(1024)},
		"more than the network":         {most(math.MaxInt), most(1024)},
		"less than one poller":          {most(-1), most(1)},
	} {
		if got, want := p.tradeoff(&c.is), p.tradeoff(&c.as); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, q := range []float64{math.NaN(), -1} {
		c := Channel{Subscribers: q}
		if got := c.subscribers(); got != 0 {
			t.Errorf("%v subscribers count as %v", q, got)
		}
	}
}

// Wedges that do not rise, or exceed the maximum, are skipped.
func TestInvalidWedgesAreSkipped(t *testing.T) {
	nan := float32(math.NaN())
	for _, objective := range []Objective{Lite, Fast} {
		p := &Problem{Objective: objective, Base: 16, Nodes: 64, Interval: 30 * time.Minute, Load: 1e6, Detection: time.Second}
		for _, c := range []struct {
			wedges []float32
			max    int
			want   float64 // pollers, if the budget is large
		}{
			{nil, 0, 1},
			{[]float32{1, 4, 64}, 0, 64},
			{[]float32{1, 4, 64}, 63, 4},
			{[]float32{1, 4, 64}, 1, 1},
			{[]float32{1, 4, 65}, 0, 4},
			{[]float32{4, 3, 4, 16, 2, 16}, 0, 16},
			{[]float32{4}, 2, 2},
			{[]float32{nan, nan, 8, nan}, 0, 8},
			{[]float32{-1, 0, float32(math.Inf(1))}, 0, 1},
		} {
			own := []Channel{{Subscribers: 100, Wedges: c.wedges, MaxPollers: c.max}}
			s, err := Solve(p, own, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Pollers(p, own, 0); got != c.want {
				t.Errorf("%v, wedges %v, at most %d: %v pollers, want %v", objective, c.wedges, c.max, got, c.want)
			}
		}
	}
}

// If every channel is at its bound, the budget is not spent and polls have no price, so a
// channel without a bound would get all nodes. Otherwise PollersFor returns what the others get
// for the same price.
func TestPollersFor(t *testing.T) {
	for _, granularity := range []Granularity{Levels, Ranks} {
		for _, o := range []Objective{Lite, Fair, FairSqrt, FairLog} {
			s := newScenario(256, 400, 8000, 3)
			s.Objective, s.Granularity = o, granularity
			for i := range s.channels {
				s.channels[i].Wedges = s.EstimatedWedges()
			}
			free, err := Solve(&s.Problem, s.channels, nil)
			if err != nil {
				t.Fatal(err)
			}
			off := 0
			for i := range s.channels {
				if free.PollersFor(&s.Problem, &s.channels[i]) != free.Pollers(&s.Problem, s.channels, i) {
					off++
				}
			}
			if off > len(s.channels)/40 { // the marginal channel, and those with the same slope
				t.Errorf("%v, %v: %d channels get other numbers from PollersFor", granularity, o, off)
			}
			if free.Spent > free.Budget || free.Spent < 0.9*free.Budget {
				t.Errorf("%v, %v: %v of %v is spent", granularity, o, free.Spent, free.Budget)
			}
			bound := slices.Clone(s.channels)
			for i := range bound {
				bound[i].MaxPollers = 2
			}
			tight, err := Solve(&s.Problem, bound, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := tight.PollersFor(&s.Problem, &s.channels[9]); n != 256 || tight.Spent != tight.Down.G || tight.Spent > 2*400 {
				t.Errorf("%v, %v: %v pollers, %v spent with all channels at their bounds", granularity, o, n, tight.Spent)
			}
		}
	}
}

func TestProblemCheckRefuses(t *testing.T) {
	good := Problem{Base: 16, Nodes: 1024, Interval: 30 * time.Minute, Load: 1}
	for _, c := range []struct {
		wrong func(p *Problem)
		want  string
	}{
		{func(*Problem) {}, ""},
		{func(p *Problem) { p.Objective, p.Load, p.Detection = Fast, 0, time.Second }, ""},
		{func(p *Problem) { p.Objective = 5 }, "objective"},
		{func(p *Problem) { p.Granularity = 2 }, "granularity"},
		{func(p *Problem) { p.Base = 1 }, "base"},
		{func(p *Problem) { p.Base = 257 }, "base"},
		{func(p *Problem) { p.Nodes = 0 }, "nodes"},
		{func(p *Problem) { p.Nodes = MaxNodes + 1 }, "nodes"},
		{func(p *Problem) { p.Interval = MinInterval - 1 }, "interval"},
		{func(p *Problem) { p.Interval = MaxInterval + 1 }, "interval"},
		{func(p *Problem) { p.Load = 0 }, "load"},
		{func(p *Problem) { p.Load = math.NaN() }, "load"},
		{func(p *Problem) { p.Load = math.Inf(1) }, "load"},
		{func(p *Problem) { p.Objective = Fast }, "detection"},
		{func(p *Problem) { p.Objective, p.Detection = Fast, MaxInterval+1 }, "detection"},
	} {
		p := good
		c.wrong(&p)
		checkRefusal(t, p.Check(), c.want)
		_, err := Solve(&p, nil, nil)
		checkRefusal(t, err, c.want)
	}
}

func TestObjectivesHaveNames(t *testing.T) {
	for o := range Objective(len(objectives)) {
		if got, err := ParseObjective(o.String()); err != nil || got != o {
			t.Errorf("%v is read as %v: %v", o, got, err)
		}
	}
	_, err := ParseObjective("best")
	checkRefusal(t, err, `"best" is none of lite, fast, fair, fair-sqrt, fair-log`)
	if got := Objective(9).String(); got != "Objective(9)" {
		t.Error(got)
	}
}
