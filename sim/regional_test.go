package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/longtest"
)

// seeItem makes a peer see an item of a given name, which may change, besides what the origin shows to the others.
func (p *Peer) seeItem(name func() string) {
	p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
		a.Body = bytes.Replace(a.Body, []byte("<item>"), fmt.Appendf(nil, "<item><title>%[1]s</title><guid>%[1]s</guid></item><item>", name()), 1)
		return a
	}
}

// provenanceOf returns what vouches for the item of a title at a peer; "": it does not show one.
func (p *Peer) provenanceOf(url, title string) (of string) {
	for raw, by := range p.provenances(url) {
		if strings.Contains(raw, title) {
			of = by
		}
	}
	return of
}

// The sequencer of a feed sees an item that the other owners look for in vain. They contest it, and one of those that have
// signed that leaves. The sequencer keeps the feed, although the contest in the log is one of former owners now.
func TestASequencerKeepsAFeedWithARegionalItem(t *testing.T) {
	t.Parallel()
	for _, leaves := range longtest.Pick([]int{1, 3}, []int{1, 2, 3, 4}) {
		s := feedSwarm(1, Config{})
		s.Grow(10, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 10*time.Minute, 12)[0]
		near := nearestPeers(s, url)
		for _, p := range near {
			p.SubscribeFeed(url)
		}
		s.World.Run(20 * time.Minute)
		if near[9].leaderOf(url) != near[0].ID() {
			t.Fatal("the nearest node does not lead the feed")
		}
		near[0].seeItem(func() string { return "Here only" })
		for range 30 {
			if s.World.Run(5 * time.Second); near[9].provenanceOf(url, "Here only") == feedtree.Contested {
				break
			}
		}
		near[leaves].Kill(true)
		s.World.Run(7 * time.Minute)
		near[leaves].Start()
		s.World.Run(3 * time.Minute)
		if got := near[9].provenanceOf(url, "Here only"); got != feedtree.Contested {
			t.Errorf("owner %d leaves: the item is %q", leaves, got)
		}
		for i, p := range near {
			if n := p.node.Owners.Stats().Barred; n > 0 {
				t.Errorf("owner %d leaves: %d bars by node %d", leaves, n, i)
			}
		}
		if near[9].leaderOf(url) != near[0].ID() {
			t.Errorf("owner %d leaves: the sequencer has lost the feed", leaves)
		}
	}
}
