package deployment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidings/internal/daemon/origin"
)

// A Street is a server of feeds that gain items, and counts who polls them how often. Readers who
// poll for themselves live there, too (legacy.go). It is safe for concurrent use.
type FeedServer struct {
	feedPlan
	origin   *origin.Origin
	listener net.Listener

	mu            sync.Mutex // guards what follows
	nodes         pollCounts
	legacy        pollCounts
	firstPolls    map[itemID]FirstPoll // of items that a node has found of late
	legacyReaders *legacyReaders
}

// news is an item of a channel, by its number.
type itemID struct{ channel, item int }

// A Sighting is the first poll of a node that showed an item.
type FirstPoll struct {
	By string // the node, by its User-Agent
	At time.Time
}

// A side is what is counted of the polls of nodes, or of readers.
type pollCounts struct {
	Polls  int
	Bytes  int
	gaps   []pollGaps // of each channel
	opened time.Time
}

// gaps are those between the polls of a channel by nodes, since they are measured.
type pollGaps struct {
	last         time.Time
	sumOfSquares float64 // s²
}

const (
	// legacyAgent is what readers who poll for themselves say that they are.
	legacyAgent = "reader/1"
	// window is how many items a feed shows, and items how many are there to begin with.
	windowItems, initialItems = 12, 3
	// sightings is how many items are remembered to have been found.
	maxFirstPolls = 4096
)

// NewStreet opens a street's address. It is closed when Run ends.
func NewFeedServer(c Config) (*FeedServer, error) {
	at := "127.0.0.1:0"
	if c.Polite {
		at = "0.0.0.0:0" // each feed has an address of its own, of the machine itself
	}
	l, err := net.Listen("tcp4", at)
	if err != nil {
		return nil, fmt.Errorf("serve feeds: %w", err)
	}
	s := &FeedServer{feedPlan: newPlan(c, l.Addr().(*net.TCPAddr).Port, time.Now()), listener: l, firstPolls: map[itemID]FirstPoll{}}
	s.origin = origin.New(func() time.Duration { return time.Since(s.began) })
	s.origin.OnRequest(s.countRequest)
	for i, f := range s.scripts {
		s.origin.Play(path(i), f)
	}
	s.nodes.gaps, s.legacy.gaps = make([]pollGaps, len(c.Channels)), make([]pollGaps, len(c.Channels))
	s.legacyReaders = newReaders(s)
	return s, nil
}

// Run serves until ctx ends, and polls as the readers do who poll for themselves.
func (s *FeedServer) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !s.config.NodesOnly {
		parts.Go(func() { s.legacyReaders.run(ctx) })
	}
	if err := s.origin.Serve(ctx, s.listener); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serve feeds: %w", err)
	}
	return nil
}

// Sighting is the first poll of a node that showed an item.
func (s *FeedServer) FirstPoll(channel, item int) (of FirstPoll, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, ok = s.firstPolls[itemID{channel, item}]
	return of, ok
}

// saw counts a request.
func (s *FeedServer) countRequest(r origin.Request) {
	channel, err := strconv.Atoi(strings.TrimPrefix(r.Path, "/"))
	if err != nil || channel < 0 || channel >= len(s.config.Channels) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &s.nodes
	if r.UserAgent == legacyAgent {
		of = &s.legacy
	}
	of.Polls++
	of.Bytes += r.Bytes
	g := &of.gaps[channel]
	if !g.last.IsZero() {
		gap := r.Time.Sub(g.last).Seconds()
		g.sumOfSquares += gap * gap
	}
	g.last = r.Time
	if of == &s.nodes && r.Version > 0 {
		at := itemID{channel, initialItems + r.Version - 1}
		if _, known := s.firstPolls[at]; !known {
			if len(s.firstPolls) == maxFirstPolls {
				clear(s.firstPolls)
			}
			s.firstPolls[at] = FirstPoll{r.UserAgent, r.Time}
		}
	}
}

// Open begins to measure the gaps between polls anew. It returns no error.
func (s *FeedServer) ResetCounts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, of := range []*pollCounts{&s.nodes, &s.legacy} {
		of.opened, of.Polls, of.Bytes = now, 0, 0
		for i := range of.gaps {
			of.gaps[i] = pollGaps{last: now}
		}
	}
	s.legacyReaders.shown = Shown{}
	return nil
}

// Counts are what was counted since Open, or since the beginning.
type Counts struct {
	Since         time.Duration // how long that is
	Nodes, Legacy Polled
	Shown         Shown // to readers who poll for themselves
}

// Polled says how often feeds were polled by nodes, or by readers.
type Polled struct {
	Polls int
	Bytes int     // of bodies
	Wait  float64 // seconds: Σqg²/Σ2qg over the gaps g between two polls; 0: not known
}

// Shown counts items that readers were shown, each once for each of them.
type Shown struct {
	Items      int
	TotalDelay time.Duration // of the times since they had come
	MaxDelay   time.Duration
}

// Mean is the mean time; 0 if there were no items.
func (s Shown) MeanDelay() time.Duration { return s.TotalDelay / time.Duration(max(s.Items, 1)) }

// Less is what was shown since then.
func (s Shown) Minus(then Shown) Shown {
	return Shown{s.Items - then.Items, s.TotalDelay - then.TotalDelay, s.MaxDelay}
}

// add counts an item for so many readers.
func (s *Shown) add(after time.Duration, readers int) {
	s.Items += readers
	s.TotalDelay += after * time.Duration(readers)
	s.MaxDelay = max(s.MaxDelay, after)
}

// Counts returns what was counted, without an error.
func (s *FeedServer) Counts() (Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.nodes.opened
	if from.IsZero() {
		from = s.began
	}
	return Counts{
		Since: time.Since(from), Shown: s.legacyReaders.shown,
		Nodes: s.polled(&s.nodes), Legacy: s.polled(&s.legacy),
	}, nil
}

func (s *FeedServer) polled(of *pollCounts) Polled {
	p := Polled{Polls: of.Polls, Bytes: of.Bytes}
	wait, all := 0., 0.
	for i := range of.gaps {
		g, q := &of.gaps[i], float64(s.config.Channels[i].ReaderCount())
		if length := g.last.Sub(of.opened).Seconds(); !of.opened.IsZero() && length > 0 {
			wait += q * g.sumOfSquares / (2 * length)
			all += q
		}
	}
	if all > 0 {
		p.Wait = wait / all
	}
	return p
}
