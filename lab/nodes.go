package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"tidings/internal/daemon"
	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/mark"
	"tidings/lab/nodes"
	"tidings/overlay"
	"tidings/overlay/libp2p"
)

type benchCommand struct {
	Nodes      nodesCommand         `cmd:"" help:"Whole nodes over real sockets: time until tables are right, also after deaths, and cost per node."`
	Crawl      crawlCommand         `cmd:"" help:"Bytes that a crawler fetches and passes on from real feeds, by how it detects new content."`
	Deployment deploymentCommand    `cmd:"" help:"Real nodes that poll real feeds on this machine, compared with readers alone and with the simulator."`
	Firehose   benchFirehoseCommand `cmd:"" help:"Delivery of articles from feeds to the keyword feeds of filters, by GossipSub."`
	Match      matchCommand         `cmd:"" help:"Matching of articles with millions of keyword subscriptions: time and memory."`
	Tree       treeCommand          `cmd:"" help:"Trees and GossipSub over real sockets: delivery, delay and cost."`
	WebSub     benchWebSubCommand   `cmd:"" name:"websub" help:"Hubs that push (WebSub): delay to readers of real nodes, polls saved, and an hour without the hub."`
	Log        benchLogCommand      `cmd:"" help:"Items published in one feed of three nodes, by one writer and by several, empty and long, beside NATS JetStream."`
	Feeds      benchFeedsCommand    `cmd:"" help:"Items published in a thousand feeds at once through eight nodes: items a second of one core."`
	Reflector  reflectorCommand     `cmd:"" help:"A million keyword feeds on a disk: memory, time, and restart."`
	Liars      liarsCommand         `cmd:"" help:"Real nodes in processes of their own, some of which lie: what readers behind the others lack, and what they are told."`
	Capacity   capacityCommand      `cmd:"" help:"One node with up to a hundred thousand feeds, and with up to a million keyword subscriptions: memory, start, lists, changes."`
	Watcher    watcherCommand       `cmd:"" hidden:"" help:"Run a node for bench capacity."`
	Liar       liarCommand          `cmd:"" hidden:"" help:"Run a node for bench liars."`
	Street     streetCommand        `cmd:"" hidden:"" help:"Serve feeds for bench deployment."`
	House      houseCommand         `cmd:"" hidden:"" help:"Hold nodes for bench nodes."`
}

// A nodesCommand is "tidings-lab bench nodes".
type nodesCommand struct {
	reporter
	Nodes     int           `default:"60" quick:"12" help:"Number of nodes; phase sequencer has 15."`
	Kill      int           `default:"20" quick:"4" help:"Number of these that die at once, in the phases silent and closed. In phase sequencer 3 end in each mode, one after the other."`
	Transport string        `default:"both" enum:"quic,tcp,both" help:"Transport of the nodes: ${enum}."`
	Phase     []string      `default:"join,silent,closed,sequencer" quick:"join" enum:"join,silent,closed,sequencer" help:"Phases to run: ${enum}."`
	Pause     time.Duration `default:"200ms" quick:"10ms" help:"Time between the starts of two nodes."`
	Rest      time.Duration `default:"1m" quick:"2s" help:"How long idle nodes are measured, in phase join."`
	Seed      uint64        `default:"1" help:"Seed of the keys that are looked up."`
	Out       string        `placeholder:"DIR" help:"Draw figures into DIR."`
}

// Help is appended to the command's help.
func (c *nodesCommand) Help() string {
	return "Tables are right when every node is a member, its leaf is complete, every slot that a live node could fill has one, " +
		"no count of members is off by more than half of the truth, and all nodes find the right roots of 5 keys. " +
		"The column \"counts off\" is the largest error of a count at that time."
}

