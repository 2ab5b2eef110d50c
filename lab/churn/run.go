package churn

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/lab/mark"
	"tidings/sim"
)

// A Run is one line of the tables: a network, what happens to it, and what is measured.
type Run struct {
	Name string
	Do   func(ctx context.Context, progress func(float64)) (Report, error)
	// Exclusive runs measure the memory of the process, so no other run may be in progress.
	Exclusive bool
	// RelativeToCalm runs compare their control traffic with that of the calm run.
	RelativeToCalm bool
}

// A Report is the outcome of a run. Its fields are its JSON.
type Report interface {
	// Describe returns the name of the run and the number of members.
	Describe() (name string, nodes int)
	// Marks returns the figures. calm is the run of the same size without events; nil if there was
	// none.
	Marks(calm *Result) []mark.Mark
}

// Options say how large the runs are.
type Options struct {
	Seed        uint64
	Nodes       int           // members, except in runs that vary the number
	Sizes       []int         // other numbers of members
	Lookups     int           // per run; runs of other sizes make a fiftieth of it
	Length      time.Duration // virtual time of the lookups; runs of other sizes take a sixth of it
	Keys        int           // channels with owners and logs, in runs that have any
	Trials      int           // approximate number of sequencers that end, per mode
	Partitioned time.Duration // how long the partition lasts
}

// Full returns the options of the runs in the docs.
func Full() Options {
	return Options{
		Seed: 1, Nodes: 1024, Sizes: []int{64, 256, 4096}, Lookups: 1_000_000, Length: 2 * time.Hour,
		Keys: 200, Trials: 100, Partitioned: 30 * time.Minute,
	}
}

// Quick returns options for a first look, and for CI: the same runs in small networks.
func Quick() Options {
	return Options{
		Seed: 1, Nodes: 64, Sizes: []int{16, 32}, Lookups: 2000, Length: 10 * time.Minute,
		Keys: 20, Trials: 10, Partitioned: 20 * time.Minute,
	}
}

// run makes a Run of a function.
func run[R any, P interface {
	*R
	Report
}](name string, do func(context.Context, func(float64)) (R, error)) Run {
	return Run{Name: name, Do: func(ctx context.Context, progress func(float64)) (Report, error) {
		r, err := do(ctx, progress)
		return P(&r), err
	}}
}

// AsRun returns the scenario as a Run.
func (c Scenario) AsRun() Run { return run(c.Name, c.Run) }

// calmName is the name of the run with which others are compared.
const calmName = "calm"

func (r Run) relativeToCalm() Run {
	r.RelativeToCalm = true
	return r
}

// Runs lists the runs in the docs: a calm network, churn, loss, other sizes, many deaths at once,
// sequencers that end, a partition, liars.
func Runs(o Options) []Run {
	calm := Scenario{Name: calmName, Seed: o.Seed, Nodes: o.Nodes, Silent: 1, Lookups: o.Lookups, Length: o.Length}
	runs := []Run{calm.AsRun()}
	for _, minutes := range []int{60, 15, 5} {
		c := calm
		c.Name, c.Session = fmt.Sprintf("sessions-%dm", minutes), time.Duration(minutes)*time.Minute
		runs = append(runs, c.AsRun().relativeToCalm())
	}
	for _, percent := range []int{1, 5} {
		c := calm
		c.Name, c.Loss = fmt.Sprintf("loss-%d", percent), float64(percent)/100
		runs = append(runs, c.AsRun().relativeToCalm())
	}
	sizes := slices.DeleteFunc(slices.Clone(o.Sizes), func(n int) bool { return n == o.Nodes })
	for _, n := range sizes {
		c := calm
		c.Name, c.Nodes, c.Lookups, c.Length = fmt.Sprintf("size-%d", n), n, max(o.Lookups/50, 1), max(o.Length/6, time.Minute)
		runs = append(runs, c.AsRun())
	}
	for _, n := range append([]int{o.Nodes}, sizes...) {
		c := Idle{Name: fmt.Sprintf("idle-%d", n), Seed: o.Seed, Nodes: n}
		idle := run(c.Name, c.Run)
		idle.Exclusive = true
		runs = append(runs, idle)
	}
	killed := Killed{Name: "killed", Seed: o.Seed, Nodes: o.Nodes, Share: 0.3, Keys: o.Keys, Rate: 1000}
	runs = append(runs, run(killed.Name, killed.Run))
	for _, way := range ExitModes {
		c := SequencerExit{Name: "sequencer-" + string(way), Seed: o.Seed, Nodes: o.Nodes, Mode: way, Keys: o.Keys, Trials: o.Trials}
		runs = append(runs, run(c.Name, c.Run))
	}
	parted := Partition{Name: "parted", Seed: o.Seed, Nodes: o.Nodes, Duration: o.Partitioned, Keys: o.Keys, Rate: 100}
	runs = append(runs, run(parted.Name, parted.Run))
	for _, percent := range []int{10, 20, 30} {
		lying := LiarRun{
			Name: fmt.Sprintf("liars-%d", percent), Seed: o.Seed, Nodes: o.Nodes, Share: max(float64(percent)/100, 1/float64(o.Nodes)), Lies: sim.AllLies(),
			Lookups: max(o.Lookups/50, 1000), Length: max(o.Length/6, 10*time.Minute),
		}
		runs = append(runs, run(lying.Name, lying.Run).relativeToCalm())
	}
	return runs
}

// Pick returns the runs with some names, in the order of the list. A name without its last part
// selects all that begin with it: sessions is all sessions-…. The calm run is added if a selected
// run is compared with it.
func Pick(runs []Run, names []string) (of []Run, err error) {
	named := func(name string) func(Run) bool {
		return func(r Run) bool { return r.Name == name || strings.HasPrefix(r.Name, name+"-") }
	}
	var known []string
	for _, r := range runs {
		known = append(known, r.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no run is selected; the runs are %s", strings.Join(known, ", "))
	}
	for _, name := range names {
		if !slices.ContainsFunc(runs, named(name)) {
			return nil, fmt.Errorf("there is no run %q; the runs are %s", name, strings.Join(known, ", "))
		}
	}
	wanted := func(r Run) bool { return slices.ContainsFunc(names, func(name string) bool { return named(name)(r) }) }
	beside := slices.ContainsFunc(runs, func(r Run) bool { return r.RelativeToCalm && wanted(r) })
	for _, r := range runs {
		if wanted(r) || beside && r.Name == calmName {
			of = append(of, r)
		}
	}
	return of, nil
}

// Calm returns the run of a size without events; nil if there is none.
func Calm(reports []Report, nodes int) *Result {
	for _, r := range reports {
		if c, ok := r.(*Result); ok && c.Nodes == nodes && c.SessionMin == 0 && c.Loss == 0 {
			return c
		}
	}
	return nil
}
