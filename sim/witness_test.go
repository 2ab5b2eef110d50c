package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// provenances returns what vouches for each item that a reader of a feed sees, by the item's bytes.
func (p *Peer) provenances(url string) map[string]string {
	of := map[string]string{}
	p.node.Feeds.Read(p.swarm.Key(url), func(d feedtree.Document) {
		for _, e := range d.Entries {
			of[string(e.Item.Raw)] = e.Provenance
		}
	})
	p.swarm.World.Run(time.Second) // the log is read meanwhile
	return of
}

// Items of polled feeds are seen by most owners, however few nodes poll the feed.
func TestItemsAreWitnessed(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 2, 12} {
		s := feedSwarm(uint64(readers), Config{})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 10*time.Minute, 12)[0]
		near := nearestPeers(s, url)
		for _, p := range near[16-readers:] {
			p.SubscribeFeed(url)
		}
		s.World.Run(time.Hour)
		looks := uint64(0)
		for _, p := range s.Peers() {
			looks += p.node.Feeds.Stats().Looks
		}
		f := s.feeds.byURL[url]
		items := near[15].provenances(url)
		s.World.Run(3 * time.Minute) // the newest one may just have come
		t.Logf("%d readers: %d items, %d polls, %d looks", readers, len(items), f.Polls, looks)
		for _, p := range near[16-readers:] {
			for raw, of := range p.provenances(url) {
				if !strings.HasPrefix(of, "witnessed ") && items[raw] != "" {
					t.Errorf("%d readers: %s: %s", readers, of, raw)
				}
			}
		}
		if len(items) < 5 {
			t.Errorf("%d readers: %d items", readers, len(items))
		}
		if bare, others := near[15].certificates(t, url); bare == 0 || others < bare {
			t.Errorf("%d readers: %d sightings are signed with the entry, %d by themselves", readers, bare, others)
		}
		s.CheckQuiet()
		report(t, s)
	}
}

// certificates counts the sightings in a peer's log: those that the signer of the entry has not signed by themselves, and all
// others. It expects the signer's own ones among the former, and nobody else's.
func (p *Peer) certificates(t *testing.T, url string) (bare, others int) {
	verify := wire.NewVerifier(p.swarm.hash)
	p.Do(func() {
		log := p.node.Owners.Log(p.swarm.Key(url))
		p.node.Owners.Bodies(log, func(bodies [][]byte) {
			for i, b := range bodies {
				d, _ := difference.Decode(b)
				signer, err := wire.PublicKeyOf(log[i].Signer)
				if err != nil {
					t.Error(err)
				}
				for _, raw := range d.Sightings {
					alone, err := difference.OpenSighting(verify, raw)
					if err == nil && !alone.Owner.Equal(signer) {
						others++
					} else if _, failed := difference.OpenBare(signer, raw); failed == nil {
						bare++
					} else {
						t.Errorf("a sighting is neither bare nor another owner's: %v, %v", err, failed)
					}
				}
			}
		})
	})
	p.swarm.World.Run(time.Second)
	return bare, others
}

// An item that only one node has found stays single, whichever node that is.
func TestAForgedItemIsNotWitnessed(t *testing.T) {
	t.Parallel()
	for liar := range 3 {
		s := feedSwarm(1, Config{})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 10*time.Minute, 12)[0]
		near := nearestPeers(s, url)
		for _, p := range near[4:] {
			p.SubscribeFeed(url)
		}
		s.World.Run(5 * time.Minute)
		near[liar].FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
			a.Body = bytes.Replace(a.Body, []byte("<item>"), []byte("<item><title>Forged</title><guid>forged</guid></item><item>"), 1)
			return a
		}
		s.World.Run(time.Hour)
		forged, witnessed := "", 0
		for raw, of := range near[15].provenances(url) {
			if strings.Contains(raw, "Forged") {
				forged = of
			} else if strings.HasPrefix(of, "witnessed ") {
				witnessed++
			}
		}
		if forged != feedtree.Contested || witnessed < 5 {
			t.Errorf("liar %d: the forged item is %q, %d others are witnessed", liar, forged, witnessed)
		}
	}
}
