package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidings/lab/mark"
)

// A benchLogCommand is "tidings-lab bench log".
type benchLogCommand struct {
	reporter
	Items   int `default:"4800" quick:"120" help:"Number of items in the feed before the measurements on a long feed (${default})."`
	Count   int `default:"1600" quick:"60" help:"Items per measurement (${default})."`
	Writers int `default:"16" quick:"8" help:"Number of programs that publish at once (${default})."`
}

// Help is appended to the command's help.
func (c *benchLogCommand) Help() string {
	return "Three nodes with the settings of a new network run on loopback, in one process and with their own stores. All of them " +
		"follow one feed, and one of them, which is not the feed's sequencer, holds the publisher's key. Programs send items to it by " +
		"POST /api/v1/publish: first one program, then several at once, while the feed is empty and again when it is long. At the end " +
		"each node must show each item once. The peer is NATS JetStream in the same process: three servers, a stream with three replicas " +
		"on disk that syncs each write, as many programs, the same bytes, and nobody who reads the stream. A measurement has several " +
		"rounds, in which the two take turns, because the figures depend on the machine and on how long its disk takes to sync."
}

// Validate is called by kong after parsing the flags.
func (c *benchLogCommand) Validate() error {
	switch {
	case c.Count < logRounds || c.Writers < 1 || c.Writers > 256:
		return fmt.Errorf("--count %d --writers %d: at least %d items, and from 1 to 256 writers", c.Count, c.Writers, logRounds)
	case c.Items < 2*c.Count || c.Items+2*c.Count > 9_000:
		return fmt.Errorf("--items %d --count %d: at least two measurements, and with two more at most 9,000: a log keeps 10,000 items", c.Items, c.Count)
	}
	return nil
}

const (
	logRounds = 4 // of a measurement

	logTargetRatio  = 1.0 // items per second of several writers, divided by the peer's
	logStretchRatio = 2.0
	logTargetP99    = 0.05 // seconds, with several writers
	logStretchP99   = 0.02 // seconds
	logTargetLength = 0.7  // items per second of one writer on a long feed, divided by those on an empty one, both relative to the peer
)

// A logSample is how fast items were written. Its fields are its JSON.
type logSample struct {
	Rate float64 `json:"items_per_s"`
	P50  float64 `json:"p50_s"`
	P99  float64 `json:"p99_s"`
	Most float64 `json:"most_s"`

	took  []float64 // seconds of each item
	spent time.Duration
}

// A logRun is one measurement. Its fields are its JSON.
type logRun struct {
	Before  int       `json:"items_before"` // items in the feed before the measurement
	Writers int       `json:"writers"`
	Items   int       `json:"items"`
	Ours    logSample `json:"ours"`
	Peer    logSample `json:"peer"`
}

// ratio returns our items per second divided by the peer's.
func (r *logRun) ratio() float64 { return r.Ours.Rate / r.Peer.Rate }

