package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"tidings/internal/daemon"
	"tidings/internal/deployment"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// A demoCommand is "tidings demo".
type demoCommand struct {
	Nodes    int           `default:"24" help:"Number of nodes, 20 to 100."`
	Feeds    int           `default:"100" help:"Number of feeds, 1 to 1,000."`
	Interval time.Duration `default:"20s" help:"Polling interval. It stands for the 30 minutes of a real network."`
	Every    time.Duration `default:"25s" help:"Time between two items of a feed, on average."`
	For      time.Duration `default:"45s" help:"Time to run after all nodes have subscribed."`
	Paper    bool          `help:"Also run the scheme of the Corona paper, in a second network."`
	HTTP     string        `name:"http" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the pages of the first node (a free port of this machine)."`
	Seed     uint64        `default:"1" help:"Random seed for subscriptions and new items."`
}

// Validate is called by kong when it has read the flags.
func (c *demoCommand) Validate() error {
	switch {
	case c.Nodes < 20 || c.Nodes > 100:
		return fmt.Errorf("--nodes %d: give 20 to 100", c.Nodes)
	case c.Feeds < 1 || c.Feeds > 1000:
		return fmt.Errorf("--feeds %d: give 1 to 1,000", c.Feeds)
	case c.Interval < 2*time.Second || c.Interval > 10*time.Minute || c.Interval%time.Second != 0:
		return fmt.Errorf("--interval %v: give 2s to 10m, in whole seconds", c.Interval)
	case c.Every < time.Second || c.For < time.Second:
		return fmt.Errorf("--every %v, --for %v: give at least 1s", c.Every, c.For)
	case !isHostPort(c.HTTP):
		return fmt.Errorf("--http %q: give HOST:PORT", c.HTTP)
	}
	return nil
}

// frame is the time between two pictures on a terminal; elsewhere there is a line each linePause.
const (
	frame     = 500 * time.Millisecond
	linePause = 5 * time.Second
)

// Run deploys, shows what happens, and sums it up.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	debug.SetGCPercent(200)        // for a minute memory is cheaper than time
	signal.Ignore(syscall.SIGPIPE) // else it would end where it stands when nobody reads on, and leave its folder
	show := &demo{command: c, out: s.out, terminal: terminalOf(s.out)}
	if err := show.deploy(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	var all sync.WaitGroup
	for _, d := range show.deployed() {
		all.Go(func() { ended <- d.Run(running) })
	}
	err := show.watch(ctx, ended)
	stop()
	if err == nil {
		show.end()
	}
	all.Wait()
	return err
}

// A demo is what runs and is shown.
type demo struct {
	command  *demoCommand
	out      io.Writer
	terminal terminal
	ours     *deployment.Deployment
	papers   *deployment.Deployment // nil: it is not asked for

	mu    sync.Mutex
	page  string // address of the start page; "": not yet
	drawn int    // lines that stand on the terminal, to be drawn over
	told  bool   // elsewhere: what it is, and where the page is
}

// deploy opens what is to run.
func (d *demo) deploy() (err error) {
	c := d.command
	config := deployment.Demo(c.Nodes, c.Feeds, c.Interval, c.Every, c.Seed)
	if d.ours, err = deployment.New(config, d.open, nil); err != nil || !c.Paper {
		return err
	}
	config.NodesOnly = true
	if err := preset(&config.Network, "paper"); err != nil {
		return err
	}
	d.papers, err = deployment.New(config, d.open, nil)
	return err
}

func (d *demo) deployed() []*deployment.Deployment {
	if d.papers == nil {
		return []*deployment.Deployment{d.ours}
	}
	return []*deployment.Deployment{d.ours, d.papers}
}

// open opens a node. The first one of ours has a page.
func (d *demo) open(p deployment.NodeConfig) (deployment.Node, error) {
	c := daemon.DefaultConfig(p.Dir)
	c.Listen, c.Found, c.Bootstrap, c.OnShown = p.Listen, p.Found, p.Bootstrap, p.OnShown
	c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.HTTP = false, true, true, noHTTP
	c.Abrupt = true
	c.Version = fmt.Sprintf("%s%s%d", release().Version, nodeMark, p.Index)
	paged := p.Index == 0 && p.Found.Decide != "dag"
	if paged {
		c.HTTP, c.Notice = d.command.HTTP, d.notice
	}
	n, err := daemon.Open(c)
	if err == nil && paged {
		d.mu.Lock()
		d.page = n.Entrance("http://" + reachable(n.HTTPAddr().String()))
		d.mu.Unlock()
	}
	return n, err
}

// nodeMark stands before a node's number in what it says to origins that it is.
const nodeMark = "-node."

// watch shows what happens until all is shown, or ctx or a network ends.
func (d *demo) watch(ctx context.Context, ended <-chan error) error {
	pause := linePause
	if d.terminal.escapes {
		pause = frame
	}
	look := time.NewTicker(min(pause, frame))
	defer look.Stop()
	last := time.Time{}
	for {
		select {
		case <-look.C:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
		f := d.figures()
		if now := time.Now(); now.Sub(last) >= pause {
			if err := d.draw(f); err != nil {
				return nil //nolint:nilerr // who was shown it has gone
			}
			last = now
		}
		if f.running >= d.command.For {
			return nil
		}
	}
}

// draw shows figures, over the last ones on a terminal.
func (d *demo) draw(f figures) error {
	d.mu.Lock()
	page := d.page
	d.mu.Unlock()
	var b strings.Builder
	if !d.terminal.escapes {
		if page != "" && !d.told {
			d.told = true
			fmt.Fprintf(&b, "%s\n%s\n", f.about, pageLine(page))
		}
		_, err := fmt.Fprintf(d.out, "%s%s\n", &b, f.line())
		return err
	}
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", d.drawn)
	}
	d.drawn = 0
	for line := range strings.Lines(f.picture(page, d.terminal.width)) { // what is too long goes on in the next
		d.drawn += 1 + (utf8.RuneCountInString(line)-2)/d.terminal.width
		b.WriteString(line)
	}
	_, err := io.WriteString(d.out, b.String())
	return err
}

// end sums up, if anything was measured.
func (d *demo) end() {
	f := d.figures()
	if f.running > 0 && d.draw(f) == nil {
		_, _ = io.WriteString(d.out, f.summary(d.ours.Config())) // there is nobody else to tell
	}
}

// notice is what the start page shows.
func (d *demo) notice() proxy.Notice {
	f := d.figures()
	n := proxy.Notice{Title: "Demo", Words: f.about, Head: columns}
	for _, r := range f.rows {
		n.Rows = append(n.Rows, r[:])
	}
	if f.phase != "" {
		n.Footer = append(n.Footer, sentenceOf(f.phase))
	} else {
		n.Footer = append(n.Footer, sentenceOf(f.verdict()))
	}
	if f.story != "" {
		n.Footer = append(n.Footer, "The way of one item: "+f.story)
	}
	return n
}