// Validate is called by kong after parsing the flags.
func (c *nodesCommand) Validate(k *kong.Context) error {
	joins := slices.Contains(c.Phase, nodes.Join)
	kills := slices.Contains(c.Phase, nodes.Silent) || slices.Contains(c.Phase, nodes.Closed)
	switch {
	case c.Nodes < 2 || c.Nodes > 1000:
		return fmt.Errorf("--nodes %d: from 2 to 1,000", c.Nodes)
	case kills && (c.Kill < 1 || c.Kill >= c.Nodes):
		return fmt.Errorf("--kill %d: at least one, and not all of %d", c.Kill, c.Nodes)
	case c.Pause < 0 || c.Rest < 0:
		return fmt.Errorf("--pause %v --rest %v: times must not be negative", c.Pause, c.Rest)
	}
	var err error
	if !joins && !kills {
		err = refuseTogether(k, "phase", "sequencer has 15 nodes of its own", "nodes", "pause")
	}
	if !kills {
		err = cmp.Or(err, refuseTogether(k, "phase", "it is of silent and closed", "kill"))
	}
	if !joins {
		err = cmp.Or(err, refuseTogether(k, "phase", "it is of join", "rest"))
	}
	return err
}

// Run makes the runs and prints the results; if it is interrupted or a phase fails, those of the
// finished runs.
func (c *nodesCommand) Run(ctx context.Context, s stdio) error {
	runs := slices.DeleteFunc(nodes.Default(c.Nodes, c.Kill, c.Transport, c.Pause, c.Rest), func(run nodes.Scenario) bool {
		return !slices.Contains(c.Phase, run.Phase)
	})
	if err := makeFolder(c.Out); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	var results []nodes.Result
	var failed error
	for i, run := range runs {
		p := newProgress(s.err, "")
		l := nodes.Lab{
			Command: func(ctx context.Context) *exec.Cmd {
				holder := exec.CommandContext(ctx, self, "bench", "house")
				holder.Stderr = os.Stderr // where a panic is reported
				return holder
			},
			Seed: c.Seed,
			Progress: func(what string, done float64) {
				p.what = fmt.Sprintf("run %d of %d, %s over %s: %s", i+1, len(runs), run.Phase, run.Transport, what)
				p.at(done)
			},
		}
		var r nodes.Result
		r, failed = l.Run(ctx, run)
		p.end()
		if failed != nil {
			failed = fmt.Errorf("after %d of %d runs: %w", i, len(runs), failed)
			break
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return failed
	}
	return joinErrors(failed, c.show(s.out, results))
}

// show prints and draws the results.
func (c *nodesCommand) show(w io.Writer, results []nodes.Result) error {
	var marks []mark.Mark
	for _, r := range results {
		marks = append(marks, nodes.Judge(r)...)
	}
	missed := c.report(w, struct {
		Runs []nodes.Result `json:"runs"`
	}{results}, func(line printer) { printNodes(line, results) }, marks)
	if c.Out == "" {
		return missed
	}
	return joinErrors(missed, drawNodes(c.Out, results))
}

// printNodes prints the results.
func printNodes(line printer, results []nodes.Result) {
	line("run\ttransport\tnodes\tkilled\ttables right s\tcounts off\t")
	for _, r := range results {
		if r.Phase != nodes.Sequencer {
			line("%s\t%s\t%d\t%d\t%.1f\t%.0f %%\t", r.Phase, r.Transport, r.Nodes, r.Killed, r.RightS, 100*r.CountError)
			continue
		}
		for _, e := range r.SequencerExits {
			line("sequencer, %s\t%s\t%d\t1\tnew one %.1f, all owners %.1f\t\t", e.Mode, r.Transport, r.Nodes, e.SequencerS, e.OwnersS)
		}
	}
	for _, r := range results {
		if r.Busy == nil {
			continue
		}
		line("\nper node, %s\tMB resident\tMB heap\tMB stacks\tgoroutines\tconnections\tlinks\tCPU", r.Transport)
		cost := func(when string, c *nodes.Cost, cpu string) {
			line("%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%s", when, megabytes(c.RSSBytes), megabytes(c.HeapBytes),
				megabytes(c.StackBytes), c.Goroutines, c.Connections, c.Links, cpu)
		}
		cost("joined", r.Busy, "")
		if r.Idle != nil {
			cost("rested", r.Idle, fmt.Sprintf("%.2f %%", r.Idle.CPUPercent))
		}
	}
}

func megabytes(bytes int) float64 { return float64(bytes) / 1e6 }

// drawNodes draws the share of wrong tables over time, and the time until a feed has another
// sequencer.
func drawNodes(dir string, results []nodes.Result) error {
	tables := figure.Figure{Title: "Wrong tables", X: "seconds since the last start, or the death", Y: "part of all"}
	ends := figure.Figure{Title: "Time from the end of a sequencer to the next one", X: "number", Y: "seconds"}
	for _, r := range results {
		if r.Phase != nodes.Sequencer {
			l := plot.Line{Name: r.Phase, Steps: true}
			for _, p := range r.RightShares {
				l.X, l.Y = append(l.X, p.S), append(l.Y, 1-p.Right)
			}
			tables.Lines = append(tables.Lines, l)
		}
		for _, way := range []string{nodes.Leave, nodes.Closed, nodes.Silent} {
			l := plot.Line{Name: r.Transport + ", " + way}
			for _, e := range r.SequencerExits {
				if e.Mode == way {
					l.X, l.Y = append(l.X, float64(len(l.X)+1)), append(l.Y, e.SequencerS)
				}
			}
			if len(l.X) > 0 {
				ends.Lines = append(ends.Lines, l)
			}
		}
	}
	for _, f := range []namedFigure{{"tables", tables}, {"sequencer", ends}} {
		if len(f.Lines) == 0 {
			continue
		}
		if err := f.Save(dir, "nodes-"+f.name); err != nil {
			return err
		}
	}
	return nil
}

// A houseCommand runs a process that holds nodes for bench nodes.
type houseCommand struct{}

// Run executes the commands on standard input.
func (houseCommand) Run(ctx context.Context, s stdio) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	return nodes.Serve(ctx, os.Stdin, s.out, openNode)
}

