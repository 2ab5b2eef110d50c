package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tidings/lab/mark"
	"tidings/lab/trust"
)

// A trustCommand is "tidings-lab sim trust".
type trustCommand struct {
	reporter
	Nodes         int           `default:"1024" quick:"128" help:"Number of members (${default})."`
	Channels      int           `default:"2000" quick:"24" help:"Number of channels (${default})."`
	Subscriptions int           `default:"16000" quick:"288" help:"Number of subscriptions (${default})."`
	Liars         []float64     `default:"0.05,0.1,0.2,0.3" quick:"0.1,0.3" placeholder:"X" help:"Shares of the members that are liars, one run each (${default})."`
	Interval      time.Duration `default:"5m" help:"Polling interval, and maintenance interval (${default})."`
	Length        int           `default:"12" quick:"8" help:"Polling intervals in which items count (${default})."`
	Scenario      string        `default:"all" enum:"all,forge,stall" help:"What liars do: forge items, or hold logs up as owners (${default})."`
	Seed          uint64        `default:"1" help:"Seed of the simulation (${default})."`
}

// Help is appended to the command's help.
func (c *trustCommand) Help() string {
	return "Liars are members whose web is forged, in the same way for all of them: from some time on each feed has one more item, " +
		"which they report, append and sign as honest nodes would. They are chosen at random, as if ids could not be chosen. A " +
		"channel is captured if most of its owners were liars at some time; in other channels no reader may see a forged item as " +
		"witnessed. In the last run a fifth of the members hold logs up as owners instead: they refuse and campaign, stall, or claim heads that " +
		"nobody can pull, while a tenth of the others die; news of a channel may wait for at most two leases more. Popularity follows the paper's workload; feeds change every 3 to 12 polling intervals. No message is lost, and " +
		"otherwise no member leaves."
}

// Validate is called by kong after parsing the flags.
func (c *trustCommand) Validate() error {
	switch {
	case c.Nodes < 8 || c.Nodes > 16_384:
		return fmt.Errorf("--nodes %d: from 8 to 16,384", c.Nodes)
	case c.Channels < 1 || c.Subscriptions < c.Channels:
		return fmt.Errorf("--channels %d --subscriptions %d: at least one channel, and a subscription for each", c.Channels, c.Subscriptions)
	case c.Interval < time.Minute || c.Interval > time.Hour || c.Interval%time.Second != 0:
		return fmt.Errorf("--interval %v: whole seconds, from a minute to an hour", c.Interval)
	case c.Length < 6 || c.Length > 200:
		return fmt.Errorf("--length %d: from 6 to 200", c.Length)
	case len(c.Liars) == 0:
		return errors.New("--liars: give at least one")
	}
	for _, share := range c.Liars {
		if !(share >= 0 && share <= 0.9) {
			return fmt.Errorf("--liars %v: from 0 to 0.9", share)
		}
	}
	return nil
}

// stallShare is the share of the members that hold logs up.
const stallShare = 0.2

// Run makes the runs and prints the results; if it is interrupted, those of the finished runs.
func (c *trustCommand) Run(ctx context.Context, s stdio) error {
	shares, stalls := c.Liars, []float64{stallShare}
	switch c.Scenario {
	case "forge":
		stalls = nil
	case "stall":
		shares = nil
	}
	n := len(shares) + len(stalls)
	p := newProgress(s.err, fmt.Sprintf("%d runs", n))
	var runs []trust.Result
	var stalled []trust.StallResult
	var stopped error
	for i, share := range slices.Concat(shares, stalls) {
		config := trust.Config{
			Seed: c.Seed, Members: c.Nodes, Channels: c.Channels, Subscriptions: c.Subscriptions, Liars: share, Interval: c.Interval, Length: c.Length,
		}
		told := func(done float64) { p.at((float64(i) + done) / float64(n)) }
		var err error
		if i < len(shares) {
			var r trust.Result
			if r, err = config.Run(ctx, told); err == nil {
				runs = append(runs, r)
			}
		} else {
			var r trust.StallResult
			if r, err = config.RunStalling(ctx, told); err == nil {
				stalled = append(stalled, r)
			}
		}
		if err != nil {
			stopped = fmt.Errorf("after %d of %d runs: %w", i, n, err)
			break
		}
	}
	p.end()
	if len(runs)+len(stalled) == 0 {
		return stopped
	}
	var marks []mark.Mark
	for i := range runs {
		marks = append(marks, trustMarks(&runs[i])...)
	}
	for i := range stalled {
		marks = append(marks, stallMarks(&stalled[i])...)
	}
	return joinErrors(stopped, c.report(s.out, map[string]any{"runs": runs, "stalling": stalled}, func(line printer) {
		if len(runs) > 0 {
			c.print(line, runs)
		}
		c.printStalls(line, stalled)
	}, marks))
}

