package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"tidings/internal/daemon"
	"tidings/lab/firehose"
)

// A benchFirehoseCommand is "tidings-lab bench firehose".
type benchFirehoseCommand struct {
	Hosts    int           `default:"40" help:"Nodes (${default})."`
	Filters  int           `default:"2" help:"Of these, filters (${default})."`
	Feeds    int           `default:"20" help:"Feeds, each with an item every ten seconds (${default})."`
	Length   time.Duration `default:"90s" help:"Time in which items count (${default})."`
	Interval time.Duration `default:"5s" help:"Polling interval of the network (${default})."`
	NoKill   bool          `help:"Let an owner of shards live that is ended without a word in the middle otherwise."`
	JSON     bool          `name:"json" help:"Print one JSON object."`
}

// Help is what the command's help says besides.
func (c *benchFirehoseCommand) Help() string {
	return "Real nodes over QUIC on this machine, in one process; items of feeds that others subscribe to, on their way to the " +
		"keyword feeds of filters that subscribe to none, by GossipSub. The time is that from the first reader of the feed " +
		"until the article stands in the keyword feed."
}

// Validate is called by kong when it has read the flags.
func (c *benchFirehoseCommand) Validate() error {
	switch {
	case c.Hosts < 3 || c.Hosts > 400 || c.Filters < 1 || c.Filters > c.Hosts-2:
		return fmt.Errorf("--hosts %d --filters %d: from 3 to 400 nodes, at least one of them a filter and two none", c.Hosts, c.Filters)
	case c.Feeds < 1 || c.Feeds > 50:
		return fmt.Errorf("--feeds %d: from 1 to 50, as a keyword feed has ten articles", c.Feeds)
	case c.Length < 10*time.Second || c.Interval < time.Second:
		return fmt.Errorf("--length %v --interval %v: at least ten seconds, and one", c.Length, c.Interval)
	}
	return nil
}

// Run measures, and prints what it found.
func (c *benchFirehoseCommand) Run(ctx context.Context, s streams) (err error) {
	dir, err := os.MkdirTemp("", "tidings-firehose-")
	if err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := newProgress(s.err, "")
	r, err := firehose.Bench{
		Hosts: c.Hosts, Filters: c.Filters, Feeds: c.Feeds, Length: c.Length, Interval: c.Interval, Kill: !c.NoKill, Dir: dir, Open: openFiltering,
	}.Run(ctx, func(what string, done float64) { p.what = what; p.at(done) })
	p.end()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, map[string]any{"runs": []firehose.BenchResult{r}})
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	line := func(what, got, asked string, met bool) {
		verdict := "met"
		if !met {
			verdict = "MISSED"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", what, got, asked, verdict) // Flush tells
	}
	_, _ = fmt.Fprintf(t, "%d nodes, %d of them filters, %d feeds; an owner of shards killed: %v\n", r.Hosts, r.Filters, c.Feeds, r.Killed)
	_, _ = fmt.Fprintln(t, "figure\tgot\tasked\t")
	line("articles at filters", fmt.Sprintf("%d of %d", r.Got, r.Wanted), "all", r.Got == r.Wanted && r.Wanted > 0)
	line("later than a minute", fmt.Sprint(r.Late), "0", r.Late == 0)
	line("twice in a keyword feed", fmt.Sprint(r.Twice), "0", r.Twice == 0)
	line("from the first reader to the keyword feed, median", fmt.Sprintf("%.2f s", r.P50), "≤ 2 s", r.P50 <= 2)
	_, _ = fmt.Fprintf(t, "99 in a hundred; at most\t%.2f s; %.2f s\n", r.P99, r.Most)
	return t.Flush()
}

// A filtering is a daemon of the bench.
type filtering struct {
	*daemon.Daemon
	number map[string]uint32
}

func openFiltering(p firehose.Plan) (firehose.Node, error) {
	c := daemon.DefaultConfig(p.Dir)
	c.Listen, c.Found, c.Bootstrap, c.Shown, c.Filter = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, p.Found, p.Bootstrap, p.Shown, p.Filter
	c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.HTTP, c.Abrupt = false, true, true, "none", true
	d, err := daemon.Open(c)
	return &filtering{d, map[string]uint32{}}, err
}

// Serves implements firehose.Node.
func (f *filtering) Serves(ctx context.Context) (owned, deaf int, err error) {
	s, err := f.Snapshot(ctx)
	return s.Firehose.Served, s.Firehose.Deaf, err
}

// Watched implements firehose.Node. Only one goroutine asks one node.
func (f *filtering) Watched(ctx context.Context, query string) (of []string, err error) {
	number, ok := f.number[query]
	if !ok {
		w, err := f.Watch(ctx, query)
		if err != nil {
			return nil, err
		}
		number = w.Number
		f.number[query] = number
	}
	m, err := f.Daemon.Watched(ctx, number)
	if err != nil {
		return nil, err
	}
	_, entries, err := m.Read()
	for _, e := range entries {
		of = append(of, e.Source.URL+" "+e.Said.Title)
	}
	return of, err
}
