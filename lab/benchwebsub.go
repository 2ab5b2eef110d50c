package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/internal/daemon"
	"tidings/internal/daemon/origin"
	"tidings/internal/loop"
	"tidings/lab/mark"
	"tidings/lab/push"
)

// A benchWebSubCommand is "tidings-lab bench websub".
type benchWebSubCommand struct {
	reporter
	Channels  int           `default:"1000" quick:"20" help:"Number of real channels, each followed by all nodes (${default})."`
	Nodes     int           `default:"8" quick:"4" help:"Number of real nodes, and of members of the simulated network (${default})."`
	Public    int           `default:"3" quick:"2" help:"Number of these that hubs reach (${default})."`
	Rounds    int           `default:"2" quick:"2" help:"Items of each real channel that count (${default})."`
	Rate      float64       `default:"10" quick:"20" help:"Items that are published in a second (${default})."`
	Simulated int           `default:"20" quick:"4" help:"Number of simulated channels (${default})."`
	Every     time.Duration `default:"3h" quick:"1h" help:"Mean time between two items of a simulated channel (${default})."`
	Length    time.Duration `default:"48h" quick:"12h" help:"Simulated time in which polls count (${default})."`
	Seed      uint64        `default:"1" help:"Seed of the simulation (${default})."`
}

// Help is appended to the command's help.
func (c *benchWebSubCommand) Help() string {
	return "Real nodes with the settings of a new network run on loopback, in one process and with their own stores. All of them " +
		"follow feeds of one site, whose hub (WebSub) is pinged for each new item. Delays are from the ping until readers of a node are " +
		"shown the item. The first item of each feed does not count: with it the hub earns trust. How many polls that saves, and what " +
		"happens when the hub is gone for an hour, is simulated in virtual time, with public feeds, and without a hub and with one."
}

// Validate is called by kong after parsing the flags.
func (c *benchWebSubCommand) Validate() error {
	switch {
	case c.Nodes < 2 || c.Nodes > 64 || c.Public < 1 || c.Public > c.Nodes:
		return fmt.Errorf("--nodes %d --public %d: from 2 to 64 nodes, and at least one of them that hubs reach", c.Nodes, c.Public)
	case c.Channels < 1 || c.Rounds < 1 || c.Rate <= 0 || c.Simulated < 1:
		return fmt.Errorf("--channels %d --rounds %d --rate %g --simulated %d: at least one channel of each kind, one round, and a rate above 0", c.Channels, c.Rounds, c.Rate, c.Simulated)
	case c.Every < 10*time.Minute || c.Length < time.Hour:
		return fmt.Errorf("--every %v --length %v: at least ten minutes, and an hour", c.Every, c.Length)
	}
	return nil
}

// A webSubRun is what real nodes did. Its fields are its JSON.
type webSubRun struct {
	Nodes     int     `json:"nodes"`
	Channels  int     `json:"channels"`
	Pushed    int     `json:"pushed"`  // channels whose hub is relied on
	Items     int     `json:"items"`   // pairs of an item and a node
	Missing   int     `json:"missing"` // pairs without
	Twice     int     `json:"twice"`
	P50       float64 `json:"p50_s"`
	P99       float64 `json:"p99_s"`
	Most      float64 `json:"most_s"`
	Polls     int     `json:"polls"`   // while items counted
	Refused   int     `json:"refused"` // notifications that no node has accepted
	setUp     time.Duration
	published time.Duration
}

const (
	webSubTargetP50   = 1.0
	webSubTargetP99   = 3.0
	webSubTargetPolls = 1.0 // percent of those without the hub
	webSubTargetLost  = 2.0 // mean times between two items, until polls find what a silent hub leaves out
	webSubWait        = 15 * time.Minute
	// webSubLast is how long the last items may take.
	webSubLast = 30 * time.Second
)

