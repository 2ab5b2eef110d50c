package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"tidings/lab/capacity"
	"tidings/lab/keywords"
	"tidings/lab/mark"
	"tidings/lab/nodes"
)

// A capacityCommand is "tidings-lab bench capacity".
type capacityCommand struct {
	reporter
	Feeds    []int         `default:"1000,10000,100000" quick:"1000,10000" help:"Numbers of feeds, ascending (${default}); 0 for none."`
	Searches []int         `default:"1000,10000,100000,1000000" quick:"1000,10000" help:"Numbers of keyword subscriptions, ascending (${default}); 0 for none."`
	Settle   time.Duration `default:"2m" quick:"10s" help:"How long a node with feeds has for its first polls, and after a restart, before it is measured (${default})."`
	Rest     time.Duration `default:"1m" quick:"5s" help:"How long the idle node is measured (${default})."`
	Dir      string        `placeholder:"DIR" help:"Create the files in a directory within this one instead of the system's directory for temporary files."`
	Program  string        `placeholder:"FILE" help:"Program to measure with feeds, instead of one that is built from this source."`
}

// Help is appended to the command's help.
func (c *capacityCommand) Help() string {
	return "One node with many subscriptions: memory, start, list, changes. The program imports a list of feeds, which an origin on this " +
		"machine serves, each with 5 items that never change, and is started again. For keyword subscriptions, the daemon runs in a process of its own; " +
		"they are random ones like the paper's, and are written into the store before the node starts."
}

// Validate is called by kong after parsing the flags.
func (c *capacityCommand) Validate() error {
	for _, flag := range []struct {
		name    string
		numbers *[]int
		most    int
	}{{"--feeds", &c.Feeds, maxCapacityFeeds}, {"--searches", &c.Searches, 50_000_000}} {
		n := *flag.numbers
		if slices.Equal(n, []int{0}) {
			*flag.numbers = nil
			continue
		}
		if len(n) == 0 || !slices.IsSorted(n) || len(slices.Compact(slices.Clone(n))) != len(n) || n[0] < 1 || n[len(n)-1] > flag.most {
			return fmt.Errorf("%s %v: ascending numbers from 1 to %d, or 0", flag.name, n, flag.most)
		}
	}
	return nil
}

// maxCapacityFeeds bounds the feeds of a node to those for which the origin has addresses and the program has the setting.
const maxCapacityFeeds = 200_000

// A capacityResult is what was measured. Its fields are its JSON.
type capacityResult struct {
	Feeds    []capacity.Run     `json:"feeds"`
	Searches []keywords.NodeRun `json:"keywords"`
}

// Run measures the numbers of subscriptions one after the other.
func (c *capacityCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, remove, err := keywords.TempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = joinErrors(err, remove()) }()
	p := newProgress(s.err, "")
	progress := func(what string, done float64) { p.what = what; p.at(done) }
	var found capacityResult
	err = capacity.Measure(ctx, capacity.Config{
		Dir: dir, Program: c.Program, Feeds: c.Feeds, Settle: c.Settle, Rest: c.Rest, Stderr: s.err,
	}, progress, func(r capacity.Run) { found.Feeds = append(found.Feeds, r) })
	if err == nil {
		found.Searches, err = watchCapacity(ctx, s, dir, c.Searches, c.Rest, progress)
	}
	p.end()
	if err != nil {
		return err
	}
	return c.report(s.out, found, func(line printer) {
		printCapacity(line, found.Feeds)
		printWatches(line, found.Searches)
	}, append(capacityMarks(found.Feeds), watchMarks(found.Searches)...))
}

// capacityMarks returns the figures of a node with feeds. They have targets for a hundred thousand.
func capacityMarks(runs []capacity.Run) (marks []mark.Mark) {
	for _, r := range runs {
		of := []mark.Mark{
			mark.AtMost("resident memory", "MB", float64(max(r.RSS, r.Imported))/1e6, 1000).WithStretch(500),
			mark.AtMost("import", "s", r.Import, 120),
			mark.AtMost("start", "s", r.Start, 5).WithStretch(2),
			mark.AtMost("first page of the list", "ms", 1e3*r.FirstPage, 200),
			mark.AtMost("processor at rest", "% of a core", 100*r.CPU, 5),
		}
		if r.Feeds != 100_000 {
			for i, m := range of {
				of[i] = m.WithoutTarget("the target is for 100,000 feeds")
			}
		}
		of = append(of, mark.NoneMissing("feeds that the exported list lacks", r.Listed, r.Feeds))
		marks = append(marks, mark.ForRun(fmt.Sprintf("%d feeds", r.Feeds), of...)...)
	}
	return marks
}

