package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/lab/mark"
	"tidings/lab/publishing"
)

// A publishingCommand is "tidings-lab sim publishing".
type publishingCommand struct {
	reporter
	Scenario []string      `quick:"calm,churn-15,loss-1" placeholder:"NAME" help:"Names of scenarios (default: all); churn and loss select several. The scenario calm is added to loss, which is compared with it."`
	Nodes    int           `default:"1024" quick:"24" help:"Number of members (${default}); at most 64 where readers are away for a day."`
	Feeds    int           `default:"32" quick:"2" help:"Number of feeds, each followed by 5 to 20 % of the members (${default})."`
	Every    time.Duration `default:"3m" quick:"1m" help:"Mean time between two items of a feed (${default}); at least 15m in the run of a day."`
	Length   time.Duration `default:"30m" quick:"3m" help:"Virtual time in which items count (${default}); partitions and absences have their own."`
	Seed     uint64        `default:"1" help:"Seed of the simulation (${default})."`
}

// Help is appended to the command's help.
func (c *publishingCommand) Help() string {
	return "Publishers sign items and push them; every reader of the feed must be shown each item once, and soon. The nodes are the " +
		"real ones, the latencies those of the King data set. Time counts from the signature, from the start of the reader's node, or " +
		"from the end of the partition. With churn, half of the departures are silent, and half of the arrivals were there before. In " +
		"swallow, 30 % of the members with children in trees pass nothing on, pretend that nothing is missing, and answer no pulls."
}

// scenarios returns the scenarios to run.
func (c *publishingCommand) scenarios() ([]publishing.Scenario, error) {
	all := publishing.Scenarios(publishing.Options{Seed: c.Seed, Nodes: c.Nodes, Feeds: c.Feeds, Every: c.Every, Length: c.Length})
	if len(c.Scenario) == 0 {
		return all, nil
	}
	return publishing.Pick(all, c.Scenario)
}

// Validate is called by kong after parsing the flags.
func (c *publishingCommand) Validate() error {
	switch {
	case c.Nodes < 16 || c.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 16 to 16,384", c.Nodes)
	case c.Feeds < 1 || c.Feeds > c.Nodes/2:
		return fmt.Errorf("--feeds %d: from 1 to half as many as members", c.Feeds)
	case c.Every < 10*time.Second:
		return fmt.Errorf("--every %v: at least 10s", c.Every)
	case c.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", c.Length)
	}
	_, err := c.scenarios()
	return err
}

// Run runs the scenarios and prints the results; if it is interrupted, those of the finished ones.
func (c *publishingCommand) Run(ctx context.Context, s stdio) error {
	of, err := c.scenarios()
	if err != nil {
		return err
	}
	p := newProgress(s.err, fmt.Sprintf("%d scenarios", len(of)))
	var runs []*publishing.Result
	var stopped error
	for i, scenario := range of {
		r, err := scenario.Run(ctx, func(done float64) { p.at((float64(i) + done) / float64(len(of))) })
		if err != nil {
			stopped = fmt.Errorf("after %d of %d scenarios: %w", i, len(of), err)
			break
		}
		runs = append(runs, &r)
	}
	p.end()
	if len(runs) == 0 {
		return stopped
	}
	return joinErrors(stopped, c.report(s.out, map[string]any{"runs": runs}, func(line printer) { printPublishing(line, runs) }, publishingMarks(runs)))
}

// publishingMarks returns the figures of all runs.
func publishingMarks(runs []*publishing.Result) (of []mark.Mark) {
	var calm *publishing.Result
	if i := slices.IndexFunc(runs, (*publishing.Result).IsBaseline); i >= 0 {
		calm = runs[i]
	}
	for _, r := range runs {
		of = append(of, mark.ForRun(r.Scenario, r.Marks(calm)...)...)
	}
	return of
}

// printPublishing prints a line for each group of each run, and the violations.
func printPublishing(line printer, runs []*publishing.Result) {
	line("scenario\tmembers\tfeeds\titems\tgroup\texpected\tshown\tlate\tlost\texcused\tp50 s\tp99 s\tmax s")
	for _, r := range runs {
		for _, p := range r.Groups {
			line("%s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%.1f", r.Scenario, r.Nodes, r.Feeds, r.Items, p.Name,
				p.Expected, p.Shown, p.Late, p.Lost, p.Excused, p.P50, p.P99, p.Max)
		}
		for _, v := range r.Wrong {
			line("%s\t%s", r.Scenario, v)
		}
	}
}
