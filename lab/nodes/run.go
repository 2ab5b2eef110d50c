package nodes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"tidings/internal/loop"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	// pollInterval is the time between two inspections of all nodes.
	pollInterval = 250 * time.Millisecond
	// rightTimeout is the time for the tables to become right.
	rightTimeout = 5 * time.Minute
	// sampledKeys is the number of keys whose root every node must find before tables count as
	// right.
	sampledKeys = 5
)

// A Lab is what runs need.
type Lab struct {
	// Command returns the command of a process that calls Serve. The process ends with ctx.
	Command func(ctx context.Context) *exec.Cmd
	// Seed is the seed of the keys that are looked up. The rest of a run is not reproducible: keys
	// of nodes, ports and times.
	Seed uint64
	// Progress is called with the part of the awaited condition that holds, from 0 to 1.
	Progress func(what string, done float64)
}

// A network is the nodes of one network and their processes.
type network struct {
	lab       Lab
	transport string
	dir       string
	params    wire.Network
	rng       *rand.Rand
	bootstrap []string // addresses of the first node
	started   int
	live      []*process
	stopped   []*process // stopped processes that must still be killed
	lastStart time.Time  // start of the last node
}

// Run makes a run.
func (l Lab) Run(ctx context.Context, c Scenario) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "tidings-lab-")
	if err != nil {
		return Result{}, fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for temporary files
	n := &network{lab: l, transport: c.Transport, dir: dir, params: wire.DefaultNetwork("lab"), rng: rand.New(rand.NewPCG(l.Seed, 0))}
	n.params.PrivateAddresses = true
	defer n.stopAll()
	r := Result{Phase: c.Phase, Transport: c.Transport, Nodes: c.Nodes, Killed: c.Killed, Seed: l.Seed}
	switch c.Phase {
	case Join:
		err = n.join(ctx, c, &r)
	case Silent, Closed:
		err = n.killMany(ctx, c, &r)
	case Sequencer:
		err = n.sequencerExits(ctx, c, &r)
	default:
		err = fmt.Errorf("unknown phase %q", c.Phase)
	}
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", c.Phase, c.Transport, err)
	}
	return r, nil
}

// startGroup starts a process with some nodes of the network.
func (n *network) startGroup(ctx context.Context, nodes int, pause time.Duration) error {
	p, err := start(ctx, n.lab.Command(ctx))
	if err != nil {
		return err
	}
	n.live = append(n.live, p)
	for opened := 0; opened < nodes; {
		o := command{Pause: pause}
		count := nodes - opened
		if n.started == 0 {
			count = 1 // the others join through it
		}
		for range count {
			plan := Plan{Dir: filepath.Join(n.dir, strconv.Itoa(n.started)), Listen: listen(n.transport), Bootstrap: n.bootstrap}
			if n.started == 0 {
				plan.Found = &n.params
			}
			o.Open = append(o.Open, plan)
			n.started++
			opened++
		}
		if _, err := p.send(ctx, o); err != nil {
			return err
		}
		n.lastStart = time.Now()
		if n.bootstrap == nil {
			r, err := p.send(ctx, command{Inspect: true})
			if err != nil {
				return err
			}
			n.bootstrap = r.States[0].Addrs
		}
	}
	return nil
}

// stopAll ends all processes.
func (n *network) stopAll() {
	for _, p := range slices.Concat(n.live, n.stopped) {
		p.kill()
	}
}

