package sim

import (
	"fmt"
	"testing"
	"time"

	"tidings/internal/script"
)

// A feed without a hub is fetched when a site announces its news, at whichever member, and its readers have the item within
// seconds. A flood of announcements makes no more than a fetch in five minutes, and none of a feed that nobody follows.
func TestAPingIsAHint(t *testing.T) {
	t.Parallel()
	const followed, other = "http://pinged.example/feed", "http://other.example/feed"
	h := NewHub(11, 8, 1)
	f := h.Serve(followed, script.NewLively(script.Config{Seed: 11, Every: 2 * time.Hour, Epoch: h.Now()}))
	unread := h.Serve(other, script.NewLively(script.Config{Seed: 12, Every: time.Hour, Epoch: h.Now()}))
	f.Public, unread.Public = true, true
	for _, p := range h.members {
		p.SubscribeFeed(followed)
	}
	h.World.Run(time.Hour)
	from, pings := h.Now(), 0
	h.watch(f, h.Now().Sub(f.Began), func([]byte) {
		h.After(time.Second, func() {
			p := h.members[pings%len(h.members)]
			p.Do(func() { p.node.Corona.Hint(f.URL) })
			pings++
		})
	})
	h.World.Run(24 * time.Hour)
	delays := h.delays(t, from, h.Now().Add(-time.Minute))
	if median := delays[len(delays)/2]; pings < 4 || len(delays) < 4*len(h.members) || median > 5*time.Second {
		t.Errorf("%d pings; %d deliveries, %v at the median", pings, len(delays), median)
	}
	before := h.looks()
	for i := range 1000 {
		p := h.members[i%len(h.members)]
		p.Do(func() {
			p.node.Corona.Hint(f.URL)
			p.node.Corona.Hint(fmt.Sprintf("%s?%d", f.URL, i))
			p.node.Corona.Hint(other)
		})
		h.World.Run(time.Second)
	}
	if n := h.looks() - before; n < 3 || n > 4 || unread.Polls != 0 {
		t.Errorf("a flood makes %d additional requests for the feed, and %d for one that nobody follows", n, unread.Polls)
	}
	report(t, h.Swarm)
}

// A site that announces its home page only has the few feeds of its domain fetched. Where there are more, it has to name one.
func TestAPingOfASiteReachesItsFeeds(t *testing.T) {
	t.Parallel()
	h := NewHub(13, 8, 1)
	follow := func(format string, n int) (of []*Feed) {
		for i := range n {
			f := h.Serve(fmt.Sprintf(format, i), script.NewLively(script.Config{Seed: uint64(i), Every: 2 * time.Hour, Epoch: h.Now()}))
			f.Public = true
			for _, p := range h.members[:3] {
				p.SubscribeFeed(f.URL)
			}
			of = append(of, f)
		}
		return of
	}
	blog, host := follow("http://www.blog.example/feed%d", 2), follow("http://host.example/feed%d", 9)
	h.World.Run(2 * time.Hour)
	before := h.looks()
	p := h.members[7]
	p.Do(func() {
		p.node.Corona.Hint("http://blog.example/")
		p.node.Corona.Hint("http://host.example/")
		p.node.Corona.Hint("http://unknown.example/")
	})
	h.World.Run(15 * time.Minute) // the domain allows a request in five minutes
	if n := int(h.looks() - before); n != len(blog) {
		t.Errorf("%d requests; the site has %d feeds, and the other one has %d", n, len(blog), len(host))
	}
	report(t, h.Swarm)
}

// looks returns how often members have fetched a document because of a hint.
func (h *Hub) looks() (n uint64) {
	for _, p := range h.members {
		n += p.node.Corona.Stats().PushLooks
	}
	return n
}
