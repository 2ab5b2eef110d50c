package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tidings/internal/daemon"
	"tidings/lab/firehose"
	"tidings/lab/mark"
)

// A benchFirehoseCommand is "tidings-lab bench firehose".
type benchFirehoseCommand struct {
	reporter
	Hosts    int           `default:"40" quick:"8" help:"Number of nodes (${default})."`
	Filters  int           `default:"2" quick:"1" help:"Number of these that are filters (${default})."`
	Feeds    int           `default:"20" quick:"5" help:"Number of feeds, each with an item every ten seconds (${default})."`
	Length   time.Duration `default:"90s" quick:"10s" help:"Time in which items count (${default})."`
	Interval time.Duration `default:"5s" quick:"1s" help:"Polling interval of the network (${default})."`
	NoKill   bool          `help:"Do not kill an owner of shards halfway."`
}

// Help is appended to the command's help.
func (c *benchFirehoseCommand) Help() string {
	return "Real nodes over QUIC on this machine, in one process. Items of feeds with subscribers travel to the keyword feeds " +
		"of filters without subscriptions, by GossipSub. Times are measured from the first reader of the feed until the " +
		"article is in the keyword feed. With --quick there is less time before and after, but it still takes " +
		"half a minute until filters hear of all shards."
}

// Validate is called by kong after parsing the flags.
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

// Run measures and prints the results.
func (c *benchFirehoseCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, err := os.MkdirTemp("", "tidings-firehose-")
	if err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	settle, after := 40*time.Second, 70*time.Second
	if c.Quick {
		settle, after = 2*time.Second, 5*time.Second
	}
	p := newProgress(s.err, "")
	r, err := firehose.Bench{
		Hosts: c.Hosts, Filters: c.Filters, Feeds: c.Feeds, Length: c.Length, Interval: c.Interval, Settle: settle, After: after, Kill: !c.NoKill, Dir: dir, Open: openFilterDaemon,
	}.Run(ctx, func(what string, done float64) { p.what = what; p.at(done) })
	p.end()
	if err != nil {
		return err
	}
	return c.report(s.out, map[string]any{"runs": []firehose.BenchResult{r}}, func(line printer) {
		line("%d nodes, %d of them filters, %d feeds; an owner of shards killed: %v", r.Hosts, r.Filters, c.Feeds, r.Killed)
		line("%d of %d articles at filters", r.Delivered, r.Expected)
	}, []mark.Mark{
		mark.NoneMissing("articles missing at a filter", r.Delivered, r.Expected), mark.Zero("later than a minute", r.Late), mark.Zero("twice in a keyword feed", r.Twice),
		mark.AtMost("from the first reader to the keyword feed, median", "s", r.P50, 2),
		mark.Info("p99", "s", r.P99), mark.Info("maximum", "s", r.Max),
	})
}

// A filterDaemon is a daemon of the bench.
type filterDaemon struct {
	*daemon.Daemon
	number map[string]uint32
}

func openFilterDaemon(p firehose.Plan) (firehose.Node, error) {
	c := daemon.DefaultConfig(p.Dir)
	c.Listen, c.Found, c.Bootstrap, c.OnShown, c.Filter = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, p.Found, p.Bootstrap, p.Shown, p.Filter
	c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.HTTP, c.Abrupt = false, true, true, "none", true
	d, err := daemon.Open(c)
	return &filterDaemon{d, map[string]uint32{}}, err
}

// Serves implements firehose.Node.
func (f *filterDaemon) Serves(ctx context.Context) (owned, deaf int, err error) {
	s, err := f.Snapshot(ctx)
	return s.Firehose.Served, s.Firehose.SilentShards, err
}

// Watched implements firehose.Node. Each node is polled by one goroutine only.
func (f *filterDaemon) Watched(ctx context.Context, query string) (of []string, err error) {
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
		of = append(of, e.Source.URL+" "+e.Meaning.Title)
	}
	return of, err
}
