package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"tidings/lab/churn"
	"tidings/lab/mark"
)

// A churnCommand is "tidings-lab sim churn".
type churnCommand struct {
	reporter
	Scenario []string       `placeholder:"NAME" help:"Names of runs in the docs (default: all); sessions, size, idle and sequencer select several. The run calm is added to sessions, loss and liars, which are compared with it."`
	Workers  int            `help:"Runs at a time (default: the number of processors)."`
	Nodes    int            `help:"Number of members (default 1024, with --quick 64); size and idle also use other numbers."`
	Session  *time.Duration `help:"Make one run with this median session time, at least 10s; 0s: no member leaves."`
	Silent   float64        `default:"1" help:"With --session: share of departures that no other node is told of."`
	Loss     *float64       `help:"Make one run with this share of messages lost."`
	Lookups  int            `help:"Lookups per run (default one million, with --quick 2000); runs of other sizes make a fiftieth of it."`
	Length   time.Duration  `help:"Virtual time of the lookups (default 2h, with --quick 10m); runs of other sizes take a sixth of it."`
	Seed     uint64         `default:"1" help:"Seed of the simulation."`
	Out      string         `placeholder:"DIR" help:"Draw figures into DIR."`
}

// Help is appended to the command's help.
func (c *churnCommand) Help() string {
	return "With --quick all networks are small. Control bytes have a target for 1024 members only."
}

// options returns the sizes of the runs.
func (c *churnCommand) options() churn.Options {
	o := churn.Full()
	if c.Quick {
		o = churn.Quick()
	}
	o.Seed = c.Seed
	o.Nodes, o.Lookups, o.Length = cmp.Or(c.Nodes, o.Nodes), cmp.Or(c.Lookups, o.Lookups), cmp.Or(c.Length, o.Length)
	return o
}

// session returns the median stay of a member; 0: no member leaves.
func (c *churnCommand) session() time.Duration {
	if c.Session == nil {
		return 0
	}
	return *c.Session
}

func (c *churnCommand) loss() float64 {
	if c.Loss == nil {
		return 0
	}
	return *c.Loss
}

// minSession is the smallest median stay, because joining takes some seconds.
const minSession = 10 * time.Second

// runs returns the runs to make.
func (c *churnCommand) runs() ([]churn.Run, error) {
	o := c.options()
	if c.Session != nil || c.Loss != nil {
		return []churn.Run{churn.Scenario{
			Name: "as told", Seed: o.Seed, Nodes: o.Nodes, Session: c.session(), Silent: c.Silent, Loss: c.loss(), Lookups: o.Lookups, Length: o.Length,
		}.AsRun()}, nil
	}
	all := churn.Runs(o)
	if c.Scenario == nil {
		return all, nil
	}
	return churn.Pick(all, c.Scenario)
}

// Run makes the runs and prints the results; if it is interrupted, those of the finished runs.
func (c *churnCommand) Run(ctx context.Context, s stdio) error {
	runs, err := c.runs()
	if err != nil {
		return err
	}
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	reports, stopped := c.measure(ctx, runs, newProgress(s.err, fmt.Sprintf("%d runs", len(runs))))
	if stopped != nil {
		stopped = fmt.Errorf("after %d of %d runs: %w", len(reports), len(runs), stopped)
	}
	if len(reports) == 0 {
		return stopped
	}
	return joinErrors(stopped, c.show(s, reports))
}

// show prints and draws the results.
func (c *churnCommand) show(s stdio, reports []churn.Report) error {
	var marks []mark.Mark
	for _, r := range reports {
		name, nodes := r.Describe()
		marks = append(marks, mark.ForRun(name, r.Marks(churn.Calm(reports, nodes))...)...)
	}
	missed := c.report(s.out, struct {
		Runs []churn.Report `json:"runs"`
	}{reports}, func(line printer) { printChurn(line, reports) }, marks)
	if c.Out == "" {
		return missed
	}
	drawn, err := drawChurn(c.Out, reports)
	if err == nil && drawn == 0 {
		_, err = fmt.Fprintln(s.err, "tidings-lab: nothing is drawn: these runs give no curve")
	}
	return joinErrors(missed, err)
}