// Run measures and prints the results.
func (c *benchLogCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, err := os.MkdirTemp("", "tidings-log-")
	if err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := newProgress(s.err, "")
	defer p.end()
	ctx, end := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	b, err := openBenchLog(ctx, &parts, dir, c.Writers)
	if err != nil {
		return err
	}
	peer, err := openBenchPeer(ctx, dir, c.Writers)
	defer peer.close()
	if err != nil {
		return err
	}
	var runs []*logRun
	measure := func() error {
		for _, writers := range []int{1, c.Writers} {
			p.what = fmt.Sprintf("%d writers, %d items before", writers, b.items)
			p.at(float64(b.items) / float64(c.Items+2*c.Count))
			r, err := measureLog(ctx, b, peer, writers, c.Count)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return nil
	}
	if err := measure(); err != nil {
		return err
	}
	p.what = "filling the feed"
	if err := b.publish(ctx, &logSample{}, c.Writers, c.Items-b.items); err != nil {
		return err
	}
	if err := measure(); err != nil {
		return err
	}
	wrong, err := b.wrong(ctx)
	if err != nil {
		return err
	}
	p.end()
	return c.report(s.out, map[string]any{"runs": runs, "wrong": wrong}, func(line printer) { printLogRuns(line, runs) }, logMarks(runs, wrong))
}

// logMarks compares the figures with their targets. Those of several writers are of the long feed.
func logMarks(runs []*logRun, wrong int) []mark.Mark {
	empty, one, crowd := runs[0], runs[2], runs[3]
	several := fmt.Sprintf("%d writers at %d items", crowd.Writers, crowd.Before)
	return []mark.Mark{
		mark.AtLeast(several+", relative to the peer's rate", "", crowd.ratio(), logTargetRatio).WithStretch(logStretchRatio),
		mark.AtMost(several+", p99", "s", crowd.Ours.P99, logTargetP99).WithStretch(logStretchP99),
		mark.AtLeast(fmt.Sprintf("one writer at %d items, relative to an empty feed", one.Before), "", one.ratio()/empty.ratio(), logTargetLength).
			WithNote("both relative to the peer's rate, since the machine changes meanwhile"),
		mark.Zero("missing or repeated items", wrong),
	}
}

// printLogRuns prints the measurements.
func printLogRuns(line printer, runs []*logRun) {
	line("items before\twriters\titems\ttidings/s\tp50 s\tp99 s\tmax s\tJetStream/s\tp50 s\tp99 s\tmax s\tratio")
	for _, r := range runs {
		line("%d\t%d\t%d\t%.1f\t%.4f\t%.4f\t%.4f\t%.1f\t%.4f\t%.4f\t%.4f\t%.2f", r.Before, r.Writers, r.Items,
			r.Ours.Rate, r.Ours.P50, r.Ours.P99, r.Ours.Most, r.Peer.Rate, r.Peer.P50, r.Peer.P99, r.Peer.Most, r.ratio())
	}
}

// measureLog makes some writers publish in the feed and at the peer, in turns.
func measureLog(ctx context.Context, b *benchLog, peer *benchPeer, writers, items int) (*logRun, error) {
	r := &logRun{Before: b.items, Writers: writers, Items: items}
	for round := range logRounds {
		n := items*(round+1)/logRounds - items*round/logRounds
		first := b.items
		if err := b.publish(ctx, &r.Ours, writers, n); err != nil {
			return nil, err
		}
		if err := r.Peer.write(ctx, writers, n, func(ctx context.Context, writer, i int) error {
			item, err := benchItem(b.url, first+i)
			if err != nil {
				return err
			}
			return peer.write(ctx, writer, item)
		}); err != nil {
			return nil, fmt.Errorf("the peer: %w", err)
		}
	}
	r.Ours.finish()
	r.Peer.finish()
	return r, nil
}

// publish publishes the next items of the feed.
func (b *benchLog) publish(ctx context.Context, s *logSample, writers, items int) error {
	first := b.items
	b.items += items
	return s.write(ctx, writers, items, func(ctx context.Context, _, i int) error {
		item, err := benchItem(b.url, first+i)
		if err != nil {
			return err
		}
		return b.client.write(ctx, item)
	})
}

// write makes some writers write items, each of them one after the other, and adds how long each took. The item i is the same
// for all writers.
func (s *logSample) write(ctx context.Context, writers, items int, write func(ctx context.Context, writer, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for writer := range writers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < items && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				if err := write(ctx, writer, i); err != nil {
					cancel(fmt.Errorf("write item %d: %w", i, err))
					return
				}
				mu.Lock()
				s.took = append(s.took, time.Since(sent).Seconds())
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.spent += time.Since(began)
	return context.Cause(ctx)
}

// finish computes the figures.
func (s *logSample) finish() {
	slices.Sort(s.took)
	n := len(s.took)
	s.Rate, s.P50, s.P99, s.Most = float64(n)/s.spent.Seconds(), s.took[n/2], s.took[n*99/100], s.took[n-1]
}
