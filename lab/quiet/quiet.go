// Package quiet measures what quiet subscriptions cost (decision 025): readers that are clients follow the same feeds,
// half of them in the ordinary way and half through two members that stand between. It uses the real nodes of package
// sim.
package quiet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/sim"
)

// A Config describes a run.
type Config struct {
	Seed     uint64
	Members  int
	Feeds    int
	Readers  int           // of each feed in each way; each is a client with this feed alone
	Interval time.Duration // of polls, and of maintenance
	Every    time.Duration // mean time between two items of a feed
	Length   time.Duration // in which items count
}

// A Result is the outcome. Its fields are its JSON.
type Result struct {
	Seed     uint64   `json:"seed"`
	Ordinary Readers  `json:"ordinary"`
	Quiet    Readers  `json:"quiet"`
	Circuits Circuits `json:"circuits"`
	Wrong    []string `json:"wrong"`
}

// Readers are the figures of those that follow in one way. Items count once for each reader.
type Readers struct {
	Items   int `json:"items"`
	Missing int `json:"missing"` // that were not shown by the end, though another reader was shown them a minute before
	// From the change at the origin to the reader, in seconds.
	Mean float64 `json:"mean_s"`
	P99  float64 `json:"p99_s"`
	// From the first of all readers to this one, in seconds: what the way through the network takes.
	WayMean float64 `json:"way_mean_s"`
	WayP99  float64 `json:"way_p99_s"`
	// Bytes is what one reader's node sends and receives, all its traffic included, in a second.
	Bytes float64 `json:"bytes_per_s"`
}

// Circuits are the figures of the members that stand between.
type Circuits struct {
	Opened uint64  `json:"opened"`
	Failed uint64  `json:"failed"`
	Bytes  float64 `json:"middle_bytes_per_item"` // through one middle, for an item and all that goes between two items
	Large  uint64  `json:"too_large"`
}

const (
	joinPause, joinTime = 100 * time.Millisecond, 30 * time.Second
	// settleTime is how long polls and trees settle before items count.
	settleTime = 15 * time.Minute
	// maxItems is more than the items of a feed in any run.
	maxItems = 10_000
	// maxWay is how long an item may take through the network before it is missing.
	maxWay = time.Minute
)

type showing struct {
	reader *sim.Peer
	at     time.Time
}

type item struct {
	at    time.Time // when the origin published it
	shown []showing
}

type world struct {
	*sim.Swarm
	config  Config
	items   map[string]map[feed.ID]*item // by URL
	readers map[*sim.Peer]bool           // true: quiet
}

// Run makes the run.
func (c Config) Run(ctx context.Context, progress func(float64)) (r Result, err error) {
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.MaintenanceInterval = c.Interval, c.Interval
	w := &world{
		Swarm:  sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)}, Network: network}),
		config: c, items: map[string]map[feed.ID]*item{}, readers: map[*sim.Peer]bool{},
	}
	w.SetHooks(sim.Hooks{Shown: func(p *sim.Peer, url string, id feed.ID) {
		if it := w.items[url][id]; it != nil {
			it.shown = append(it.shown, showing{p, w.Now()})
		}
	}})
	began := w.Now()
	total := time.Duration(c.Members)*joinPause + joinTime + settleTime + c.Length
	advance := func(d time.Duration) error {
		for end := w.Now().Add(d); w.Now().Before(end) && ctx.Err() == nil; {
			w.World.Run(min(c.Interval, end.Sub(w.Now())))
			progress(min(1, float64(w.Now().Sub(began))/float64(total)))
		}
		return context.Cause(ctx)
	}
	w.Grow(c.Members, joinPause)
	if err := advance(time.Duration(c.Members)*joinPause + joinTime); err != nil {
		return r, err
	}
	for i := range c.Feeds {
		w.serve(i)
	}
	if err := advance(settleTime); err != nil {
		return r, err
	}
	since, before, carried := w.Now(), w.traffic(), w.carried()
	if err := advance(c.Length); err != nil {
		return r, err
	}
	r = Result{Seed: c.Seed, Ordinary: w.figures(false, since), Quiet: w.figures(true, since)}
	after := w.traffic()
	perReader := float64(c.Feeds*c.Readers) * c.Length.Seconds()
	r.Ordinary.Bytes, r.Quiet.Bytes = float64(after[0]-before[0])/perReader, float64(after[1]-before[1])/perReader
	if r.Quiet.Items > 0 {
		r.Circuits.Bytes = float64(w.carried()-carried) / float64(r.Quiet.Items)
	}
	for _, p := range w.Peers() {
		s := p.Layers().Relay.Stats()
		r.Circuits.Opened += s.Opened
		r.Circuits.Failed += s.Failed
		r.Circuits.Large += s.TooLarge
	}
	for _, v := range w.Violations() {
		r.Wrong = append(r.Wrong, v.String())
	}
	return r, nil
}

