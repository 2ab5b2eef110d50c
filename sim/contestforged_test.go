package sim

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// forgedVersion returns the version of the forged item that a peer's log has.
func (p *Peer) forgedVersion(url string) (of difference.Version, ok bool) {
	p.Do(func() {
		log := p.node.Owners.Log(p.swarm.Key(url))
		p.node.Owners.Bodies(log, func(bodies [][]byte) {
			for _, b := range bodies {
				d, _ := difference.Decode(b)
				for _, ch := range d.Changes {
					if strings.Contains(string(ch.Item.Raw), "Forged") {
						of, ok = difference.Version{ID: ch.Item.ID, Hash: ch.Item.Hash}, true
					}
				}
			}
		})
	})
	p.swarm.World.Run(time.Second)
	return of, ok
}

// awaitForgery lets time pass until the log of a peer that leads a feed has the forged item.
func (p *Peer) awaitForgery(t *testing.T, url string) difference.Version {
	for {
		p.swarm.World.Run(time.Second)
		if item, ok := p.forgedVersion(url); ok {
			return item
		}
		if p.leaderOf(url) != p.ID() {
			t.Fatal("the liar has lost the feed before it forged an item")
		}
	}
}

// ask makes a peer ask another one for sightings.
func (p *Peer) ask(other *Peer, url string, items ...difference.Version) {
	key := p.swarm.Key(url)
	request := wire.AppendFrame(nil, wire.Feed, &feedtreepb.Message{Body: &feedtreepb.Message_SightRequest{
		SightRequest: &feedtreepb.SightRequest{Key: key[:], Items: difference.VersionBytes(items)},
	}})
	p.Do(func() { p.env().Network.Send(other.Peer(), env.Control, request) })
}

// forgeCertificate makes a peer that leads a feed append a certificate of the forged item with keys of its own, as soon as
// its log has the item.
func (p *Peer) forgeCertificate(t *testing.T, url string) {
	item := p.awaitForgery(t, url)
	var d difference.Delta
	for i := range 3 {
		signer := wire.NewSigner(ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+i)), ed25519.SeedSize))), p.swarm.hash)
		d.Sightings = append(d.Sightings, difference.See(signer, url, []difference.Version{item}, p.swarm.Now()).Raw)
	}
	p.Do(func() {
		if !p.node.Feeds.Append(p.swarm.Key(url), d, nil, func(bool) {}) {
			t.Error("the liar cannot append its certificate")
		}
	})
}

// lyingSequencer returns a world in which the nearest node to a feed leads it, and has forged an item. It signs no contest,
// and appends none.
func lyingSequencer(t *testing.T, readers int) (s *Swarm, url string, near []*Peer) {
	s = feedSwarm(uint64(readers), Config{})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url = s.serveFeeds(1, 10*time.Minute, 12)[0]
	near = nearestPeers(s, url)
	for _, p := range near[16-readers:] {
		p.SubscribeFeed(url)
	}
	s.World.Run(20 * time.Minute)
	if near[0].ID() != near[15].leaderOf(url) {
		t.Fatal("the nearest node does not lead the feed")
	}
	near[0].suppressContests()
	s.World.Run(time.Minute)
	if near[0].ID() != near[15].leaderOf(url) {
		t.Fatal("the liar leads the feed no longer")
	}
	near[0].forgeItem()
	return s, url, near
}

// The certificate that a lying sequencer has signed with keys of its own does not keep the next one, which is honest, from
// appending the contest, although it is old by then. No other node is barred.
func TestAForgedCertificateHidesNoContest(t *testing.T) {
	t.Parallel()
	s, url, near := lyingSequencer(t, 1)
	near[0].forgeCertificate(t, url)
	s.World.Run(90 * time.Minute)
	if got := near[15].forgedAt(url); got != feedtree.Contested {
		t.Errorf("the forged item is %q", got)
	}
	if near[15].leaderOf(url) == near[0].ID() {
		t.Error("the liar still leads the feed")
	}
	for _, p := range near[1:] {
		if n := p.node.Owners.Stats().Barred; n > 1 {
			t.Errorf("%d bars", n)
		}
	}
}

// A sequencer cannot keep the owners from looking for an item that it has forged by asking them about other versions of it,
// or about more items than they look for at a time.
func TestRequestsHideNoContest(t *testing.T) {
	t.Parallel()
	for what, items := range map[string]func(forged difference.Version, round byte) []difference.Version{
		"other versions": func(forged difference.Version, round byte) []difference.Version {
			forged.Hash[0] += 1 + round
			return []difference.Version{forged}
		},
		"many items": func(_ difference.Version, round byte) (of []difference.Version) {
			for i := range difference.MaxSeen {
				of = append(of, difference.Version{ID: feed.ID{byte(i), round}})
			}
			return of
		},
	} {
		s, url, near := lyingSequencer(t, 1)
		forged := near[0].awaitForgery(t, url)
		deaf := near[0].filterOutgoing
		for round := range byte(180) {
			near[0].filterOutgoing = nil
			for _, owner := range near[1:6] {
				near[0].ask(owner, url, items(forged, round%8)...)
			}
			near[0].filterOutgoing = deaf
			s.World.Run(30 * time.Second)
		}
		if got := near[15].forgedAt(url); got != feedtree.Contested {
			t.Errorf("%s: the forged item is %q", what, got)
		}
		if near[15].leaderOf(url) == near[0].ID() {
			t.Errorf("%s: the liar still leads the feed", what)
		}
	}
}

// A sequencer that repeats a request gets an answer to each, and makes the owner do nothing else.
func TestRepeatedRequestsCostOneAnswerEach(t *testing.T) {
	t.Parallel()
	s, url, near := lyingSequencer(t, 16)
	liar, victim := near[0], near[1]
	for victim.node.Feeds.Stats().Missed == 0 {
		s.World.Run(time.Second)
		if victim.leaderOf(url) != liar.ID() {
			t.Fatal("the liar has lost the feed before an owner looked for its item")
		}
	}
	item, ok := liar.forgedVersion(url)
	if !ok {
		t.Fatal("the liar's log has no forged item")
	}
	answers, others := 0, 0
	victim.filterOutgoing = func(to env.Peer, frame []byte) []byte {
		if aboutSightings(frame) && to.ID == liar.ID() {
			answers++
		} else if aboutSightings(frame) {
			others++
		}
		return frame
	}
	liar.filterOutgoing = nil
	before := victim.node.Feeds.Stats().Missed
	const requests, most = 1000, 20 // most is more than the owner tells the others after two polls
	for range requests {
		liar.ask(victim, url, item)
		s.World.Run(10 * time.Millisecond)
	}
	if signed := victim.node.Feeds.Stats().Missed - before; signed > 2 || others > most {
		t.Errorf("%d requests: %d signatures, %d messages to other owners", requests, signed, others)
	}
	if answers < requests*9/10 || answers > requests+most {
		t.Errorf("%d requests: %d answers", requests, answers)
	}
}
