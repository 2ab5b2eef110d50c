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

// A FeedServer serves feeds that gain items, and counts the polls. It also runs the legacy readers
// (legacy.go). It is safe for concurrent use.
type FeedServer struct {
	feedPlan
	origin   *origin.Origin
	listener net.Listener

	mu            sync.Mutex // guards the fields below
	nodes         pollCounts
	legacy        pollCounts
	firstPolls    map[itemID]FirstPoll // of recent items
	legacyReaders *legacyReaders
}

// An itemID names an item by its channel and number.
type itemID struct{ channel, item int }

// A FirstPoll is the first poll by a node that returned an item.
type FirstPoll struct {
	By string // the node, by its User-Agent
	At time.Time
}

// pollCounts are the counts of polls by nodes, or by legacy readers.
type pollCounts struct {
	Polls  int
	Bytes  int
	gaps   []pollGaps // by channel
	opened time.Time
}

// pollGaps sums up the gaps between the polls of a channel since the last reset.
type pollGaps struct {
	last         time.Time
	sumOfSquares float64 // s²
}

const (
	// legacyAgent is the User-Agent of legacy readers.
	legacyAgent = "reader/1"
	// windowItems is the number of items that a feed shows, and initialItems the number that it begins with.
	windowItems, initialItems = 12, 3
	// maxFirstPolls bounds the remembered first polls. Beyond it, all are dropped.
	maxFirstPolls = 4096
)

// NewFeedServer opens the address of a server, which is closed when Run ends.
func NewFeedServer(c Config) (*FeedServer, error) {
	at := "127.0.0.1:0"
	if c.Polite {
		at = "0.0.0.0:0" // each feed gets its own loopback address
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

// Run serves feeds and runs the legacy readers until ctx ends.
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

// FirstPoll returns the first poll by a node that returned an item.
func (s *FeedServer) FirstPoll(channel, item int) (poll FirstPoll, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	poll, ok = s.firstPolls[itemID{channel, item}]
	return poll, ok
}

// countRequest counts a request.
func (s *FeedServer) countRequest(r origin.Request) {
	channel, err := strconv.Atoi(strings.TrimPrefix(r.Path, "/"))
	if err != nil || channel < 0 || channel >= len(s.config.Channels) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := &s.nodes
	if r.UserAgent == legacyAgent {
		counts = &s.legacy
	}
	counts.Polls++
	counts.Bytes += r.Bytes
	g := &counts.gaps[channel]
	if !g.last.IsZero() {
		gap := r.Time.Sub(g.last).Seconds()
		g.sumOfSquares += gap * gap
	}
	g.last = r.Time
	if counts == &s.nodes && r.Version > 0 {
		at := itemID{channel, initialItems + r.Version - 1}
		if _, known := s.firstPolls[at]; !known {
			if len(s.firstPolls) == maxFirstPolls {
				clear(s.firstPolls)
			}
			s.firstPolls[at] = FirstPoll{r.UserAgent, r.Time}
		}
	}
}

// ResetCounts starts a new measurement. It returns no error.
func (s *FeedServer) ResetCounts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, counts := range []*pollCounts{&s.nodes, &s.legacy} {
		counts.opened, counts.Polls, counts.Bytes = now, 0, 0
		for i := range counts.gaps {
			counts.gaps[i] = pollGaps{last: now}
		}
	}
	s.legacyReaders.shown = Shown{}
	return nil
}

// Counts are the counts since the last reset, or since the start.
type Counts struct {
	Since         time.Duration // length of that period
	Nodes, Legacy Polled
	Shown         Shown // to legacy readers
}

// Polled says how often feeds were polled by nodes, or by legacy readers.
type Polled struct {
	Polls int
	Bytes int     // of bodies
	Wait  float64 // in seconds: Σqg²/Σ2qg over the gaps g between two polls of a feed with q readers; 0: unknown
}

// Shown counts the items that readers were shown, once for each reader.
type Shown struct {
	Items      int
	TotalDelay time.Duration // sum of the times from publication until shown
	MaxDelay   time.Duration
}

// MeanDelay returns the mean time from publication until shown, 0 if there were no items.
func (s Shown) MeanDelay() time.Duration { return s.TotalDelay / time.Duration(max(s.Items, 1)) }

// Minus returns the counts since then, an earlier value. MaxDelay stays that of the whole time.
func (s Shown) Minus(then Shown) Shown {
	return Shown{s.Items - then.Items, s.TotalDelay - then.TotalDelay, s.MaxDelay}
}

// add counts an item that was shown to some readers.
func (s *Shown) add(after time.Duration, readers int) {
	s.Items += readers
	s.TotalDelay += after * time.Duration(readers)
	s.MaxDelay = max(s.MaxDelay, after)
}

// Counts returns the counts. It returns no error.
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

func (s *FeedServer) polled(counts *pollCounts) Polled {
	p := Polled{Polls: counts.Polls, Bytes: counts.Bytes}
	wait, all := 0., 0.
	for i := range counts.gaps {
		g, q := &counts.gaps[i], float64(s.config.Channels[i].ReaderCount())
		if length := g.last.Sub(counts.opened).Seconds(); !counts.opened.IsZero() && length > 0 {
			wait += q * g.sumOfSquares / (2 * length)
			all += q
		}
	}
	if all > 0 {
		p.Wait = wait / all
	}
	return p
}
