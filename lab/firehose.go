package main

import (
	"context"
	"fmt"
	"time"

	"tidings/lab/firehose"
	"tidings/lab/mark"
)

// A firehoseCommand is "tidings-lab sim firehose".
type firehoseCommand struct {
	reporter
	Nodes    int             `default:"1024" quick:"48" help:"Number of members (${default})."`
	Filters  int             `default:"50" quick:"3" help:"Number of these that are filters (${default})."`
	Channels int             `default:"200" quick:"5" help:"Number of feeds, each with an item every five minutes (${default})."`
	Length   time.Duration   `default:"30m" quick:"5m" help:"Virtual time in which items count (${default})."`
	Loss     float64         `default:"0.01" help:"Share of all frames that are lost, including those of topics (${default})."`
	Session  []time.Duration `default:"0s,60m,15m" quick:"0s,15m" placeholder:"D" help:"Median session times of members and filters, one run each; 0s: no member leaves (${default})."`
	Seed     uint64          `default:"1" help:"Seed of the simulation (${default})."`
}

// Help is appended to the command's help.
func (c *firehoseCommand) Help() string {
	return "Each new item of every feed must reach every filter once, within a minute of the first reader. The nodes are the real " +
		"ones. Topics model the failures of GossipSub: frames travel over connected members and can be lost like others; " +
		"GossipSub's compensation (IHAVE, IWANT) is left out. Only filters that were up all the time " +
		"are counted."
}

// Validate is called by kong after parsing the flags.
func (c *firehoseCommand) Validate() error {
	switch {
	case c.Nodes < 2 || c.Nodes > 16_384 || c.Filters < 1 || c.Filters > c.Nodes:
		return fmt.Errorf("--nodes %d --filters %d: from 2 to 16,384 members, and of these at least one filter", c.Nodes, c.Filters)
	case c.Channels < 1:
		return fmt.Errorf("--channels %d: at least one", c.Channels)
	case c.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", c.Length)
	case !(c.Loss >= 0 && c.Loss < 1):
		return fmt.Errorf("--loss %v: from 0, and below 1", c.Loss)
	}
	return nil
}

// Run makes the runs and prints the results; if it is interrupted, those of the finished runs.
func (c *firehoseCommand) Run(ctx context.Context, s stdio) error {
	p := newProgress(s.err, fmt.Sprintf("%d runs", len(c.Session)))
	var runs []firehose.Result
	var stopped error
	for i, session := range c.Session {
		r, err := firehose.Config{
			Seed: c.Seed, Members: c.Nodes, Filters: c.Filters, Channels: c.Channels, Length: c.Length, Loss: c.Loss, Session: session,
		}.Run(ctx, func(done float64) { p.at((float64(i) + done) / float64(len(c.Session))) })
		if err != nil {
			stopped = fmt.Errorf("after %d of %d runs: %w", i, len(c.Session), err)
			break
		}
		runs = append(runs, r)
	}
	p.end()
	if len(runs) == 0 {
		return stopped
	}
	var marks []mark.Mark
	for _, r := range runs {
		marks = append(marks, mark.ForRun(sessionOf(r), mark.NoneMissing("items missing at a filter", r.Delivered, r.Expected), mark.Zero("entries that a filter got twice", r.Twice), mark.Zero("later than a minute", r.Late),
			mark.Zero("violated invariants", len(r.Wrong)))...)
	}
	return joinErrors(stopped, c.report(s.out, map[string]any{"runs": runs}, func(line printer) {
		line("%d members, %d channels, loss %.3g", c.Nodes, c.Channels, c.Loss)
		line("sessions\tfilters\tdelivered\texpected\ttwice\tin a second entry\tlater than 60 s\tfetched\tmedian\tp99\tmax\ttopic bytes per delivery")
		for _, r := range runs {
			line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f s\t%.2f s\t%.1f s\t%.0f", sessionOf(r), r.Filters, r.Delivered, r.Expected, r.Twice, r.Repeated,
				r.Late, r.Fetched, r.P50, r.P99, r.Max, r.Topics)
			for _, w := range r.Wrong {
				line("%s", w)
			}
		}
	}, marks))
}

// sessionOf describes the median stay of members in a run.
func sessionOf(r firehose.Result) string {
	if r.SessionMin == 0 {
		return "for ever"
	}
	return fmt.Sprintf("%g min", r.SessionMin)
}
