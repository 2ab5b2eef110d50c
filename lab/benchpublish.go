package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidings/internal/daemon"
	"tidings/internal/feed"
	"tidings/internal/loop"
	"tidings/internal/publisher"
	"tidings/internal/wire"
	"tidings/lab/mark"
)

// A benchPublishCommand is "tidings-lab bench publish".
type benchPublishCommand struct {
	reporter
	Items   int `default:"5000" quick:"120" help:"Number of items in the feed before the second measurement (${default})."`
	Count   int `default:"400" quick:"60" help:"Items per measurement (${default})."`
	Writers int `default:"16" quick:"8" help:"Number of programs that publish at once (${default})."`
}

// Help is appended to the command's help.
func (c *benchPublishCommand) Help() string {
	return "Three nodes with the settings of a new network run on loopback, in one process and with their own stores. All of them " +
		"follow one feed, and one of them, which is not the feed's sequencer, holds the publisher's key. Programs send items to it by " +
		"POST /api/v1/publish: first one program, then several at once, while the feed is empty and again when it is long. At the end " +
		"each node must show each item once. The figures depend on how long the disk takes to sync."
}

// Validate is called by kong after parsing the flags.
func (c *benchPublishCommand) Validate() error {
	switch {
	case c.Count < 1 || c.Writers < 1 || c.Writers > 256:
		return fmt.Errorf("--count %d --writers %d: at least one item, and from 1 to 256 writers", c.Count, c.Writers)
	case c.Items < 2*c.Count || c.Items+2*c.Count > 9_000:
		return fmt.Errorf("--items %d --count %d: at least two measurements, and with two more at most 9,000: a log keeps 10,000 items", c.Items, c.Count)
	}
	return nil
}

const (
	publishTargetRate   = 40.0 // items per second of one writer, on a long feed
	publishTargetP99    = 1.0  // seconds, with several writers
	publishTimeout      = time.Minute
	publishPollInterval = 50 * time.Millisecond
)

// A publishRun is one measurement. Its fields are its JSON.
type publishRun struct {
	Before  int     `json:"items_before"` // items in the feed before the measurement
	Writers int     `json:"writers"`
	Items   int     `json:"items"`
	Rate    float64 `json:"items_per_s"`
	P50     float64 `json:"p50_s"`
	P99     float64 `json:"p99_s"`
	Most    float64 `json:"most_s"`
}

// A publishBench is three nodes with one feed, and the number of items published in it.
type publishBench struct {
	nodes   []*daemon.Daemon // the last one has the key
	url     string
	postURL string // address of POST /api/v1/publish
	token   string
	items   int
}

// Run measures and prints the results.
func (c *benchPublishCommand) Run(ctx context.Context, s stdio) (err error) {
	dir, err := os.MkdirTemp("", "tidings-publish-")
	if err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := newProgress(s.err, "")
	defer p.end()
	ctx, end := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	b, err := openPublishBench(ctx, &parts, dir)
	if err != nil {
		return err
	}
	var runs []publishRun
	measure := func() error {
		for _, writers := range []int{1, c.Writers} {
			p.what = fmt.Sprintf("%d writers, %d items before", writers, b.items)
			p.at(float64(b.items) / float64(c.Items+2*c.Count))
			r, err := b.publish(ctx, writers, c.Count)
			if err != nil {
				return err
			}
			runs = append(runs, r)
		}
		return nil
	}
	if err := measure(); err != nil {
		return err
	}
	for b.items < c.Items {
		p.what = "filling the feed"
		p.at(float64(b.items) / float64(c.Items+2*c.Count))
		if _, err := b.publish(ctx, c.Writers, min(c.Count, c.Items-b.items)); err != nil {
			return err
		}
	}
	if err := measure(); err != nil {
		return err
	}
	wrong, err := b.wrong(ctx)
	if err != nil {
		return err
	}
	p.end()
	one, crowd := runs[len(runs)-2], runs[len(runs)-1]
	return c.report(s.out, map[string]any{"runs": runs, "wrong": wrong}, func(line printer) { printPublishBench(line, runs) }, []mark.Mark{
		mark.AtLeast(fmt.Sprintf("one writer at %d items", one.Before), "items/s", one.Rate, publishTargetRate),
		mark.AtLeast(fmt.Sprintf("%d writers, relative to one writer's rate", crowd.Writers), "", crowd.Rate/one.Rate, 1),
		mark.AtMost(fmt.Sprintf("%d writers, p99", crowd.Writers), "s", crowd.P99, publishTargetP99),
		mark.Zero("missing or repeated items", wrong),
	})
}

// printPublishBench prints the measurements.
func printPublishBench(line printer, runs []publishRun) {
	line("items before\twriters\titems\titems/s\tp50 s\tp99 s\tmax s")
	for _, r := range runs {
		line("%d\t%d\t%d\t%.1f\t%.3f\t%.3f\t%.3f", r.Before, r.Writers, r.Items, r.Rate, r.P50, r.P99, r.Most)
	}
}