// Run measures and prints the results.
func (c *benchWebSubCommand) Run(ctx context.Context, s stdio) (err error) {
	p := newProgress(s.err, "")
	defer p.end()
	progress := func(what string, done float64) { p.what = what; p.at(done) }
	r, err := c.measure(ctx, progress)
	if err != nil {
		return err
	}
	w, err := push.World{Seed: c.Seed, Members: c.Nodes, Public: c.Public, Channels: c.Simulated, Every: c.Every, Length: c.Length}.Run(ctx, progress)
	if err != nil {
		return err
	}
	p.end()
	every := c.Every.Seconds()
	return c.report(s.out, map[string]any{"real": r, "simulated": w}, func(line printer) {
		line("%d nodes, %d channels, %d of them pushed; ready after %.0f s, items published in %.0f s", r.Nodes, r.Channels, r.Pushed, r.setUp.Seconds(), r.published.Seconds())
		line("simulated: %d channels with an item in %v, for %v: %d polls without the hub, %d with it", c.Simulated, c.Every, c.Length, w.Before, w.Polls)
	}, append(mark.ForRun("real nodes",
		mark.NoneMissing("channels that are not pushed", r.Pushed, r.Channels),
		mark.AtMost("from the ping to readers, median", "s", r.P50, webSubTargetP50),
		mark.AtMost("the same, p99", "s", r.P99, webSubTargetP99),
		mark.Info("the same, most", "s", r.Most),
		mark.NoneMissing("items missing at a node", r.Items-r.Missing, r.Items),
		mark.Zero("items shown twice", r.Twice),
		mark.Info("requests for feeds while items counted", "", float64(r.Polls)),
		mark.Info("notifications that no node accepted", "", float64(r.Refused)),
	), mark.ForRun("simulated",
		mark.NoneMissing("channels that are not pushed", w.Pushed, c.Simulated),
		mark.AtMost("polls, of those without the hub", "%", 100*float64(w.Polls)/float64(w.Before), webSubTargetPolls),
		mark.AtMost("from the ping to readers, p99", "s", w.P99, webSubTargetP99),
		mark.AtMost("an item of the hour without the hub, longest, in mean times between two items", "", w.Slowest/every, webSubTargetLost),
		mark.NoneMissing("channels that are not pushed again after the hub is back", w.Resumed, c.Simulated),
		mark.NoneMissing("items missing at a node", w.Items, w.Items+w.Missing),
		mark.Zero("violated invariants", len(w.Wrong)),
	)...))
}

// A showing is an item at the readers of a node.
type showing struct {
	node  int
	title string
}

// A webSubBench is real nodes that follow the feeds of a site.
type webSubBench struct {
	*benchWebSubCommand
	site  *origin.HubSite
	nodes []*daemon.Daemon

	mu    sync.Mutex
	shown map[showing]time.Time
	twice int
}

