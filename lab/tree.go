package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tidings/lab/tree"
	"tidings/overlay/libp2p"
)

// A treeCommand is "tidings-lab bench tree".
type treeCommand struct {
	reporter
	Hosts        int           `default:"200" quick:"10" help:"Number of hosts, of the trees and of GossipSub (${default})."`
	Topics       []int         `default:"100,1000,10000" quick:"20" placeholder:"N" help:"Numbers of topics, each followed by 5 to 20 % of the hosts, one run each (${default})."`
	Publications int           `default:"1000" quick:"100" help:"Number of items, spread over the topics, each published by a follower (${default})."`
	Size         int           `default:"1024" help:"Bytes of an item, without its envelope (${default})."`
	Every        time.Duration `default:"50ms" quick:"10ms" help:"Time between two items (${default})."`
	FanOut       int           `default:"16" help:"Children that a host may have in one tree (${default})."`
	Idle         time.Duration `default:"10m" quick:"1s" help:"How long hosts are measured while nothing is published (${default})."`
	Connections  []string      `default:"overlay,trees" quick:"none" enum:"overlay,trees,none" help:"Mean number of connections of GossipSub hosts, one run each: as many as the overlay needs, or as the overlay and all trees need; none leaves GossipSub out (${default})."`
	Burden       int           `default:"4800" quick:"0" help:"Subscriptions per host in a last run of trees alone, whose idle traffic has a target; 0 leaves it out (${default})."`
	Seed         uint64        `default:"1" help:"Seed of followers, publishers and the hosts' ids (${default})."`
}

// Help is appended to the command's help.
func (c *treeCommand) Help() string {
	return "Hosts over QUIC on this machine, in one process: endpoint, overlay and scribe, with the smallest possible leaves, and " +
		"then as many hosts with GossipSub alone, connected at random; with the same topics, followers and signed items. Bytes are " +
		"those of frames and messages, without the overhead of QUIC. In each run GossipSub comes after the trees. With --quick hosts are " +
		"measured at once, instead of waiting until they have forgotten the publications."
}

// Validate is called by kong after parsing the flags.
func (c *treeCommand) Validate() error {
	switch {
	case c.Hosts < 10 || c.Hosts > 600:
		return fmt.Errorf("--hosts %d: from 10 to 600, in one process", c.Hosts)
	case len(c.Topics) == 0 && c.Burden == 0:
		return fmt.Errorf("--topics: at least one number, or a --burden")
	case slices.ContainsFunc(c.Topics, func(n int) bool { return n < 1 || n > 100_000 }):
		return fmt.Errorf("--topics %v: from 1 to 100,000", c.Topics)
	case c.Publications < 1 || c.Publications > 100_000 || c.Every < 0:
		return fmt.Errorf("--publications %d --every %v: from 1 to 100,000, and times must not be negative", c.Publications, c.Every)
	case c.Size < 64 || c.Size > 48<<10:
		return fmt.Errorf("--size %d: from 64 to 49,152 bytes, so that an item fits into one frame", c.Size)
	case c.FanOut < 2 || c.FanOut > 256:
		return fmt.Errorf("--fan-out %d: from 2 to 256", c.FanOut)
	case c.Idle < time.Second:
		return fmt.Errorf("--idle %v: at least a second", c.Idle)
	case c.Burden < 0 || c.Burden > 9000:
		return fmt.Errorf("--burden %d: from 0 to 9,000; a host can be the child of another in at most 10,000 groups", c.Burden)
	case len(c.Connections) > 1 && slices.Contains(c.Connections, "none"):
		return fmt.Errorf("--connections %v: none excludes all others", c.Connections)
	}
	return nil
}

// verifyTime is how long envelopes are opened to measure the speed.
const verifyTime, verifyQuick = 3 * time.Second, time.Second

// Run measures and prints the results; if it is interrupted, those of the finished runs.
func (c *treeCommand) Run(ctx context.Context, s stdio) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	p := newProgress(s.err, "envelopes are opened")
	p.at(0)
	verify := verifyTime
	if c.Quick {
		verify = verifyQuick
	}
	speed, err := tree.Verify(c.Size, verify, c.Seed)
	if err != nil {
		return err
	}
	var results []tree.Result
	var failed error
	benches := c.benches()
	for i, b := range benches {
		b.Progress = func(what string, done float64) {
			what = fmt.Sprintf("run %d of %d, %d topics: %s", i+1, len(benches), b.Topics, what)
			if what != p.what {
				p.what, p.began = what, time.Now()
			}
			p.at(done)
		}
		var of []tree.Result
		of, failed = b.Run(ctx)
		results = append(results, of...)
		if failed != nil {
			failed = fmt.Errorf("after %d of %d runs: %w", i, len(benches), failed)
			break
		}
	}
	p.end()
	return joinErrors(failed, c.report(s.out, map[string]any{"verify": speed, "runs": results}, func(line printer) { printTrees(line, results) },
		append(tree.Judge(results), speed.Judge())))
}