// serve serves a feed, and starts its readers.
func (w *world) serve(i int) {
	c, url := w.config, fmt.Sprintf("http://feed%d.example/", i)
	settings := script.Config{Seed: c.Seed<<20 + uint64(i), Every: c.Every}
	served := w.Serve(url, script.NewLively(settings))
	settings.Window = maxItems
	all := script.NewLively(settings)
	last := settleTime + c.Length
	v := all.At(last)
	doc, err := feed.Parse(v.Body, v.ContentType)
	if err != nil {
		panic(fmt.Sprintf("quiet: a feed of the world: %v", err))
	}
	w.items[url] = map[feed.ID]*item{}
	for n, it := range doc.Items {
		w.items[url][it.ID] = &item{at: served.Began.Add(all.Item(all.Published(last) - 1 - n).At)}
	}
	for n := range 2 * c.Readers {
		p := w.Add(false, w.Peers()[0])
		w.readers[p] = n%2 == 1
		p.Start()
		w.After(time.Minute, func() {
			if w.readers[p] {
				p.SubscribeQuietly(url)
			} else {
				p.SubscribeFeed(url)
			}
		})
	}
}

// traffic returns the bytes that ordinary and quiet readers have sent and received.
func (w *world) traffic() (of [2]uint64) {
	for p, quiet := range w.readers {
		i := 0
		if quiet {
			i = 1
		}
		s := p.Stats()
		for c := range s.Sent {
			of[i] += s.Sent[c].Bytes + s.Received[c].Bytes
		}
	}
	return of
}

// carried returns the bytes that middles have passed on.
func (w *world) carried() (n uint64) {
	for _, p := range w.Peers() {
		n += p.Layers().Relay.Stats().Bytes
	}
	return n
}

// figures returns the figures of the items that the origins published in the measured time.
func (w *world) figures(quiet bool, since time.Time) (r Readers) {
	var whole, way []time.Duration
	for _, items := range w.items {
		for _, it := range items {
			if it.at.Before(since) || len(it.shown) == 0 {
				continue
			}
			n := 0
			for _, s := range it.shown {
				if of, reader := w.readers[s.reader]; reader && of == quiet {
					n++
					whole, way = append(whole, s.at.Sub(it.at)), append(way, s.at.Sub(it.shown[0].at))
				}
			}
			if r.Items += n; w.Now().Sub(it.shown[0].at) > maxWay {
				r.Missing += w.config.Readers - n
			}
		}
	}
	r.Mean, r.P99 = meanAndP99(whole)
	r.WayMean, r.WayP99 = meanAndP99(way)
	return r
}

func meanAndP99(of []time.Duration) (mean, p99 float64) {
	if len(of) == 0 {
		return 0, 0
	}
	slices.Sort(of)
	var sum time.Duration
	for _, d := range of {
		sum += d
	}
	return sum.Seconds() / float64(len(of)), of[len(of)*99/100].Seconds()
}
