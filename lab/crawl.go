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
	"tidings/internal/plot"
	"tidings/lab/crawl"
	"tidings/lab/figure"
	"tidings/lab/mark"
)

// A crawlCommand is "tidings-lab bench crawl".
type crawlCommand struct {
	reporter
	Data  string        `placeholder:"DIR" help:"Folder of the traces: NAME.tar.zst, with snapshots of one document each."`
	Every time.Duration `default:"30m" help:"Time between two polls of a feed (${default})."`
	Hold  time.Duration `default:"24h" help:"Longest time for which a snapshot counts (${default})."`
	Out   string        `placeholder:"DIR" help:"Draw Figures 6 and 8 into DIR."`
}

// Help is appended to the command's help.
func (c *crawlCommand) Help() string {
	return "Figure 8 of Cobra (NSDI 2007): bytes fetched, and bytes passed on, if every poll fetches the feed; if its origin " +
		"answers 304 while it is the same; if, in addition, known documents are not passed on; and if only new items and " +
		"edits are passed on. Figure 5: sizes of feeds and articles; and Figure 6: how long it takes to read a document, by its size, without " +
		"the network. Traces that are not feeds are left out. With --quick it uses one generated feed."
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
	files, err := saveFigures(c.Out, crawlFigures(total, found))
	if err != nil {
		return err
	}
	feeds := crawl.PropertiesOf(found)
	return c.report(s.out, struct {
		Runs   []crawl.Run      `json:"runs"`
		Traces []crawl.Trace    `json:"traces"`
		Feeds  crawl.Properties `json:"properties"`
		Files  []string         `json:"files"`
	}{total, found, feeds, files}, func(line printer) {
		printCrawl(line, total, found)
		printProperties(line, feeds)
	}, []mark.Mark{
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

// printProperties prints Figure 5 beside the paper's.
func printProperties(line printer, p crawl.Properties) {
	line("\n%d feeds\tmedian\tp90\tpaper: median\tp90\t\t", p.Feeds)
	for _, row := range []struct {
		name        string
		of          crawl.Distribution
		median, p90 int
	}{
		{"bytes of a feed", p.FeedBytes, 7606, 22890}, {"articles of a feed", p.FeedItems, 10, 17},
		{"bytes of an article", p.ArticleBytes, 768, 2426}, {"words of an article", p.ArticleWords, 61, 637},
	} {
		line("%s\t%.0f\t%.0f\t%d\t%d\t\t", row.name, row.of.Median, row.of.P90, row.median, row.p90)
	}
}

// crawlFigures returns Figures 6 and 8.
func crawlFigures(total []crawl.Run, traces []crawl.Trace) []namedFigure {
	read := plot.Line{Name: "documents", Dots: true}
	for _, t := range traces {
		for _, d := range t.Documents {
			read.X, read.Y = append(read.X, float64(d.Bytes)), append(read.Y, 1e3*d.Read.Seconds())
		}
	}
	bars := plot.Bars{Name: "passed on"}
	var modes []plot.Tick
	for i, r := range total {
		bars.Y = append(bars.Y, 100*float64(r.Passed)/float64(max(total[0].Fetched, 1)))
		modes = append(modes, plot.Tick{At: float64(i) + 0.5, Label: fmt.Sprintf("%s: %.3g %%", r.Mode, bars.Y[i])})
	}
	return []namedFigure{
		{"cobra-figure-6", figure.Figure{
			Title: "Figure 6 of Cobra: size of a document, and time to read it", X: "bytes", Y: "milliseconds", LogX: true, LogY: true, Lines: []plot.Line{read},
			Caption: "Recorded documents, each the first time that it is seen. The time is that from its bytes to what is passed on; the paper's is mostly that of the network.",
		}},
		{"cobra-figure-8", figure.Figure{
			Title: "Figure 8 of Cobra: what a crawler passes on", Y: "% of full fetches", Bars: []plot.Bars{bars}, XTicks: modes,
			Caption: "Recorded documents. The paper's last bar is 0.2 %.",
		}},
	}
}

// mostPassed is the target for what is passed on, in percent of full fetches.
const mostPassed = 1