// benches returns the runs that the flags ask for.
func (c *treeCommand) benches() (of []tree.Bench) {
	b := tree.Bench{
		Hosts: c.Hosts, Publications: c.Publications, ItemBytes: c.Size, Interval: c.Every, FanOut: c.FanOut, Idle: c.Idle,
		ForgetTime: tree.FullForgetTime, MeshTime: tree.FullMeshTime, Seed: c.Seed,
	}
	if c.Quick {
		b.ForgetTime = 0
	}
	if !slices.Contains(c.Connections, "none") {
		b.Connections = c.Connections
	}
	for _, n := range c.Topics {
		b.Topics = n
		of = append(of, b)
	}
	if c.Burden > 0 {
		b.Topics, b.Connections = tree.TopicsFor(c.Burden), nil
		of = append(of, b)
	}
	return of
}

// printTrees prints both systems side by side.
func printTrees(line printer, results []tree.Result) {
	name := func(r tree.Result) string {
		if r.Like == "" {
			return fmt.Sprintf("%d\t%s", r.Topics, r.System)
		}
		return fmt.Sprintf("%d\t%s, connected as %s", r.Topics, r.System, r.Like)
	}
	line("topics\t\tsubscriptions per host\tconnections needed per host\topen\texpected\tdelivered\tlost\tduplicates per delivery\tmedian\tp99\tmax")
	for _, r := range results {
		line("%s\t%.0f\t%.1f\t%.1f\t%d\t%d\t%.2f %%\t%.2f\t%.1f ms\t%.1f ms\t%.0f ms", name(r), float64(r.Subscriptions)/float64(r.Hosts),
			r.Connections, r.ConnectionsOpen, r.Expected, r.Delivered, 100*(1-float64(r.Delivered)/float64(max(1, r.Expected))), r.DuplicateShare, r.P50Ms, r.P99Ms, r.MaxMs)
	}
	line("\ntopics\t\tenvelope\titems, B per delivery\tothers\trelative to envelope\tto the root, B per item\tload, max by mean\tframes lost\ttwice\tinvalid")
	for _, r := range results {
		up := "–"
		if r.System == tree.OfTrees {
			up = fmt.Sprintf("%.0f", r.UpBytes)
		}
		line("%s\t%d B\t%.0f\t%.0f\t%.3f\t%s\t%.2f\t%d\t%d\t%d", name(r), r.Envelope, r.ContentBytes, r.ControlBytes,
			r.BytesPerDelivery()/float64(max(1, r.Envelope)), up, r.LoadMaxMean, r.LostFrames, r.Twice, r.Invalid)
	}
	line("\ntopics\t\theap, B per subscription\t±\twith new connections\tjoined after\tmessages per subscription\tbytes\tdepth mean\tmax\tfan-out mean\tmax\tforwarders that do not follow, per topic")
	for _, r := range results {
		places := fmt.Sprintf("\t\t%.1f\t\t", r.FanOutMean)
		if r.System == tree.OfTrees {
			places = fmt.Sprintf("%.2f\t%d\t%.1f\t%d\t%.2f", r.DepthMean, r.DepthMax, r.FanOutMean, r.FanOutMax, r.Forwarders)
		}
		line("%s\t%.0f\t%.0f\t%.0f\t%.1f s\t%.1f\t%.0f\t%s", name(r), r.HeapPerSubscription, r.HeapNoise, r.HeapGrown, r.JoinS, r.JoinMessages, r.JoinBytes, places)
	}
	line("\ntopics\t\tidle for\tmessages/s per host\tbytes/s\toverlay, messages/s\tbefore there were trees\tbytes/s\tbefore")
	for _, r := range results {
		overlay := "\t\t\t"
		if r.System == tree.OfTrees {
			overlay = fmt.Sprintf("%.2f\t%.2f\t%.0f\t%.0f", r.OverlayMessagesAfter, r.OverlayMessages, r.OverlayBytesAfter, r.OverlayBytes)
		}
		line("%s\t%v\t%.2f\t%.0f\t%s", name(r), time.Duration(r.IdleS*float64(time.Second)).Round(time.Second), r.IdleMessages, r.IdleBytes, overlay)
	}
}
