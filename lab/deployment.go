package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"tidings/honeycomb"
	"tidings/internal/daemon"
	"tidings/internal/deployment"
	"tidings/internal/wire"
	"tidings/lab/mark"
	"tidings/lab/nodes"
	"tidings/lab/table2"
	"tidings/overlay/libp2p"
)

// A deploymentCommand is "tidings-lab bench deployment".
type deploymentCommand struct {
	reporter
	Nodes         int           `default:"40" quick:"16" help:"Number of nodes (${default})."`
	Channels      int           `default:"1000" quick:"20" help:"Number of channels (${default})."`
	Subscriptions int           `default:"20000" quick:"160" help:"Number of subscriptions, assigned to nodes as in sim table2 (${default})."`
	Interval      time.Duration `quick:"3s" help:"Polling interval, in place of half an hour; all intervals are shortened by the same factor (1m; with --politeness 2m)."`
	Length        int           `default:"8" quick:"2" help:"Number of polling intervals to measure (${default})."`
	Load          float64       `help:"Allowed polls relative to those of readers alone; below 1 because short runs vary (0.99; with --politeness 0.97)."`
	Settle        int           `default:"6" quick:"2" help:"Maintenance intervals (a third of a polling interval each) between the last subscription and the measurement (${default})."`
	Politeness    bool          `help:"Treat the feeds as public ones, so that domains have budgets, shortened by the same factor."`
	Scheme        string        `default:"bound" enum:"bound,paper" help:"Polling scheme of the nodes: ${enum}."`
	Seed          int64         `default:"1" help:"Seed of the subscriptions and of the items. Real nodes are not reproducible."`
}

// paperInterval is the paper's polling interval.
const paperInterval = 30 * time.Minute

// Help is appended to the command's help.
func (c *deploymentCommand) Help() string {
	return "Nodes poll a feed server on this machine over real sockets, compared with readers who poll the same feeds alone, " +
		"and with the simulator in virtual time. All are printed in one table, in seconds of the run. " +
		"The wait is the mean time of all readers until the next poll, as an integral over time; \"seen\" is from the " +
		"publication of an item until a reader has it."
}

// Validate is called by kong after parsing the flags. With politeness the nodes have more work;
// some are late and poll more often than decided. So the defaults allow more time and less load.
func (c *deploymentCommand) Validate() error {
	interval, load := time.Minute, 0.99
	if c.Politeness {
		interval, load = 2*time.Minute, 0.97
	}
	c.Interval, c.Load = cmp.Or(c.Interval, interval), cmp.Or(c.Load, load)
	switch {
	case c.Nodes < 16 || c.Nodes > 1000:
		return fmt.Errorf("--nodes %d: from 16 to 1,000", c.Nodes)
	case c.Channels < 1 || c.Channels > 1<<16:
		return fmt.Errorf("--channels %d: from 1 to 65,536", c.Channels)
	case c.Subscriptions < c.Channels:
		return fmt.Errorf("--subscriptions %d: at least one for each of %d channels", c.Subscriptions, c.Channels)
	case c.Interval < 3*time.Second || c.Interval > paperInterval || c.Interval%(3*time.Second) != 0:
		return fmt.Errorf("--interval %v: from 3s to 30m, a multiple of 3s", c.Interval)
	case !(c.Load >= 0.01 && c.Load <= 1):
		return fmt.Errorf("--load %g: from 0.01 to 1", c.Load)
	case c.Length < 1 || c.Settle < 0:
		return fmt.Errorf("--length %d --settle %d: --length at least 1, --settle not negative", c.Length, c.Settle)
	}
	return nil
}

// A deploymentRow is the result for one way of polling, in seconds of the run.
type deploymentRow struct {
	What     string  `json:"what"`
	Polls    float64 `json:"polls_per_s"`
	Bytes    float64 `json:"origin_bytes_per_s,omitempty"`
	Wait     float64 `json:"wait_s"`
	Seen     float64 `json:"seen_s,omitempty"`
	SeenMost float64 `json:"seen_most_s,omitempty"`
}

