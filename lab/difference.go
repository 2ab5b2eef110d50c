package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"tidings/internal/daemon/origin"
	"tidings/lab/differences"
	"tidings/lab/mark"
)

type evalCommand struct {
	Difference differenceCommand `cmd:"" help:"Difference engine on real pages and feeds: changes found, false alarms, bytes, time."`
	Structure  structureCommand  `cmd:"" help:"Structure of the code: lines, the largest types, and arrows between the files of a package."`
}

// A differenceCommand is "tidings-lab eval difference".
type differenceCommand struct {
	reporter
	Data  string `placeholder:"DIR" help:"Folder of traces/NAME.tar.zst and ota_labels.csv."`
	Worst int    `default:"10" help:"Number of wrong results to print, with the change (${default})."`
}

// Help is appended to the command's help.
func (c *differenceCommand) Help() string {
	return "Each trace is replayed as a poller sees it, one snapshot after the other. On a page with labels, a pair of neighbours is " +
		"a change of wording, a change of links or markup, or noise. Real changes without a label count as noise, too. " +
		"With --quick it uses one generated page and one generated " +
		"feed."
}

// Validate is called by kong after parsing the flags.
func (c *differenceCommand) Validate(k *kong.Context) error {
	if c.Worst < 0 {
		return fmt.Errorf("--worst %d: must not be negative", c.Worst)
	}
	return dataOr(k, c.Data)
}

// replayResults are the results of all traces.
type replayResults struct {
	total differences.Total
	pages []differences.Page
	feeds []differences.Feed
}

// Run replays the traces one after the other.
func (c *differenceCommand) Run(ctx context.Context, s stdio) error {
	if c.Quick {
		var found replayResults
		page, changes := samplePage()
		feed, news := sampleFeed()
		err := found.replay(pageSample, page, changes, nil)
		return joinErrors(cmp.Or(err, found.replay(feedSample, feed, nil, news)), c.show(s, &found))
	}
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
		return fmt.Errorf("%s has no traces/*.tar.zst: give their folder with --data", c.Data)
	}
	p := newProgress(s.err, "traces")
	defer p.end()
	var found replayResults
	var failed error
	for i, path := range names {
		if failed = ctx.Err(); failed == nil {
			failed = found.read(path, labels, references)
		}
		if failed != nil {
			failed = fmt.Errorf("after %d of %d traces: %w", i, len(names), failed)
			break
		}
		p.at(float64(i+1) / float64(len(names)))
	}
	p.end()
	if len(found.pages)+len(found.feeds) == 0 {
		return cmp.Or(failed, fmt.Errorf("%s has no trace of a document", c.Data))
	}
	return joinErrors(failed, c.show(s, &found))
}

// show prints the results.
func (c *differenceCommand) show(s stdio, found *replayResults) error {
	found.total = differences.Summarise(found.pages, found.feeds)
	traces := make([]any, 0, len(found.pages)+len(found.feeds))
	for i := range found.pages {
		traces = append(traces, &found.pages[i])
	}
	for i := range found.feeds {
		traces = append(traces, &found.feeds[i])
	}
	return c.report(s.out, struct {
		Total  differences.Total `json:"total"`
		Traces []any             `json:"traces"`
	}{found.total, traces}, func(line printer) { c.print(line, found) }, c.marks(&found.total))
}

// table reads a table from a file in a folder.
func table[T any](dir, name string, read func(io.Reader) (T, error)) (of T, err error) {
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return of, fmt.Errorf("%w: give the folder of %s and the traces with --data", err, name)
	}
	defer func() { _ = file.Close() }() // it is only read
	return read(file)
}

// labelledTraces is the prefix of the traces that have labels; where such a trace has no label,
// nothing changed.
const labelledTraces = "ota-"

// read replays a trace from a folder.
func (r *replayResults) read(path string, labels differences.Labels, references differences.References) error {
	name := strings.TrimSuffix(filepath.Base(path), ".tar.zst")
	snapshots, err := origin.Trace(path, nil)
	if err != nil || len(snapshots) == 0 {
		return err
	}
	of := labels[name]
	if of == nil && strings.HasPrefix(name, labelledTraces) {
		of = map[string]string{}
	}
	return r.replay(name, snapshots, of, references[name])
}

