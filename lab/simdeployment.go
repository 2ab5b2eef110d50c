package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/honeycomb"
	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/mark"
	"tidings/lab/table2"
)

// A simDeploymentCommand is "tidings-lab sim deployment".
type simDeploymentCommand struct {
	reporter
	Nodes         int           `default:"60" help:"Number of members (${default})."`
	Channels      int           `default:"7500" quick:"50" help:"Number of channels (${default})."`
	Subscriptions int           `default:"150000" quick:"1000" help:"Number of subscriptions (${default})."`
	Grow          time.Duration `default:"90m" quick:"30m" help:"Time over which subscriptions are made (${default})."`
	Hours         int           `default:"5" quick:"2" help:"Virtual hours (${default}); measured from three maintenance intervals after the last subscription on."`
	Part          []float64     `default:"1,0.9" placeholder:"X" help:"Allowed polls relative to those of readers alone, one run each (${default})."`
	Scheme        string        `default:"rank-cut-coordinated" help:"Polling scheme, a column of sim table2 (${default})."`
	Seed          int64         `default:"1" help:"Seed of the simulation (${default})."`
	Out           string        `placeholder:"DIR" help:"Draw Figures 9 and 10 into DIR."`
}

// deploymentMaintenance is the default maintenance interval of a network.
const deploymentMaintenance = 10 * time.Minute

// seriesInterval is the length of the spans that are drawn.
const seriesInterval = 5 * time.Minute

// Help is appended to the command's help.
func (c *simDeploymentCommand) Help() string {
	return "The paper's deployment on PlanetLab, in the simulator: 60 nodes, 7,500 channels, and 150,000 subscriptions issued " +
		"over an hour and a half. Polls are per channel and half hour: readers alone make 20, and the paper's " +
		"nodes made 18. The paper reports an average update time of 45 seconds without saying what is averaged. With its levels " +
		"and 60 nodes its scheme cannot reach that, whether subscriptions or channels count once; so it is not " +
		"compared. Ours is the mean time of all readers until the next poll, as an integral over time."
}

// Validate is called by kong after parsing the flags.
func (c *simDeploymentCommand) Validate() error {
	switch {
	case c.Nodes < 16 || c.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 16 to 16,384", c.Nodes)
	case c.Channels < 1 || c.Subscriptions < 1:
		return fmt.Errorf("--channels %d --subscriptions %d: at least one", c.Channels, c.Subscriptions)
	case c.Grow < 0 || c.from() >= time.Duration(c.Hours)*time.Hour:
		return fmt.Errorf("--grow %v --hours %d: there is nothing left to measure", c.Grow, c.Hours)
	case len(c.Part) == 0:
		return errors.New("--part: give at least one")
	}
	for _, part := range c.Part {
		if !(part >= 0.001 && part <= 1000) {
			return fmt.Errorf("--part %v: from 0.001 to 1000", part)
		}
	}
	_, err := table2.SchemeOf(c.Scheme)
	return err
}

// from returns the start of the measurement.
func (c *simDeploymentCommand) from() time.Duration { return c.Grow + 3*deploymentMaintenance }

// A simDeploymentRun is the result of one run. Its fields are its JSON.
type simDeploymentRun struct {
	Part      float64       `json:"part"`
	Load      float64       `json:"load"`
	Allowed   float64       `json:"allowed"`
	Detection float64       `json:"detection_s"`
	Bound     float64       `json:"bound_s"`
	Series    []table2.Span `json:"series"`
}

// asked returns the target of the detection relative to the bound: 42 seconds at 20 polls, and 46
// at 18, where the bounds are 40.4 and 44.8.
func (r *simDeploymentRun) asked() float64 {
	if r.Part < 0.95 {
		return 46 / 44.8
	}
	return 42 / 40.4
}

// Run makes the runs and prints the results; if it is interrupted, those of the finished ones. For
// the figures it also runs the paper's scheme, with as many polls as readers alone would make.
func (c *simDeploymentCommand) Run(ctx context.Context, s stdio) error {
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, c.Subscriptions)
	type job struct {
		scheme string
		part   float64
	}
	var jobs []job
	for _, part := range c.Part {
		jobs = append(jobs, job{c.Scheme, part})
	}
	if c.Out != "" {
		jobs = append(jobs, job{papers, 1})
	}
	p := newProgress(s.err, fmt.Sprintf("%d runs", len(jobs)))
	var runs []simDeploymentRun
	var stopped error
	for i, j := range jobs {
		scheme, err := table2.SchemeOf(j.scheme)
		if err != nil {
			return err
		}
		setting := table2.Config{
			Load: load, Objective: honeycomb.Lite, Scheme: scheme, Hours: c.Hours, Maintenance: deploymentMaintenance,
			Grow: c.Grow, LoadShare: j.part, SeriesInterval: seriesInterval,
		}
		row, err := setting.Run(ctx, func(done float64) { p.at((float64(i) + done) / float64(len(jobs))) })
		if err != nil {
			stopped = fmt.Errorf("after %d of %d runs: %w", i, len(jobs), err)
			break
		}
		runs = append(runs, c.run(j.part, row))
	}
	p.end()
	if len(runs) == 0 {
		return stopped
	}
	asked := runs[:min(len(runs), len(c.Part))]
	var marks []mark.Mark
	for i := range asked {
		r := &asked[i]
		marks = append(marks, mark.AtMost(fmt.Sprintf("detection, at %g times the polls of readers alone", r.Part), "s", r.Detection, r.asked()*r.Bound))
	}
	err := c.report(s.out, struct {
		Runs []simDeploymentRun `json:"runs"`
		Seed int64              `json:"seed"`
	}{asked, c.Seed}, func(line printer) { c.print(line, asked) }, marks)
	if c.Out != "" {
		err = joinErrors(err, c.draw(asked, runs[len(asked):]))
	}
	return joinErrors(stopped, err)
}