// A deploymentResult is all results. Its fields are its JSON.
type deploymentResult struct {
	Rows     []deploymentRow `json:"rows"`
	Items    int             `json:"items_seen"`
	Overlay  float64         `json:"overlay_bytes_per_s"` // of all nodes
	CPU      float64         `json:"cpu_percent_per_node,omitempty"`
	Resident float64         `json:"rss_bytes_per_node,omitempty"`
	Seed     int64           `json:"seed"`
}

// Run deploys nodes, measures them, and simulates the same.
func (c *deploymentCommand) Run(ctx context.Context, s stdio) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	load := table2.NewWorkload(c.Seed, c.Nodes, c.Channels, c.Subscriptions)
	running, stop := context.WithCancel(ctx)
	defer stop()
	feedServer := exec.Command(self, "bench", "street") //nolint:noctx // it ends when its input does
	feedServer.Stderr = os.Stderr
	d, err := deployment.New(c.config(load), openDeployed, feedServer)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	r, err := c.measure(ctx, d, ended, newProgress(s.err, ""))
	stop()
	if err == nil {
		err = <-ended
	}
	if err != nil {
		return err
	}
	if err := c.simulate(ctx, load, r); err != nil {
		return err
	}
	alone, deployed, simulated := r.Rows[0], r.Rows[1], r.Rows[2]
	wait := mark.Between("wait, relative to the simulated one", "", deployed.Wait/simulated.Wait, 0.85, 1.15)
	if c.Quick {
		wait = wait.WithoutTarget("the target is for longer runs, because short ones vary")
	}
	return c.report(s.out, r, func(line printer) { c.print(line, r) }, []mark.Mark{
		wait,
		mark.AtMost("polls, relative to those of readers alone", "", deployed.Polls/alone.Polls, 1),
	})
}

// factor returns how many times shorter the run's intervals are than the default ones.
func (c *deploymentCommand) factor() float64 { return float64(paperInterval) / float64(c.Interval) }

// config returns the configuration of the deployment for a workload.
func (c *deploymentCommand) config(load *table2.Workload) deployment.Config {
	d := deployment.Config{Nodes: c.Nodes, Network: wire.DefaultNetwork("deployment"), Polite: c.Politeness, Compression: c.factor(), Seed: uint64(c.Seed)}
	d.Network.PollInterval, d.Network.MaintenanceInterval, d.Network.PrivateAddresses = c.Interval, c.Interval/3, true
	d.Network.Load = c.Load
	if c.Scheme == "paper" {
		of := wire.Paper
		d.Network.Wedge, d.Network.Clusters, d.Network.Phases, d.Network.Decide = of.Wedge, of.Clusters, of.Phases, of.Decide
	}
	for _, ch := range load.Channels {
		d.Channels = append(d.Channels, deployment.Channel{
			Readers: make([]int, c.Nodes), Every: max(time.Duration(float64(ch.Update)/c.factor()), time.Millisecond),
		})
	}
	for member, list := range load.Memberships() {
		for _, m := range list {
			d.Channels[m.Channel].Readers[member] += int(m.Weight)
		}
	}
	return d
}

