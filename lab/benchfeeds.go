package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/internal/daemon"
	"tidings/internal/publisher"
	"tidings/internal/wire"
	"tidings/lab/mark"
	"tidings/lab/nodes"
)

// A benchFeedsCommand is "tidings-lab bench feeds".
type benchFeedsCommand struct {
	reporter
	Feeds   int `default:"1000" quick:"20" help:"Number of feeds (${default})."`
	Nodes   int `default:"8" quick:"4" help:"Number of nodes (${default})."`
	Count   int `default:"10" quick:"5" help:"Items per feed (${default})."`
	Writers int `default:"1" help:"Programs that publish in each feed at the same time (${default})."`
}

// Help is appended to the command's help.
func (c *benchFeedsCommand) Help() string {
	return "Nodes with the settings of a new network run on loopback, in one process and with their own stores. Each of them follows " +
		"all feeds and holds the publisher's key of its share of them. Each feed has programs, each of which sends one item after the other to " +
		"that node by POST /api/v1/publish, all at once. The processor time is that of the whole process, programs included, from the first item " +
		"until readers of each node are shown each item."
}

// Validate is called by kong after parsing the flags.
func (c *benchFeedsCommand) Validate() error {
	if c.Feeds < 1 || c.Nodes < 3 || c.Nodes > 64 || c.Count < 1 || c.Feeds > c.Nodes*maxFeedsPerKey {
		return fmt.Errorf("--feeds %d --nodes %d --count %d: from 3 to 64 nodes, from 1 to %d feeds a node, and at least one item", c.Feeds, c.Nodes, c.Count, maxFeedsPerKey)
	}
	if c.Writers < 1 || c.Feeds*c.Writers > 2*c.Nodes*maxFeedsPerKey {
		return fmt.Errorf("--feeds %d --writers %d: at least one writer, and at most %d through a node", c.Feeds, c.Writers, 2*maxFeedsPerKey)
	}
	return nil
}

const (
	// maxFeedsPerKey bounds the programs that publish through one node, because feedtree takes at most 512 publications of
	// a node at once.
	maxFeedsPerKey = 256
	// feedsOpening bounds the feeds that are opened at the same time.
	feedsOpening = 16

	feedsTarget  = 2000.0 // published items per second of one core
	feedsStretch = 5000.0
)

// A feedsResult is what was measured. Its fields are its JSON.
type feedsResult struct {
	Feeds   int     `json:"feeds"`
	Nodes   int     `json:"nodes"`
	Items   int     `json:"items"`     // published in all feeds
	Elapsed float64 `json:"elapsed_s"` // until readers of all nodes are shown all items
	CPU     float64 `json:"cpu_s"`     // in that time, of the whole process
	Wrong   int     `json:"wrong"`     // items missing or repeated, summed over the nodes
	PerCPU  float64 `json:"items_per_cpu_s"`
}

// A benchFeeds is nodes that follow the same feeds.
type benchFeeds struct {
	nodes   []*daemon.Daemon
	clients []*publishClient // of the nodes
	urls    []string         // of the feeds; feed i is published through node i modulo their number

	mu    sync.Mutex
	shown []map[string]int // by node and title: how often readers were shown the item
}

// Run measures and prints the results.
func (c *benchFeedsCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, err := os.MkdirTemp("", "tidings-feeds-")
	if err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := newProgress(s.err, "opening feeds")
	defer p.end()
	ctx, end := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	b, err := c.open(ctx, &parts, dir, p)
	if err != nil {
		return err
	}
	if _, err := b.publish(ctx, 0, 1, 1); err != nil { // a feed's first item waits for the feed to accept its publisher
		return err
	}
	p.what = "publishing"
	p.at(0)
	began := time.Now()
	before, err := nodes.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	wrong, err := b.publish(ctx, 1, c.Count, c.Writers)
	if err != nil {
		return err
	}
	after, err := nodes.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	p.end()
	r := feedsResult{Feeds: c.Feeds, Nodes: c.Nodes, Items: c.Feeds * c.Count, Elapsed: time.Since(began).Seconds(), CPU: (after - before).Seconds(), Wrong: wrong}
	r.PerCPU = float64(r.Items) / r.CPU
	return c.report(s.out, r, func(line printer) { printFeeds(line, r) }, []mark.Mark{
		mark.AtLeast("items to all readers, per second of one core", "items/s", r.PerCPU, feedsTarget).WithStretch(feedsStretch),
		mark.Zero("missing or repeated items", r.Wrong),
	})
}