// run takes the figures from a row's series.
func (c *simDeploymentCommand) run(part float64, row *table2.Row) simDeploymentRun {
	r := simDeploymentRun{Part: part, Allowed: row.BoundLoad, Bound: row.Bound, Series: row.Series}
	n := 0
	for i, s := range row.Series {
		if time.Duration(i)*seriesInterval >= c.from() {
			r.Load += s.Load
			r.Detection += s.Detection
			n++
		}
	}
	r.Load, r.Detection = r.Load/float64(n), r.Detection/float64(n)
	return r
}

func (c *simDeploymentCommand) print(line printer, runs []simDeploymentRun) {
	line("%s, %d members, %d channels, %d subscriptions; from %v on", c.Scheme, c.Nodes, c.Channels, c.Subscriptions, c.from())
	line("\nallowed\tload\tdetection s\tbound s")
	for _, r := range runs {
		line("%.2f\t%.2f\t%.2f\t%.2f", r.Allowed, r.Load, r.Detection, r.Bound)
	}
}

// world describes the simulated network.
func (c *simDeploymentCommand) world() string {
	return fmt.Sprintf("%d nodes, %d channels, %d subscriptions, seed %d.", c.Nodes, c.Channels, c.Subscriptions, c.Seed)
}

// Figures that the paper states about its deployment (§5.2).
const (
	paperWait  = 45   // seconds, on average
	paperPolls = 4500 // per minute, of all channels
)

// draw draws Figures 9 and 10 of the paper: of these runs, and of the paper's scheme if it was run.
func (c *simDeploymentCommand) draw(runs, paper []simDeploymentRun) error {
	hours := float64(c.Hours)
	nine := figure.Figure{Title: "Figure 9: how long readers wait for the next poll", X: "hours", Y: "seconds", LogY: true,
		Caption: "Subscriptions come in over the first while. The mean time from a change to the next poll, of all who read, as an integral over " +
			"time; the 45 seconds that the paper states are of an average that it does not define. " + c.world()}
	ten := figure.Figure{Title: "Figure 10: polls at all origins", X: "hours", Y: "polls a minute",
		Caption: "Nodes poll as often as is allowed, and readers alone as often as there are of them. The paper states a limit of 4,500 polls " +
			"a minute, and some 5,000 of readers alone, of 60 nodes and 7,500 channels. " + c.world()}
	perMinute := float64(c.Channels) / table2.PollInterval.Minutes()
	level := func(name string, hue plot.Hue, at float64) plot.Line {
		return plot.Line{Name: name, Hue: hue, X: []float64{0, hours}, Y: []float64{at, at}, Dashed: true}
	}
	all := float64(c.Subscriptions) / table2.PollInterval.Minutes()
	nine.Lines = append(nine.Lines, level("readers alone", plot.Black, table2.PollInterval.Seconds()/2))
	ten.Lines = append(ten.Lines, plot.Line{
		Name: "readers alone", Hue: plot.Black, X: []float64{0, c.Grow.Hours(), hours}, Y: []float64{0, all, all}, Dashed: true,
	})
	lines := func(name string, hue plot.Hue, r *simDeploymentRun) {
		d, l := plot.Line{Name: name, Hue: hue}, plot.Line{Name: name, Hue: hue}
		for i, s := range r.Series {
			at := (float64(i) + 0.5) * seriesInterval.Hours()
			if s.Detection > 0 {
				d.X, d.Y = append(d.X, at), append(d.Y, s.Detection)
			}
			l.X, l.Y = append(l.X, at), append(l.Y, s.Load*perMinute)
		}
		nine.Lines, ten.Lines = append(nine.Lines, d), append(ten.Lines, l)
	}
	for i := range paper {
		lines("the paper's scheme", plot.Vermilion, &paper[i])
	}
	nine.Lines = append(nine.Lines, level("the paper's, as published", plot.Vermilion, paperWait))
	ten.Lines = append(ten.Lines, level("the paper's, as published", plot.Vermilion, paperPolls))
	for i := range runs {
		r, hue := &runs[i], deploymentHues[i%len(deploymentHues)]
		lines(fmt.Sprintf("nodes, at %g of that", r.Part), hue, r)
		nine.Lines = append(nine.Lines, level(fmt.Sprintf("bound at %g", r.Part), hue, r.Bound))
	}
	if err := nine.Save(c.Out, "deployment-figure-9"); err != nil {
		return err
	}
	return ten.Save(c.Out, "deployment-figure-10")
}

// deploymentHues are the hues of the runs, in turn.
var deploymentHues = [...]plot.Hue{plot.Blue, plot.Green, plot.Orange, plot.Purple, plot.Sky}
