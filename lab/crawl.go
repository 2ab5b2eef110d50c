package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/lab/crawl"
)

// A crawlCommand is "tidings-lab bench crawl".
type crawlCommand struct {
	Data  string        `required:"" placeholder:"DIR" help:"Where the traces are: NAME.tar.zst, with snapshots of one document each."`
	Every time.Duration `default:"30m" help:"Time between two polls of a feed (${default})."`
	Hold  time.Duration `default:"24h" help:"The longest that a snapshot is taken to have been there (${default})."`
	JSON  bool          `name:"json" help:"Print one JSON object."`
}

// Help is what the command's help says besides.
func (c *crawlCommand) Help() string {
	return "Figure 8 of Cobra (NSDI 2007): bytes fetched, and bytes passed on, if every poll fetches the feed; if its origin " +
		"answers 304 while it is the same; if besides documents that were seen are not passed on; and if of others only " +
		"new items and edits are. Traces that are no feeds are left out."
}

// Validate is called by kong when it has read the flags.
func (c *crawlCommand) Validate() error {
	if c.Every <= 0 || c.Hold <= 0 {
		return fmt.Errorf("--every %v --hold %v: both are more than nothing", c.Every, c.Hold)
	}
	return nil
}

// Run crawls one trace after the other.
func (c *crawlCommand) Run(ctx context.Context, s streams) error {
	names, err := filepath.Glob(filepath.Join(c.Data, "*.tar.zst"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no traces (*.tar.zst): say with --data where they are", c.Data)
	}
	p := newProgress(s.err, "traces")
	defer p.end()
	var found []crawl.Trace
	var failed error
	for i, name := range names {
		snapshots, err := origin.Trace(name, isFeed)
		switch {
		case err != nil:
			failed = err
		case len(snapshots) > 0:
			var t crawl.Trace
			t, failed = crawl.Config{Every: c.Every, Hold: c.Hold}.Crawl(ctx, strings.TrimSuffix(filepath.Base(name), ".tar.zst"), snapshots)
			if failed == nil {
				found = append(found, t)
			}
		}
		if failed != nil {
			failed = fmt.Errorf("after %d of %d traces: %w", i, len(names), failed)
			break
		}
		p.at(float64(i+1) / float64(len(names)))
	}
	p.end()
	if len(found) == 0 {
		return both(failed, nil)
	}
	total := crawl.Total(found)
	if c.JSON {
		return both(failed, printJSON(s.out, struct {
			Runs   []crawl.Run   `json:"runs"`
			Traces []crawl.Trace `json:"traces"`
		}{total, found}))
	}
	return both(failed, printCrawl(s.out, total, found))
}

// isFeed says whether a file of a trace may be a feed.
func isFeed(file string) bool { return !strings.HasSuffix(file, ".html") }

// crawlPublished is what the paper has of all that a full fetch brings: it states no figure for
// the hash of documents.
var crawlPublished = map[string]string{crawl.Full: "100 %", crawl.Validators: "43 % fetched", crawl.ItemHash: "0.2 % passed on"}

func printCrawl(w io.Writer, total []crawl.Run, traces []crawl.Trace) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	full := float64(max(total[0].Fetched, 1))
	line("mode\tMB fetched\tof full\tMB passed on\tof full\tpaper\t")
	for _, r := range total {
		line("%s\t%.1f\t%.2f %%\t%.1f\t%.2f %%\t%s\t", r.Mode, float64(r.Fetched)/1e6, 100*float64(r.Fetched)/full,
			float64(r.Passed)/1e6, 100*float64(r.Passed)/full, crawlPublished[r.Mode])
	}
	items := total[len(total)-1]
	line("packed, as sent\t\t\t%.1f\t%.2f %%\t\t", float64(items.Packed)/1e6, 100*float64(items.Packed)/full)
	line("Origins answer 304 whenever the bytes are those of the last poll, so that the hash of documents saves something only where replicas take turns.")
	line("\ntrace\tpolls\tdocuments\tMB, full\tnew items and edits\tfailed\tpassed on, of full\t")
	for _, tr := range traces {
		line("%s\t%d\t%d\t%.1f\t%d\t%d\t%.2f %%\t", tr.Name, tr.Polls, tr.Snapshots, float64(tr.Runs[0].Fetched)/1e6, tr.Items, tr.Failed,
			100*float64(tr.Runs[3].Passed)/float64(max(tr.Runs[0].Fetched, 1)))
	}
	part := float64(items.Passed) / full
	verdict := "met"
	if part > mostPassed {
		verdict = "MISSED"
	}
	line("\nfigure\tgot\tasked\t\t\t\t\t")
	line("passed on by items, of full\t%.4f\t≤ %g\t%s\t\t\t\t", part, mostPassed, verdict)
	return t.Flush()
}

// mostPassed is what may be passed on of what a full fetch brings.
const mostPassed = 0.01
