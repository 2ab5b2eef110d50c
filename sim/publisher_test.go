package sim

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/script"
)

// A staticDocument never changes.
type staticDocument []byte

func (p staticDocument) At(time.Duration) script.Version { return script.Version{Body: p} }

func (p staticDocument) Next(time.Duration) (time.Duration, bool) { return 0, false }

// A publisher writes for a feed, and goes on when its last item is committed.
type publisher struct {
	t         *testing.T
	s         *Swarm
	url       string
	peer      *Peer
	key       ed25519.PrivateKey
	seq       uint64
	prev      feed.Hash
	committed []string              // GUIDs of committed items
	pushedAt  map[feed.ID]time.Time // when each was first pushed
	slowest   time.Duration         // the longest time until an item was committed
	failed    int                   // pushes that failed and were repeated
}

// write signs an item and pushes it until it is committed.
func (p *publisher) write(name string) {
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: name, Title: "All of " + name}, p.s.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	of, err := difference.Publish(p.key, p.url, p.seq+1, p.prev, p.s.Now(), &it)
	if err != nil {
		p.t.Fatal(err)
	}
	began := p.s.Now()
	p.pushedAt[it.ID] = began
	for range 20 {
		told, held := false, false
		p.peer.Do(func() {
			p.peer.node.Feeds.Publish(of.Raw, func(err error) { told, held = true, err == nil })
		})
		p.s.RunUntil(func() bool { return told }, 50*time.Millisecond, 2*time.Minute)
		if held {
			p.seq, p.prev = of.Seq, of.Hash
			p.committed = append(p.committed, name)
			p.slowest = max(p.slowest, p.s.Now().Sub(began))
			return
		}
		p.failed++
	}
	p.t.Errorf("%s was never committed", name)
}

// TestPublishingOutlivesOwners has a publisher push an item every half minute while the feed's
// sequencer and other owners are killed again and again, in a network with loss. Every reader gets
// each committed item once, as the publisher's, in the publisher's order.
func TestPublishingOutlivesOwners(t *testing.T) {
	seeds(t, 1, 3, publishingOutlivesOwners)
}

func publishingOutlivesOwners(t *testing.T, seed uint64) {
	const members, items, url = 24, 40, "http://feed.example/"
	s := feedSwarm(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.01}})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(seed)}, ed25519.SeedSize))
	said := feed.Publisher{Key: key.Public().(ed25519.PublicKey), Beat: time.Hour}
	s.Serve(url, staticDocument(`<rss version="2.0"><channel>`+said.Metadata(feed.RSS)+`<title>A feed</title><link>http://feed.example/</link><description/></channel></rss>`))
	p := &publisher{t: t, s: s, url: url, key: key, pushedAt: map[feed.ID]time.Time{}}
	owners := map[*Peer]bool{}
	n := 0
	for o := range s.nearest(s.Key(url)) { // future owners are killed, and read nothing
		if n++; n <= 6 {
			owners[o] = true
		}
	}
	var readers []*Peer
	for _, m := range s.Peers() {
		if !owners[m] && p.peer == nil {
			p.peer = m
			m.SubscribeFeed(url)
		} else if !owners[m] && len(readers) < 8 {
			readers = append(readers, m)
			m.SubscribeFeed(url)
		}
	}
	s.World.Run(time.Minute)
	rng := rand.New(rand.NewPCG(seed, 9))
	killed := 0
	for i := range items {
		var leads *Peer
		for _, m := range s.Peers() {
			if m.Up() {
				if v, ok := m.node.Owners.View(s.Key(url)); ok && v.Leads {
					leads = m
				}
			}
		}
		if leads != nil && owners[leads] && i%4 == 1 {
			killed++
			after := time.Duration(rng.IntN(400)) * time.Millisecond // before, while, or after the item is committed
			s.After(after, func() {
				if leads.Up() {
					leads.Kill(rng.IntN(2) == 0)
					s.After(time.Duration(20+rng.IntN(60))*time.Second, leads.Start)
				}
			})
		}
		p.write(fmt.Sprintf("item-%d", i))
		s.World.Run(30 * time.Second)
	}
	s.World.Run(5 * time.Minute)
	if killed < items/10 {
		t.Errorf("the sequencer was killed %d times", killed)
	}
	for _, r := range readers {
		got := map[string]int{}
		r.Do(func() {
			r.node.Feeds.Read(s.Key(url), func(d feedtree.Document) {
				for _, e := range d.Entries {
					m, _ := e.Item.Meaning("")
					if e.Provenance == feedtree.ByPublisher {
						got[m.GUID]++
					}
				}
			})
		})
		s.World.Run(time.Second)
		for _, name := range p.committed {
			if got[name] != 1 {
				t.Errorf("host %d has %s %d times", r.Index(), name, got[name])
			}
		}
		if len(got) != items {
			t.Errorf("host %d has %d of %d items", r.Index(), len(got), items)
		}
	}
	var late time.Duration
	for _, r := range readers {
		for id, at := range r.subscriptions[url].firstShown {
			if pushed, ok := p.pushedAt[id]; ok {
				late = max(late, at.Sub(pushed))
			}
		}
	}
	for _, v := range s.Violations() {
		t.Error(v)
	}
	st := s.FeedStats()
	if st.Unlike > 0 || st.Unread > 0 {
		t.Errorf("%+v", st)
	}
	t.Logf("seed %d: %d items, sequencer killed %d times, %d pushes repeated; committed within %v, at the last reader within %v", seed, len(p.committed), killed, p.failed, p.slowest, late)
}

// TestPublishingGoesOnWithoutOwners separates a publisher and a reader from all owners of the feed.
// Members on their side become owners within a lease and some minutes, and after the partition all
// readers have the items of both sides, once.
func TestPublishingGoesOnWithoutOwners(t *testing.T) {
	t.Parallel()
	const members, url = 24, "http://feed.example/"
	s := feedSwarm(1, Config{})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(30 * time.Second)
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	said := feed.Publisher{Key: key.Public().(ed25519.PublicKey), Beat: time.Hour}
	s.Serve(url, staticDocument(`<rss version="2.0"><channel>`+said.Metadata(feed.RSS)+`<title>A feed</title><link>http://feed.example/</link><description/></channel></rss>`))
	var of []*Peer
	for p := range s.nearest(s.Key(url)) {
		of = append(of, p)
	}
	desk, readers := of[12], []*Peer{of[6], of[13], of[14]} // of[:5] own the feed
	p := &publisher{t: t, s: s, url: url, peer: desk, key: key, pushedAt: map[feed.ID]time.Time{}}
	for _, r := range append(readers, desk) {
		r.SubscribeFeed(url)
	}
	s.World.Run(2 * time.Minute)
	p.write("before")
	s.World.Run(time.Minute)
	var side []*Host
	for _, q := range of[:12] {
		side = append(side, q.Host)
	}
	s.Partition(side)
	p.write("apart")
	if limit := 13 * time.Minute; p.slowest > limit {
		t.Errorf("committed after %v, want at most %v", p.slowest, limit)
	}
	s.World.Run(time.Minute)
	s.Heal()
	s.World.Run(2 * time.Minute)
	p.write("after")
	s.World.Run(2 * time.Minute)
	for _, r := range readers {
		if got := len(r.subscriptions[url].firstShown); got != len(p.committed) || got != 3 {
			t.Errorf("host %d was shown %d of %d items", r.Index(), got, len(p.committed))
		}
	}
	for _, v := range s.Violations() {
		t.Error(v)
	}
	t.Logf("committed within %v, %d pushes repeated", p.slowest, p.failed)
}