// replay replays the trace of a page or a feed.
func (r *replayResults) replay(name string, snapshots []origin.Snapshot, labels map[string]string, references map[string]differences.Reference) error {
	if isFeed(snapshots[0].File) {
		r.feeds = append(r.feeds, differences.Feeds(name, snapshots, references))
		return nil
	}
	p, err := differences.Pages(name, snapshots, labels)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.pages = append(r.pages, p)
	return nil
}

// marks returns the figures of all traces. Speed has a target for real pages only, which are larger
// than generated ones.
func (c *differenceCommand) marks(total *differences.Total) []mark.Mark {
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(of) }
	part := func(n, of int) string { return fmt.Sprintf("%d of %d", n, of) }
	patched := mark.AtMost("changes that GNU patch does not apply as text", "", math.NaN(), 0).WithNote("GNU patch is not installed")
	if total.PatchFailures != nil {
		patched = mark.Zero(patched.Figure, *total.PatchFailures)
	}
	speed := mark.AtLeast("speed, median", "MB/s", total.Speed, 20)
	if c.Quick {
		speed = speed.WithoutTarget("the target is for real pages")
	}
	return []mark.Mark{
		mark.AtLeast("changes of wording found", "%", percent(total.Found, total.Changes), 98.5).WithNote(part(total.Found, total.Changes)),
		mark.AtMost("false alarms of noise pairs", "%", percent(total.Alarms, total.Noise), 1).WithNote(part(total.Alarms, total.Noise)),
		mark.Zero("pairs of feeds without a change of items that are reported", total.UnchangedReported).WithNote(part(total.UnchangedReported, total.Unchanged)),
		mark.Zero("pairs of feeds with new items that are not reported", total.New-total.NewReported).WithNote(part(total.New-total.NewReported, total.New)),
		mark.Info("pairs of feeds with edits only that are reported", "", float64(total.EditedReported)).WithNote(part(total.EditedReported, total.Edited)),
		mark.Zero("changes that do not give the new core when applied", total.ApplyFailures).WithNote(part(total.ApplyFailures, total.Reported)),
		patched,
		mark.AtMost("size of a change on the wire, relative to the compressed new core, median", "", total.WireMedian, 0.3),
		mark.Info("lines per change, mean", "", total.Lines).WithNote("the paper: 17"),
		mark.Info("bytes per change, relative to the core, mean", "%", 100*total.Share).WithNote("the paper: 6.8 % of the page"),
		speed,
		mark.Info("slowest page", "ms", 1000*total.Slowest),
	}
}

// print prints the result of each trace, and the pairs that the engine got wrong.
func (c *differenceCommand) print(line printer, r *replayResults) {
	pages := r.pages
	line("page\tsnapshots\tMB\twording\tfound\tnoise pairs\talarms\treported\tfailed\treturned\tms/MB\tslowest ms\t")
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
	line("\nfeed\tsnapshots\tMB\twith new items\treported\twith returning items\twith edits only\treported\twithout changes\treported\tfailed\t\t")
	for i := range r.feeds {
		f := &r.feeds[i]
		line("%s\t%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\t", f.Name, f.Snapshots, float64(f.Bytes)/1e6, f.New.Pairs, f.New.Reported, f.Returning, f.Edited.Pairs, f.Edited.Reported,
			f.Unchanged.Pairs, f.Unchanged.Reported, len(f.Failed))
	}
	c.printWorst(line, r)
}

// printWorst prints missed changes, false alarms and refused snapshots.
func (c *differenceCommand) printWorst(line printer, r *replayResults) {
	var worst []string
	for i := range r.pages {
		for _, file := range r.pages[i].Missed {
			worst = append(worst, fmt.Sprintf("missed: %s %s\n", r.pages[i].Name, file))
		}
	}
	for i := range r.feeds {
		for _, pair := range r.feeds[i].Mistaken {
			worst = append(worst, fmt.Sprintf("wrong: %s %s\n", r.feeds[i].Name, pair))
		}
	}
	for i := range r.pages {
		for _, why := range r.pages[i].Failed {
			worst = append(worst, fmt.Sprintf("refused: %s %s\n", r.pages[i].Name, why))
		}
	}
	for i := range r.pages {
		for _, a := range r.pages[i].Alarms() {
			worst = append(worst, fmt.Sprintf("false alarm: %s %s, %d lines, the first:\n%s", r.pages[i].Name, a.File, a.Lines, a.Hunk))
		}
	}
	for _, text := range worst[:min(c.Worst, len(worst))] {
		line("\n%s", strings.TrimSuffix(text, "\n"))
	}
}
