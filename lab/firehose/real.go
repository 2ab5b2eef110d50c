package firehose

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/loop"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// A Plan says how to open a node.
type Plan struct {
	Dir       string
	Found     *wire.Network // network to found; nil: join one
	Bootstrap []string
	Filter    bool
	// Shown is called with the titles of items as soon as readers of the node have them. It may be
	// called from any goroutine.
	Shown func(url string, titles []string)
}

// A Node is one whole node. Its methods may be called from any goroutine.
type Node interface {
	// Run runs the node until ctx ends; then the node dies silently.
	Run(ctx context.Context) error
	// JoinAddresses returns addresses through which others can join, and how many members the node knows; 0
	// if it is not a member yet.
	JoinAddresses(ctx context.Context) (addrs []string, members int, err error)
	// SubscribeClients subscribes to a feed for a number of clients.
	SubscribeClients(ctx context.Context, url string, clients int) error
	// Serves returns how many shards the node owns, and of how many it hears nothing as a filter.
	Serves(ctx context.Context) (owned, deaf int, err error)
	// Watched subscribes to a query, unless it already has, and returns the feed and title of each
	// article in the keyword feed.
	Watched(ctx context.Context, query string) ([]string, error)
}

// A Bench is a network of real nodes over real sockets on this machine, some of which are filters.
type Bench struct {
	Hosts    int
	Filters  int
	Feeds    int
	Length   time.Duration // in which items count
	Interval time.Duration // of polls
	Kill     bool          // kill an owner of shards halfway
	// Settle is the time before items count, until sequencers that were told that there are no
	// filters ask again. After is the time for the last items; it must be longer than a minute to
	// tell which items are late by more than that.
	Settle, After time.Duration
	Dir           string
	Open          func(Plan) (Node, error)
}

// A BenchResult is the outcome. Its fields are its JSON.
type BenchResult struct {
	Hosts     int     `json:"hosts"`
	Filters   int     `json:"filters"`
	Killed    bool    `json:"killed"`
	Expected  int     `json:"wanted"` // pairs of a filter and an item
	Delivered int     `json:"got"`
	Late      int     `json:"late"` // of these, after more than a minute
	Twice     int     `json:"twice"`
	P50       float64 `json:"p50_s"` // from the first reader of the feed to the keyword feed
	P99       float64 `json:"p99_s"`
	Max       float64 `json:"most_s"`
}

const (
	// benchQuery matches all items of the bench's feeds.
	benchQuery        = "site:lively.example"
	benchItemInterval = 10 * time.Second // between two items of a feed
	benchPollInterval = 50 * time.Millisecond
	benchJoinTime     = 3 * time.Minute
)

// A monitor is what the bench has seen.
type monitor struct {
	mu        sync.Mutex
	shown     map[string]time.Time   // when the first reader had each item
	delivered []map[string]time.Time // by filter
	previous  []map[string]bool      // content of each filter's feed at the last poll
	twice     int
}

