// Package faults runs many random fault-injection scenarios and counts violated invariants and the
// time until all invariants hold again after the last fault.
//
// A run is a [sim.Scenario]; its seed determines the kinds of fault that take part and the faults.
// Run makes one run, RunSeeds many, and Summarise adds them up by kind. Reduce finds the faults of
// a plan that are needed for a violation.
package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/sim"
)

// A Config says which scenarios are run: their size, length and kinds of fault.
type Config struct {
	Members int
	Length  time.Duration   // virtual time with faults
	Kinds   []sim.FaultKind // that may take part; nil: all
	// Public serves the feeds at public addresses of few domains, which have budgets. Clocks are
	// then right, unless Kinds includes ClockJump: stewards and pollers do not accept each other's
	// messages if their clocks differ by more than five minutes.
	Public bool
}

// Scenario returns the scenario of a seed.
func (c Config) Scenario(seed uint64) sim.Scenario {
	kinds := c.Kinds
	if c.Public && len(kinds) == 0 {
		kinds = slices.DeleteFunc(slices.Clone(sim.FaultKinds), func(t sim.FaultKind) bool { return t == sim.ClockJump })
	}
	return sim.Scenario{Seed: seed, Members: c.Members, Length: c.Length, Plan: sim.NewFaultPlan(seed, c.Members, c.Length, kinds...), Public: c.Public}
}

// A Result is the outcome of one run.
type Result struct {
	Scenario  string  `json:"scenario"` // the kinds of fault that took part, joined with +
	Seed      uint64  `json:"seed"`
	Members   int     `json:"members"`
	LengthMin float64 `json:"length_min"`
	Faults    int     `json:"strikes"`
	Events    uint64  `json:"events"`
	Lookups   int     `json:"lookups"` // lookups whose origin lived to see the outcome
	Failed    int     `json:"failed"`  // of these
	WrongRoot int     `json:"wrong_root"`
	// Published counts multicast messages, Delivered their deliveries. Lost counts deliveries that
	// are missing without an excuse, and Duplicates those that came twice, items that were shown
	// twice included.
	Published  int `json:"published"`
	Delivered  int `json:"delivered"`
	Lost       int `json:"lost"`
	Duplicates int `json:"duplicates"`
	Items      int `json:"items"` // items shown, summed over readers
	// RecoveryS is the time from the last fault until all invariants hold for good;
	// RecoveryByInvariant has that time for each invariant that was violated. They are meaningful
	// only if the network has recovered.
	Recovered           bool               `json:"healed"`
	RecoveryS           float64            `json:"heal_s"`
	RecoveryByInvariant map[string]float64 `json:"heal"`
	Violations          map[string]int     `json:"violations"` // by invariant
	Violated            []string           `json:"broken"`     // invariants, in the order of their first violation
	First               []string           `json:"first"`      // details of the first violation of each
	TraceHash           string             `json:"trace_hash"`
	WallS               float64            `json:"wall_s"`
}

// Kinds returns the kinds of fault that took part.
func (r Result) Kinds() (of []sim.FaultKind) {
	for name := range strings.SplitSeq(r.Scenario, "+") {
		of = append(of, sim.FaultKind(name))
	}
	return of
}

// Names of violations that are not invariants of package sim.
const (
	// Panicked: a node or a checker panicked.
	Panicked = "panic"
	// NotReproducible: two runs of one seed differ.
	NotReproducible = "two runs of one seed"
)

// Every repeatEvery-th seed is run twice.
const repeatEvery = 20

// Run runs a scenario; every 20th seed is run twice, to check that both runs are the same. progress
// is called with the part that is done, from 0 to 1.
func Run(ctx context.Context, n sim.Scenario, progress func(done float64)) (Result, error) {
	times := 1
	if n.Seed%repeatEvery == 0 {
		times = 2
	}
	began := time.Now()
	var first Result
	for i := range times {
		r := runOnce(ctx, n, func(done float64) { progress((float64(i) + done) / float64(times)) })
		if err := context.Cause(ctx); err != nil {
			return r, err
		}
		if i == 0 {
			first = r
		} else if r.TraceHash != first.TraceHash {
			first.addViolation(NotReproducible, fmt.Sprintf("traces %s and %s", first.TraceHash, r.TraceHash))
		}
	}
	first.WallS = time.Since(began).Seconds()
	return first, nil
}

// runOnce runs a scenario. A panic counts as a violation, and does not end the other runs.
func runOnce(ctx context.Context, n sim.Scenario, progress func(float64)) (r Result) {
	r = Result{
		Scenario: kinds(n.Plan), Seed: n.Seed, Members: n.Members, LengthMin: n.Length.Minutes(), Faults: len(n.Plan),
		RecoveryByInvariant: map[string]float64{}, Violations: map[string]int{},
	}
	defer func() {
		if p := recover(); p != nil {
			r.addViolation(Panicked, fmt.Sprint(p))
		}
	}()
	o := n.Run(func(done float64) bool {
		progress(done)
		return ctx.Err() == nil
	})
	r.Events, r.TraceHash = o.Events(), fmt.Sprintf("%016x", o.TraceHash())
	routes, mail := o.RouteStats(), o.MulticastStats()
	r.Lookups, r.Failed, r.WrongRoot = routes.Sent-routes.OriginDied, routes.Failed+routes.RootJustDiedFailed, routes.WrongRoots
	r.Published, r.Delivered, r.Lost = mail.Published, mail.Delivered, mail.Expected-mail.Delivered-mail.Excused
	r.Items = o.FeedStats().ItemsShown
	r.Recovered = o.Recovered
	for what, took := range o.RecoveredAfter {
		r.RecoveryByInvariant[what] = took.Seconds()
		r.RecoveryS = max(r.RecoveryS, took.Seconds())
	}
	for _, v := range o.Violations() {
		r.addViolation(v.Invariant, v.String())
	}
	r.Duplicates = r.Violations[sim.Duplicate] + r.Violations[sim.ShownTwice]
	return r
}

// addViolation counts a violation.
func (r *Result) addViolation(what, facts string) {
	if r.Violations[what]++; r.Violations[what] == 1 {
		r.Violated, r.First = append(r.Violated, what), append(r.First, facts)
	}
}

// kinds returns the names of the kinds in a plan.
func kinds(plan []sim.Fault) string {
	var names []string
	for _, kind := range sim.FaultKinds {
		if slices.ContainsFunc(plan, func(s sim.Fault) bool { return s.Kind == kind }) {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, "+")
}
