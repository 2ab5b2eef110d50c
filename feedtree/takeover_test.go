package feedtree_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/sim"
)

// A takeover is a publishedFeed whose owners are other nodes than its readers.
type takeover struct {
	*publishedFeed
	owners []*sim.Peer
	forger *testPublisher
}

func newTakeover(t *testing.T) *takeover {
	t.Helper()
	n := &takeover{publishedFeed: &publishedFeed{Swarm: swarm(16, nil), site: new(site), publisher: newPublisher(t, 1)}, forger: newPublisher(t, 77)}
	n.site.shows(n.publisher.metadata())
	n.Serve(url, n.site)
	n.publisherNode = addClient(n.Swarm)
	near := n.Nearest(n.Key(url), 16)
	n.owners, n.readers = near[:5], near[9:15]
	n.World.Run(10 * time.Second)
	for _, p := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		p.SubscribeFeed(url)
	}
	n.World.Run(30 * time.Second)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	return n
}

// forgeKey makes the sequencer append a key of the forger, with witnesses of some owners, an item of the forger,
// and a forged version of the publisher's item.
func (n *takeover) forgeKey(t *testing.T, liars int) {
	t.Helper()
	lead := leader(t, n.Swarm, url)
	owners := slices.Clone(n.owners)
	slices.SortFunc(owners, func(a, b *sim.Peer) int { // the sequencer is one of the liars
		return map[bool]int{true: -1}[a == lead] + map[bool]int{true: 1}[b == lead]
	})
	var words [][]byte
	for _, p := range owners[:liars] {
		by := wire.NewSigner(p.Key(), wire.HashOf(quickNetwork().Descriptor()))
		words = append(words, difference.Attest(by, url, n.forger.public(), n.Now()).Raw)
	}
	sub, _ := n.readers[0].Layers().Feeds.Subscription(n.Key(url))
	other, err := feed.ReadItem(feed.RSS, []byte(`<item><guid>one</guid><title>None of one</title></item>`), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := n.forger.sign(n.Swarm, 2, n.publisher.prev, newItem(t, "false"))
	second := n.forger.sign(n.Swarm, 3, first.Hash, &other)
	held := false
	lead.Do(func() {
		lead.Layers().Feeds.Append(n.Key(url), difference.Delta{
			Pin:     sub.Publisher.Rotate(n.forger.public(), feed.Hash{}, n.Now(), words),
			Changes: []difference.Change{{Item: *first.Item, Publication: first}, {Item: *second.Item, Publication: second, Edited: true}},
		}, nil, func(ok bool) { held = ok })
	})
	n.World.Run(2 * time.Second)
	if !held {
		t.Fatal("the forged entry was not committed")
	}
}

// checkForged checks that readers report a problem, show the publisher's items as the publisher's, and the forged
// ones as unconfirmed.
func (n *takeover) checkForged(t *testing.T) {
	t.Helper()
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "false", "All of false, unconfirmed")
	for _, r := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		if sub, _ := r.Layers().Feeds.Subscription(n.Key(url)); sub.Doubt == nil || !bytes.Equal(sub.Publisher.Key, n.publisher.public()) || len(sub.Publisher.Former) > 0 {
			t.Errorf("host %d trusts %+v and doubts %+v", r.Index(), sub.Publisher, sub.Doubt)
		}
	}
}

