package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"tidings/internal/plot"
	"tidings/lab/faults"
	"tidings/lab/figure"
	"tidings/lab/mark"
	"tidings/sim"
)

// A faultsCommand is "tidings-lab sim faults".
type faultsCommand struct {
	reporter
	Seeds   int             `default:"100" quick:"2" help:"Number of runs."`
	From    uint64          `default:"1" help:"The first seed."`
	For     time.Duration   `help:"Start new runs for this time instead of --seeds, for example for a night. The last runs end later."`
	Members int             `default:"64" quick:"16" help:"Members per run; there are an eighth as many clients besides."`
	Length  time.Duration   `default:"30m" quick:"3m" help:"Virtual time with faults."`
	Fault   []sim.FaultKind `placeholder:"KIND" help:"Kinds of fault that may take part (default: all): crash, leave, wipe, torn, disk, loss, halves, oneway, pause, slow, clock."`
	Public  bool            `help:"Serve the feeds at public addresses of few domains, which have budgets; clocks are right then."`
	Story   string          `placeholder:"FILE" help:"Run the scenario in FILE instead of those of seeds."`
	Plan    bool            `help:"Print the scenarios without running them."`
	Thin    bool            `help:"Reduce the first failed scenario to the faults that are needed, and print it."`
	Workers int             `help:"Runs at a time (default: the number of processors)."`
	Out     string          `placeholder:"DIR" help:"Draw figures into DIR."`
}

// An outcome is the results of some runs; its fields are its JSON.
type outcome struct {
	Sums    []faults.Summary `json:"sums"`
	Runs    []faults.Result  `json:"runs"`
	Thinned *reduced         `json:"thinned,omitempty"`
}

// A reduced is what is left of a scenario that failed.
type reduced struct {
	Violated string `json:"violated"`
	Story    string `json:"story"`
}

// Run runs scenarios and prints the results.
func (c *faultsCommand) Run(ctx context.Context, s stdio) error {
	if c.Plan {
		return c.plans(s.out)
	}
	var scenario *sim.Scenario
	if c.Story != "" {
		n, err := c.readStory()
		if err != nil {
			return err
		}
		scenario = &n
	}
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	results, stopped := c.runScenarios(ctx, s.err, scenario)
	if stopped != nil {
		stopped = fmt.Errorf("after %d runs: %w", len(results), stopped)
	}
	if len(results) == 0 {
		return stopped
	}
	slices.SortFunc(results, func(a, b faults.Result) int { return cmp.Compare(a.Seed, b.Seed) })
	return c.show(ctx, s, scenario, results, stopped)
}

// show prints and draws the results. Before that it reduces the first failed scenario if the flags
// ask for it.
func (c *faultsCommand) show(ctx context.Context, s stdio, scenario *sim.Scenario, results []faults.Result, stopped error) error {
	o := outcome{Sums: faults.Summarise(results), Runs: results}
	wrong := slices.DeleteFunc(slices.Clone(results), func(r faults.Result) bool { return len(r.Violations) == 0 })
	failed := stopped
	if c.Thin && stopped == nil && len(wrong) > 0 {
		n := c.config().Scenario(wrong[0].Seed)
		if scenario != nil {
			n = *scenario
		}
		o.Thinned, failed = reduce(ctx, s.err, n, wrong[0].Violated[0])
	}
	failed = joinErrors(failed, c.report(s.out, o, func(line printer) { c.print(line, o) }, faultMarks(o.Sums[len(o.Sums)-1], wrong)))
	if c.Out != "" {
		failed = joinErrors(failed, drawFaults(c.Out, results))
	}
	return failed
}

// faultMarks returns the figures of all runs; wrong are those with violations.
func faultMarks(all faults.Summary, wrong []faults.Result) []mark.Mark {
	of := []mark.Mark{
		mark.Zero("runs with a violation", len(wrong)),
		mark.Zero("runs that did not recover", all.NotRecovered),
		mark.AtMost("recovered after the last fault, maximum", "s", all.RecoveryMaxS, sim.RecoveryLimit.Seconds()),
	}
	if len(wrong) > 0 {
		of[0] = of[0].WithNote(fmt.Sprintf("of %d; the first has seed %d", all.Worlds, wrong[0].Seed))
	}
	if all.NotRecovered > 0 {
		of[2].Value = math.Inf(1)
	}
	return of
}

// config returns the configuration of the flags.
func (c *faultsCommand) config() faults.Config {
	return faults.Config{Members: c.Members, Length: c.Length, Kinds: c.Fault, Public: c.Public}
}

// plans prints the scenarios without running them.
func (c *faultsCommand) plans(w io.Writer) error {
	for seed := c.From; seed < c.From+uint64(c.Seeds); seed++ {
		if _, err := fmt.Fprintln(w, c.config().Scenario(seed)); err != nil {
			return err
		}
	}
	return nil
}

// runScenarios runs the scenarios of the seeds, or the given one. A failed run is printed at once.
func (c *faultsCommand) runScenarios(ctx context.Context, w io.Writer, scenario *sim.Scenario) (results []faults.Result, err error) {
	began, p := time.Now(), newProgress(w, "runs")
	defer p.end()
	found := func(r faults.Result) {
		results = append(results, r)
		if len(r.Violations) > 0 {
			p.end()
			_, _ = fmt.Fprintf(w, "seed %d: %s\n", r.Seed, strings.Join(r.First, "; ")) // the table repeats it
		}
		done := float64(len(results)) / float64(c.Seeds)
		if c.For > 0 {
			done = float64(time.Since(began)) / float64(c.For)
		}
		p.at(done)
	}
	if scenario != nil {
		r, err := faults.Run(ctx, *scenario, p.at)
		if err == nil {
			found(r)
		}
		return results, err
	}
	count := c.Seeds
	if c.For > 0 {
		count = 0
	}
	more := func() bool { return c.For == 0 || time.Since(began) < c.For }
	err = faults.RunSeeds(ctx, c.config(), c.From, count, cmp.Or(c.Workers, runtime.NumCPU()), more, found)
	return results, err
}

