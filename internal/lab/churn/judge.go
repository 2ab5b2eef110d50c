package churn

import (
	"fmt"
	"math"
	"time"
)

// Default lists the runs that the docs name: a calm network, churn, loss, and other
// sizes.
func Default(seed uint64, nodes, lookups int, length time.Duration) []Scenario {
	base := Scenario{Seed: seed, Nodes: nodes, Silent: 1, Lookups: lookups, Length: length}
	with := func(name string, change func(*Scenario)) Scenario {
		c := base
		c.Name = name
		change(&c)
		return c
	}
	runs := []Scenario{with("calm", func(*Scenario) {})}
	for _, minutes := range []int{60, 15, 5} {
		runs = append(runs, with(fmt.Sprintf("sessions of %d min", minutes), func(c *Scenario) {
			c.Session = time.Duration(minutes) * time.Minute
		}))
	}
	for _, percent := range []int{1, 5} {
		runs = append(runs, with(fmt.Sprintf("%d %% loss", percent), func(c *Scenario) { c.Loss = float64(percent) / 100 }))
	}
	for _, n := range []int{64, 256, 4096} {
		runs = append(runs, with(fmt.Sprintf("%d members", n), func(c *Scenario) {
			c.Nodes, c.Lookups, c.Length = n, lookups/50, length/6
		}))
	}
	return runs
}

// HopsBound is how many hops a look-up may take in the mean: a tenth more than a digit of
// base 16 each, and one.
func HopsBound(nodes int) float64 { return 1.1*math.Log2(float64(nodes))/4 + 1 }

// A Mark is a figure beside what was asked for.
type Mark struct {
	What      string
	Got, Most float64
}

// Met says whether the figure is as good as was asked for.
func (m Mark) Met() bool { return m.Got <= m.Most }

// Judge returns the figures of a run that have a target. calm is the run of the same
// size in which nothing happened; nil if there was none.
func Judge(r Result, calm *Result) []Mark {
	rate := func(n int) float64 { return float64(n) / float64(max(r.Lookups, 1)) }
	hops := Mark{"hops", r.HopsMean, HopsBound(r.Nodes)}
	failed := func(most float64) Mark { return Mark{"failed", rate(r.Failed), most} }
	wrong := func(most float64) Mark { return Mark{"wrong root", rate(r.WrongRoot), most} }
	control := func(times float64) []Mark {
		if calm == nil {
			return nil
		}
		return []Mark{
			{"control, of calm", r.MsgsPerNodeS / calm.MsgsPerNodeS, times},
			{"control bytes, of calm", r.BytesPerNodeS / calm.BytesPerNodeS, times},
		}
	}
	switch {
	case r.SessionMin >= 60:
		return append(control(2), failed(1e-4), wrong(1e-5))
	case r.SessionMin >= 15:
		return append(control(4), failed(1e-3), wrong(1e-4))
	case r.SessionMin > 0:
		return append(control(8), failed(1e-2), wrong(1e-3))
	case r.Loss > 0.01:
		return append(control(4), failed(1e-3))
	case r.Loss > 0:
		return append(control(2), failed(1e-4))
	}
	return []Mark{
		hops, failed(0), wrong(0),
		{"control/s", r.MsgsPerNodeS, 0.5},
		{"control B/s", r.BytesPerNodeS, 900},
		{"contacts", float64(r.ContactsMost), 120},
		{"join s", r.JoinMostS, 10},
		{"join messages", r.JoinMsgs, 200},
		{"bytes a node", float64(r.BytesPerNode), 40 << 10},
	}
}
