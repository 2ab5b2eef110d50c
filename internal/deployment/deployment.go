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

// A Deployment is nodes and readers on one machine. Its methods may be called from any
// goroutine.
type Deployment struct {
	config Config
	open   Opener
	street origins
	dir    string
	byURL  map[string]int

	mu      sync.Mutex // guards what follows
	phase   string
	done    float64
	shown   Shown
	stories map[news]*Story
	latest  *Story
	nodes   []Node
	running time.Time
	marks   []mark // of the last polling interval, the oldest first
}

// A mark is what was counted at a moment since measuring began.
type mark struct {
	counts Counts
	shown  Shown
}

// A Story is the way of an item.
type Story struct {
	URL, Title string
	Came       time.Time
	Found      Sighting
	Shown      []Stop
	Readers    int // nodes that read the channel
}

// A Stop is that an item has come to the readers of a node.
type Stop struct {
	Node int
	At   time.Time
}

// A View is how a deployment goes.
type View struct {
	Phase   string        // "running" when all have subscribed
	Done    float64       // of the phases before
	Running time.Duration // since then
	All     Figures       // since measuring began
	Lately  Figures       // in the last polling interval, or since measuring began
	Story   *Story        // the last item that all who read it have got; nil: none yet
}

// Figures are what was counted in some time.
type Figures struct {
	Counts
	ShownByNodes Shown
}

// New opens the street of a deployment. If elsewhere is not nil, it is the command of a process for
// it, which calls ServeStreet.
func New(c Config, open Opener, elsewhere *exec.Cmd) (*Deployment, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	d := &Deployment{config: c, open: open, byURL: map[string]int{}, stories: map[news]*Story{}}
	var err error
	if elsewhere != nil {
		d.street, err = settle(elsewhere, c)
	} else {
		d.street, err = NewStreet(c)
	}
	if err != nil {
		return nil, err
	}
	for i := range c.Channels {
		d.byURL[d.street.URL(i)] = i
	}
	return d, nil
}

// SentBytes is how many bytes all nodes have sent to each other, as frames.
func (d *Deployment) SentBytes() (sum int) {
	d.mu.Lock()
	nodes := d.nodes
	d.mu.Unlock()
	for _, n := range nodes {
		sum += n.SentBytes()
	}
	return sum
}

// Config is what was deployed.
func (d *Deployment) Config() Config { return d.config }

// Run deploys, in a folder of its own that it removes, and goes on until ctx ends, for which it
// returns no error.
func (d *Deployment) Run(ctx context.Context) error {
	own, stop := context.WithCancel(ctx)
	defer stop()
	var err error
	if d.dir, err = os.MkdirTemp("", "tidings-"); err != nil {
		return fmt.Errorf("folder for nodes: %w", err)
	}
	defer func() { _ = os.RemoveAll(d.dir) }() // what is left is in the system's folder for that
	f := &fleet{d: d, fails: make(chan error, 1)}
	served := make(chan error, 1)
	go func() { served <- d.street.Run(own) }()
	if err = f.launch(own); err == nil {
		err = d.run()
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
		return nil // whoever ended it knows
	}
	return err
}

// run notes that all have subscribed, and begins to measure.
func (d *Deployment) run() error {
	err := d.Open()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.done, d.running = "running", 1, time.Now()
	return err
}

// Open begins to measure anew.
func (d *Deployment) Open() error {
	err := d.street.Open()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown, d.marks = Shown{}, nil
	return err
}

func (d *Deployment) add(n Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
}

func (d *Deployment) progress(phase string, done, of int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phase, d.done = phase, float64(done)/float64(max(of, 1))
}

// View looks at the deployment. Of a street that answers no more, nothing is counted.
func (d *Deployment) View() View {
	counts, _ := d.street.Counts() // Run says why
	now := mark{counts: counts}
	d.mu.Lock()
	defer d.mu.Unlock()
	now.shown = d.shown
	v := View{Phase: d.phase, Done: d.done, All: Figures{now.counts, now.shown}}
	if !d.running.IsZero() {
		v.Running = time.Since(d.running)
	}
	d.marks = append(d.marks, now)
	for len(d.marks) > 1 && now.counts.Since-d.marks[1].counts.Since >= d.config.Network.PollInterval {
		d.marks = d.marks[1:]
	}
	if v.Lately = v.All; now.counts.Since > d.config.Network.PollInterval {
		v.Lately = now.less(d.marks[0])
	}
	if d.latest != nil {
		s := *d.latest
		s.Shown = slices.Clone(s.Shown)
		v.Story = &s
	}
	return v
}

// less is what was counted since then. The wait is known only since measuring began.
func (m mark) less(then mark) Figures {
	polled := func(a, b Polled) Polled { return Polled{Polls: a.Polls - b.Polls, Bytes: a.Bytes - b.Bytes} }
	return Figures{
		Counts: Counts{
			Since: m.counts.Since - then.counts.Since, Nodes: polled(m.counts.Nodes, then.counts.Nodes),
			Legacy: polled(m.counts.Legacy, then.counts.Legacy), Shown: m.counts.Shown.Less(then.counts.Shown),
		},
		ShownByNodes: m.shown.Less(then.shown),
	}
}

// maxStories bounds the items whose ways are followed.
const maxStories = 1024

// show notes that items have come to the readers of a node.
func (d *Deployment) show(node int, url string, titles []string) {
	channel, ok := d.byURL[url]
	if !ok {
		return
	}
	now, c := time.Now(), &d.config.Channels[channel]
	for _, title := range titles {
		n, came, ok := d.street.Came(channel, title)
		if !ok {
			continue
		}
		found, _ := d.street.Sighting(channel, n)
		d.mu.Lock()
		if !d.running.IsZero() && came.After(d.running) { // what came before they had subscribed is no news
			d.shown.add(now.Sub(came), c.Readers[node])
			d.tell(news{channel, n}, Story{URL: url, Title: title, Came: came, Found: found}, Stop{node, now})
		}
		d.mu.Unlock()
	}
}

// tell goes on with the story of an item.
func (d *Deployment) tell(of news, s Story, at Stop) {
	known := d.stories[of]
	if known == nil {
		if len(d.stories) == maxStories {
			clear(d.stories)
		}
		for _, n := range d.config.Channels[of.channel].Readers {
			s.Readers += min(n, 1)
		}
		known = &s
		d.stories[of] = known
	}
	if known.Shown = append(known.Shown, at); len(known.Shown) == known.Readers {
		d.latest = known
		delete(d.stories, of)
	}
}
