package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/honeycomb"
	"tidings/internal/lab/figure"
	"tidings/internal/lab/table2"
)

// A simFiguresCommand is "tidings-lab sim figures".
type simFiguresCommand struct {
	Nodes         int    `default:"256" help:"Members (${default}; the paper has 1,024)."`
	Channels      int    `default:"5000" help:"Channels (${default}; the paper has 100,000)."`
	Subscriptions int    `help:"Subscriptions, instead of 50 a channel."`
	Hours         int    `default:"6" help:"Virtual hours (${default}); the figures of single channels are from the second half."`
	Seed          int64  `default:"1" help:"Of the worlds (${default})."`
	Workers       int    `help:"Worlds at a time; as many as there are processors if not told."`
	Out           string `default:"figures" placeholder:"DIR" help:"Draw into DIR (${default})."`
}

// Help is what the command's help says besides.
func (c *simFiguresCommand) Help() string {
	return "Figures 3 to 8 of Corona (NSDI 2006), as SVG and PNG, each with a caption: tidings, the paper's scheme reproduced, " +
		"and what the paper states. Figures 9 and 10 are those of sim deployment, with --out. The same seed draws the same bytes."
}

// Validate is called by kong when it has read the flags.
func (c *simFiguresCommand) Validate() error {
	switch {
	case c.Nodes < 16 || c.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 16 to 16,384", c.Nodes)
	case c.Channels < 1 || c.Subscriptions < 0:
		return fmt.Errorf("--channels %d --subscriptions %d: at least one channel", c.Channels, c.Subscriptions)
	case c.Workers < 0:
		return fmt.Errorf("--workers %d: not less than nothing", c.Workers)
	case c.Hours < 2:
		return fmt.Errorf("--hours %d: at least two", c.Hours)
	}
	return nil
}

// The worlds that figures come from.
const (
	ours   = "rank-cut-coordinated"
	papers = "paper-measured"
)

// A drawnWorld is what was measured in one of them.
type drawnWorld struct {
	objective honeycomb.Objective
	scheme    string
	row       *table2.Row
}

// Run simulates one world after the other, and draws.
func (c *simFiguresCommand) Run(ctx context.Context, s streams) error {
	if err := folder(c.Out); err != nil {
		return err
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, cmp.Or(c.Subscriptions, 50*c.Channels))
	worlds := []drawnWorld{
		{objective: honeycomb.Lite, scheme: ours}, {objective: honeycomb.Lite, scheme: papers},
		{objective: honeycomb.Fast, scheme: ours}, {objective: honeycomb.Fair, scheme: ours},
		{objective: honeycomb.FairSqrt, scheme: ours}, {objective: honeycomb.FairLog, scheme: ours},
	}
	p := newProgress(s.err, fmt.Sprintf("%d worlds", len(worlds)))
	defer p.end()
	var (
		mu    sync.Mutex
		parts = make([]float64, len(worlds))
	)
	run, ctx := errgroup.WithContext(ctx)
	run.SetLimit(cmp.Or(c.Workers, runtime.NumCPU()))
	for i := range worlds {
		run.Go(func() error {
			w := &worlds[i]
			scheme, err := table2.SchemeOf(w.scheme)
			if err != nil {
				return err
			}
			setting := table2.Setting{Load: load, Objective: w.objective, Scheme: scheme, Hours: c.Hours, Every: seriesOf}
			w.row, err = setting.Run(ctx, func(done float64) {
				mu.Lock()
				defer mu.Unlock()
				parts[i] = done
				sum := 0.0
				for _, d := range parts {
					sum += d
				}
				p.at(sum / float64(len(parts)))
			})
			if err != nil {
				return fmt.Errorf("%v, %s: %w", w.objective, w.scheme, err)
			}
			return nil
		})
	}
	err := run.Wait()
	p.end()
	if err != nil {
		return err
	}
	for _, f := range c.figures(load, worlds) {
		if err := f.Save(c.Out, f.name); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(s.out, "%s/%s.svg, .png\t%s\n", c.Out, f.name, f.Title)
	}
	return nil
}

// A named figure is to be saved by its name.
type namedFigure struct {
	name string
	figure.Figure
}

