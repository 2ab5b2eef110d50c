package deployment

import (
	"context"
	"net/http"
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// small returns a configuration with a few feeds, which the clients of two nodes read.
func small() Config {
	c := Demo(2, 5, time.Second, 300*time.Millisecond, 1)
	for i := range c.Channels {
		c.Channels[i].Readers = []int{3, 1}
	}
	return c
}

func serving(t *testing.T, c Config) *FeedServer {
	t.Helper()
	s, err := NewFeedServer(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func counts(t *testing.T, s *FeedServer) Counts {
	t.Helper()
	c, err := s.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Legacy readers poll each feed once in an interval, at a random time. They see an item after half an
// interval on average, and after one at most.
func TestLegacyReadersWaitForHalfAnInterval(t *testing.T) {
	s := serving(t, small())
	eventually(t, "the readers have not begun", func() bool { return counts(t, s).Legacy.Polls >= 20 })
	if err := s.ResetCounts(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no items were shown", func() bool { return counts(t, s).Shown.Items > 300 })
	c := counts(t, s)
	if rate := float64(c.Legacy.Polls) / c.Since.Seconds(); rate < 15 || rate > 25 {
		t.Errorf("%.1f polls a second by 20 subscriptions", rate)
	}
	if mean := c.Shown.MeanDelay(); mean < 300*time.Millisecond || mean > 800*time.Millisecond {
		t.Errorf("items are shown after %v", mean)
	}
	if c.Nodes.Polls != 0 {
		t.Errorf("%d polls by nodes, of which there are none", c.Nodes.Polls)
	}
	// Four readers of a feed at random times wait together for as long as one reader at worst, and as four
	// evenly distributed ones at best.
	if w := c.Legacy.Wait; w < 0.11 || w > 0.55 {
		t.Errorf("a wait of %.2f s for the next poll of anybody", w)
	}
}

// Polls of other agents count as polls of nodes. The first node that gets an item is reported.
func TestPollsOfNodesAreCountedSeparately(t *testing.T) {
	config := small()
	config.NodesOnly = true
	s := serving(t, config)
	ask := func(by string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(2), nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("User-Agent", by)
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
	}
	eventually(t, "nothing new has come", func() bool { return s.scripts[2].Published(time.Since(s.began)) > initialItems })
	ask("node 1")
	ask("node 2")
	eventually(t, "the polls are not counted", func() bool { return counts(t, s).Nodes.Polls == 2 })
	if c := counts(t, s); c.Legacy.Polls != 0 || c.Nodes.Bytes == 0 {
		t.Errorf("%+v", c)
	}
	n, came, ok := s.ItemOf(2, s.scripts[2].Item(initialItems).Title)
	if found, known := s.FirstPoll(2, n); !ok || !known || found.By != "node 1" || found.At.Before(came) {
		t.Errorf("item %d, %v, came at %v: found %+v, %v", n, ok, came, found, known)
	}
	for _, title := range []string{"", "no number", "(x)", "one of the beginning (0)"} {
		if _, _, ok := s.ItemOf(2, title); ok {
			t.Errorf("%q has come", title)
		}
	}
}

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, small(), map[string]func(*Config){
		"deployment: Nodes is 1; it must be from 2 to 1000":                             func(c *Config) { c.Nodes, c.Channels = 1, nil },
		"deployment: Nodes is 5000; it must be from 2 to 1000":                          func(c *Config) { c.Nodes = 5000 },
		"deployment: the number of Channels is 0; it must be from 1 to 65536":           func(c *Config) { c.Channels = nil },
		"deployment: the number of readers of all Channels is 0; it must be at least 1": func(c *Config) { c.Channels = []Channel{{Readers: []int{0, 0}}} },
		"deployment: Channels[0].Readers has 2000 nodes; it must have at most Nodes":    func(c *Config) { c.Channels = []Channel{{Readers: make([]int, 2000)}} },
		"deployment: Channels[0].Every is -1s; it must be at least 0s":                  func(c *Config) { c.Channels = []Channel{{Every: -time.Second}} },
		"deployment: Compression is 0; it must be at least 1 if Polite is set":          func(c *Config) { c.Polite = true },
		"deployment: Network: poll interval 0s":                                         func(c *Config) { c.Network.PollInterval = 0 },
		`deployment: Network: wedge "round"`:                                            func(c *Config) { c.Network.Wedge = "round" },
	})
	if c := Demo(24, 100, 20*time.Second, 25*time.Second, 1); c.Validate() != nil || c.Channels[0].ReaderCount() != 24 || c.Channels[99].ReaderCount() > 16 {
		t.Errorf("%v; feeds are read by %d to %d", c.Validate(), c.Channels[0].ReaderCount(), c.Channels[99].ReaderCount())
	}
}