// printFeeds prints the measurement.
func printFeeds(line printer, r feedsResult) {
	line("feeds\tnodes\titems\tseconds\tCPU s\titems/s\titems per CPU s\tdeliveries per CPU s")
	line("%d\t%d\t%d\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f", r.Feeds, r.Nodes, r.Items, r.Elapsed, r.CPU, float64(r.Items)/r.Elapsed, r.PerCPU, r.PerCPU*float64(r.Nodes))
}

// open starts the nodes, and returns when all of them follow all feeds and each feed has its owners.
func (c *benchFeedsCommand) open(ctx context.Context, parts *sync.WaitGroup, dir string, p *progress) (*benchFeeds, error) {
	b := &benchFeeds{}
	var signers []*publisher.Signer
	for i := range c.Nodes {
		signer, err := newSigner(filepath.Join(dir, fmt.Sprintf("%d.key", i)))
		if err != nil {
			return nil, err
		}
		signers = append(signers, signer)
		b.shown = append(b.shown, map[string]int{})
	}
	origins, err := serveEmptyFeeds(ctx, parts, signers...)
	if err != nil {
		return nil, err
	}
	b.nodes, err = startNodes(ctx, parts, dir, c.Nodes, func(i int, d *daemon.Config) error {
		d.HTTP, d.Signer, d.OnShown = "127.0.0.1:0", signers[i], func(_ string, titles []string) { b.note(i, titles) }
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, n := range b.nodes {
		client := newPublishClient(n, 2*maxFeedsPerKey)
		b.clients = append(b.clients, client)
		context.AfterFunc(ctx, client.http.CloseIdleConnections)
	}
	opening, inner := errgroup.WithContext(ctx)
	opening.SetLimit(feedsOpening)
	for i := range c.Feeds {
		url := origins[i%c.Nodes] + "feed" + strconv.Itoa(i) + ".xml"
		b.urls = append(b.urls, url)
		opening.Go(func() error {
			if _, err := b.nodes[i%c.Nodes].Publisher(inner, url); err != nil {
				return err
			}
			for _, n := range b.nodes {
				if err := n.SubscribeClients(inner, url, 1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := opening.Wait(); err != nil {
		return nil, err
	}
	owners := min(c.Nodes, wire.DefaultNetwork("").Owners)
	return b, until(ctx, "the owners of all feeds", func() (bool, error) {
		led := 0
		for _, n := range b.nodes {
			feeds, err := n.LedFeeds(ctx)
			if err != nil {
				return false, err
			}
			for _, f := range feeds {
				if len(f.Owners) == owners {
					led++
				}
			}
		}
		p.at(float64(led) / float64(c.Feeds))
		return led == c.Feeds, nil
	})
}

// write publishes the items of one program in a feed, one after the other.
func (b *benchFeeds) write(ctx context.Context, feed int, url string, from, to, step int) error {
	for number := from; number < to; number += step {
		item, err := benchItem(url, number)
		if err == nil {
			err = b.clients[feed%len(b.clients)].write(ctx, item)
		}
		if err != nil {
			return fmt.Errorf("publish item %d of %s: %w", number, url, err)
		}
	}
	return nil
}

// note counts items that readers of a node are shown. It is called by the node's loop.
func (b *benchFeeds) note(node int, titles []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, title := range titles {
		b.shown[node][title]++
	}
}

// publish publishes items in each feed, in all feeds at once, and waits until readers of all nodes are shown all items. first
// is the number of the first one. It returns the number of items that are missing or were repeated, of all that were published.
func (b *benchFeeds) publish(ctx context.Context, first, count, writers int) (wrong int, err error) {
	publishing, inner := errgroup.WithContext(ctx)
	for i, url := range b.urls {
		for writer := range writers {
			publishing.Go(func() error { return b.write(inner, i, url, first+writer, first+count, writers) })
		}
	}
	if err := publishing.Wait(); err != nil {
		return 0, err
	}
	want := len(b.urls) * (first + count)
	err = until(ctx, "all items at all nodes", func() (bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		wrong = 0
		for _, shown := range b.shown {
			wrong += want - len(shown)
			for _, times := range shown {
				wrong += times - 1
			}
		}
		return wrong == 0, nil
	})
	if wrong > 0 && ctx.Err() == nil {
		err = nil // missing items are a figure, not an error
	}
	return wrong, err
}