// openPublishBench starts the nodes and finds a feed whose sequencer does not have the key. What it
// starts ends with ctx.
func openPublishBench(ctx context.Context, parts *sync.WaitGroup, dir string) (*publishBench, error) {
	key, err := publisher.Generate(filepath.Join(dir, "bench.key"), "")
	if err != nil {
		return nil, err
	}
	author, err := publisher.Open(filepath.Join(dir, "bench.key"), nil)
	if err != nil {
		return nil, err
	}
	said := feed.Publisher{Key: key.Public(), Beat: time.Hour}
	origin, err := serveDocument(ctx, parts, `<rss version="2.0"><channel>`+said.Metadata(feed.RSS)+
		`<title>Bench</title><link>http://bench.example/</link><description/></channel></rss>`)
	if err != nil {
		return nil, err
	}
	b := &publishBench{}
	network := wire.DefaultNetwork("bench")
	network.PrivateAddresses = true
	var through []string
	for i := range 3 {
		c := daemon.DefaultConfig(filepath.Join(dir, fmt.Sprint(i)))
		c.Listen, c.Bootstrap, c.HTTP = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, through, "none"
		c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.Abrupt = false, true, true, true
		if i == 0 {
			c.Found = &network
		}
		if i == 2 {
			c.HTTP, c.Signer = "127.0.0.1:0", author
		}
		d, err := daemon.Open(c)
		if err != nil {
			return nil, fmt.Errorf("open node %d: %w", i, err)
		}
		parts.Go(func() { _ = d.Run(ctx) }) // an error shows as missing figures
		b.nodes = append(b.nodes, d)
		if err := until(ctx, "the nodes to know each other", func() (bool, error) {
			for j, n := range b.nodes {
				addrs, members, err := n.JoinAddresses(ctx)
				if err != nil || members < len(b.nodes) || len(addrs) == 0 {
					return false, err
				}
				if j == 0 {
					through = addrs
				}
			}
			return true, nil
		}); err != nil {
			return nil, err
		}
	}
	b.postURL, b.token = "http://"+b.nodes[2].HTTPAddr().String()+"/api/v1/publish", b.nodes[2].Token()
	for i := 0; b.url == ""; i++ {
		url := fmt.Sprintf("%s/feed%d.xml", origin, i)
		if _, err := b.nodes[2].Publisher(ctx, url); err != nil {
			return nil, err
		}
		for _, n := range b.nodes[:2] {
			led, err := n.LedFeeds(ctx)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(led, func(l daemon.LedFeed) bool { return l.URL == url && len(l.Owners) == 3 }) {
				b.url = url
			}
		}
	}
	for _, n := range b.nodes {
		if err := n.SubscribeClients(ctx, b.url, 1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// serveDocument serves one document at all addresses below the one it returns, until ctx ends.
func serveDocument(ctx context.Context, parts *sync.WaitGroup, document string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve the feed: %w", err)
	}
	s := &http.Server{ReadHeaderTimeout: publishTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) })}
	parts.Go(func() { _ = s.Serve(l) }) // it ends when it is closed
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return "http://" + l.Addr().String(), nil
}

// until waits for a condition.
func until(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishTimeout, fmt.Errorf("waited %v for %s", publishTimeout, what))
	defer cancel()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if err := loop.Sleep(ctx, publishPollInterval); err != nil {
			return err
		}
	}
}

// publish makes some writers publish the same number of items, each of them one after the other.
func (b *publishBench) publish(ctx context.Context, writers, items int) (publishRun, error) {
	r := publishRun{Before: b.items, Writers: writers, Items: items}
	first := b.items
	b.items += items
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var mu sync.Mutex
	var took []float64
	var parts sync.WaitGroup
	began := time.Now()
	for range writers {
		parts.Go(func() {
			for i := int(next.Add(1)) - 1; i < items && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				if err := b.write(ctx, first+i); err != nil {
					cancel(fmt.Errorf("publish item %d: %w", first+i, err))
					return
				}
				mu.Lock()
				took = append(took, time.Since(sent).Seconds())
				mu.Unlock()
			}
		})
	}
	parts.Wait()
	r.Rate = float64(len(took)) / time.Since(began).Seconds()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	slices.Sort(took)
	r.P50, r.P99, r.Most = took[len(took)/2], took[len(took)*99/100], took[len(took)-1]
	return r, nil
}

// write publishes one item.
func (b *publishBench) write(ctx context.Context, number int) error {
	body, err := json.Marshal(map[string]string{
		"url": b.url, "id": fmt.Sprintf("item-%d", number), "title": fmt.Sprintf("Item number %d", number),
		"link": fmt.Sprintf("http://bench.example/%d", number), "content": "<p>" + strings.Repeat("It says something. ", 30) + "</p>",
	})
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, b.postURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+b.token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Tidings", "1")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		return err
	}
	if a.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"pending"`)) {
		return fmt.Errorf("%s: %s", a.Status, answer)
	}
	return nil
}

// wrong returns the number of missing and repeated items, summed over the three nodes, after the
// time for all to arrive.
func (b *publishBench) wrong(ctx context.Context) (wrong int, err error) {
	err = until(ctx, "all items at all nodes", func() (bool, error) {
		wrong = 0
		for _, n := range b.nodes {
			w, err := n.Read(ctx, b.url)
			if err != nil {
				return false, err
			}
			times := map[feed.ID]int{}
			for _, e := range w.Document.Entries {
				times[e.Item.ID]++
			}
			wrong += b.items - len(times) + len(w.Document.Entries) - len(times)
		}
		return wrong == 0, nil
	})
	if wrong > 0 && ctx.Err() == nil {
		err = nil // missing items are a figure, not an error
	}
	return wrong, err
}
