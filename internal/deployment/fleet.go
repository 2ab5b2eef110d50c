package deployment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"tidings/internal/wire"
)

// NodeOptions says how a node is to be opened.
type NodeOptions struct {
	Index       int // from 0, which is the founder
	Dir         string
	Listen      []string
	Found       *wire.Network // nil: join
	Bootstrap   []string
	Compression float64 // above 0: feeds are polled as public ones, with the times of politeness shortened by this factor
	// OnShown is to be called with the titles of items as soon as readers of the node can see them, from any
	// goroutine.
	OnShown func(url string, titles []string)
}

// An Opener opens a node.
type Opener func(NodeOptions) (Node, error)

// A Node is one whole node. Its methods may be called from any goroutine.
type Node interface {
	// Run runs the node until ctx ends; the node then leaves its network in good order.
	Run(ctx context.Context) error
	// JoinAddresses returns the addresses through which others can join, and the number of members that the
	// node knows, 0 until it is a member itself.
	JoinAddresses(ctx context.Context) (addrs []string, members int, err error)
	// SubscribeClients subscribes to a feed on behalf of several clients.
	SubscribeClients(ctx context.Context, url string, clients int) error
	// SentBytes returns how many bytes the node has sent to others.
	SentBytes() int
}

const (
	// startInterval is the time between the starts of two nodes, which spreads the work.
	startInterval = 50 * time.Millisecond
	// joinCheckInterval is the time between two checks whether all nodes have joined.
	joinCheckInterval = 100 * time.Millisecond
	// joinTimeout bounds how long all nodes together may take to join. answerTimeout bounds how long a node
	// may take to answer.
	joinTimeout   = 2 * time.Minute
	answerTimeout = 30 * time.Second
)

// A fleet is the set of nodes of a deployment.
type fleet struct {
	d     *Deployment
	nodes []Node
	runs  sync.WaitGroup
	fails chan error // of nodes that ended too early
}

// launch opens all nodes, and waits until they have joined and subscribed. They run until ctx ends.
func (f *fleet) launch(ctx context.Context) error {
	c := &f.d.config
	var through []string
	for i := range c.Nodes {
		p := NodeOptions{
			Index: i, Dir: filepath.Join(f.d.dir, strconv.Itoa(i)), Bootstrap: through,
			Listen:  []string{"/ip4/127.0.0.1/udp/0/quic-v1"},
			OnShown: func(url string, titles []string) { f.d.noteShown(i, url, titles) },
		}
		if i == 0 {
			p.Found = &c.Network
		}
		if c.Polite {
			p.Compression = c.Compression
		}
		n, err := f.d.open(p)
		if err != nil {
			return fmt.Errorf("open node %d: %w", i, err)
		}
		f.nodes = append(f.nodes, n)
		f.d.add(n)
		f.runs.Go(func() {
			if err := n.Run(ctx); err != nil {
				select {
				case f.fails <- fmt.Errorf("node %d ended: %w", i, err):
				default: // one error is enough
				}
			}
		})
		if through == nil {
			if through, err = f.joinAddresses(ctx); err != nil {
				return err
			}
		}
		f.d.progress("starting nodes", i+1, c.Nodes)
		if err := f.sleep(ctx, startInterval); err != nil {
			return err
		}
	}
	if err := f.awaitMembers(ctx); err != nil {
		return err
	}
	return f.subscribe(ctx)
}

// sleep waits, unless ctx or a node ends.
func (f *fleet) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-f.fails:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinAddresses returns the addresses of the first node, through which the others join.
func (f *fleet) joinAddresses(ctx context.Context) ([]string, error) {
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		if addrs, members, err := f.nodes[0].JoinAddresses(ctx); err == nil && members > 0 && len(addrs) > 0 {
			return addrs, nil
		}
		if err := f.sleep(ctx, joinCheckInterval); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the first node was not ready within %v", joinTimeout)
}

// awaitMembers waits until all nodes are members, and know of more than half of the others.
func (f *fleet) awaitMembers(ctx context.Context) error {
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		in := 0
		for _, n := range f.nodes {
			if _, members, err := n.JoinAddresses(ctx); err == nil && members > len(f.nodes)/2 {
				in++
			}
		}
		f.d.progress("joining the network", in, len(f.nodes))
		if in == len(f.nodes) {
			return nil
		}
		if err := f.sleep(ctx, joinCheckInterval); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all nodes joined within %v", joinTimeout)
}

// subscribe subscribes each node to the feeds of its clients, all nodes at the same time.
func (f *fleet) subscribe(ctx context.Context) error {
	c := &f.d.config
	total := 0
	for i := range c.Channels {
		for _, n := range c.Channels[i].Readers {
			total += min(n, 1)
		}
	}
	var mu sync.Mutex
	done := 0
	errs := make([]error, len(f.nodes))
	var all sync.WaitGroup
	for i, n := range f.nodes {
		all.Go(func() {
			for k := range c.Channels {
				clients := c.Channels[k].Readers[i]
				if clients == 0 {
					continue
				}
				if errs[i] = f.subscribeNode(ctx, n, f.d.server.URL(k), clients); errs[i] != nil {
					return
				}
				mu.Lock()
				done++
				f.d.progress("subscribing", done, total)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f *fleet) subscribeNode(ctx context.Context, n Node, url string, clients int) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return n.SubscribeClients(ctx, url, clients)
}