// readStory reads the scenario of --story.
func (c *faultsCommand) readStory() (n sim.Scenario, err error) {
	text, err := os.ReadFile(c.Story)
	if err != nil {
		return n, fmt.Errorf("read the scenario: %w", err)
	}
	if n, err = sim.ParseScenario(string(text)); err != nil {
		return n, fmt.Errorf("%s: %w", c.Story, err)
	}
	return n, nil
}

// reduce leaves out all faults that are not needed for a violation.
func reduce(ctx context.Context, w io.Writer, n sim.Scenario, what string) (*reduced, error) {
	all := len(n.Plan)
	p := newProgress(w, fmt.Sprintf("faults left out of %d", all))
	defer p.end()
	n, err := faults.Reduce(ctx, n, what, func(left int) { p.at(1 - float64(left)/float64(max(all, 1))) })
	if err != nil {
		return nil, fmt.Errorf("reduce seed %d: %w", n.Seed, err)
	}
	return &reduced{what, n.String()}, nil
}

// Validate is called by kong after parsing the flags.
func (c *faultsCommand) Validate(k *kong.Context) error {
	switch {
	case c.Members < 8 || c.Members > 10_000:
		return fmt.Errorf("--members %d: from 8 to 10,000", c.Members)
	case c.Seeds < 1:
		return fmt.Errorf("--seeds %d: at least one", c.Seeds)
	case c.From > math.MaxUint64-uint64(c.Seeds):
		return fmt.Errorf("--from %d: the last of %d seeds would be too large", c.From, c.Seeds)
	case c.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", c.Length)
	case flagGiven(k, "for") && c.For <= 0:
		return fmt.Errorf("--for %v: must be more than zero", c.For)
	case c.Workers < 0:
		return fmt.Errorf("--workers %d: must not be negative", c.Workers)
	}
	for _, kind := range c.Fault {
		if !slices.Contains(sim.FaultKinds, kind) {
			return fmt.Errorf("--fault %s: there is no such kind of fault", kind)
		}
	}
	return cmp.Or(
		refuseTogether(k, "story", "the file determines the whole scenario", "seeds", "from", "for", "members", "length", "fault", "workers", "plan"),
		refuseTogether(k, "plan", "nothing is run", "for", "thin", "workers", "json", "out"),
		refuseTogether(k, "for", "runs are started until the time is over", "seeds"),
	)
}

// print prints a line for each kind of fault, then the violated invariants, the commands that
// repeat the failed runs, and the reduced scenario.
func (c *faultsCommand) print(line printer, o outcome) {
	line("fault\truns\tviolated\tevents\tlookups\tfailed\tpublished\tdelivered\titems shown\trecovered after s: median\tp99\tmax\tnever")
	for _, l := range o.Sums {
		heal := "-\t-\t-"
		if l.NotRecovered < l.Worlds {
			heal = fmt.Sprintf("%.0f\t%.0f\t%.0f", l.RecoveryP50S, l.RecoveryP99S, l.RecoveryMaxS)
		}
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d", l.Kind, l.Worlds, l.Wrong, l.Events, l.Lookups, l.Failed,
			l.Published, l.Delivered, l.Items, heal, l.NotRecovered)
	}
	broken := faults.ViolatedInvariants(o.Runs)
	if len(broken) == 0 {
		return
	}
	line("")
	head := "violated invariant, runs"
	for _, l := range o.Sums {
		head += "\t" + l.Kind
	}
	line("%s", head)
	for _, what := range broken {
		row := what
		for _, l := range o.Sums {
			row += fmt.Sprintf("\t%d", l.Violations[what])
		}
		line("%s", row)
	}
	line("")
	for _, r := range o.Runs {
		if len(r.Violations) > 0 {
			line("%s", c.replay(r.Seed))
		}
	}
	if o.Thinned != nil {
		line("\n# %s\n%s", o.Thinned.Violated, strings.TrimSuffix(o.Thinned.Story, "\n"))
	}
}

// replay returns the command that repeats a run.
func (c *faultsCommand) replay(seed uint64) string {
	if c.Story != "" {
		return "tidings-lab sim faults --story " + c.Story
	}
	words := fmt.Sprintf("tidings-lab sim faults --seeds 1 --from %d --members %d --length %v", seed, c.Members, c.Length)
	for _, kind := range c.Fault {
		words += " --fault " + string(kind)
	}
	if c.Public {
		words += " --public"
	}
	return words
}

// drawFaults draws the distribution of the time until all invariants hold again.
func drawFaults(dir string, results []faults.Result) error {
	f := figure.Figure{Title: "Time to recover after the last fault", X: "seconds", Y: "runs, %"}
	for _, l := range []struct {
		name string
		has  func(faults.Result) bool
	}{
		{"all runs", func(faults.Result) bool { return true }},
		{"with a partition", func(r faults.Result) bool {
			return slices.Contains(r.Kinds(), sim.Partition) || slices.Contains(r.Kinds(), sim.OneWayPartition)
		}},
	} {
		var heal []float64
		worlds := 0
		for _, r := range results {
			if !l.has(r) {
				continue
			}
			worlds++
			if r.Recovered {
				heal = append(heal, r.RecoveryS)
			}
		}
		if worlds > 0 {
			f.Lines = append(f.Lines, plot.Distribution(l.name, heal, worlds))
		}
	}
	return f.Save(dir, "faults-heal")
}
