package sim

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidings/corona"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// noise returns barely compressible text of about size bytes.
func noise(rng *rand.Rand, size int) string {
	b := make([]byte, size*3/4)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

// sized returns an RSS document with a head of about head bytes and items of the given sizes,
// followed by a small item that is always there.
func sized(rng *rand.Rand, head int, items ...int) []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `<rss version="2.0"><channel><title>Of %d items</title><link>http://feed.example/</link><copyright>%s</copyright>`, len(items), noise(rng, head))
	for i, size := range items {
		fmt.Fprintf(b, `<item><guid isPermaLink="false">n%d</guid><title>Item %d</title><description>%s</description></item>`, i+1, i+1, noise(rng, max(size-100, 0)))
	}
	b.WriteString(`<item><guid isPermaLink="false">n0</guid><title>Item 0</title></item></channel></rss>`)
	return b.Bytes()
}

func repeat(n, size int) []int {
	of := make([]int, n)
	for i := range of {
		of[i] = size
	}
	return of
}

// TestEveryLimitIsCrossed serves three nodes documents beyond each limit at which something is left
// out, split, fetched separately or refused. Everything within the limits must reach every reader;
// the feed's state must name the rest. Each size has several feeds, so that some are found by
// pollers that do not lead the channel.
func TestEveryLimitIsCrossed(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	for _, c := range []struct {
		what  string
		head  int
		items []int
		lost  bool   // the new document is refused as a whole
		says  string // what the feed's state says about missing items
	}{
		{"items around what travels with a change report", 0, []int{23 * kib, 25 * kib}, false, ""},
		{"items around what travels with an entry", 0, []int{47 * kib, 49 * kib, 64 * kib}, false, ""},
		{"items around the largest", 0, []int{1023 * kib, 1100 * kib, kib}, false, "larger than 1 MiB"},
		{"several large items", 0, repeat(12, 200*kib), false, ""},
		{"a head of 30 KiB", 30 * kib, []int{kib}, false, ""},
		{"a head of 70 KiB", 70 * kib, []int{kib, 31 * kib}, false, ""},
		{"2,001 items and one more", 0, repeat(2001, 10), false, "beyond the first 2000"},
		{"a document of 9.9 MiB", 0, repeat(99, 102*kib), false, ""},
		{"a document of 10.1 MiB", 0, repeat(101, 103*kib), true, "10485760"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(len(c.items))))
			before, after := sized(rng, 0), sized(rng, c.head, c.items...)
			want, err := feed.Parse(after, "")
			if c.lost {
				if err == nil {
					t.Fatal("the document is not beyond the limit")
				}
				want, err = feed.Parse(before, "")
			}
			if err != nil {
				t.Fatal(err)
			}
			network := wire.DefaultNetwork("sim")
			network.PollInterval, network.MaintenanceInterval = time.Minute, 2*time.Minute
			s := NewSwarm(SwarmConfig{World: Config{Seed: 5, Topology: Uniform(10 * time.Millisecond)}, Network: network})
			s.Grow(3, 100*time.Millisecond)
			s.World.Run(20 * time.Second)
			var urls []string
			feeds := longtest.Pick(2, 4)
			if len(after) > 5<<20 {
				feeds = longtest.Pick(1, 4) // they take long
			}
			for i := range feeds {
				url := fmt.Sprintf("http://feed%d.example/", i)
				urls = append(urls, url)
				s.Serve(url, script.NewReplay([]script.Snapshot{
					{Body: before, ContentType: "application/rss+xml", Hold: 5*time.Minute + time.Duration(i)*7*time.Second},
					{Body: after, ContentType: "application/rss+xml"},
				}))
				for _, p := range s.Peers() {
					p.SubscribeFeed(url)
				}
			}
			s.World.Run(10 * time.Minute)

			found := uint64(0)
			for _, p := range s.Peers() {
				found += p.node.Corona.Stats().UpdatesReported
				for _, url := range urls {
					doc := documentAt(s, p, url)
					has := map[feed.ID]feed.Hash{}
					for _, e := range doc.Entries {
						has[e.Item.ID] = e.Item.Hash
					}
					missing := 0
					for _, it := range want.Items {
						if has[it.ID] != it.Hash {
							missing++
						}
					}
					if missing > 0 || len(has) < len(want.Items) || doc.Head == nil || doc.Head.Title != want.Head.Title {
						t.Errorf("host %d lacks %d of %d items of %s, and has %d", p.Index(), missing, len(want.Items), url, len(has))
					}
					sub, _ := p.node.Feeds.Subscription(s.Key(url))
					state, err := corona.ParseState(sub.State)
					if err != nil || !strings.Contains(state.Detail, c.says) || c.says == "" && state.Detail != "" || sub.Unreadable > 0 {
						t.Errorf("host %d, state of %s: %q, want %q; %d unreadable entries (%v)", p.Index(), url, state.Detail, c.says, sub.Unreadable, err)
					}
				}
			}
			if found == 0 && !c.lost {
				t.Error("the sequencers found all changes themselves: no change report was sent")
			}
			report(t, s)
		})
	}
}

// documentAt returns the document that a reader of a peer sees.
func documentAt(s *Swarm, p *Peer, url string) (doc feedtree.Document) {
	done := false
	p.Do(func() {
		p.node.Feeds.Read(s.Key(url), func(d feedtree.Document) { doc, done = d, true })
	})
	s.RunUntil(func() bool { return done }, 10*time.Millisecond, time.Minute)
	return doc
}