// measure makes the exclusive runs, and then the others, several at a time. The reports are in the
// order of the runs; if one fails, only those of finished runs.
func (c *churnCommand) measure(ctx context.Context, runs []churn.Run, p *progress) ([]churn.Report, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var show sync.Mutex // guards p and done
	done := make([]float64, len(runs))
	reports := make([]churn.Report, len(runs))
	one := func(i int) {
		r, err := runs[i].Do(ctx, func(part float64) {
			show.Lock()
			defer show.Unlock()
			done[i] = part
			sum := 0.0
			for _, d := range done {
				sum += d
			}
			p.at(sum / float64(len(runs)))
		})
		if err != nil {
			stop(fmt.Errorf("%s: %w", runs[i].Name, err))
			return
		}
		reports[i] = r
	}
	var rest []int
	for i, r := range runs {
		if r.Exclusive {
			one(i)
		} else {
			rest = append(rest, i)
		}
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range cmp.Or(c.Workers, runtime.NumCPU()) {
		workers.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for _, i := range rest {
		next <- i
	}
	close(next)
	workers.Wait()
	p.end()
	return slices.DeleteFunc(reports, func(r churn.Report) bool { return r == nil }), context.Cause(ctx)
}

// Validate is called by kong after parsing the flags.
func (c *churnCommand) Validate(k *kong.Context) error {
	o := c.options()
	switch {
	case o.Nodes < 8 || o.Nodes > 100_000:
		return fmt.Errorf("--nodes %d: from 8 to 100,000", o.Nodes)
	case o.Lookups < 1:
		return fmt.Errorf("--lookups %d: at least one", o.Lookups)
	case o.Length < time.Minute:
		return fmt.Errorf("--length %v: at least a minute", o.Length)
	case !(c.loss() >= 0 && c.loss() < 1), !(c.Silent >= 0 && c.Silent <= 1):
		return fmt.Errorf("--loss %v --silent %v: shares are between 0 and 1", c.loss(), c.Silent)
	case c.session() != 0 && c.session() < minSession:
		return fmt.Errorf("--session %v: at least %v, or 0s", c.session(), minSession)
	case c.Workers < 0:
		return fmt.Errorf("--workers %d: must not be negative", c.Workers)
	case c.Silent != 1 && c.session() == 0:
		return fmt.Errorf("--silent %v: it has an effect only with --session", c.Silent)
	}
	_, err := c.runs()
	return cmp.Or(err,
		refuseTogether(k, "session", "it makes one run of its own, and no curve", "scenario", "out"),
		refuseTogether(k, "loss", "it makes one run of its own, and no curve", "scenario", "out"),
	)
}

// printChurn prints a line for each Scenario.
func printChurn(line printer, reports []churn.Report) {
	heading := "run\tmembers\tlookups\tfailed\twrong root\tmean hops\tslowest s\tcontrol/s\tcontrol B/s\tmean contacts\tjoins\tmean join s\tmessages per join\n"
	for _, report := range reports {
		r, ok := report.(*churn.Result)
		if !ok {
			continue
		}
		messages := ""
		if r.JoinMsgs > 0 {
			messages = fmt.Sprintf("%.0f", r.JoinMsgs)
		}
		line("%s%s\t%d\t%d\t%d\t%d\t%.2f\t%.1f\t%.2f\t%.0f\t%.0f\t%d\t%.1f\t%s", heading, r.Scenario, r.Nodes, r.Lookups, r.Failed, r.WrongRoot,
			r.HopsMean, r.LookupMaxS, r.MsgsPerNodeS, r.BytesPerNodeS, r.ContactsMean, r.Joins, r.JoinS, messages)
		heading = ""
	}
}
