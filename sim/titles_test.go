package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// A titledFeed has another title from the time of each edit on. It is built anew every second.
type titledFeed []edit

func (f titledFeed) At(t time.Duration) script.Version {
	title := ""
	for _, e := range f {
		if t >= e.from {
			title = e.says
		}
	}
	built := time.Unix(1.7e9, 0).Add(t).UTC().Format(time.RFC1123Z)
	return script.Version{Index: int(t / time.Second), ContentType: "application/rss+xml", Body: fmt.Appendf(nil,
		"<rss version='2.0'><channel><title>%s</title><link>http://a.example/</link><lastBuildDate>%s</lastBuildDate>"+
			"<item><guid>two</guid><title>Two</title></item><item><guid>one</guid><title>One</title></item></channel></rss>", title, built)}
}

func (f titledFeed) Next(t time.Duration) (time.Duration, bool) {
	return t.Truncate(time.Second) + time.Second, true
}

// titles returns the title that each live reader of a feed is shown, each once.
func (s *Swarm) titles(url string) (titles []string) {
	for _, p := range s.Live() {
		if p.subscriptions[url] == nil {
			continue
		}
		p.Do(func() {
			p.node.Feeds.Read(s.Key(url), func(d feedtree.Document) { titles = append(titles, d.Head.Title) })
		})
	}
	s.World.Run(time.Second)
	slices.Sort(titles)
	return slices.Compact(titles)
}

// entries returns the number of entries that the feed's log has, without the certificate of the items.
func (s *Swarm) entries(url string) (n int) {
	for _, p := range s.Live() {
		if v, ok := p.node.Owners.View(s.Key(url)); ok && v.Leads {
			n = len(p.node.Owners.Log(s.Key(url))) - 1
		}
	}
	return n
}

// Another title of a feed reaches all readers within a poll, and is no news of items. So it is under another sequencer, and
// for readers that come later. A title that is another one at each poll does not grow the log for ever.
func TestAnotherTitleReachesReaders(t *testing.T) {
	t.Parallel()
	const url = "http://a.example/feed"
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1}, Network: network})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	counts := titledFeed{{0, "Old"}, {time.Hour, "New"}, {2 * time.Hour, "Newer"}}
	for minute := range 60 {
		counts = append(counts, edit{3*time.Hour + time.Duration(minute)*time.Minute, fmt.Sprintf("%d unread", minute)})
	}
	f := s.Serve(url, counts)
	for _, p := range s.Peers()[:10] {
		p.SubscribeFeed(url)
	}
	at := func(d time.Duration) { s.World.Run(f.Began.Add(d).Sub(s.Now())) }
	want := func(entries int, titles ...string) {
		t.Helper()
		if got := s.titles(url); !slices.Equal(got, titles) || s.entries(url) != entries {
			t.Errorf("%v: readers see the titles %q, and the log has %d entries; want %q and %d", s.Now().Sub(f.Began), got, s.entries(url), titles, entries)
		}
	}
	at(59 * time.Minute)
	want(1, "Old")
	at(61*time.Minute + 5*time.Second)
	want(2, "New")
	for _, p := range s.Live() {
		if v, ok := p.node.Owners.View(s.Key(url)); ok && v.Leads {
			p.Kill(false)
		}
	}
	at(100 * time.Minute)
	s.Peers()[15].SubscribeFeed(url)
	at(110 * time.Minute)
	want(2, "New")
	at(121*time.Minute + 5*time.Second)
	want(3, "Newer")
	at(5 * time.Hour)
	if n := s.entries(url); n > 3+3 {
		t.Errorf("the log has %d entries after a title that counts", n)
	}
	for _, p := range s.Live() {
		if r := p.subscriptions[url]; r != nil && len(r.firstShown) != 2 {
			t.Errorf("host %d: shown %d items as new, want 2", p.Index(), len(r.firstShown))
		}
	}
	s.CheckQuiet()
	for _, v := range s.Violations() {
		t.Error(v)
	}
}
