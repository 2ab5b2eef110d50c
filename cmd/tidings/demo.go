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
	"tidings/internal/locale"
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

// Validate is called by kong after it has parsed the flags.
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

// frameInterval is the time between two screens on a terminal. On other outputs there is a line every lineInterval.
const (
	frameInterval = 500 * time.Millisecond
	lineInterval  = 5 * time.Second
)

// Run runs the networks, shows their progress, and prints a summary.
func (c *demoCommand) Run(ctx context.Context, s streams) error {
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		return err
	}
	debug.SetGCPercent(200)        // the demo runs for a minute, so memory is cheaper than time
	signal.Ignore(syscall.SIGPIPE) // otherwise a closed output would end the process before it removes its folder
	show := &demo{command: c, out: s.out, terminal: terminalOf(s.out)}
	if err := show.deploy(); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	var all sync.WaitGroup
	for _, d := range show.deployments() {
		all.Go(func() { ended <- d.Run(running) })
	}
	err := show.watch(ctx, ended)
	stop()
	if err == nil {
		show.printSummary()
	}
	all.Wait()
	return err
}

// A demo holds the running networks and the state of the output.
type demo struct {
	command  *demoCommand
	out      io.Writer
	terminal terminal
	together *deployment.Deployment
	paper    *deployment.Deployment // the network with the paper's scheme; nil unless requested

	mu         sync.Mutex
	page       string // address of the start page; "" until it is known
	drawnLines int    // number of lines on the terminal, to be drawn over
	announced  bool   // on other outputs: the introduction was printed
}

// deploy opens the nodes.
func (d *demo) deploy() (err error) {
	c := d.command
	config := deployment.Demo(c.Nodes, c.Feeds, c.Interval, c.Every, c.Seed)
	if d.together, err = deployment.New(config, d.open, nil); err != nil || !c.Paper {
		return err
	}
	config.NodesOnly = true
	if err := applyScheme(&config.Network, "paper"); err != nil {
		return err
	}
	d.paper, err = deployment.New(config, d.open, nil)
	return err
}

func (d *demo) deployments() []*deployment.Deployment {
	if d.paper == nil {
		return []*deployment.Deployment{d.together}
	}
	return []*deployment.Deployment{d.together, d.paper}
}

// open opens a node. The first node of the main network serves a page.
func (d *demo) open(p deployment.NodeOptions) (deployment.Node, error) {
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
		d.page = n.OpenURL("http://" + localAddress(n.HTTPAddr().String()))
		d.mu.Unlock()
	}
	return n, err
}

// nodeMark precedes a node's number in its User-Agent.
const nodeMark = "-node."

// watch shows the progress until the demo is complete, or ctx or a network ends.
func (d *demo) watch(ctx context.Context, ended <-chan error) error {
	pause := lineInterval
	if d.terminal.escapes {
		pause = frameInterval
	}
	ticker := time.NewTicker(min(pause, frameInterval))
	defer ticker.Stop()
	last := time.Time{}
	for {
		select {
		case <-ticker.C:
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

// draw prints the figures. On a terminal it draws over the last ones.
func (d *demo) draw(f figures) error {
	d.mu.Lock()
	page := d.page
	d.mu.Unlock()
	var b strings.Builder
	if !d.terminal.escapes {
		if page != "" && !d.announced {
			d.announced = true
			fmt.Fprintf(&b, "%s\n%s\n", f.about.String(), pageLine(page))
		}
		_, err := fmt.Fprintf(d.out, "%s%s\n", &b, f.line())
		return err
	}
	if d.drawnLines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", d.drawnLines)
	}
	d.drawnLines = 0
	for line := range strings.Lines(f.screen(page, d.terminal.width)) { // a line that is too long continues on the next one
		d.drawnLines += 1 + (utf8.RuneCountInString(line)-2)/d.terminal.width
		b.WriteString(line)
	}
	_, err := io.WriteString(d.out, b.String())
	return err
}

// printSummary prints a summary, if anything was measured.
func (d *demo) printSummary() {
	f := d.figures()
	if f.running > 0 && d.draw(f) == nil {
		_, _ = io.WriteString(d.out, f.summary(d.together.Config())) // a failure to print cannot be reported
	}
}

// notice returns the table for the start page.
func (d *demo) notice() proxy.Notice {
	f := d.figures()
	n := proxy.Notice{Title: locale.Say("Demo"), Text: f.about, Head: columns}
	for _, r := range f.rows {
		n.Rows = append(n.Rows, r[:])
	}
	if len(f.phase) > 0 {
		n.Footer = append(n.Footer, f.phase)
	} else {
		n.Footer = append(n.Footer, f.verdict())
	}
	if len(f.story) > 0 {
		n.Footer = append(n.Footer, locale.Say("The way of one item: %s", f.story))
	}
	return n
}
