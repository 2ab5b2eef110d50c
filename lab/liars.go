package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"tidings/internal/daemon"
	"tidings/lab/liars"
	"tidings/lab/mark"
	"tidings/overlay/libp2p"
)

// A liarsCommand is "tidings-lab bench liars".
type liarsCommand struct {
	reporter
	Honest   int           `default:"4" help:"Number of honest nodes, each with a reader (${default})."`
	Liars    int           `default:"3" help:"Number of lying nodes (${default})."`
	Feeds    int           `default:"12" quick:"4" help:"Number of feeds, to all of which all readers subscribe (${default})."`
	Interval time.Duration `default:"5s" quick:"2s" help:"Polling interval (${default})."`
	Length   int           `default:"60" quick:"20" help:"Polling intervals for which they lie (${default})."`
	Seed     uint64        `default:"1" help:"Seed of the feeds (${default})."`
}

// Validate is called by kong after parsing the flags.
func (c *liarsCommand) Validate() error {
	switch {
	case c.Honest <= c.Liars || c.Honest+c.Liars > 8:
		return fmt.Errorf("--honest %d --liars %d: more honest nodes than liars, and at most 8, so that all keep all feeds", c.Honest, c.Liars)
	case c.Interval < time.Second || c.Interval%time.Second != 0 || c.Length < 10 || c.Feeds < 1:
		return fmt.Errorf("--interval %v --length %d --feeds %d: whole seconds, at least 10 intervals, and at least one feed", c.Interval, c.Length, c.Feeds)
	}
	return nil
}

// Run runs the nodes.
func (c *liarsCommand) Run(ctx context.Context, s stdio) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "tidings-liars")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := newProgress(s.err, "")
	r, err := liars.Config{
		Honest: c.Honest, Liars: c.Liars, Feeds: c.Feeds, Interval: c.Interval, Length: c.Length, Seed: c.Seed, Dir: dir,
		Command: func(ctx context.Context, args ...string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, append([]string{"bench", "liar"}, args...)...)
			cmd.Stderr, cmd.WaitDelay = s.err, time.Second
			return cmd
		},
	}.Run(ctx, func(what string, done float64) { p.what = what; p.at(done) })
	p.end()
	if err != nil {
		return err
	}
	witnessed := 0
	for said, n := range r.Forged {
		if strings.HasPrefix(said, "witnessed") {
			witnessed += n
		}
	}
	marks := []mark.Mark{
		mark.NoneMissing("items that readers behind honest nodes lack", r.Items-r.Missing, r.Items),
		mark.Zero("forged items shown as witnessed", witnessed),
		mark.Zero("feeds with a forged item of which the reader is told nothing", r.Deceived),
		mark.AtMost("polls, divided by those of the readers alone", "", r.Polls, 1),
		mark.Info("slowest item", "s", r.SlowestS),
	}
	return c.report(s.out, r, func(line printer) {
		line("honest nodes\tliars\titems\tmissing\tslowest s\tfeeds with forged items: told\tnot told")
		line("%d\t%d\t%d\t%d\t%.1f\t%d\t%d", r.Honest, r.Liars, r.Items, r.Missing, r.SlowestS, r.Told, r.Deceived)
		for _, said := range slices.Sorted(maps.Keys(r.Forged)) {
			line("forged items shown as %q\t%d", said, r.Forged[said])
		}
	}, marks)
}

// A liarCommand runs a node for bench liars.
type liarCommand struct {
	Data      string
	Interval  time.Duration
	Owners    int
	Bootstrap []string
	LiesAt    time.Time // zero: never
}

// Run runs the node until it is killed.
func (c *liarCommand) Run(ctx context.Context, s stdio) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	d := daemon.DefaultConfig(c.Data)
	d.Listen, d.Bootstrap, d.HTTP = []string{"/ip4/127.0.0.1/tcp/0"}, c.Bootstrap, "127.0.0.1:0"
	d.PortMap, d.PrivateAddresses, d.AllowPrivateOrigins = false, true, true
	d.Compression = float64(30*time.Minute) / float64(c.Interval) // so that domains have budgets, and grants count
	if len(c.Bootstrap) == 0 {
		n := liars.Network(c.Interval, c.Owners)
		d.Found = &n
	}
	if !c.LiesAt.IsZero() {
		d.World = liars.NewLiar(liars.Lies, c.LiesAt)
	}
	node, err := daemon.Open(d)
	if err != nil {
		return err
	}
	snap, err := node.Snapshot(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "reader %s\npeer %s\n", node.HTTPAddr(), snap.Addrs[0]); err != nil {
		return err
	}
	return node.Run(ctx)
}
