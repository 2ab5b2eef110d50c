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
	"tidings/lab/differences"
)

type evalCommand struct {
	Difference differenceCommand `cmd:"" help:"What the difference engine makes of real pages and feeds: changes found, false alarms, bytes, time."`
}

// A differenceCommand is "tidings-lab eval difference".
type differenceCommand struct {
	Data  string `required:"" placeholder:"DIR" help:"Where traces/NAME.tar.zst and ota_labels.csv are."`
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

// What was made of all traces.
type replayed struct {
	total differences.Total
	pages []differences.Page
	feeds []differences.Feed
}

// Run replays one trace after the other.
func (c *differenceCommand) Run(ctx context.Context, s streams) error {
	labels, err := table(c.Data, "ota_labels.csv", differences.ReadLabels)
	if err != nil {
		return err
	}
	references, err := table(c.Data, "pairs.csv", differences.ReadReferences)
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
	var found replayed
	var failed error
	for i, path := range names {
		if failed = ctx.Err(); failed == nil {
			failed = found.replay(path, labels, references)
		}
		if failed != nil {
			failed = fmt.Errorf("after %d of %d traces: %w", i, len(names), failed)
			break
		}
		p.at(float64(i+1) / float64(len(names)))
	}
	p.end()
	if len(found.pages)+len(found.feeds) == 0 {
		return both(failed, nil)
	}
	found.total = differences.Sum(found.pages, found.feeds)
	if c.JSON {
		traces := make([]any, 0, len(found.pages)+len(found.feeds))
		for i := range found.pages {
			traces = append(traces, &found.pages[i])
		}
		for i := range found.feeds {
			traces = append(traces, &found.feeds[i])
		}
		return both(failed, printJSON(s.out, struct {
			Total  differences.Total `json:"total"`
			Traces []any             `json:"traces"`
		}{found.total, traces}))
	}
	return both(failed, c.print(s.out, &found))
}

// table reads one of a folder.
func table[T any](dir, name string, read func(io.Reader) (T, error)) (of T, err error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return of, fmt.Errorf("%w: say with --data where %s and the traces are", err, name)
	}
	defer func() { _ = file.Close() }() // it is only read
	return read(file)
}

// labelledTraces is how those begin that labels are of; where there is none, nothing changed.
const labelledTraces = "ota-"

// replay replays the trace of a page or a feed.
func (r *replayed) replay(path string, labels differences.Labels, references differences.References) error {
	name := strings.TrimSuffix(filepath.Base(path), ".tar.zst")
	snapshots, err := origin.Trace(path, nil)
	if err != nil || len(snapshots) == 0 {
		return err
	}
	if isFeed(snapshots[0].File) {
		f := differences.Feeds(name, snapshots, references[name])
		r.feeds = append(r.feeds, f)
		return nil
	}
	of := labels[name]
	if of == nil && strings.HasPrefix(name, labelledTraces) {
		of = map[string]string{}
	}
	p, err := differences.Pages(name, snapshots, of)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.pages = append(r.pages, p)
	return nil
}

func (c *differenceCommand) print(w io.Writer, r *replayed) error {
	total, pages := &r.total, r.pages
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
	line("\nfeed\tsnapshots\tMB\twith new items\ttold\tthat come back\twith edits only\ttold\twithout either\ttold\tfailed\t\t")
	for i := range r.feeds {
		f := &r.feeds[i]
		line("%s\t%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\t", f.Name, f.Snapshots, float64(f.Bytes)/1e6, f.New.Pairs, f.New.Told, f.Back, f.Edited.Pairs, f.Edited.Told,
			f.Still.Pairs, f.Still.Told, len(f.Failed))
	}
	if err := t.Flush(); err != nil {
		return err
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
	part := func(of, all int) string { return fmt.Sprintf("%d of %d", of, all) }
	recall, alarms := float64(total.Found)/float64(max(total.Changes, 1)), float64(total.Alarms)/float64(max(total.Noise, 1))
	verdict("changes of wording found", fmt.Sprintf("%.1f %%, %s", 100*recall, part(total.Found, total.Changes)), recall >= 0.985, "≥ 98.5 %", "")
	verdict("false alarms per noise pair", fmt.Sprintf("%.2f %%, %s", 100*alarms, part(total.Alarms, total.Noise)), alarms <= 0.01, "≤ 1 %", "")
	verdict("feeds' pairs without item change that are told", part(total.StillTold, total.Still), total.StillTold == 0, "none", "")
	verdict("feeds' pairs with new items that are told", part(total.NewTold, total.New), total.NewTold == total.New, "all", "")
	verdict("feeds' pairs with edits only that are told", part(total.EditedTold, total.Edited), true, "", "")
	verdict("changes that applied are the new core", part(total.Told-total.ApplyFailures, total.Told), total.ApplyFailures == 0, "all", "")
	if total.PatchFailures == nil {
		verdict("and by GNU patch, as text", "it is not installed", false, "all", "")
	} else {
		verdict("and by GNU patch, as text", part(total.Told-*total.PatchFailures, total.Told), *total.PatchFailures == 0, "all", "")
	}
	verdict("a change on the wire, of the new core packed alone, median", fmt.Sprintf("%.3f", total.WireMedian), total.WireMedian <= 0.3, "≤ 0.30", "")
	verdict("lines of an update, mean", fmt.Sprintf("%.1f", total.Lines), true, "", "17")
	verdict("bytes that come with one, of the core, mean", fmt.Sprintf("%.1f %%", 100*total.Share), true, "", "6.8 % of the page")
	verdict("speed, median", fmt.Sprintf("%.0f MB/s", total.Speed), total.Speed >= 20, "≥ 20 MB/s", "")
	verdict("slowest page", fmt.Sprintf("%.0f ms", 1000*total.Slowest), true, "", "")
	if err := t.Flush(); err != nil {
		return err
	}
	return c.printWorst(w, r)
}

// printWorst shows what was missed, what raised an alarm for nothing, and what was not believed.
func (c *differenceCommand) printWorst(w io.Writer, r *replayed) error {
	var worst []string
	for i := range r.pages {
		for _, file := range r.pages[i].Missed {
			worst = append(worst, fmt.Sprintf("missed: %s %s\n", r.pages[i].Name, file))
		}
	}
	for i := range r.feeds {
		for _, pair := range r.feeds[i].Fooled {
			worst = append(worst, fmt.Sprintf("fooled: %s %s\n", r.feeds[i].Name, pair))
		}
	}
	for i := range r.pages {
		for _, why := range r.pages[i].Failed {
			worst = append(worst, fmt.Sprintf("not the page: %s %s\n", r.pages[i].Name, why))
		}
	}
	for i := range r.pages {
		for _, a := range r.pages[i].Alarms() {
			worst = append(worst, fmt.Sprintf("alarm: %s %s, %d lines, the first of them\n%s", r.pages[i].Name, a.File, a.Lines, a.Hunk))
		}
	}
	for _, text := range worst[:min(c.Worst, len(worst))] {
		if _, err := fmt.Fprintf(w, "\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
