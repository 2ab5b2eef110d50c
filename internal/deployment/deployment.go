package deployment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// A Deployment is a set of nodes and readers on one machine. Its methods may be called from any goroutine.
type Deployment struct {
	config Config
	open   Opener
	server server
	dir    string
	byURL  map[string]int

	mu           sync.Mutex // guards the fields below
	phase        string
	fraction     float64
	shown        Shown
	traces       map[itemID]*ItemTrace
	lastComplete *ItemTrace
	nodes        []Node
	runningSince time.Time
	samples      []sample // of the last polling interval, the oldest first
}

// A sample holds the counts at one moment, since measuring began.
type sample struct {
	counts Counts
	shown  Shown
}

// An ItemTrace shows how an item reached the readers.
type ItemTrace struct {
	Title       string
	PublishedAt time.Time
	FirstPoll   FirstPoll
	Arrivals    []Arrival
	ReaderNodes int // nodes at which the channel is read
}

// An Arrival says when an item reached the readers of a node.
type Arrival struct {
	Node int
	At   time.Time
}

// A View is the state of a deployment.
type View struct {
	Phase        string        // "running" once all clients have subscribed
	Progress     float64       // of an earlier phase, 0 to 1
	Running      time.Duration // time since all clients have subscribed
	Total        Figures       // since measuring began
	LastInterval Figures       // in the last polling interval, or since measuring began if that is shorter
	LastItem     *ItemTrace    // the last item that reached all its readers; nil: none yet
}

// Figures are the counts of a period.
type Figures struct {
	Counts
	ShownByNodes Shown
}

// New opens the server of feeds. If process is not nil, the server runs in that process, which calls
// ServeFeeds.
func New(c Config, open Opener, process *exec.Cmd) (*Deployment, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := &Deployment{config: c, open: open, byURL: map[string]int{}, traces: map[itemID]*ItemTrace{}}
	var err error
	if process != nil {
		d.server, err = startRemote(process, c)
	} else {
		d.server, err = NewFeedServer(c)
	}
	if err != nil {
		return nil, err
	}
	for i := range c.Channels {
		d.byURL[d.server.URL(i)] = i
	}
	return d, nil
}

// SentBytes returns how many bytes of frames all nodes have sent to each other.
func (d *Deployment) SentBytes() (sum int) {
	d.mu.Lock()
	nodes := d.nodes
	d.mu.Unlock()
	for _, n := range nodes {
		sum += n.SentBytes()
	}
	return sum
}

// Config returns the configuration of the deployment.
func (d *Deployment) Config() Config { return d.config }

// Run runs the deployment in a temporary folder until ctx ends, and then returns no error.
func (d *Deployment) Run(ctx context.Context) error {
	own, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	if d.dir, err = os.MkdirTemp("", "tidings-"); err != nil {
		return fmt.Errorf("make a folder for the nodes: %w", err)
	}
	defer func() { _ = os.RemoveAll(d.dir) }() // what cannot be removed is in the system's temporary folder
	f := &fleet{d: d, fails: make(chan error, 1)}
	served := make(chan error, 1)
	go func() { served <- d.server.Run(own) }()
	if err = f.launch(own); err == nil {
		err = d.startMeasuring()
	}
	if err == nil {
		select {
		case err = <-f.fails:
		case <-ctx.Done():
		}
	}
	stop()
	f.runs.Wait()
	err = errors.Join(err, <-served)
	if ctx.Err() != nil {
		return nil // the caller knows the reason
	}
	return err
}

// startMeasuring notes that all clients have subscribed, and resets the counts.
func (d *Deployment) startMeasuring() error {
	err := d.ResetCounts()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.fraction, d.runningSince = "running", 1, time.Now()
	return err
}

// ResetCounts starts a new measurement.
func (d *Deployment) ResetCounts() error {
	err := d.server.ResetCounts()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown, d.samples = Shown{}, nil
	return err
}

func (d *Deployment) add(n Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
}

func (d *Deployment) progress(phase string, done, total int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.fraction = phase, float64(done)/float64(max(total, 1))
}

// View returns the state of the deployment. If the server no longer answers, its counts are zero.
func (d *Deployment) View() View {
	counts, _ := d.server.Counts() // Run returns the error
	now := sample{counts: counts}
	d.mu.Lock()
	defer d.mu.Unlock()
	now.shown = d.shown
	v := View{Phase: d.phase, Progress: d.fraction, Total: Figures{now.counts, now.shown}}
	if !d.runningSince.IsZero() {
		v.Running = time.Since(d.runningSince)
	}
	d.samples = append(d.samples, now)
	for len(d.samples) > 1 && now.counts.Since-d.samples[1].counts.Since >= d.config.Network.PollInterval {
		d.samples = d.samples[1:]
	}
	if v.LastInterval = v.Total; now.counts.Since > d.config.Network.PollInterval {
		v.LastInterval = now.minus(d.samples[0])
	}
	if d.lastComplete != nil {
		s := *d.lastComplete
		s.Arrivals = slices.Clone(s.Arrivals)
		v.LastItem = &s
	}
	return v
}

// minus returns the counts between two samples. Waits are unknown for such a period.
func (m sample) minus(then sample) Figures {
	polled := func(a, b Polled) Polled { return Polled{Polls: a.Polls - b.Polls, Bytes: a.Bytes - b.Bytes} }
	return Figures{
		Counts: Counts{
			Since: m.counts.Since - then.counts.Since, Nodes: polled(m.counts.Nodes, then.counts.Nodes),
			Legacy: polled(m.counts.Legacy, then.counts.Legacy), Shown: m.counts.Shown.Minus(then.counts.Shown),
		},
		ShownByNodes: m.shown.Minus(then.shown),
	}
}

// maxTraces bounds the items that are traced. Beyond it, all traces are dropped.
const maxTraces = 1024

// noteShown notes that items have reached the readers of a node.
func (d *Deployment) noteShown(node int, url string, titles []string) {
	channel, ok := d.byURL[url]
	if !ok {
		return
	}
	now, c := time.Now(), &d.config.Channels[channel]
	for _, title := range titles {
		n, came, ok := d.server.ItemOf(channel, title)
		if !ok {
			continue
		}
		found, _ := d.server.FirstPoll(channel, n)
		d.mu.Lock()
		if !d.runningSince.IsZero() && came.After(d.runningSince) { // items from before the subscriptions are not counted
			d.shown.add(now.Sub(came), c.Readers[node])
			d.addArrival(itemID{channel, n}, ItemTrace{Title: title, PublishedAt: came, FirstPoll: found}, Arrival{node, now})
		}
		d.mu.Unlock()
	}
}

// addArrival adds an arrival to the trace of an item.
func (d *Deployment) addArrival(id itemID, s ItemTrace, at Arrival) {
	known := d.traces[id]
	if known == nil {
		if len(d.traces) == maxTraces {
			clear(d.traces)
		}
		for _, n := range d.config.Channels[id.channel].Readers {
			s.ReaderNodes += min(n, 1)
		}
		known = &s
		d.traces[id] = known
	}
	if known.Arrivals = append(known.Arrivals, at); len(known.Arrivals) == known.ReaderNodes {
		d.lastComplete = known
		delete(d.traces, id)
	}
}
