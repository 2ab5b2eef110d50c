package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/longtest"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// auditSwarm returns a swarm whose nodes audit one in so many new items.
func auditSwarm(seed uint64, oneIn int) *Swarm {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	return NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: network, Tune: func(c *node.Config) { c.Feeds.AuditOneIn = oneIn }})
}

// problems returns how many peers know of a problem of a feed.
func problems(of []*Peer, url string) (n int) {
	for _, p := range of {
		if s, ok := p.node.Feeds.Subscription(p.swarm.Key(url)); ok && s.Problem != nil {
			n++
		}
	}
	return n
}

// If all owners of a feed lie, a few followers find out, and all others do within the time for which reports spread.
func TestAllFollowersFindOutThatTheOwnersLie(t *testing.T) {
	t.Parallel()
	peers := longtest.Pick(45, 205)
	s := auditSwarm(1, 10)
	s.Grow(peers, 20*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := "http://feed.example/"
	s.Serve(url, script.NewLively(script.Config{Every: 8 * time.Minute, Items: 60, Window: 60})) // an item is there for eight hours
	near := nearestPeers(s, url)
	for _, p := range near {
		p.SubscribeFeed(url)
	}
	s.World.Run(20 * time.Minute)
	for _, p := range near[:5] {
		p.forgeItem()
	}
	honest := near[5:]
	for at := range 48 {
		s.World.Run(5 * time.Minute)
		if n := problems(honest, url); n == len(honest) {
			t.Logf("all know after %d minutes", 5*(at+1))
			break
		}
	}
	s.World.Run(20 * time.Minute) // until they have told each other
	confirmed := 0
	for _, p := range honest {
		if sub, _ := p.node.Feeds.Subscription(s.Key(url)); sub.Problem != nil && sub.Problem.Confirmed {
			confirmed++
		}
	}
	if confirmed < len(honest)/2 {
		t.Errorf("for %d of %d followers another one has confirmed it", confirmed, len(honest))
	}
	t.Logf("another follower has confirmed it for %d of %d", confirmed, len(honest))
	looks := uint64(0)
	for _, p := range honest {
		looks += p.node.Feeds.Stats().OriginAudits
	}
	if n := problems(honest, url); n != len(honest) {
		t.Errorf("%d of %d followers know", n, len(honest))
	}
	if limit := uint64(20 * len(honest)); looks > limit {
		t.Errorf("%d looks", looks)
	}
}

// without removes an item of the feeds that serveFeeds serves from a document.
func without(body []byte, number int) []byte {
	for part := range bytes.SplitSeq(body, []byte("<item>")) {
		if bytes.Contains(part, fmt.Appendf(nil, "/%d<", number)) && bytes.Contains(part, []byte("</item>")) {
			end := bytes.Index(part, []byte("</item>")) + len("</item>")
			return bytes.Replace(body, append([]byte("<item>"), part[:end]...), nil, 1)
		}
	}
	return body
}

// A log that withholds an item differs from the origin as well.
func TestAFollowerFindsOutThatAnItemIsWithheld(t *testing.T) {
	t.Parallel()
	s := auditSwarm(1, 1)
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, 8*time.Minute, 100)[0]
	near := nearestPeers(s, url)
	reader := near[15]
	reader.SubscribeFeed(url) // so that one owner polls
	for _, p := range near[:15] {
		p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
			a.Body = without(a.Body, 6)
			return a
		}
	}
	s.World.Run(time.Hour)
	sub, _ := reader.node.Feeds.Subscription(s.Key(url))
	if sub.Problem == nil || !sub.Problem.Lacked || !strings.HasSuffix(sub.Problem.Title, "(6)") {
		t.Errorf("%+v", sub.Problem)
	}
}

// Owners that drop a feed show its readers nothing that they could look for. Readers look now and then all the same.
func TestAFollowerFindsOutThatAFeedIsDropped(t *testing.T) {
	t.Parallel()
	s := auditSwarm(1, 20)
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, 8*time.Minute, 100)[0]
	near := nearestPeers(s, url)
	reader := near[15]
	reader.SubscribeFeed(url)
	s.World.Run(20 * time.Minute)
	for _, p := range near[:15] { // the reader itself does not poll, because another node does
		old := map[string][]byte{}
		p.FilterAnswer = func(r env.Request, a env.Answer) env.Answer {
			if old[r.URL] == nil {
				old[r.URL] = a.Body
			}
			a.Body = old[r.URL]
			return a
		}
	}
	key := s.Key(url)
	before, _ := reader.node.Feeds.Subscription(key)
	s.World.Run(2 * time.Hour)
	sub, _ := reader.node.Feeds.Subscription(key)
	if sub.Items != before.Items {
		t.Fatalf("%d items, and %d before: somebody appends them", sub.Items, before.Items)
	}
	if sub.Problem == nil || !sub.Problem.Lacked {
		t.Errorf("%+v after %d looks", sub.Problem, reader.node.Feeds.Stats().OriginAudits)
	}
	if looks := reader.node.Feeds.Stats().OriginAudits; looks > 30 {
		t.Errorf("%d looks in two hours", looks)
	}
}