// measure runs the real nodes.
func (c *benchWebSubCommand) measure(ctx context.Context, progress func(string, float64)) (r webSubRun, err error) {
	dir, err := os.MkdirTemp("", "tidings-websub-")
	if err != nil {
		return r, fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, end := context.WithCancel(ctx)
	site, err := origin.ServeHub(ctx, c.Channels)
	if err != nil {
		end()
		return r, err
	}
	defer site.Close()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	b := &webSubBench{benchWebSubCommand: c, site: site, shown: map[showing]time.Time{}}
	began := time.Now()
	if err := b.open(ctx, &parts, dir, progress); err != nil {
		return r, err
	}
	progress("subscribing", 0)
	subscribing, stopped := errgroup.WithContext(ctx)
	for _, n := range b.nodes {
		subscribing.Go(func() error {
			for f := range c.Channels {
				if err := n.SubscribeClients(stopped, site.URL(f), 1); err != nil {
					return fmt.Errorf("subscribe: %w", err)
				}
			}
			return nil
		})
	}
	if err := subscribing.Wait(); err != nil {
		return r, err
	}
	if err := b.await(ctx, "a subscription at the hub for each feed", progress, func() (int, error) {
		_, subscribed, _ := site.Counts()
		return subscribed, nil
	}); err != nil {
		return r, err
	}
	if _, err := b.publish(ctx, "the hub delivers first items", 1, progress); err != nil {
		return r, err
	}
	if err := b.await(ctx, "the hub to be relied on", progress, func() (int, error) { return b.pushed(ctx) }); err != nil && ctx.Err() != nil {
		return r, err // feeds that are not pushed are a figure, not an error
	}
	r.setUp = time.Since(began)
	before, _, _ := site.Counts()
	began = time.Now()
	pinged, err := b.publish(ctx, "measuring", c.Rounds, progress)
	if err != nil {
		return r, err
	}
	r.published = time.Since(began)
	r.Nodes, r.Channels = c.Nodes, c.Channels
	if r.Pushed, err = b.pushed(ctx); err != nil {
		return r, err
	}
	r.Polls, _, r.Refused = site.Counts()
	r.Polls -= before
	b.count(&r, pinged)
	return r, nil
}

// open starts the nodes. What it starts ends with ctx.
func (b *webSubBench) open(ctx context.Context, parts *sync.WaitGroup, dir string, progress func(string, float64)) error {
	var err error
	b.nodes, err = startNodes(ctx, parts, dir, b.Nodes, func(i int, c *daemon.Config) error {
		c.OnShown = func(_ string, titles []string) { b.note(i, titles) }
		if i < b.Public {
			port, err := freePort()
			if err != nil {
				return err
			}
			c.PublicListen, c.PublicURL = port, "http://"+port
		}
		progress("starting nodes", float64(i+1)/float64(b.Nodes))
		return nil
	})
	return err
}

// freePort returns an address of this machine at which nothing listens. Its port is below those that systems give to programs which
// ask for any, so that nobody gets it before it is used.
func freePort() (address string, err error) {
	const first, ports, tries = 20_000, 10_000, 100
	for range tries {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(ports)))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// note notes what readers of a node are shown.
func (b *webSubBench) note(node int, titles []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range titles {
		if s := (showing{node, title}); b.shown[s].IsZero() {
			b.shown[s] = time.Now()
		} else {
			b.twice++
		}
	}
}

// await waits until all channels are as asked.
func (b *webSubBench) await(ctx context.Context, what string, progress func(string, float64), have func() (int, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, webSubWait, fmt.Errorf("waited %v for %s", webSubWait, what))
	defer cancel()
	for {
		n, err := have()
		if err != nil || n == b.Channels {
			return err
		}
		progress(what, float64(n)/float64(b.Channels))
		if err := loop.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// pushed returns the number of channels whose hub is relied on, as readers of a node are told.
func (b *webSubBench) pushed(ctx context.Context) (n int, err error) {
	channels, err := b.nodes[len(b.nodes)-1].List(ctx)
	for _, c := range channels {
		if c.PushedBy != "" {
			n++
		}
	}
	return n, err
}

// publish publishes so many items in each feed, at the rate asked for, and waits until all nodes have them, or for a while.
func (b *webSubBench) publish(ctx context.Context, what string, rounds int, progress func(string, float64)) (pinged map[string]time.Time, err error) {
	pinged = map[string]time.Time{}
	began, all := time.Now(), rounds*b.Channels
	for i := range all {
		progress(what, float64(i)/float64(all))
		if err := loop.Sleep(ctx, time.Until(began.Add(time.Duration(float64(i)/b.Rate*float64(time.Second))))); err != nil {
			return nil, err
		}
		title, at, err := b.site.Publish(ctx, i%b.Channels)
		if err != nil {
			return nil, err
		}
		pinged[title] = at
	}
	for end := time.Now().Add(webSubLast); time.Now().Before(end) && b.missing(pinged) > 0; {
		if err := loop.Sleep(ctx, publishPollInterval); err != nil {
			return nil, err
		}
	}
	return pinged, nil
}

// missing returns the number of pairs of an item and a node that lacks it.
func (b *webSubBench) missing(pinged map[string]time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for title := range pinged {
		for i := range b.nodes {
			if b.shown[showing{i, title}].IsZero() {
				n++
			}
		}
	}
	return n
}

// count computes the figures of items.
func (b *webSubBench) count(r *webSubRun, pinged map[string]time.Time) {
	r.Items, r.Missing = len(pinged)*len(b.nodes), b.missing(pinged)
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Twice = b.twice
	var delays []time.Duration
	for title, at := range pinged {
		for i := range b.nodes {
			if shown := b.shown[showing{i, title}]; !shown.IsZero() {
				delays = append(delays, shown.Sub(at))
			}
		}
	}
	slices.Sort(delays)
	if n := len(delays); n > 0 {
		r.P50, r.P99, r.Most = delays[n/2].Seconds(), delays[n*99/100].Seconds(), delays[n-1].Seconds()
	}
}
