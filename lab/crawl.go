package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"tidings/internal/daemon/origin"
	"tidings/lab/crawl"
	"tidings/lab/mark"
)

// A crawlCommand is "tidings-lab bench crawl".
type crawlCommand struct {
	reporter
	Data  string        `placeholder:"DIR" help:"Folder of the traces: NAME.tar.zst, with snapshots of one document each."`
	Every time.Duration `default:"30m" help:"Time between two polls of a feed (${default})."`
	Hold  time.Duration `default:"24h" help:"Longest time for which a snapshot counts (${default})."`
}

// Help is appended to the command's help.
func (c *crawlCommand) Help() string {
	return "Figure 8 of Cobra (NSDI 2007): bytes fetched, and bytes passed on, if every poll fetches the feed; if its origin " +
		"answers 304 while it is the same; if, in addition, known documents are not passed on; and if only new items and " +
		"edits are passed on. Traces that are not feeds are left out. With --quick it uses one generated " +
		"feed."
}

// Validate is called by kong after parsing the flags.
func (c *crawlCommand) Validate(k *kong.Context) error {
	if c.Every <= 0 || c.Hold <= 0 {
		return fmt.Errorf("--every %v --hold %v: both must be more than zero", c.Every, c.Hold)
	}
	return dataOr(k, c.Data)
}

// dataOr checks that the flags select either real documents, which are not in this repository, or
// those that the laboratory generates.
func dataOr(k *kong.Context, data string) error {
	if data == "" && !flagGiven(k, "quick") {
		return errors.New("--data is missing: give the folder of the traces, or use generated ones with --quick")
	}
	return refuseTogether(k, "quick", "it uses generated documents", "data")
}

// Run crawls the traces one after the other.
func (c *crawlCommand) Run(ctx context.Context, s stdio) error {
	if c.Quick {
		snapshots, _ := sampleFeed()
		t, err := c.crawl(ctx, feedSample, snapshots)
		return joinErrors(err, c.show(s, []crawl.Trace{t}))
	}
	names, err := filepath.Glob(filepath.Join(c.Data, "*.tar.zst"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no traces (*.tar.zst): give their folder with --data", c.Data)
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
			t, failed = c.crawl(ctx, strings.TrimSuffix(filepath.Base(name), ".tar.zst"), snapshots)
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
		return cmp.Or(failed, fmt.Errorf("%s has no trace of a feed", c.Data))
	}
	return joinErrors(failed, c.show(s, found))
}

// crawl crawls one trace.
func (c *crawlCommand) crawl(ctx context.Context, name string, snapshots []origin.Snapshot) (crawl.Trace, error) {
	return crawl.Config{Interval: c.Every, MaxHold: c.Hold}.Crawl(ctx, name, snapshots)
}

// show prints the results.
func (c *crawlCommand) show(s stdio, found []crawl.Trace) error {
	total := crawl.Total(found)
	passed := float64(total[len(total)-1].Passed) / float64(total[0].Fetched)
	return c.report(s.out, struct {
		Runs   []crawl.Run   `json:"runs"`
		Traces []crawl.Trace `json:"traces"`
	}{total, found}, func(line printer) { printCrawl(line, total, found) }, []mark.Mark{
		mark.AtMost("passed on by items, relative to full", "%", 100*passed, mostPassed).WithNote("the paper: 0.2 %"),
	})
}

// isFeed reports whether a file of a trace may be a feed.
func isFeed(file string) bool { return !strings.HasSuffix(file, ".html") }

// crawlPublished is the paper's figures, relative to full fetches; it has none for the hash of
// documents.
var crawlPublished = map[string]string{crawl.Full: "100 %", crawl.Validators: "43 % fetched", crawl.ItemHash: "0.2 % passed on"}

func printCrawl(line printer, total []crawl.Run, traces []crawl.Trace) {
	full := float64(max(total[0].Fetched, 1))
	line("mode\tMB fetched\tof full\tMB passed on\tof full\tpaper\t")
	for _, r := range total {
		line("%s\t%.1f\t%.2f %%\t%.1f\t%.2f %%\t%s\t", r.Mode, float64(r.Fetched)/1e6, 100*float64(r.Fetched)/full,
			float64(r.Passed)/1e6, 100*float64(r.Passed)/full, crawlPublished[r.Mode])
	}
	items := total[len(total)-1]
	line("compressed, as sent\t\t\t%.1f\t%.2f %%\t\t", float64(items.Packed)/1e6, 100*float64(items.Packed)/full)
	line("Origins answer 304 whenever the bytes are those of the last poll, so the hash of documents helps only where replicas answer in turns.")
	line("\ntrace\tpolls\tdocuments\tMB, full\tnew items and edits\tfailed\tpassed on, of full\t")
	for _, tr := range traces {
		line("%s\t%d\t%d\t%.1f\t%d\t%d\t%.2f %%\t", tr.Name, tr.Polls, tr.Snapshots, float64(tr.Runs[0].Fetched)/1e6, tr.Items, tr.Failed,
			100*float64(tr.Runs[3].Passed)/float64(max(tr.Runs[0].Fetched, 1)))
	}
}

// mostPassed is the target for what is passed on, in percent of full fetches.
const mostPassed = 1
