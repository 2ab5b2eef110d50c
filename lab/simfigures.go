package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"tidings/honeycomb"
	"tidings/lab/mark"
	"tidings/lab/table2"
)

// A simFiguresCommand is "tidings-lab sim figures".
type simFiguresCommand struct {
	reporter
	Nodes         int    `default:"256" quick:"16" help:"Number of members (${default}; the paper has 1,024)."`
	Channels      int    `default:"5000" quick:"12" help:"Number of channels (${default}; the paper has 100,000)."`
	Subscriptions int    `help:"Number of subscriptions (default: 50 per channel)."`
	Hours         int    `default:"6" quick:"2" help:"Virtual hours (${default}); the figures of channels use the second half."`
	Seed          int64  `default:"1" help:"Seed of the simulation (${default})."`
	Workers       int    `help:"Runs at a time (default: the number of processors)."`
	Out           string `default:"figures" placeholder:"DIR" help:"Folder for the figures (${default})."`
}

// Help is appended to the command's help.
func (c *simFiguresCommand) Help() string {
	return "Figures 3 to 8 of Corona (NSDI 2006), as SVG, each with a caption: our scheme, the paper's scheme, " +
		"and what the paper states. Figures 9 and 10 are those of sim deployment, with --out. The same seed draws the same bytes."
}

// Validate is called by kong after parsing the flags.
func (c *simFiguresCommand) Validate() error {
	switch {
	case c.Nodes < 16 || c.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 16 to 16,384", c.Nodes)
	case c.Channels < 1 || c.Subscriptions < 0:
		return fmt.Errorf("--channels %d --subscriptions %d: at least one channel", c.Channels, c.Subscriptions)
	case c.Workers < 0:
		return fmt.Errorf("--workers %d: must not be negative", c.Workers)
	case c.Hours < 2:
		return fmt.Errorf("--hours %d: at least two", c.Hours)
	}
	return nil
}

// The schemes that the figures compare.
const (
	ours   = "rank-cut-coordinated"
	papers = "paper-measured"
)

// Run simulates each objective with both schemes, and draws the figures.
func (c *simFiguresCommand) Run(ctx context.Context, s stdio) error {
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, cmp.Or(c.Subscriptions, 50*c.Channels))
	var settings []table2.Config
	for _, objective := range table2.Objectives {
		for _, name := range []string{ours, papers} {
			scheme, err := table2.SchemeOf(name)
			if err != nil {
				return err
			}
			settings = append(settings, table2.Config{Load: load, Objective: objective, Scheme: scheme, Hours: c.Hours, SeriesInterval: seriesInterval})
		}
	}
	rows, err := c.measure(ctx, s, settings)
	if err != nil {
		return err
	}
	figures := &coronaFigures{load: load, hours: c.Hours, seed: c.Seed, rows: rows}
	type drawn struct {
		File  string `json:"file"`
		Title string `json:"title"`
	}
	var all []drawn
	for _, f := range figures.all() {
		if err := f.Save(c.Out, f.name); err != nil {
			return err
		}
		all = append(all, drawn{filepath.Join(c.Out, f.name), f.Title})
	}
	return c.report(s.out, map[string]any{"figures": all, "rows": rows, "seed": c.Seed}, func(line printer) {
		for _, f := range all {
			line("%s.svg\t%s", f.File, f.Title)
		}
	}, figures.marks())
}

// marks compares our scheme with the paper's.
func (f *coronaFigures) marks() (of []mark.Mark) {
	for _, o := range table2.Objectives {
		mine, paper := f.of(o, ours), f.of(o, papers)
		m := mark.AtMost("detection, relative to the paper's scheme", "", mine.Detection/paper.Detection, 1)
		if o == honeycomb.Fast {
			m = mark.AtMost("load, relative to the paper's scheme", "", mine.Load/paper.Load, 1)
		}
		of = append(of, mark.ForRun(o.String(), append([]mark.Mark{m}, mine.Marks()...)...)...)
	}
	return of
}

// measure runs several worlds at a time, and returns their rows.
func (c *simFiguresCommand) measure(ctx context.Context, s stdio, settings []table2.Config) ([]*table2.Row, error) {
	p := newProgress(s.err, fmt.Sprintf("%d worlds", len(settings)))
	defer p.end()
	var (
		mu    sync.Mutex
		parts = make([]float64, len(settings))
		rows  = make([]*table2.Row, len(settings))
	)
	run, ctx := errgroup.WithContext(ctx)
	run.SetLimit(cmp.Or(c.Workers, runtime.NumCPU()))
	for i, setting := range settings {
		run.Go(func() (err error) {
			rows[i], err = setting.Run(ctx, func(done float64) {
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
				return fmt.Errorf("%v, %s: %w", setting.Objective, setting.Scheme.Name, err)
			}
			return nil
		})
	}
	return rows, run.Wait()
}