// Run opens the nodes and measures.
func (b Bench) Run(ctx context.Context, progress func(what string, done float64)) (r BenchResult, err error) {
	ctx, end := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end()
	url, err := b.serve(ctx, &parts)
	if err != nil {
		return r, err
	}
	w := &monitor{shown: map[string]time.Time{}}
	nodes, kill, err := b.open(ctx, &parts, w, progress)
	if err != nil {
		return r, err
	}
	for i := range b.Feeds {
		for j := range 2 {
			n := nodes[b.Filters+(2*i+j)%(b.Hosts-b.Filters)]
			if err := n.SubscribeClients(ctx, url(i), 1); err != nil {
				return r, fmt.Errorf("subscribe: %w", err)
			}
		}
	}
	for i := range b.Filters {
		w.delivered, w.previous = append(w.delivered, map[string]time.Time{}), append(w.previous, map[string]bool{})
		parts.Go(func() { w.poll(ctx, i, nodes[i]) })
	}
	if err := b.until(ctx, benchJoinTime, "filters to hear of all shards", func() (bool, error) {
		for _, n := range nodes[:b.Filters] {
			if _, deaf, err := n.Serves(ctx); err != nil || deaf > 0 {
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return r, err
	}
	progress("settling", 0)
	if err := loop.Sleep(ctx, b.Settle); err != nil {
		return r, err
	}
	since := time.Now()
	for half := range 2 {
		for i := range 20 {
			progress("measuring", float64(half)/2+float64(i)/40)
			if err := loop.Sleep(ctx, b.Length/40); err != nil {
				return r, err
			}
		}
		if half == 0 && b.Kill {
			r.Killed = b.killOwner(ctx, nodes, kill)
		}
	}
	until := time.Now()
	progress("waiting for the last items", 1)
	if err := loop.Sleep(ctx, b.After); err != nil {
		return r, err
	}
	r.Hosts, r.Filters = b.Hosts, b.Filters
	w.finish(&r, since, until)
	return r, nil
}

// serve serves the feeds until ctx ends.
func (b Bench) serve(ctx context.Context, parts *sync.WaitGroup) (url func(i int) string, err error) {
	o := origin.New(origin.Clock(1))
	for i := range b.Feeds {
		o.Play(fmt.Sprintf("/feed%d", i), script.NewLively(script.Config{Seed: uint64(i + 1), Every: benchItemInterval, Epoch: time.Now()}))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve feeds: %w", err)
	}
	parts.Go(func() { _ = o.Serve(ctx, l) }) // ends with ctx
	return func(i int) string { return fmt.Sprintf("http://%v/feed%d", l.Addr(), i) }, nil
}

// open opens the nodes, filters first, and waits until all know all others. kill ends one of them.
func (b Bench) open(ctx context.Context, parts *sync.WaitGroup, w *monitor, progress func(string, float64)) (nodes []Node, kill []context.CancelFunc, err error) {
	network := wire.DefaultNetwork("bench")
	network.PollInterval, network.PrivateAddresses = b.Interval, true
	var through []string
	for i := range b.Hosts {
		p := Plan{Dir: filepath.Join(b.Dir, strconv.Itoa(i)), Bootstrap: through, Filter: i < b.Filters, Shown: w.itemsShown}
		if i == 0 {
			p.Found = &network
		}
		n, err := b.Open(p)
		if err != nil {
			return nil, nil, fmt.Errorf("open node %d: %w", i, err)
		}
		run, end := context.WithCancel(ctx)
		parts.Go(func() { _ = n.Run(run) }) // an error shows as missing figures
		nodes, kill = append(nodes, n), append(kill, end)
		if i == 0 {
			err = b.until(ctx, benchJoinTime, "the founder", func() (bool, error) {
				addrs, members, err := n.JoinAddresses(ctx)
				through = addrs
				return members > 0 && len(addrs) > 0, err
			})
		} else {
			err = loop.Sleep(ctx, benchPollInterval)
		}
		if err != nil {
			return nil, nil, err
		}
		progress("starting nodes", float64(i+1)/float64(b.Hosts))
	}
	return nodes, kill, b.until(ctx, benchJoinTime, "all nodes to join", func() (bool, error) {
		for _, n := range nodes {
			if _, members, err := n.JoinAddresses(ctx); err != nil || members < b.Hosts {
				return false, err
			}
		}
		return true, nil
	})
}

// killOwner silently ends the node that owns most shards and is not a filter.
func (b Bench) killOwner(ctx context.Context, nodes []Node, kill []context.CancelFunc) bool {
	best, most := -1, 0
	for i, n := range nodes[b.Filters:] {
		if owned, _, err := n.Serves(ctx); err == nil && owned > most {
			best, most = i+b.Filters, owned
		}
	}
	if best >= 0 {
		kill[best]()
	}
	return best >= 0
}

// until waits for a condition.
func (b Bench) until(ctx context.Context, limit time.Duration, what string, holds func() (bool, error)) error {
	for end := time.Now().Add(limit); ; {
		ok, err := holds()
		if ok || err != nil && ctx.Err() != nil {
			return errors.Join(ctx.Err())
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("waited %v for %s", limit, what), err)
		}
		if err := loop.Sleep(ctx, 10*benchPollInterval); err != nil {
			return err
		}
	}
}

// itemsShown notes what readers have.
func (w *monitor) itemsShown(url string, titles []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, title := range titles {
		if id := url + " " + title; w.shown[id].IsZero() {
			w.shown[id] = time.Now()
		}
	}
}

// poll polls a filter's keyword feed until ctx ends.
func (w *monitor) poll(ctx context.Context, i int, n Node) {
	for loop.Sleep(ctx, benchPollInterval) == nil {
		articles, err := n.Watched(ctx, benchQuery)
		if err != nil {
			continue
		}
		now := time.Now()
		here := map[string]bool{}
		w.mu.Lock()
		for _, id := range articles {
			if here[id] || !w.previous[i][id] && !w.delivered[i][id].IsZero() {
				w.twice++ // the item is there twice, or came back
			}
			here[id] = true
			if w.delivered[i][id].IsZero() {
				w.delivered[i][id] = now
			}
		}
		w.previous[i] = here
		w.mu.Unlock()
	}
}

// finish computes the figures of the items that readers had within a time.
func (w *monitor) finish(r *BenchResult, since, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var delays []time.Duration
	for id, at := range w.shown {
		if at.Before(since) || !at.Before(until) {
			continue
		}
		for _, got := range w.delivered {
			r.Expected++
			came := got[id]
			if came.IsZero() {
				continue
			}
			r.Delivered++
			d := max(came.Sub(at), 0)
			if delays = append(delays, d); d > time.Minute {
				r.Late++
			}
		}
	}
	r.Twice = w.twice
	slices.Sort(delays)
	if n := len(delays); n > 0 {
		r.P50, r.P99, r.Max = delays[n/2].Seconds(), delays[n*99/100].Seconds(), delays[n-1].Seconds()
	}
}
