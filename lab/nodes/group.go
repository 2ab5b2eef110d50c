package nodes

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"tidings/overlay"
)

const (
	// answerTimeout is the time for a node to answer. A node that joins with many others on a busy
	// machine takes long.
	answerTimeout = 30 * time.Second
	// findTimeout is the time to find the root of a key; a later answer counts as none.
	findTimeout = 5 * time.Second
)

// A command is what a process is told to do, one thing at a time.
type command struct {
	Open    []Plan // open nodes and run them
	Pause   time.Duration
	Inspect bool         // return the states of all nodes
	Find    []overlay.ID // make all nodes find the roots of keys
	Follow  string       // subscribe all nodes to a feed
	Measure bool         // collect garbage and measure the memory
	Leave   bool         // make all nodes leave the network
}

// A reply answers a command.
type reply struct {
	Err    string // empty if there was no error
	States []NodeState
	Roots  [][]overlay.ID // by node and key; zero: not found
	Memory memoryUse
}

// A memoryUse is what the Go runtime of a process reports.
type memoryUse struct{ Heap, Stack, Goroutines int }

// A group is the nodes of one process.
type group struct {
	open     Opener
	nodes    []Node
	ctx      context.Context
	end      context.CancelFunc
	runs     sync.WaitGroup
	failures chan error // of nodes that ended by themselves
}

// Serve is the main function of a process that holds nodes. It executes commands from in, one after
// the other, and writes replies to out, until in or ctx ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open Opener) error {
	h := &group{open: open, failures: make(chan error, 1)}
	h.ctx, h.end = context.WithCancel(ctx)
	defer h.runs.Wait()
	defer h.end()
	orders, reports := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var o command
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read a command: %w", err)
		}
		r, err := h.execute(o)
		select {
		case failed := <-h.failures:
			err = errors.Join(err, failed)
		default:
		}
		if err != nil {
			r.Err = err.Error()
		}
		if err := reports.Encode(r); err != nil {
			return fmt.Errorf("write a reply: %w", err)
		}
	}
}

func (h *group) execute(o command) (r reply, err error) {
	switch {
	case o.Open != nil:
		err = h.openNodes(o)
	case o.Inspect:
		r.States = make([]NodeState, len(h.nodes))
		err = h.eachNode(func(ctx context.Context, i int) (err error) {
			r.States[i], err = h.nodes[i].Inspect(ctx)
			return err
		})
	case o.Find != nil:
		r.Roots = make([][]overlay.ID, len(h.nodes))
		err = h.eachNode(func(ctx context.Context, i int) error {
			for _, key := range o.Find {
				r.Roots[i] = append(r.Roots[i], find(ctx, h.nodes[i], key))
			}
			return nil
		})
	case o.Follow != "":
		err = h.eachNode(func(ctx context.Context, i int) error { return h.nodes[i].Follow(ctx, o.Follow) })
	case o.Measure:
		r.Memory = measureMemory()
	case o.Leave:
		h.end()
		h.runs.Wait()
	}
	return r, err
}

// find returns the root of a key according to a node; zero if the node does not find one.
func find(ctx context.Context, n Node, key overlay.ID) overlay.ID {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	root, err := n.Root(ctx, key)
	if err != nil {
		return overlay.ID{}
	}
	return root
}

// openNodes opens nodes one after the other.
func (h *group) openNodes(o command) error {
	for _, p := range o.Open {
		n, err := h.open(p)
		if err != nil {
			return fmt.Errorf("open a node: %w", err)
		}
		h.nodes = append(h.nodes, n)
		h.runs.Go(func() {
			if err := n.Run(h.ctx); err != nil {
				select {
				case h.failures <- fmt.Errorf("a node ended: %w", err):
				default: // one failure is enough
				}
			}
		})
		select {
		case <-time.After(o.Pause):
		case <-h.ctx.Done():
		}
	}
	return nil
}

// eachNode calls do for all nodes at once.
func (h *group) eachNode(do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithTimeout(h.ctx, answerTimeout)
	defer cancel()
	errs := make([]error, len(h.nodes))
	var all sync.WaitGroup
	for i := range h.nodes {
		all.Go(func() { errs[i] = do(ctx, i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func measureMemory() memoryUse {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{Heap: int(m.HeapAlloc), Stack: int(m.StackInuse), Goroutines: runtime.NumGoroutine()}
}
