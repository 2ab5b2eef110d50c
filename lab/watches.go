package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"tidings/lab/keywords"
	"tidings/lab/mark"
	"tidings/lab/nodes"
)

// A watchesCommand is "tidings-lab bench watches".
type watchesCommand struct {
	reporter
	Subs []int         `default:"1000,10000,100000,1000000" quick:"1000,10000" help:"Numbers of keyword subscriptions, ascending (${default})."`
	Rest time.Duration `default:"10s" quick:"1s" help:"How long the idle node is measured (${default})."`
	Dir  string        `placeholder:"DIR" help:"Create the files in a directory within this one instead of the system's directory for temporary files."`
}

// Help is appended to the command's help.
func (c *watchesCommand) Help() string {
	return "The daemon that ships, in a process of its own, with many keyword subscriptions: memory, start, list, changes. " +
		"The subscriptions are random ones like the paper's, and are written into the store before the node starts."
}

// Validate is called by kong after parsing the flags.
func (c *watchesCommand) Validate() error {
	if !slices.IsSorted(c.Subs) || len(slices.Compact(slices.Clone(c.Subs))) != len(c.Subs) || c.Subs[0] < 1 || c.Subs[len(c.Subs)-1] > 50_000_000 {
		return fmt.Errorf("--subs %v: ascending numbers from 1 to 50,000,000", c.Subs)
	}
	return nil
}

// Run measures the numbers of subscriptions one after the other.
func (c *watchesCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, remove, err := keywords.TempDir(c.Dir)
	if err != nil {
		return err
	}
	defer func() { err = joinErrors(err, remove()) }()
	p := newProgress(s.err, "")
	runs, err := watchCapacity(ctx, s, dir, c.Subs, c.Rest, func(what string, done float64) { p.what = what; p.at(done) })
	p.end()
	if err != nil {
		return err
	}
	return c.report(s.out, map[string]any{"keywords": runs}, func(line printer) { printWatches(line, runs) }, watchMarks(runs))
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
	line("keyword subscriptions\tMB resident\tof these, files\tMB on disk\tcreate µs\tstart s\tpage ms: first\tlast\tfiltered\twhole list s\twatch ms\tagain\tunwatch ms\tslowest\tby query\tidle CPU %%")
	for _, r := range runs {
		line("%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f", r.Subscriptions, float64(r.RSS)/1e6, float64(r.Mapped)/1e6, float64(r.Disk)/1e6, r.Create,
			r.Start, 1e3*r.FirstPage, 1e3*r.LastPage, 1e3*r.Filtered, r.All, 1e3*r.Watch, 1e3*r.Again, 1e3*r.Unwatch, 1e3*r.UnwatchSlow, 1e3*r.ByQuery, 100*r.IdleCPU)
	}
}

// A watcherCommand runs a node for bench watches.
type watcherCommand struct{ Data string }

// Run runs the node until it is killed.
func (c *watcherCommand) Run(ctx context.Context, s stdio) error {
	return keywords.HoldNode(ctx, c.Data, s.out)
}