// measure waits until the network has settled, and measures.
func (c *deploymentCommand) measure(ctx context.Context, d *deployment.Deployment, ended chan error, p *progress) (*deploymentResult, error) {
	defer p.end()
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	settle := time.Duration(c.Settle) * c.Interval / 3
	length := time.Duration(c.Length) * c.Interval
	pid, opened, sent, computed := os.Getpid(), false, 0, time.Duration(0)
	for {
		select {
		case <-ticker.C:
		case err := <-ended:
			ended <- nil
			return nil, errors.Join(errors.New("the deployment ended"), err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		v := d.View()
		if v.Running == 0 {
			p.what = v.Phase
			p.at(v.Progress)
			continue
		}
		p.what = "measuring"
		p.at(min(float64(v.Running)/float64(settle+length), 1))
		switch {
		case !opened && v.Running >= settle:
			opened, sent = true, d.SentBytes()
			computed, _ = nodes.CPUTime(pid) // not printed where the system does not report it
			if err := d.ResetCounts(); err != nil {
				return nil, err
			}
		case opened && v.Total.Since >= length:
			return c.result(d, v.Total, d.SentBytes()-sent, computed), nil
		}
	}
}

// result computes the figures.
func (c *deploymentCommand) result(d *deployment.Deployment, f deployment.Figures, sent int, computed time.Duration) *deploymentResult {
	secs := f.Since.Seconds()
	r := &deploymentResult{Seed: c.Seed, Overlay: float64(sent) / secs, Items: f.ShownByNodes.Items}
	row := func(what string, p deployment.Polled, s deployment.Shown) deploymentRow {
		return deploymentRow{
			What: what, Polls: float64(p.Polls) / secs, Bytes: float64(p.Bytes) / secs, Wait: p.Wait,
			Seen: s.MeanDelay().Seconds(), SeenMost: s.MaxDelay.Seconds(),
		}
	}
	alone := row("readers alone", f.Legacy, f.Shown)
	alone.Wait = c.Interval.Seconds() / 2 // each reader knows only its own polls
	r.Rows = append(r.Rows, alone, row("nodes, over sockets", f.Nodes, f.ShownByNodes))
	if now, err := nodes.CPUTime(os.Getpid()); err == nil {
		r.CPU = 100 * (now - computed).Seconds() / secs / float64(c.Nodes)
	}
	if rss, err := nodes.Resident(os.Getpid()); err == nil {
		r.Resident = float64(rss) / float64(c.Nodes)
	}
	return r
}

// simulate does the same in the simulator, and adds the results.
func (c *deploymentCommand) simulate(ctx context.Context, load *table2.Workload, r *deploymentResult) error {
	name := "rank-cut-coordinated"
	if c.Scheme == "paper" {
		name = "paper-measured"
	}
	scheme, err := table2.SchemeOf(name)
	if err != nil {
		return err
	}
	setting := table2.Config{
		Load: load, Objective: honeycomb.Lite, Scheme: scheme, Hours: max(c.Length, 4), Maintenance: paperInterval / 3, Polite: c.Politeness,
		LoadShare: c.Load,
	}
	row, err := setting.Run(ctx, func(float64) {})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	perSecond := float64(c.Channels) / c.Interval.Seconds()
	r.Rows = append(r.Rows,
		deploymentRow{What: "nodes, simulated", Polls: row.Load * perSecond, Wait: row.Detection / c.factor()},
		deploymentRow{What: "bound", Polls: row.BoundLoad * perSecond, Wait: row.Bound / c.factor()})
	return nil
}

// print prints the table.
func (c *deploymentCommand) print(line printer, r *deploymentResult) {
	line("%d nodes, %d channels, %d subscriptions; %v for half an hour", c.Nodes, c.Channels, c.Subscriptions, c.Interval)
	line("\npollers\tpolls/s\tbytes/s at the origin\twait s\tseen after s\tmax s\t")
	for _, row := range r.Rows {
		seen, most, bytes := "", "", ""
		if row.Seen > 0 {
			seen, most, bytes = fmt.Sprintf("%.2f", row.Seen), fmt.Sprintf("%.1f", row.SeenMost), fmt.Sprintf("%.0f", row.Bytes)
		}
		line("%s\t%.1f\t%s\t%.3f\t%s\t%s\t", row.What, row.Polls, bytes, row.Wait, seen, most)
	}
	line("\nper node\tCPU %%\tMB resident\toverlay bytes/s\titems seen by all")
	line("\t%.2f\t%.1f\t%.0f\t%d", r.CPU, r.Resident/1e6, r.Overlay/float64(c.Nodes), r.Items)
}

// openDeployed opens a daemon for a deployment.
func openDeployed(p deployment.NodeOptions) (deployment.Node, error) {
	c := daemon.DefaultConfig(p.Dir)
	c.Listen, c.Found, c.Bootstrap, c.OnShown, c.Compression = p.Listen, p.Found, p.Bootstrap, p.OnShown, p.Compression
	c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.HTTP, c.Abrupt = false, true, true, "none", true
	return daemon.Open(c)
}

// A streetCommand runs the process that serves feeds for bench deployment.
type streetCommand struct{}

// Run executes the commands on standard input.
func (streetCommand) Run(ctx context.Context, s stdio) error {
	return deployment.ServeFeeds(ctx, os.Stdin, s.out)
}
