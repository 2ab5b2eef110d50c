package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// nearestPeers returns the peers by their distance to a feed's key, the nearest first.
func nearestPeers(s *Swarm, url string) []*Peer {
	peers := slices.Clone(s.Peers())
	slices.SortFunc(peers, func(a, b *Peer) int {
		if overlay.Nearer(s.Key(url), a.Layers().Overlay.ID(), b.Layers().Overlay.ID()) {
			return -1
		}
		return 1
	})
	return peers
}

// turnAway makes the web servers turn a peer away from now on, and counts its requests.
func (p *Peer) turnAway(a env.Answer) *int {
	asked := new(int)
	p.FilterAnswer = func(r env.Request, _ env.Answer) env.Answer {
		*asked++
		a.FinalURL, a.Private = r.URL, true
		return a
	}
	return asked
}

// Nodes that the web server turns away give their ranks to others: readers get every item, and the
// server is asked by those nodes a few times only.
func TestANodeThatIsTurnedAwayDeclines(t *testing.T) {
	t.Parallel()
	blocked := map[string]env.Answer{
		"forbidden":   {Status: 403},
		"legal":       {Status: 451},
		"challenge":   {Status: 200, ContentType: "text/html", Body: []byte("<title>Just a moment</title>Are you human?")},
		"certificate": {Err: env.ErrTLS, Message: "the certificate has expired"},
	}
	for what, answer := range blocked {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/before the first poll %v", what, early), func(t *testing.T) {
				t.Parallel()
				s := feedSwarm(1, Config{})
				s.Grow(8, 100*time.Millisecond)
				s.World.Run(20 * time.Second)
				url := s.serveFeeds(1, 3*time.Minute, 12)[0]
				near := nearestPeers(s, url)
				var asked []*int
				block := func() {
					for _, p := range near[:2] {
						asked = append(asked, p.turnAway(answer))
					}
				}
				if early {
					block()
				}
				near[7].SubscribeFeed(url) // one reader: one node polls
				s.World.Run(5 * time.Minute)
				if !early {
					block()
				}
				s.World.Run(60 * time.Minute)
				r := near[7].subscriptions[url]
				t.Logf("%d items shown, %d polls, turned away %v %v", len(r.firstShown), s.feeds.byURL[url].Polls, *asked[0], *asked[1])
				if n := len(s.document(s.feeds.byURL[url], s.Now()).Items); len(r.firstShown) < n {
					t.Errorf("the reader has %d of %d items", len(r.firstShown), n)
				}
				for _, n := range asked {
					if *n > 12 {
						t.Errorf("a node that is turned away has asked %d times in an hour", *n)
					}
				}
			})
		}
	}
}

// If the last poller dies after all others have declined, they are asked again: the sequencer polls at once, although
// its own exclusion is not over.
func TestAChannelWithoutAPollerGetsOne(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(3, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, 3*time.Minute, 500)[0]
	near := nearestPeers(s, url)
	near[0].SubscribeFeed(url)
	s.World.Run(5 * time.Minute)
	for _, p := range near[:2] {
		p.turnAway(env.Answer{Status: 403})
	}
	s.World.Run(30 * time.Minute)
	for i, p := range near {
		if st := p.Layers().Corona.Stats(); st.Declined != uint64(1-i/2) {
			t.Fatalf("node %d has declined %d times", i, st.Declined)
		}
	}
	near[2].Crash(true)
	for _, p := range near[:2] {
		p.FilterAnswer = nil
	}
	s.World.Run(15 * time.Minute)
	items := s.document(s.feeds.byURL[url], s.Now()).Items
	if _, shown := near[0].subscriptions[url].firstShown[items[0].ID]; !shown {
		t.Error("the reader lacks the latest items, a quarter of an hour after the last poller died")
	}
}

// If the web server turns everybody away, more nodes do not help: three have asked when that is
// known, and the last of them goes on asking.
func TestIfEverybodyIsTurnedAwayFewAsk(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(8, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, 3*time.Minute, 12)[0]
	reader := nearestPeers(s, url)[7]
	reader.SubscribeFeed(url)
	s.World.Run(5 * time.Minute)
	var asked []*int
	for _, p := range s.Peers() {
		asked = append(asked, p.turnAway(env.Answer{Status: 403}))
	}
	s.World.Run(2 * time.Hour)
	nodes, most, sum := 0, 0, 0
	for _, n := range asked {
		nodes, most, sum = nodes+min(*n, 1), max(most, *n), sum+*n
	}
	if nodes != 3 || sum-most > 6+2 { // owners may also have looked once for what another node had found
		t.Errorf("%d nodes have asked, %d times in all, one of them %d times; want 3, of which two give up after three times", nodes, sum, most)
	}
	for _, p := range s.Peers() {
		p.FilterAnswer = nil
	}
	s.World.Run(time.Hour)
	f := s.feeds.byURL[url]
	if n := len(s.document(f, s.Now()).Items); len(reader.subscriptions[url].firstShown) < n {
		t.Errorf("an hour after the end the reader has %d of %d items", len(reader.subscriptions[url].firstShown), n)
	}
}