// stallMarks compares a run in which logs are held up with the targets.
func stallMarks(r *trust.StallResult) []mark.Mark {
	return mark.ForRun(fmt.Sprintf("%g %% of owners refuse, stall or claim false heads", 100*r.Share),
		mark.AtMost("longest time without progress", "leases", r.Seen.Longest, 2),
		mark.Zero("items that no reader is shown", r.Seen.Never),
		mark.Zero("violated invariants", len(r.Wrong)))
}

// printStalls prints the results of runs in which logs are held up.
func (c *trustCommand) printStalls(line printer, of []trust.StallResult) {
	if len(of) == 0 {
		return
	}
	line("")
	line("%g %% of %d members hold logs up as owners, and other members die; waits from the publication of an item to the first honest reader, less a polling interval, in leases of %v",
		100*stallShare, c.Nodes, c.Interval)
	line("deaths\towners left out\tpolled by\titems\twait, p99\tlongest\tnever shown")
	for _, r := range of {
		line("%d\t%d\tan honest owner until they were shown\t%d\t%.2f\t%.2f\t%d", r.Deaths, r.LeftOut, r.Seen.Items, r.Seen.P99, r.Seen.Longest, r.Seen.Never)
		line("\t\tliars alone at some time\t%d\t%.2f\t%.2f\t%d", r.Unseen.Items, r.Unseen.P99, r.Unseen.Longest, r.Unseen.Never)
		line("%d channels, most of whose owners are liars, are left out", r.Captured)
		for _, w := range slices.Concat(r.Missed, r.Wrong) {
			line("%s", w)
		}
	}
}

// trustMarks compares a run with the targets.
func trustMarks(r *trust.Result) []mark.Mark {
	many := r.Many
	wait := mark.AtMost("first showing to mark, p99, 10 pollers or more", "intervals", many.P99, 1)
	mean := mark.AtMost("change to mark divided by change to showing, 10 pollers or more", "", many.Marked/many.Shown, 2)
	if many.Pairs == 0 {
		wait, mean = wait.Skipped("no such item"), mean.Skipped("no such item")
	}
	return mark.ForRun(liarsOf(r),
		mark.Zero("forged items shown as witnessed, not captured", r.ForgedWitnessed),
		mark.AtLeast("honest items witnessed at the end", "%", percent(r.Marked, r.Pairs), 99),
		wait, mean,
		mark.AtMost("polls, divided by the bound", "", r.Polls/float64(r.Bound), 1),
		mark.Zero("violated invariants", len(r.Wrong)))
}

// liarsOf describes the liars of a run.
func liarsOf(r *trust.Result) string { return fmt.Sprintf("%g %% liars", 100*r.Share) }

// percent is unknown if there is nothing.
func percent(part, whole int) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return 100 * float64(part) / float64(whole)
}

// print prints the results as tables.
func (c *trustCommand) print(line printer, runs []trust.Result) {
	line("%d members, %d channels, polling interval %v, %d intervals; items count once for each reader, times in intervals", c.Nodes, c.Channels, c.Interval, c.Length)
	line("run\tchannels captured\texpected\tforged shown\twitnessed, not captured\tcontested, not captured\twitnessed, captured\thonest items\tshown to readers, old\twitnessed at the end")
	for i := range runs {
		r := &runs[i]
		line("%s\t%d\t%.1f\t%d\t%d\t%.1f %%\t%d\t%d\t%d\t%.2f %%", liarsOf(r), r.Captured, r.CapturedExpected, r.Forged, r.ForgedWitnessed, percent(r.ForgedContested, r.ForgedUncaptured), r.ForgedInCaptured,
			r.Honest, r.Pairs, percent(r.Marked, r.Pairs))
	}
	line("")
	line("run\tpollers\tchannels\tshown to readers\tchange to showing, mean\tchange to mark, mean\tshowing to mark, mean\tp50\tp99")
	for i := range runs {
		r := &runs[i]
		for _, g := range []struct {
			pollers string
			trust.Delays
		}{{fmt.Sprintf("%d or more", trust.ManyPollers), r.Many}, {"fewer", r.Few}} {
			if g.Pairs == 0 {
				continue
			}
			line("%s\t%s\t%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f", liarsOf(r), g.pollers, g.Channels, g.Pairs, g.Shown, g.Marked, g.Mean, g.P50, g.P99)
		}
	}
	line("")
	line("run\tpolls in an interval\tof these looks\tbound\tchange to showing, mean\twithout witnesses, at best")
	for i := range runs {
		r := &runs[i]
		line("%s\t%.1f\t%.1f\t%d\t%.4f\t%.4f", liarsOf(r), r.Polls, r.Looks, r.Bound, r.Detection, r.Ideal)
		for _, w := range r.Wrong {
			line("%s", w)
		}
	}
}
