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

// A Plan says how a node is to be opened.
type NodeConfig struct {
	Index       int // from 0, which is the founder
	Dir         string
	Listen      []string
	Found       *wire.Network // nil: join
	Bootstrap   []string
	Compression float64 // above 0: feeds are polled as public ones, with the times of politeness as much shorter
	// Shown is to be told of items as soon as readers of the node have them, by their titles. It
	// may be called from any goroutine.
	OnShown func(url string, titles []string)
}

// An Opener opens a node.
type Opener func(NodeConfig) (Node, error)

// A Node is one whole node. Its methods may be called from any goroutine.
type Node interface {
	// Run runs the node until ctx ends, and then takes it out of its network in good
	// order.
	Run(ctx context.Context) error
	// Door returns where others join through the node, and how many members it knows once it is
	// one itself, else 0.
	JoinAddresses(ctx context.Context) (addrs []string, members int, err error)
	// Follow subscribes to a feed for so many clients.
	SubscribeClients(ctx context.Context, url string, clients int) error
	// SentBytes is how many it has sent to others.
	SentBytes() int
}

const (
	// openPause is the time between the starts of two nodes: each is some work.
	startInterval = 50 * time.Millisecond
	// joinLook is the time between two looks whether all nodes have joined.
	joinCheckInterval = 100 * time.Millisecond
	// joinTime is how long that may take, and answerTime how long a node may take for an answer.
	joinTimeout   = 2 * time.Minute
	answerTimeout = 30 * time.Second
)

// fleet are the nodes of a deployment.
type fleet struct {
	d     *Deployment
	nodes []Node
	runs  sync.WaitGroup
	fails chan error // of nodes that ended by themselves
}

// launch opens all nodes, and has them join and subscribe. They run until ctx ends.
func (f *fleet) launch(ctx context.Context) error {
	c := &f.d.config
	var through []string
	for i := range c.Nodes {
		p := NodeConfig{
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
				default: // one is enough
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

// rest waits, unless ctx or a node ends.
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

// door is where others join: through the first node.
func (f *fleet) joinAddresses(ctx context.Context) ([]string, error) {
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		if addrs, members, err := f.nodes[0].JoinAddresses(ctx); err == nil && members > 0 && len(addrs) > 0 {
			return addrs, nil
		}
		if err := f.sleep(ctx, joinCheckInterval); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the first node has found no network within %v", joinTimeout)
}

// joined waits until all nodes are members, and know how many they are.
func (f *fleet) awaitMembers(ctx context.Context) error {
	for end := time.Now().Add(joinTimeout); time.Now().Before(end); {
		in := 0
		for _, n := range f.nodes {
			if _, members, err := n.JoinAddresses(ctx); err == nil && members > len(f.nodes)/2 {
				in++
			}
		}
		f.d.progress("joining", in, len(f.nodes))
		if in == len(f.nodes) {
			return nil
		}
		if err := f.sleep(ctx, joinCheckInterval); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all nodes have joined within %v", joinTimeout)
}

// subscribe has each node follow what its clients read, all at once.
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
