package main

import (
	"context"
	"fmt"
	"time"

	"tidings/lab/mark"
	"tidings/lab/quiet"
)

// A quietCommand is "tidings-lab sim quiet".
type quietCommand struct {
	reporter
	Nodes    int           `default:"256" quick:"24" help:"Number of members (${default})."`
	Feeds    int           `default:"32" quick:"4" help:"Number of feeds (${default})."`
	Readers  int           `default:"4" quick:"2" help:"Readers of each feed that follow quietly, and as many that do not (${default})."`
	Interval time.Duration `default:"5m" help:"Polling interval, and maintenance interval (${default})."`
	Every    time.Duration `default:"10m" help:"Mean time between two items of a feed (${default})."`
	Length   time.Duration `default:"4h" quick:"1h" help:"Time in which items count (${default})."`
	Seed     uint64        `default:"1" help:"Seed of the simulation (${default})."`
}

// Help is appended to the command's help.
func (c *quietCommand) Help() string {
	return "Each reader is a client with one feed. Latencies are those of King between the members. The delay of an item is the time " +
		"from the change at the origin to a reader; its way begins when the first of all readers is shown it. No member leaves, and no " +
		"message is lost."
}

// Validate is called by kong after parsing the flags.
func (c *quietCommand) Validate() error {
	switch {
	case c.Nodes < 8 || c.Nodes > 4096:
		return fmt.Errorf("--nodes %d: from 8 to 4,096", c.Nodes)
	case c.Feeds < 1 || c.Readers < 1 || c.Feeds*c.Readers > 32*c.Nodes:
		return fmt.Errorf("--feeds %d --readers %d: at least one of each, and at most 32 quiet readers for each member", c.Feeds, c.Readers)
	case c.Interval < time.Minute || c.Interval > time.Hour:
		return fmt.Errorf("--interval %v: from a minute to an hour", c.Interval)
	case c.Every < time.Minute || c.Length < 2*c.Every:
		return fmt.Errorf("--every %v --length %v: at least a minute, and time for two items", c.Every, c.Length)
	}
	return nil
}

// Run makes the run and prints the result.
func (c *quietCommand) Run(ctx context.Context, s stdio) error {
	p := newProgress(s.err, "the run")
	r, err := quiet.Config{
		Seed: c.Seed, Members: c.Nodes, Feeds: c.Feeds, Readers: c.Readers, Interval: c.Interval, Every: c.Every, Length: c.Length,
	}.Run(ctx, p.at)
	p.end()
	if err != nil {
		return err
	}
	marks := []mark.Mark{
		mark.AtMost("delay of a quiet reader divided by that of another, mean", "", r.Quiet.Mean/r.Ordinary.Mean, 1.5),
		mark.AtMost("the same, p99", "", r.Quiet.P99/r.Ordinary.P99, 1.5),
		mark.Zero("items that quiet readers miss", r.Quiet.Missing),
		mark.Zero("violated invariants", len(r.Wrong)),
	}
	return c.report(s.out, map[string]any{"run": r}, func(line printer) { c.print(line, &r) }, marks)
}

// print prints the result as tables.
func (c *quietCommand) print(line printer, r *quiet.Result) {
	line("%d members, %d feeds, %d readers of each kind for a feed, polling interval %v, an item every %v, %v", c.Nodes, c.Feeds, c.Readers, c.Interval, c.Every, c.Length)
	line("readers\titems shown\tmissing\tdelay, mean\tp99\tway, mean\tp99\tbytes a second, all traffic")
	for _, of := range []struct {
		name string
		quiet.Readers
	}{{"ordinary", r.Ordinary}, {"quiet", r.Quiet}} {
		line("%s\t%d\t%d\t%.1f s\t%.1f s\t%.2f s\t%.2f s\t%.0f", of.name, of.Items, of.Missing, of.Mean, of.P99, of.WayMean, of.WayP99, of.Bytes)
	}
	line("")
	line("circuits opened\tfailed\tbytes through the middle for an item\tframes too large")
	line("%d\t%d\t%.0f\t%d", r.Circuits.Opened, r.Circuits.Failed, r.Circuits.Bytes, r.Circuits.Large)
	for _, w := range r.Wrong {
		line("%s", w)
	}
}