// Owners that lie about a feed's key convince nobody, whether they are enough to witness it or all of them. Each
// reader's node checks the origin within a polling interval, and objects if it sees the publisher's key there. All
// readers hear objections, even if no owner forwards anything from then on.
func TestOwnersCannotTakeOverAFeed(t *testing.T) {
	t.Parallel()
	for _, liars := range []int{3, 5} {
		n := newTakeover(t)
		n.forgeKey(t, liars)
		n.checkForged(t)
		if liars == 5 {
			for _, p := range n.owners {
				p.DropForwards()
			}
		}
		n.World.Run(quickNetwork().PollInterval + 10*time.Second)
		n.checkForged(t)
		for _, r := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
			sub, _ := r.Layers().Feeds.Subscription(n.Key(url))
			if !bytes.Equal(sub.Seen, n.publisher.public()) {
				t.Errorf("%d liars: host %d has seen the key %x at the origin", liars, r.Index(), sub.Seen)
			}
			if sub.Objectors == 0 {
				t.Errorf("%d liars: host %d knows no objectors", liars, r.Index())
			}
		}
		// A node asks an origin that contradicts its log less and less often.
		looks := func() (looks int) {
			for _, r := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
				looks += int(r.Layers().Feeds.Stats().Sights)
			}
			return looks
		}
		before := looks()
		n.World.Run(time.Hour)
		if made := looks() - before; made > 7*8 {
			t.Errorf("7 readers made %d checks in an hour", made)
		}
		if t.Failed() {
			return
		}
	}
}

// Owners cannot name the next key, either: only a key that the trusted one has named, according to the origin or
// the first pin, is trusted without a check.
func TestOwnersCannotNameTheNextKey(t *testing.T) {
	n := newTakeover(t)
	sub, _ := n.readers[0].Layers().Feeds.Subscription(n.Key(url))
	lead := leader(t, n.Swarm, url)
	second := newPublisher(t, 2) // named by the publisher
	says := func(d difference.Delta) {
		lead.Do(func() { lead.Layers().Feeds.Append(n.Key(url), d, nil, func(bool) {}) })
		n.World.Run(2 * time.Second)
	}
	named := sub.Publisher.Rotate(second.public(), difference.KeyHash(n.forger.public()), n.Now(), nil)
	says(difference.Delta{Pin: named})
	p := n.forger.sign(n.Swarm, 2, n.publisher.prev, newItem(t, "false"))
	says(difference.Delta{Pin: named.Rotate(n.forger.public(), feed.Hash{}, n.Now(), nil), Changes: []difference.Change{{Item: *p.Item, Publication: p}}})
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "false", "All of false, unconfirmed")
	for _, r := range n.readers {
		if sub, _ := r.Layers().Feeds.Subscription(n.Key(url)); sub.Doubt == nil || !bytes.Equal(sub.Publisher.Key, second.public()) {
			t.Errorf("host %d trusts %+v", r.Index(), sub.Publisher)
		}
	}
}

// A feed that was taken over recovers. An honest sequencer that hears objections checks the origin, and withdraws
// the forger's key when a mirror of the origin could no longer be behind. A key that the publisher names in its
// place at the origin is trusted after one check by each reader's own node.
func TestAFeedThatWasTakenOverRecovers(t *testing.T) {
	t.Parallel()
	n := newTakeover(t)
	n.forgeKey(t, 3)
	leader(t, n.Swarm, url).Kill(true) // the next sequencer believes the log
	back := func() bool {
		return !slices.ContainsFunc(n.readers, func(r *sim.Peer) bool {
			sub, _ := r.Layers().Feeds.Subscription(n.Key(url))
			return sub.Doubt != nil
		})
	}
	if !n.RunUntil(back, 10*time.Second, 2*time.Hour) {
		t.Error("the log names the forger's key after two hours")
	}
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "false", "All of false, unconfirmed")

	fresh := newPublisher(t, 9)
	n.site.shows(fresh.metadata())
	p := fresh.sign(n.Swarm, 50, feed.Hash{}, newItem(t, "two"))
	_ = push(n.Swarm, n.publisherNode, p)         // refused, but it makes the sequencer fetch the document
	n.World.Run(18 * quickNetwork().PollInterval) // checks are far apart, because the owners have lied before
	for _, r := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		sub, _ := r.Layers().Feeds.Subscription(n.Key(url))
		if sub.Doubt != nil || !bytes.Equal(sub.Publisher.Key, fresh.public()) {
			t.Errorf("host %d trusts %+v", r.Index(), sub.Publisher)
		}
	}
	n.checkAll(t, "one", "All of one, revoked")
}