// sendAll sends a command to all processes at once.
func (n *network) sendAll(ctx context.Context, o command) ([]reply, error) {
	reports, errs := make([]reply, len(n.live)), make([]error, len(n.live))
	var asked sync.WaitGroup
	for i, p := range n.live {
		asked.Go(func() { reports[i], errs[i] = p.send(ctx, o) })
	}
	asked.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// inspect returns the states of all live nodes.
func (n *network) inspect(ctx context.Context) (states []NodeState, err error) {
	reports, err := n.sendAll(ctx, command{Inspect: true})
	for _, r := range reports {
		states = append(states, r.States...)
	}
	return states, err
}

// awaitRight waits until all tables are right and every node finds the right root of some keys. It
// records in r how long that took, and returns the states.
func (n *network) awaitRight(ctx context.Context, since time.Time, r *Result) ([]NodeState, error) {
	r.RightShares, r.CountError = nil, 0
	states, err := n.await(ctx, "tables are right", func(states []NodeState) (done float64, lack string, err error) {
		wrong := wrongTables(states)
		done = 1 - float64(len(wrong))/float64(len(states))
		r.RightShares = append(r.RightShares, Point{time.Since(since).Seconds(), done})
		if len(wrong) > 0 {
			return done, wrong[0], nil
		}
		lack, err = n.checkRoots(ctx, states)
		return done, lack, err
	})
	r.RightS = time.Since(since).Seconds()
	for _, l := range states {
		off, _ := l.countError(states)
		r.CountError = max(r.CountError, off)
	}
	return states, err
}

// await inspects all nodes until nothing is missing.
func (n *network) await(ctx context.Context, what string, missing func([]NodeState) (done float64, lack string, err error)) ([]NodeState, error) {
	began := time.Now()
	for {
		states, err := n.inspect(ctx)
		if err != nil {
			return nil, err
		}
		done, lack, err := missing(states)
		if err != nil || lack == "" {
			return states, err
		}
		n.lab.Progress(what, done)
		if time.Since(began) > rightTimeout {
			return states, fmt.Errorf("%s: not within %v: %s", what, rightTimeout, lack)
		}
		if err := loop.Sleep(ctx, pollInterval); err != nil {
			return states, err
		}
	}
}

// checkRoots makes every node find the roots of some keys, and describes the first that is not the
// live member nearest to its key.
func (n *network) checkRoots(ctx context.Context, states []NodeState) (string, error) {
	var keys []overlay.ID
	for range sampledKeys {
		keys = append(keys, randomID(n.rng))
	}
	reports, err := n.sendAll(ctx, command{Find: keys})
	if err != nil {
		return "", err
	}
	for _, r := range reports {
		for _, roots := range r.Roots {
			for i, got := range roots {
				if want := root(keys[i], states); got != want {
					return fmt.Sprintf("the root of %s is %s, but a node finds %s", keys[i].Short(), want.Short(), got.Short()), nil
				}
			}
		}
	}
	return "", nil
}

func randomID(rng *rand.Rand) (id overlay.ID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

// join starts all nodes in one process, and measures their cost.
func (n *network) join(ctx context.Context, c Scenario, r *Result) error {
	if err := n.startGroup(ctx, c.Nodes, c.Pause); err != nil {
		return err
	}
	states, err := n.awaitRight(ctx, n.lastStart, r)
	if err != nil {
		return err
	}
	busy, err := n.cost(ctx, states, 0)
	if err != nil {
		return err
	}
	r.Busy = &busy
	if c.Rest == 0 {
		return nil
	}
	p := n.live[0].cmd.Process.Pid
	began := time.Now()
	before, _ := CPUTime(p)
	for since := time.Duration(0); since < c.Rest; since = time.Since(began) {
		n.lab.Progress("nodes rest", since.Seconds()/c.Rest.Seconds())
		if err := loop.Sleep(ctx, min(time.Second, c.Rest-since)); err != nil {
			return err
		}
	}
	after, _ := CPUTime(p)
	cpu := (after - before).Seconds() / time.Since(began).Seconds()
	if states, err = n.inspect(ctx); err != nil {
		return err
	}
	idle, err := n.cost(ctx, states, cpu)
	r.Idle = &idle
	return err
}

// cost measures the only process.
func (n *network) cost(ctx context.Context, states []NodeState, cpu float64) (c Cost, err error) {
	p, nodes := n.live[0], float64(len(states))
	if rss, err := Resident(p.cmd.Process.Pid); err == nil { // before garbage is collected
		c.RSSBytes = int(float64(rss-p.emptyRSS) / nodes)
	}
	report, err := p.send(ctx, command{Measure: true})
	if err != nil {
		return c, err
	}
	part := func(of int) float64 { return float64(of) / nodes }
	m := report.Memory
	c.HeapBytes, c.StackBytes, c.Goroutines = int(part(m.Heap)), int(part(m.Stack)), part(m.Goroutines)
	for _, l := range states {
		c.Connections += float64(l.Connections) / nodes
		c.Links += float64(l.Links) / nodes
	}
	c.CPUPercent = 100 * cpu / nodes
	return c, nil
}

// killMany starts nodes in two processes, and kills one of these.
func (n *network) killMany(ctx context.Context, c Scenario, r *Result) error {
	for _, nodes := range []int{c.Nodes - c.Killed, c.Killed} {
		if err := n.startGroup(ctx, nodes, c.Pause); err != nil {
			return err
		}
	}
	if _, err := n.awaitRight(ctx, n.lastStart, r); err != nil {
		return err
	}
	died := time.Now()
	if err := n.remove(1).exit(ctx, c.Phase); err != nil {
		return err
	}
	_, err := n.awaitRight(ctx, died, r)
	return err
}

// remove removes a process from the live ones.
func (n *network) remove(i int) *process {
	p := n.live[i]
	n.live = slices.Delete(n.live, i, i+1)
	n.stopped = append(n.stopped, p)
	return p
}
