package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tidings/internal/lab/churn"
	"tidings/internal/lab/figure"
)

// A churnCommand is "tidings-lab sim churn".
type churnCommand struct {
	Nodes   int           `default:"1024" help:"Members."`
	Session time.Duration `help:"Median of the time that a member stays, instead of the runs of the docs; 0s: nobody leaves." default:"-1s"`
	Silent  float64       `default:"1" help:"Part of those who leave that nobody hears of."`
	Loss    float64       `help:"Part of the messages that is lost."`
	Lookups int           `default:"1000000" help:"Look-ups of a run; runs of other sizes make a fiftieth of it."`
	Length  time.Duration `default:"2h" help:"Virtual time in which these are made; runs of other sizes take a sixth of it."`
	Seed    uint64        `default:"1" help:"Of the worlds."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
	Out     string        `placeholder:"DIR" help:"Draw figures into DIR."`
}

// Run measures, and prints what it found.
func (c *churnCommand) Run(ctx context.Context, s streams) error {
	runs := churn.Default(c.Seed, c.Nodes, c.Lookups, c.Length)
	if c.Session >= 0 || c.Loss > 0 {
		runs = []churn.Scenario{{
			Name: "as told", Seed: c.Seed, Nodes: c.Nodes, Session: max(c.Session, 0), Silent: c.Silent, Loss: c.Loss, Lookups: c.Lookups, Length: c.Length,
		}}
	}
	var results []churn.Result
	for i, run := range runs {
		p := newProgress(s.err, fmt.Sprintf("run %d of %d, %s", i+1, len(runs), run.Name))
		r, err := churn.Run(ctx, run, p.at)
		p.end()
		if err != nil {
			return fmt.Errorf("%s: %w", run.Name, err)
		}
		results = append(results, r)
	}
	if c.Out != "" {
		if err := drawChurn(c.Out, results); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(s.out, struct {
			Runs []churn.Result `json:"runs"`
		}{results})
	}
	return printChurn(s.out, results)
}

// Validate is called by kong when it has read the flags.
func (c *churnCommand) Validate() error {
	switch {
	case c.Nodes < 8 || c.Nodes > 100_000:
		return fmt.Errorf("--nodes %d: from 8 to 100,000", c.Nodes)
	case c.Lookups < 1:
		return fmt.Errorf("--lookups %d: at least one", c.Lookups)
	case c.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", c.Length)
	case !(c.Loss >= 0 && c.Loss < 1), !(c.Silent >= 0 && c.Silent <= 1):
		return fmt.Errorf("--loss %v --silent %v: parts lie between 0 and 1", c.Loss, c.Silent)
	}
	return nil
}

// printChurn prints a line for each run, and below it the figures that were asked for.
func printChurn(w io.Writer, results []churn.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("run\tmembers\tlook-ups\tfailed\twrong root\thops\tslowest s\tcontrol/s\tB/s\tcontacts\tjoins\tjoin s\tmessages")
	for _, r := range results {
		line("%s\t%d\t%d\t%d\t%d\t%.2f\t%.1f\t%.2f\t%.0f\t%.0f\t%d\t%.1f\t%.0f", r.Scenario, r.Nodes, r.Lookups, r.Failed, r.WrongRoot,
			r.HopsMean, r.LookupMostS, r.MsgsPerNodeS, r.BytesPerNodeS, r.ContactsMean, r.Joins, r.JoinS, r.JoinMsgs)
	}
	line("")
	line("run\tfigure\tgot\tasked\t")
	for _, r := range results {
		for _, m := range churn.Judge(r, calmOf(results, r.Nodes)) {
			verdict := "met"
			if !m.Met() {
				verdict = "MISSED"
			}
			line("%s\t%s\t%.3g\t≤ %.3g\t%s", r.Scenario, m.What, m.Got, m.Most, verdict)
		}
	}
	return t.Flush()
}

// calmOf is the run of a size in which nothing happened, nil if there is none.
func calmOf(results []churn.Result, nodes int) *churn.Result {
	for i, r := range results {
		if r.Nodes == nodes && r.SessionMin == 0 && r.Loss == 0 {
			return &results[i]
		}
	}
	return nil
}

// drawChurn draws hops by size, and control messages by session.
func drawChurn(dir string, results []churn.Result) error {
	hops := figure.Line{Name: "measured"}
	bound := figure.Line{Name: "1.1 log₁₆ N + 1", Dashed: true}
	control := figure.Line{Name: "measured"}
	for _, r := range results {
		switch {
		case r.SessionMin > 0:
			control.X = append(control.X, r.SessionMin)
			control.Y = append(control.Y, r.MsgsPerNodeS)
		case r.Loss == 0:
			hops.X, hops.Y = append(hops.X, float64(r.Nodes)), append(hops.Y, r.HopsMean)
			bound.X, bound.Y = append(bound.X, float64(r.Nodes)), append(bound.Y, churn.HopsBound(r.Nodes))
		}
	}
	for _, f := range []struct {
		name string
		figure.Figure
	}{
		{"hops", figure.Figure{Title: "Hops of a look-up in a calm network", X: "members", Y: "hops", LogX: true, Lines: []figure.Line{hops.Sorted(), bound.Sorted()}}},
		{"control", figure.Figure{Title: "What order costs under churn", X: "median session, minutes", Y: "control messages per node and second", Lines: []figure.Line{control.Sorted()}}},
	} {
		if len(f.Lines[0].X) < 2 {
			continue // one point is no curve
		}
		if err := f.Save(dir, "churn-"+f.name); err != nil {
			return err
		}
	}
	return nil
}
