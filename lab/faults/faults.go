// Package faults runs random worlds in which all kinds of trouble befall a network at
// work, and counts what became of it: what must never happen, and how long it took
// until all was right again when the troubles were over.
//
// A world is a [sim.Nemesis]: its seed chooses the kinds of trouble that take part and
// the strikes. Run does one, Each as many as are asked for, Sum adds them up by kind.
// Thin finds the strikes of a plan that are needed for what went wrong.
package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/sim"
)

// A Scenario says which worlds are run: those of one size, length and kinds.
type Config struct {
	Members int
	Length  time.Duration   // of the troubles, virtual
	Kinds   []sim.FaultKind // that may take part; none: all
	// Public says that the worlds' feeds are at public addresses of few domains, which have
	// budgets. Clocks are right then, if Kinds does not say otherwise: stewards and those who ask
	// them do not understand each other where they differ by more than five minutes.
	Public bool
}

// World is the world of a seed.
func (c Config) Scenario(seed uint64) sim.Scenario {
	kinds := c.Kinds
	if c.Public && len(kinds) == 0 {
		kinds = slices.DeleteFunc(slices.Clone(sim.FaultKinds), func(t sim.FaultKind) bool { return t == sim.ClockJump })
	}
	return sim.Scenario{Seed: seed, Members: c.Members, Length: c.Length, Plan: sim.NewFaultPlan(seed, c.Members, c.Length, kinds...), Public: c.Public}
}

// A Result is what became of a world.
type Result struct {
	Scenario  string  `json:"scenario"` // the kinds of trouble that took part, by name
	Seed      uint64  `json:"seed"`
	Members   int     `json:"members"`
	LengthMin float64 `json:"length_min"`
	Faults    int     `json:"strikes"`
	Events    uint64  `json:"events"`
	Lookups   int     `json:"lookups"` // whose origin lived to be told
	Failed    int     `json:"failed"`  // of these
	WrongRoot int     `json:"wrong_root"`
	// Published are messages to groups; Delivered counts each at each subscriber, Lost
	// those of which a subscriber ought to have had one, Duplicates those that came
	// twice, items that were shown twice among them.
	Published  int `json:"published"`
	Delivered  int `json:"delivered"`
	Lost       int `json:"lost"`
	Duplicates int `json:"duplicates"`
	Items      int `json:"items"` // shown to readers, each at each
	// HealS is how many seconds after the last trouble all was right, for good; Heal
	// says it of each invariant that was not at once. Both say something only of a world
	// that healed: one that fell did not, nor one that was not right when it was ended.
	Recovered           bool               `json:"healed"`
	RecoveryS           float64            `json:"heal_s"`
	RecoveryByInvariant map[string]float64 `json:"heal"`
	Violations          map[string]int     `json:"violations"` // by invariant
	Violated            []string           `json:"broken"`     // invariants, in the order in which they were
	First               []string           `json:"first"`      // the first violation of each
	TraceHash           string             `json:"trace_hash"`
	WallS               float64            `json:"wall_s"`
}

// Kinds are the kinds of trouble that took part.
func (r Result) Kinds() (of []sim.FaultKind) {
	for name := range strings.SplitSeq(r.Scenario, "+") {
		of = append(of, sim.FaultKind(name))
	}
	return of
}

// Names of what can go wrong beside the invariants of package sim.
const (
	// Panicked: a node or a checker fell.
	Panicked = "panic"
	// Unlike: one seed did not give one run.
	NotReproducible = "two runs of one seed"
)

// twiceEvery is of how many seeds one is run twice.
const repeatEvery = 20

// Run runs a world; every 20th seed twice, to see whether that gives the same.
// progress is told how much is over, from 0 to 1.
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

// once runs a world. A world that panics has gone wrong, and others go on.
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

// note counts a violation.
func (r *Result) addViolation(what, facts string) {
	if r.Violations[what]++; r.Violations[what] == 1 {
		r.Violated, r.First = append(r.Violated, what), append(r.First, facts)
	}
}

// kinds are the names of those that take part in a plan.
func kinds(plan []sim.Fault) string {
	var names []string
	for _, kind := range sim.FaultKinds {
		if slices.ContainsFunc(plan, func(s sim.Fault) bool { return s.Kind == kind }) {
			names = append(names, string(kind))
		}
	}
	return strings.Join(names, "+")
}