// Followers of an honest feed look now and then, and never see a problem: not if items are withdrawn, nor if the origin
// shows each node another text. A report of a liar makes them look, and no more.
func TestHonestFeedsHaveNoProblems(t *testing.T) {
	t.Parallel()
	for _, readers := range longtest.Pick([]int{2, 16}, []int{1, 3, 8, 16}) {
		s := auditSwarm(uint64(readers), 4)
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		urls := s.serveFeeds(3, 8*time.Minute, 100)
		for n, url := range urls {
			near := nearestPeers(s, url)
			for _, p := range near[16-readers:] {
				p.SubscribeFeed(url)
			}
			s.feeds.byURL[url].Public = n == 2 // its items are marked an hour after they are withdrawn
		}
		began := s.Now()
		for i, p := range s.Peers() {
			p.FilterAnswer = func(r env.Request, a env.Answer) env.Answer {
				if r.URL == urls[0] { // shows each node another text
					a.Body = bytes.ReplaceAll(a.Body, []byte("<title>"), fmt.Appendf(nil, "<title>%d ", i))
					return a
				}
				for number := range 40 { // every third item is withdrawn ten minutes after it came, or at once
					came := time.Duration(number-4) * 8 * time.Minute
					if number%3 == 0 && number > 5 && s.Now().Sub(began) > came+time.Duration(number%2)*10*time.Minute {
						a.Body = without(a.Body, number)
					}
				}
				return a
			}
		}
		for range 20 {
			s.World.Run(5 * time.Minute)
			for n, url := range urls {
				for _, p := range s.Peers() {
					if sub, ok := p.node.Feeds.Subscription(s.Key(url)); ok && sub.Problem != nil {
						t.Fatalf("%d readers, feed %d: %+v", readers, n, sub.Problem)
					}
				}
			}
		}
		looks := uint64(0)
		for _, p := range s.Peers() {
			if looks += p.node.Feeds.Stats().OriginAudits; p.node.Owners.Stats().Barred > 0 {
				t.Errorf("%d readers: an honest sequencer is barred", readers)
			}
		}
		if looks < 5 {
			t.Errorf("%d readers: %d looks", readers, looks)
		}
	}
}

// An origin shows nodes items of their own, some of which restart. No sequencer is barred. A node may see a problem, and no
// other node confirms it.
func TestNobodyConfirmsRegionalProblems(t *testing.T) {
	t.Parallel()
	for _, regional := range []int{12, 1} { // nodes with an item of their own
		for seed := range longtest.Pick[uint64](1, 3) {
			s := auditSwarm(seed+1, 4)
			s.Grow(12, 100*time.Millisecond)
			s.World.Run(20 * time.Second)
			url := s.serveFeeds(1, 8*time.Minute, 100)[0]
			near := nearestPeers(s, url)
			for _, p := range near {
				p.SubscribeFeed(url)
			}
			s.World.Run(20 * time.Minute)
			began := s.Now()
			for i, p := range near[12-regional:] {
				p.seeItem(func() string { return fmt.Sprintf("Place %d, part %d", i, s.Now().Sub(began)/(30*time.Minute)) })
			}
			bars, most := uint64(0), 0
			for round := range 16 {
				p := near[round/2%6]
				if round%2 == 1 {
					bars += p.node.Owners.Stats().Barred
					p.Kill(round%4 == 1)
					s.World.Run(time.Duration(1+round%3*4) * time.Minute)
					p.Start()
				}
				s.World.Run(5 * time.Minute)
				most = max(most, problems(near, url))
				for i, p := range near {
					if sub, _ := p.node.Feeds.Subscription(s.Key(url)); sub.Problem != nil && sub.Problem.Confirmed {
						t.Fatalf("%d regional, seed %d: node %d has a confirmed problem: %+v", regional, seed, i, sub.Problem)
					}
				}
			}
			for _, p := range near {
				bars += p.node.Owners.Stats().Barred
			}
			if bars > 0 {
				t.Errorf("%d regional, seed %d: %d bars", regional, seed, bars)
			}
			t.Logf("%d regional, seed %d: at most %d of %d nodes see a problem", regional, seed, most, len(near))
		}
	}
}
