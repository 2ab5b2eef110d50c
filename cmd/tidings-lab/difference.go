package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"tidings/internal/daemon/origin"
	"tidings/internal/lab/differences"
)

type evalCommand struct {
	Difference differenceCommand `cmd:"" help:"What the difference engine makes of real pages: changes found, false alarms, bytes, time."`
}

// A differenceCommand is "tidings-lab eval difference".
type differenceCommand struct {
	Data  string `default:"../shared/data" placeholder:"DIR" help:"Where traces/NAME.tar.zst and ota_labels.csv are (${default})."`
	Worst int    `default:"10" help:"How many of the pairs that fooled it are shown, with the change that did (${default})."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

// Help is what the command's help says besides.
func (c *differenceCommand) Help() string {
	return "Each trace is replayed as a poller sees it, one snapshot after the other. Of a page with labels, a pair of neighbours is " +
		"a change of wording, or one of links or markup, or else noise. That a true change beside what was labelled counts as noise is " +
		"the labels' doing."
}

// Validate is called by kong when it has read the flags.
func (c *differenceCommand) Validate() error {
	if c.Worst < 0 {
		return fmt.Errorf("--worst %d: not less than nothing", c.Worst)
	}
	return nil
}

// Run replays one trace after the other.
func (c *differenceCommand) Run(ctx context.Context, s streams) error {
	file, err := os.Open(filepath.Join(c.Data, "ota_labels.csv"))
	if err != nil {
		return fmt.Errorf("%w: say with --data where the labels and the traces are", err)
	}
	labels, err := differences.ReadLabels(file)
	_ = file.Close() // it was only read
	if err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(c.Data, "traces", "*.tar.zst"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no traces/*.tar.zst: say with --data where they are", c.Data)
	}
	p := newProgress(s.err, "traces")
	defer p.end()
	var pages []differences.Page
	var failed error
	for i, path := range names {
		if failed = ctx.Err(); failed == nil {
			var found *differences.Page
			if found, failed = replay(path, labels); found != nil {
				pages = append(pages, *found)
			}
		}
		if failed != nil {
			failed = fmt.Errorf("after %d of %d traces: %w", i, len(names), failed)
			break
		}
		p.at(float64(i+1) / float64(len(names)))
	}
	p.end()
	if len(pages) == 0 {
		return both(failed, nil)
	}
	total := differences.Sum(pages)
	if c.JSON {
		return both(failed, printJSON(s.out, struct {
			Total differences.Total  `json:"total"`
			Pages []differences.Page `json:"pages"`
		}{total, pages}))
	}
	return both(failed, c.print(s.out, &total, pages))
}

// labelledTraces is how those begin that labels are of; where there is none, nothing changed.
const labelledTraces = "ota-"

// replay replays the trace of a page; of a feed it returns nothing.
func replay(path string, labels differences.Labels) (*differences.Page, error) {
	name := strings.TrimSuffix(filepath.Base(path), ".tar.zst")
	snapshots, err := origin.Trace(path, func(file string) bool { return strings.HasSuffix(file, ".html") })
	if err != nil || len(snapshots) == 0 {
		return nil, err
	}
	of := labels[name]
	if of == nil && strings.HasPrefix(name, labelledTraces) {
		of = map[string]string{}
	}
	p, err := differences.Pages(name, snapshots, of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &p, nil
}

func (c *differenceCommand) print(w io.Writer, total *differences.Total, pages []differences.Page) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("page\tsnapshots\tMB\twording\tfound\tnoise pairs\talarms\ttold\tfailed\treturned\tms/MB\tslowest ms\t")
	for i := range pages {
		p := &pages[i]
		wording, found, noise, alarms := "", "", "", ""
		if p.Labelled {
			wording, found = fmt.Sprint(p.Wording), fmt.Sprint(p.Wording-len(p.Missed))
			noise, alarms = fmt.Sprint(p.Noise), fmt.Sprint(len(p.Alarms()))
		}
		line("%s\t%d\t%.1f\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.0f\t%.0f\t", p.Name, p.Snapshots, float64(p.Bytes)/1e6, wording, found, noise, alarms,
			len(p.Changes), len(p.Failed), p.Returned, 1e9*p.Seconds/float64(max(p.Bytes, 1)), 1000*p.Slowest)
	}
	line("\nfigure\tgot\tasked\t\tpaper\t")
	verdict := func(name string, got string, met bool, asked, paper string) {
		word := "MISSED"
		if asked == "" {
			word = ""
		} else if met {
			word = "met"
		}
		line("%s\t%s\t%s\t%s\t%s\t", name, got, asked, word, paper)
	}
	recall, alarms := float64(total.Found)/float64(max(total.Wording, 1)), float64(total.Alarms)/float64(max(total.Noise, 1))
	verdict("changes of wording found", fmt.Sprintf("%.1f %% (%d of %d)", 100*recall, total.Found, total.Wording), recall >= 0.985, "≥ 98.5 %", "")
	verdict("false alarms per noise pair", fmt.Sprintf("%.2f %% (%d of %d)", 100*alarms, total.Alarms, total.Noise), alarms <= 0.01, "≤ 1 %", "")
	verdict("a change on the wire, of the new core packed alone, median", fmt.Sprintf("%.3f", total.PartMedian), total.PartMedian <= 0.3, "≤ 0.30", "")
	verdict("lines of an update, mean", fmt.Sprintf("%.1f", total.Lines), true, "", "17")
	verdict("bytes that come with one, of the core, mean", fmt.Sprintf("%.1f %%", 100*total.Share), true, "", "6.8 % of the page")
	verdict("speed, median", fmt.Sprintf("%.0f MB/s", total.Speed/1e6), total.Speed >= 20e6, "≥ 20 MB/s", "")
	verdict("slowest page", fmt.Sprintf("%.0f ms", 1000*total.Slowest), true, "", "")
	if err := t.Flush(); err != nil {
		return err
	}
	return c.printWorst(w, pages)
}

// printWorst shows what was missed, and what raised an alarm for nothing.
func (c *differenceCommand) printWorst(w io.Writer, pages []differences.Page) error {
	left := c.Worst
	show := func(format string, args ...any) (err error) {
		if left--; left >= 0 {
			_, err = fmt.Fprintf(w, format, args...)
		}
		return err
	}
	for i := range pages {
		for _, file := range pages[i].Missed {
			if err := show("\nmissed: %s %s\n", pages[i].Name, file); err != nil {
				return err
			}
		}
	}
	for i := range pages {
		for _, why := range pages[i].Failed {
			if err := show("\nnot the page: %s %s\n", pages[i].Name, why); err != nil {
				return err
			}
		}
	}
	for i := range pages {
		for _, a := range pages[i].Alarms() {
			if err := show("\nalarm: %s %s, %d lines, the first of them\n%s", pages[i].Name, a.File, a.Lines, a.Hunk); err != nil {
				return err
			}
		}
	}
	return nil
}
