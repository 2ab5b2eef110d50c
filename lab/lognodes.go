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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidings/internal/daemon"
	"tidings/internal/feed"
	"tidings/internal/loop"
	"tidings/internal/publisher"
	"tidings/internal/wire"
)

const (
	publishTimeout      = 2 * time.Minute
	publishPollInterval = 50 * time.Millisecond
)

// startNodes starts nodes with the settings of a new network on loopback, each with a store of its own, and waits until they
// know each other. configure changes the configuration of a node before it starts. The nodes end with ctx.
func startNodes(ctx context.Context, parts *sync.WaitGroup, dir string, count int, configure func(i int, c *daemon.Config) error) (all []*daemon.Daemon, err error) {
	network := wire.DefaultNetwork("bench")
	network.PrivateAddresses = true
	var through []string
	for i := range count {
		c := daemon.DefaultConfig(filepath.Join(dir, strconv.Itoa(i)))
		c.Listen, c.Bootstrap, c.HTTP = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}, through, "none"
		c.PortMap, c.AllowPrivateOrigins, c.PrivateAddresses, c.Abrupt = false, true, true, true
		if i == 0 {
			c.Found = &network
		}
		if err := configure(i, &c); err != nil {
			return nil, err
		}
		d, err := daemon.Open(c)
		if err != nil {
			return nil, fmt.Errorf("open node %d: %w", i, err)
		}
		parts.Go(func() { _ = d.Run(ctx) }) // an error shows as missing figures
		all = append(all, d)
		if err := until(ctx, "the nodes to know each other", func() (bool, error) {
			for j, n := range all {
				addrs, members, err := n.JoinAddresses(ctx)
				if err != nil || members < len(all) || len(addrs) == 0 {
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
	return all, nil
}

// newSigner makes a publisher's key in a file.
func newSigner(path string) (*publisher.Signer, error) {
	if _, err := publisher.Generate(path, ""); err != nil {
		return nil, err
	}
	return publisher.Open(path, nil)
}

// serveEmptyFeeds serves, below each address that it returns, any number of feeds that have no items and name the key of one
// of the signers. It ends with ctx.
func serveEmptyFeeds(ctx context.Context, parts *sync.WaitGroup, signers ...*publisher.Signer) (origins []string, err error) {
	paths := http.NewServeMux()
	s := &http.Server{ReadHeaderTimeout: publishTimeout, Handler: paths}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the feeds: %w", err)
	}
	for i, signer := range signers {
		said := feed.Publisher{Key: signer.Public(), Beat: time.Hour}
		document := `<rss version="2.0"><channel>` + said.Metadata(feed.RSS) + `<title>Bench</title><link>http://bench.example/</link><description/></channel></rss>`
		path := fmt.Sprintf("/%d/", i)
		paths.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) })
		origins = append(origins, "http://"+l.Addr().String()+path)
	}
	parts.Go(func() { _ = s.Serve(l) }) // it ends when it is closed
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return origins, nil
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

// A publishClient sends items to a node that signs them.
type publishClient struct {
	http  *http.Client
	url   string // address of POST /api/v1/publish
	token string
}

// newPublishClient returns a client of a node that keeps as many connections open as there are writers.
func newPublishClient(d *daemon.Daemon, writers int) *publishClient {
	transport := &http.Transport{MaxIdleConnsPerHost: writers}
	return &publishClient{&http.Client{Transport: transport}, "http://" + d.HTTPAddr().String() + "/api/v1/publish", d.Token()}
}

// benchItem returns an item of a feed as the HTTP API takes it. Its title is unique.
func benchItem(url string, number int) ([]byte, error) {
	return json.Marshal(map[string]string{
		"url": url, "id": fmt.Sprintf("item-%d", number), "title": fmt.Sprintf("Item number %d of %s", number, url),
		"link": fmt.Sprintf("http://bench.example/%d", number), "content": "<p>" + strings.Repeat("It says something. ", 30) + "</p>",
	})
}

// write publishes an item and returns when it is accepted.
func (c *publishClient) write(ctx context.Context, item []byte) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(item))
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", "Bearer "+c.token)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Tidings", "1")
	a, err := c.http.Do(q)
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

// A benchLog is three nodes that follow one feed.
type benchLog struct {
	nodes  []*daemon.Daemon // the last one has the key, and is not the feed's sequencer
	client *publishClient
	url    string
	items  int // in the feed
}

// openBenchLog starts the nodes and finds a feed whose sequencer does not have the key.
func openBenchLog(ctx context.Context, parts *sync.WaitGroup, dir string, writers int) (*benchLog, error) {
	signer, err := newSigner(filepath.Join(dir, "bench.key"))
	if err != nil {
		return nil, err
	}
	origins, err := serveEmptyFeeds(ctx, parts, signer)
	if err != nil {
		return nil, err
	}
	b := &benchLog{}
	b.nodes, err = startNodes(ctx, parts, dir, 3, func(i int, c *daemon.Config) error {
		if i == 2 {
			c.HTTP, c.Signer = "127.0.0.1:0", signer
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b.client = newPublishClient(b.nodes[2], writers)
	context.AfterFunc(ctx, b.client.http.CloseIdleConnections)
	for i := 0; b.url == ""; i++ {
		url := fmt.Sprintf("%sfeed%d.xml", origins[0], i)
		if _, err := b.nodes[2].Publisher(ctx, url); err != nil {
			return nil, err
		}
		for _, n := range b.nodes[:2] {
			led, err := n.LedFeeds(ctx)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(led, func(l daemon.LedFeed) bool { return l.URL == url && len(l.Owners) == len(b.nodes) }) {
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

// wrong returns the number of missing and repeated items, summed over the nodes, after the time for all to arrive.
func (b *benchLog) wrong(ctx context.Context) (wrong int, err error) {
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