func printCapacity(line printer, runs []capacity.Run) {
	if len(runs) == 0 {
		return
	}
	line("feeds\timport s\tCPU s\tMB resident: imported\tstarted again\tKB a feed\tstart s\tfirst page ms\tpages s: start\tsubscriptions\tmetrics\ttidings list s\texport s\tidle CPU %%\trequests/s")
	for _, r := range runs {
		line("%d\t%.1f\t%.1f\t%.0f\t%.0f\t%.1f\t%.2f\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f", r.Feeds, r.Import, r.ImportCPU, float64(r.Imported)/1e6, float64(r.RSS)/1e6, float64(max(r.Imported, r.RSS))/1e3/float64(r.Feeds),
			r.Start, 1e3*r.FirstPage, r.StartPage, r.ListPage, r.Metrics, r.All, r.Export, 100*r.CPU, r.PollRate)
	}
	line("")
}

// watchCapacity measures a daemon with each number of keyword subscriptions, in one data directory.
func watchCapacity(ctx context.Context, s stdio, dir string, subs []int, rest time.Duration, progress func(string, float64)) (runs []keywords.NodeRun, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	err = keywords.MeasureNodes(ctx, keywords.NodeConfig{
		Dir: dir, Subscriptions: subs, Rest: rest,
		Command: func(ctx context.Context, dir string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, "bench", "watcher", "--data", dir)
			cmd.Stderr, cmd.WaitDelay = s.err, time.Second
			return cmd
		},
		Memory: func(pid int) (resident, mapped int) {
			resident, err := nodes.Resident(pid)
			mapped, mappedErr := nodes.Mapped(pid)
			if errors.Join(err, mappedErr) != nil {
				return 0, 0
			}
			return resident, mapped
		},
		CPUTime: func(pid int) time.Duration {
			t, _ := nodes.CPUTime(pid) // 0 if it is unknown
			return t
		},
	}, progress, func(r keywords.NodeRun) { runs = append(runs, r) })
	return runs, err
}

// watchMarks returns the figures of a daemon. They have targets for a million subscriptions.
func watchMarks(runs []keywords.NodeRun) (marks []mark.Mark) {
	for _, r := range runs {
		of := []mark.Mark{
			mark.AtMost("resident memory", "MB", float64(r.RSS)/1e6, 400),
			mark.AtMost("start", "s", r.Start, 5),
			mark.AtMost("unwatch by address", "ms", 1e3*r.Unwatch, 10),
			mark.AtMost("first page of the list", "ms", 1e3*r.FirstPage, 200),
		}
		if r.Subscriptions != 1_000_000 {
			for i, m := range of {
				of[i] = m.WithoutTarget("the target is for 1,000,000 subscriptions")
			}
		}
		of = append(of, mark.NoneMissing("subscriptions that the list lacks", r.Listed, r.Subscriptions))
		marks = append(marks, mark.ForRun(fmt.Sprintf("%d subscriptions", r.Subscriptions), of...)...)
	}
	return marks
}

func printWatches(line printer, runs []keywords.NodeRun) {
	if len(runs) == 0 {
		return
	}
	line("keyword subscriptions\tMB resident\tof these, files\tMB on disk\tcreate µs\tstart s\tpage ms: first\tlast\tfiltered\twhole list s\twatch ms\tagain\tunwatch ms\tslowest\tby query\tidle CPU %%")
	for _, r := range runs {
		line("%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f", r.Subscriptions, float64(r.RSS)/1e6, float64(r.Mapped)/1e6, float64(r.Disk)/1e6, r.Create,
			r.Start, 1e3*r.FirstPage, 1e3*r.LastPage, 1e3*r.Filtered, r.All, 1e3*r.Watch, 1e3*r.Again, 1e3*r.Unwatch, 1e3*r.UnwatchSlow, 1e3*r.ByQuery, 100*r.IdleCPU)
	}
}

// A watcherCommand runs a node for bench capacity.
type watcherCommand struct{ Data string }

// Run runs the node until it is killed.
func (c *watcherCommand) Run(ctx context.Context, s stdio) error {
	return keywords.HoldNode(ctx, c.Data, s.out)
}
