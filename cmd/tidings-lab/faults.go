package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidings/internal/lab/faults"
	"tidings/internal/lab/figure"
	"tidings/sim"
)

// A faultsCommand is "tidings-lab sim faults".
type faultsCommand struct {
	Seeds   int           `default:"100" help:"How many worlds."`
	From    uint64        `default:"1" help:"The first seed."`
	For     time.Duration `help:"Begin new worlds for this long, however many: for a night."`
	Members int           `default:"64" help:"Members of each; an eighth as many clients besides."`
	Length  time.Duration `default:"30m" help:"Virtual time that the troubles last."`
	Fault   []sim.Trouble `placeholder:"KIND" help:"Kinds of trouble that may take part, instead of all: crash, leave, wipe, torn, disk, loss, halves, oneway, pause, slow, clock."`
	Story   string        `placeholder:"FILE" help:"Run the one world that FILE tells of."`
	Plan    bool          `help:"Print the stories of the worlds, and run none."`
	Thin    bool          `help:"Leave out what is not needed for what went wrong, and print that story."`
	Workers int           `help:"Worlds at a time; as many as there are processors if not told."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
	Out     string        `placeholder:"DIR" help:"Draw figures into DIR."`
}

// Run runs worlds, and prints what became of them.
func (c *faultsCommand) Run(ctx context.Context, s streams) error {
	if c.Plan {
		return c.plans(s.out)
	}
	results, stopped := c.worlds(ctx, s.err)
	slices.SortFunc(results, func(a, b faults.Result) int { return cmp.Compare(a.Seed, b.Seed) })
	if len(results) > 0 {
		if err := c.show(s.out, results); err != nil {
			return err
		}
	}
	if stopped != nil {
		return fmt.Errorf("after %d worlds: %w", len(results), stopped)
	}
	wrong := slices.DeleteFunc(slices.Clone(results), func(r faults.Result) bool { return len(r.Violations) == 0 })
	if len(wrong) == 0 {
		return nil
	}
	if c.Thin {
		if err := c.thin(ctx, s, wrong[0]); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d of %d worlds went wrong, the first with seed %d", len(wrong), len(results), wrong[0].Seed)
}

// scenario is what the flags ask for.
func (c *faultsCommand) scenario() faults.Scenario {
	return faults.Scenario{Members: c.Members, Length: c.Length, Kinds: c.Fault}
}

// plans prints the stories of the worlds.
func (c *faultsCommand) plans(w io.Writer) error {
	for seed := c.From; seed < c.From+uint64(c.Seeds); seed++ {
		if _, err := fmt.Fprintln(w, c.scenario().World(seed)); err != nil {
			return err
		}
	}
	return nil
}

// worlds runs them. Each that went wrong has a line at once.
func (c *faultsCommand) worlds(ctx context.Context, w io.Writer) (results []faults.Result, err error) {
	began, p := time.Now(), newProgress(w, "worlds")
	defer p.end()
	found := func(r faults.Result) {
		results = append(results, r)
		if len(r.Violations) > 0 {
			p.end()
			_, _ = fmt.Fprintf(w, "seed %d: %s\n", r.Seed, strings.Join(r.First, "; ")) // the table says it again
		}
		done := float64(len(results)) / float64(c.Seeds)
		if c.For > 0 {
			done = float64(time.Since(began)) / float64(c.For)
		}
		p.at(done)
	}
	if c.Story != "" {
		n, err := c.told()
		if err != nil {
			return nil, err
		}
		r, err := faults.Run(ctx, n, p.at)
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
	return results, faults.Each(ctx, c.scenario(), c.From, count, cmp.Or(c.Workers, runtime.NumCPU()), more, found)
}

// told is the world of a story.
func (c *faultsCommand) told() (n sim.Nemesis, err error) {
	story, err := os.ReadFile(c.Story)
	if err != nil {
		return n, fmt.Errorf("read the story: %w", err)
	}
	if n, err = sim.ParseNemesis(string(story)); err != nil {
		return n, fmt.Errorf("%s: %w", c.Story, err)
	}
	return n, nil
}

// thin prints what is left of a world that went wrong, when all is left out that is not
// needed for the first thing that did.
func (c *faultsCommand) thin(ctx context.Context, s streams, r faults.Result) error {
	n := c.scenario().World(r.Seed)
	if c.Story != "" {
		var err error
		if n, err = c.told(); err != nil {
			return err
		}
	}
	what := r.Broken[0]
	all := len(n.Plan)
	p := newProgress(s.err, fmt.Sprintf("strikes left out of %d", all))
	n, err := faults.Thin(ctx, n, what, func(left int) { p.at(1 - float64(left)/float64(all)) })
	p.end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "\n# %s\n%v", what, n)
	return err
}

// show prints and draws what became of some worlds.
func (c *faultsCommand) show(w io.Writer, results []faults.Result) error {
	if c.Out != "" && len(results) > 1 {
		if err := drawFaults(c.Out, results); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(w, struct {
			Sums []faults.Line   `json:"sums"`
			Runs []faults.Result `json:"runs"`
		}{faults.Sum(results), results})
	}
	return c.print(w, results)
}

// Validate is called by kong when it has read the flags.
func (c *faultsCommand) Validate() error {
	switch {
	case c.Members < 8 || c.Members > 10_000:
		return fmt.Errorf("--members %d: from 8 to 10,000", c.Members)
	case c.Seeds < 1:
		return fmt.Errorf("--seeds %d: at least one", c.Seeds)
	case c.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", c.Length)
	case c.For < 0 || c.Workers < 0:
		return fmt.Errorf("--for %v --workers %d: not less than nothing", c.For, c.Workers)
	}
	for _, kind := range c.Fault {
		if !slices.Contains(sim.Troubles, kind) {
			return fmt.Errorf("--fault %s: there is no such kind", kind)
		}
	}
	return nil
}

// print prints a line for each kind of trouble, and below it what was violated, and how
// to see that again.
func (c *faultsCommand) print(w io.Writer, results []faults.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("trouble\tworlds\twrong\tevents\tlook-ups\tfailed\tpublished\tdelivered\titems shown\tright after s: median\tp99\tmost")
	for _, l := range faults.Sum(results) {
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f", l.Trouble, l.Worlds, l.Wrong, l.Events, l.Lookups, l.Failed,
			l.Published, l.Delivered, l.Items, l.HealP50S, l.HealP99S, l.HealMostS)
	}
	broken := faults.Broken(results)
	if len(broken) == 0 {
		return t.Flush()
	}
	line("")
	head, lines := "violated, in worlds", faults.Sum(results)
	for _, l := range lines {
		head += "\t" + l.Trouble
	}
	line("%s", head)
	for _, what := range broken {
		row := what
		for _, l := range lines {
			row += fmt.Sprintf("\t%d", l.Violations[what])
		}
		line("%s", row)
	}
	line("")
	for _, r := range results {
		if len(r.Violations) > 0 {
			line("%s", c.replay(r.Seed))
		}
	}
	return t.Flush()
}

// replay is the command that runs one world again.
func (c *faultsCommand) replay(seed uint64) string {
	if c.Story != "" {
		return "tidings-lab sim faults --story " + c.Story
	}
	words := fmt.Sprintf("tidings-lab sim faults --seeds 1 --from %d --members %d --length %v", seed, c.Members, c.Length)
	for _, kind := range c.Fault {
		words += " --fault " + string(kind)
	}
	return words
}

// drawFaults draws in what part of the worlds all was right again after how long.
func drawFaults(dir string, results []faults.Result) error {
	f := figure.Figure{Title: "Until all is right again after the last trouble", X: "seconds", Y: "part of the worlds"}
	for _, l := range []struct {
		name string
		has  func(faults.Result) bool
	}{
		{"all worlds", func(faults.Result) bool { return true }},
		{"parted ones", func(r faults.Result) bool {
			return slices.Contains(r.Kinds(), sim.Halves) || slices.Contains(r.Kinds(), sim.OneWay)
		}},
	} {
		var heal []float64
		for _, r := range results {
			if l.has(r) {
				heal = append(heal, r.HealS)
			}
		}
		slices.Sort(heal)
		line := figure.Line{Name: l.name}
		for i, s := range heal {
			line.X, line.Y = append(line.X, s), append(line.Y, float64(i+1)/float64(len(heal)))
		}
		if len(heal) > 0 {
			f.Lines = append(f.Lines, line)
		}
	}
	return f.Save(dir, "faults-heal")
}