// figures are Figures 3 to 8.
func (c *simFiguresCommand) figures(load *table2.Workload, worlds []drawnWorld) []namedFigure {
	of := func(o honeycomb.Objective, scheme string) *table2.Row {
		i := slices.IndexFunc(worlds, func(w drawnWorld) bool { return w.objective == o && w.scheme == scheme })
		return worlds[i].row
	}
	lite, paper, fast := of(honeycomb.Lite, ours), of(honeycomb.Lite, papers), of(honeycomb.Fast, ours)
	world := fmt.Sprintf("%d nodes, %d channels, %d subscriptions, seed %d.", c.Nodes, len(load.Channels), load.Subscriptions(), c.Seed)
	const named = "Lite makes the wait short with as many polls as readers alone make; Fast keeps it at 30 seconds with few. "
	const fair = "A wait counts the more the oftener a channel changes: with Fair in proportion, with Fair-Sqrt by the root, with Fair-Log by the logarithm of that. " +
		"The dots at the right edge are of channels that were never seen to change. "
	legacy := float64(load.Subscriptions()) / float64(len(load.Channels))
	over := func(name string, row *table2.Row, value func(table2.Span) float64) figure.Line {
		l := figure.Line{Name: name}
		for i, s := range row.Series {
			if v := value(s); v > 0 {
				l.X, l.Y = append(l.X, (float64(i)+0.5)*seriesOf.Hours()), append(l.Y, v)
			}
		}
		return l
	}
	level := func(name string, at float64) figure.Line {
		return figure.Line{Name: name, X: []float64{0, float64(c.Hours)}, Y: []float64{at, at}, Dashed: true}
	}
	loadOf := func(s table2.Span) float64 { return s.Load }
	waitOf := func(s table2.Span) float64 { return s.Detection }
	return []namedFigure{
		{"figure-3", figure.Figure{
			Title: "Figure 3: polls at the origins", X: "hours", Y: "polls of a channel in 30 min",
			Caption: named + "From a cold start, in which nobody knows who reads what, Lite comes to the load of readers who poll alone, and over each polling " +
				"interval stays below it. What is published is of 1,024 nodes and 100,000 channels; these are " + world,
			Lines: []figure.Line{
				level("readers alone", legacy), over("Lite", lite, loadOf), over("Lite, the paper's scheme", paper, loadOf),
				over("Fast", fast, loadOf), level("Lite, as published", lite.PaperLoad), level("Fast, as published", fast.PaperLoad),
			},
		}},
		{"figure-4", figure.Figure{
			Title: "Figure 4: the wait for the next poll", X: "hours", Y: "seconds", LogY: true,
			Caption: named + "The mean time from a change to the next poll, of all who read, as an integral over time; the bound, which Lite lies on, is the least there can be. Readers alone wait for 900 seconds; " +
				"the published 53 seconds are at even phases, which the paper's scheme with phases of chance does not reach. " + world,
			Lines: []figure.Line{
				level("readers alone", table2.PollInterval.Seconds()/2), over("Lite", lite, waitOf), over("Lite, the paper's scheme", paper, waitOf),
				over("Fast", fast, waitOf), level("Lite, as published", lite.Paper), level("bound of Lite", lite.Bound),
			},
		}},
		{"figure-5", figure.Figure{
			Title: "Figure 5: polls of each channel", X: "channels, the most popular first", Y: "polls in 30 min", LogX: true, LogY: true,
			Caption: "Readers alone poll a channel as often as there are of them. tidings polls popular channels less often than that and all others " +
				"oftener, as the root of their readers asks for it; the paper's scheme has steps of sixteen, and polls those least read less often. " + world,
			Lines: []figure.Line{
				byRank("readers alone", load, func(i int) float64 { return float64(load.Channels[i].Subscribers) }),
				byRank("Lite", load, func(i int) float64 { return lite.Channel[i].Polls }),
				byRank("Lite, the paper's scheme", load, func(i int) float64 { return paper.Channel[i].Polls }),
			},
		}},
		{"figure-6", figure.Figure{
			Title: "Figure 6: the wait at each channel", X: "channels, the most popular first", Y: "seconds", LogX: true, LogY: true,
			Caption: "Who reads what many read waits least: in steps with the paper's scheme, which leaves those at the end to few polls, and evenly with tidings. Readers alone wait for 900 seconds. " + world,
			Lines: []figure.Line{
				byRank("Lite", load, func(i int) float64 { return lite.Channel[i].Detection }),
				byRank("Lite, the paper's scheme", load, func(i int) float64 { return paper.Channel[i].Detection }),
			},
		}},
		{"figure-7", figure.Figure{
			Title: "Figure 7: the wait by how often channels change: Lite, Fair", X: "hours between two updates", Y: "seconds", LogX: true, LogY: true,
			Caption: fair + "Lite does not ask how often a channel changes; with Fair those that change seldom are polled seldom. " + world,
			Lines:   []figure.Line{byUpdate("Lite", load, lite), byUpdate("Fair", load, of(honeycomb.Fair, ours))},
		}},
		{"figure-8", figure.Figure{
			Title: "Figure 8: the wait by how often channels change: Fair-Sqrt, Fair-Log", X: "hours between two updates", Y: "seconds", LogX: true, LogY: true,
			Caption: fair + "So what changes seldom is not forgotten, as it is by Fair (Figure 7). " + world,
			Lines: []figure.Line{
				byUpdate("Fair-Sqrt", load, of(honeycomb.FairSqrt, ours)), byUpdate("Fair-Log", load, of(honeycomb.FairLog, ours)),
			},
		}},
	}
}

// mostChannels is how many channels a figure has as dots: as many as can be told apart.
const mostChannels = 600

// byRank has channels as dots, at places that are even in the logarithm of their rank.
func byRank(name string, load *table2.Workload, value func(i int) float64) figure.Line {
	l := figure.Line{Name: name, Dots: true}
	last := -1
	for k := range mostChannels {
		i := int(math.Pow(float64(len(load.Channels)), float64(k+1)/mostChannels)) - 1
		if v := value(i); i != last && v > 0 {
			l.X, l.Y = append(l.X, float64(i+1)), append(l.Y, v)
		}
		last = i
	}
	return l
}

// byUpdate has channels as dots, by the time between their updates.
func byUpdate(name string, load *table2.Workload, row *table2.Row) figure.Line {
	l := figure.Line{Name: name, Dots: true}
	step := max(len(load.Channels)/(2*mostChannels), 1)
	for i := 0; i < len(load.Channels); i += step {
		if d := row.Channel[i].Detection; d > 0 {
			l.X, l.Y = append(l.X, float64(load.Channels[i].Update)/float64(time.Hour)), append(l.Y, d)
		}
	}
	return l
}
