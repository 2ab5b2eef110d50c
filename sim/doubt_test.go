package sim

import (
	"testing"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner"
)

// hide makes a peer see an item of a feed that serveFeeds serves only while shows reports true.
func (p *Peer) hide(number int, shows func() bool) {
	p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
		if !shows() {
			a.Body = without(a.Body, number)
		}
		return a
	}
}

// Owners that get an item later than others, because replicas of the origin lag, find it in the log, and want no other
// sequencer.
func TestLaggingReplicasUnseatNobody(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, time.Hour, 12)[0]
	began := s.Now()
	near := nearestPeers(s, url)
	for _, p := range near {
		p.SubscribeFeed(url)
	}
	s.World.Run(20 * time.Minute)
	for _, p := range near[3:5] {
		p.hide(6, func() bool { return s.Now().Sub(began) > 110*time.Minute })
	}
	candidacies := func() (n uint64) {
		for _, p := range near {
			n += p.node.Owners.Stats().Candidacies
		}
		return n
	}
	before, leader := candidacies(), near[15].leaderOf(url)
	s.World.Run(130 * time.Minute)
	for _, p := range near {
		if n := p.node.Owners.Stats().LeftOut; n > 0 {
			t.Errorf("%d owners are left out", n)
		}
	}
	if n := candidacies() - before; n > 0 || near[15].leaderOf(url) != leader {
		t.Errorf("%d candidacies", n)
	}
}

// A sequencer that withholds an item cannot keep another owner from finding that out by asking it to look all the time,
// so that it may not fetch the document again when a third owner wants another sequencer.
func TestARequestToLookHidesNoDoubt(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, time.Hour, 12)[0]
	near := nearestPeers(s, url)
	near[15].SubscribeFeed(url) // so that one owner polls
	s.World.Run(20 * time.Minute)
	liar, looks, wants := near[0], near[3], near[4]
	if liar.ID() != near[15].leaderOf(url) {
		t.Fatal("the nearest node does not lead the feed")
	}
	for _, p := range near {
		if p != looks {
			p.hide(6, func() bool { return false })
		}
	}
	s.World.Run(time.Hour)
	key := s.Key(url)
	ask := func() {
		version := make([]byte, 64)
		version[0] = 1
		m := &feedtreepb.Message{Body: &feedtreepb.Message_SightRequest{SightRequest: &feedtreepb.SightRequest{
			Key: key[:], Items: [][]byte{version}, Look: true,
		}}}
		liar.queueFrame(looks.Peer(), env.Control, wire.AppendFrame(nil, wire.Feed, m))
	}
	before := looks.node.Feeds.Stats().Looks
	ask()
	s.World.Run(10 * time.Second)
	NewOwnerLiar(wants.Host, s.hash, func() *owner.Owners { return wants.node.Owners }, OwnerLies{Campaign: true}).Prepare()
	s.World.Run(25 * time.Second) // half an interval is over
	ask()
	s.World.Run(8 * time.Minute)
	if n := looks.node.Feeds.Stats().Looks - before; n < 2 {
		t.Fatalf("%d looks", n)
	}
	if looks.node.Owners.Stats().LeftOut == 0 {
		t.Error("the owner has not noticed that an item is withheld")
	}
}