// openNode opens a daemon for the laboratory.
func openNode(p nodes.Plan) (nodes.Node, error) {
	c := daemon.DefaultConfig(p.Dir)
	c.Listen, c.Found, c.Bootstrap = p.Listen, p.Found, p.Bootstrap
	c.PortMap, c.AllowPrivateOrigins, c.HTTP = false, true, "127.0.0.1:0"
	d, err := daemon.Open(c)
	if err != nil {
		return nil, err
	}
	return labDaemon{d}, nil
}

// A labDaemon is a daemon that implements nodes.Node.
type labDaemon struct{ *daemon.Daemon }

func (b labDaemon) Inspect(ctx context.Context) (nodes.NodeState, error) {
	s, err := b.Snapshot(ctx)
	if err != nil || s.Network == "" {
		return nodes.NodeState{Addrs: s.Addrs}, err
	}
	l := nodes.NodeState{
		ID: s.ID, Addrs: s.Addrs, Member: s.State == overlay.Active,
		Depth: s.Depth, Leaf: s.Leaf, Slots: s.Slots, Counts: s.Counts,
		Connections: s.Transport.Connections, Links: s.Transport.LinksOut,
	}
	led, err := b.LedFeeds(ctx)
	for _, f := range led {
		l.LedFeeds = append(l.LedFeeds, nodes.LedFeed{Key: f.Key, Owners: f.Owners})
	}
	return l, err
}

func (b labDaemon) Root(ctx context.Context, key overlay.ID) (overlay.ID, error) {
	r, err := b.Route(ctx, key, nil)
	return r.Root, err
}

func (b labDaemon) Follow(ctx context.Context, url string) error { return b.Subscribe(ctx, url, false) }
