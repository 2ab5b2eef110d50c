package feedtree_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/longtest"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
	"tidings/overlay/scribe"
	"tidings/sim"
)

// The sentences in quotation marks are from FeedTree (IPTPS 2005), §4 and 5.

const url = "http://feed.example/"

// quickNetwork returns parameters of a network whose feeds are polled every minute.
func quickNetwork() wire.Network {
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.MaintenanceInterval = time.Minute, 2*time.Minute
	return network
}

// swarm returns a network of some members, after its start.
func swarm(members int, tune func(*node.Config)) *sim.Swarm {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 4, Topology: sim.Uniform(10 * time.Millisecond)}, Network: quickNetwork(), Tune: tune})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	return s
}

// addClient adds a host that cannot be dialled. It owns and polls nothing.
func addClient(s *sim.Swarm) *sim.Peer {
	c := s.Add(false, s.Peers()[0])
	c.Start()
	return c
}

// leader returns the member that leads a feed.
func leader(t *testing.T, s *sim.Swarm, url string) *sim.Peer {
	t.Helper()
	for _, p := range s.Peers() {
		if p.Up() {
			if v, ok := p.Layers().Owners.View(s.Key(url)); ok && v.Leads {
				return p
			}
		}
	}
	t.Fatal("no member leads the feed")
	return nil
}

// checkSwarm fails the test if a checker found something, if the items of a log differ from its sequencer's, or if
// an entry could not be read.
func checkSwarm(t *testing.T, s *sim.Swarm) {
	t.Helper()
	s.CheckReaders()
	for i, v := range s.Violations() {
		if i < 10 {
			t.Error(v)
		}
	}
	if st := s.FeedStats(); st.Unlike > 0 || st.Unread > 0 {
		t.Errorf("%+v", st)
	}
}

func hosts(of ...*sim.Peer) (hosts []*sim.Host) {
	for _, p := range of {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// "Peers receiving the message verify its signature": an entry that was changed on its way, or signed by another
// node, is rejected.
func TestPeersReceivingTheMessageVerifyItsSignature(t *testing.T) {
	s := swarm(5, nil)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Limit: 3}))
	reader := addClient(s)
	s.World.Run(10 * time.Second)
	reader.SubscribeFeed(url)
	s.World.Run(6 * time.Minute)
	key := s.Key(url)
	log := reader.Layers().Owners.Log(key)
	last := log[len(log)-1]
	var st ownerpb.EntryStatement
	hash := wire.HashOf(quickNetwork().Descriptor())
	signed, err := wire.NewVerifier(hash).Open(wire.DomainEntry, last.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(signed.Payload, &st); err != nil {
		t.Fatal(err)
	}
	st.Prev, st.Position.Seq = last.Hash[:], last.At.Seq+1
	payload := wire.Encode(&st)
	lead := leader(t, s, url)
	var other *sim.Peer
	for _, p := range s.Peers() {
		if p != lead {
			other = p
		}
	}
	whole := wire.NewSigner(lead.Key(), hash).Sign(wire.DomainEntry, payload).Raw
	tampered := append([]byte(nil), whole...)
	tampered[len(tampered)/2] ^= 1
	for what, raw := range map[string][]byte{
		"changed on its way":          tampered,
		"signed by another":           wire.NewSigner(other.Key(), hash).Sign(wire.DomainEntry, payload).Raw,
		"signed in another network":   wire.NewSigner(lead.Key(), wire.HashOf([]byte("other"))).Sign(wire.DomainEntry, payload).Raw,
		"signed as something else":    wire.NewSigner(lead.Key(), hash).Sign(wire.DomainHeartbeat, payload).Raw,
		"with a body that is not its": whole,
	} {
		before := reader.Layers().Feeds.Stats()
		news := wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Update{Update: &feedtreepb.Update{Entry: raw, Body: []byte("nonsense")}}})
		reader.Do(func() { reader.Layers().Feeds.Deliver(scribe.Delivery{Group: key, Payload: news}) })
		after := reader.Layers().Feeds.Stats()
		if now := reader.Layers().Owners.Log(key); now[len(now)-1].Hash != last.Hash || after.Garbage != before.Garbage+1 || after.Shown != before.Shown {
			t.Errorf("an entry %s: %+v", what, after)
		}
	}
	s.World.Run(5 * time.Minute)
	checkSwarm(t, s)
}

// "the client will detect a gap in the sequence numbers": a client that was disconnected for a while notices by the
// next entry that others are missing, and pulls them.
func TestAClientDetectsAGapInTheSequenceNumbers(t *testing.T) {
	s := swarm(5, func(c *node.Config) { c.Feeds.DigestInterval = 24 * time.Hour }) // digests must not reveal the gap
	reader := addClient(s)
	s.World.Run(10 * time.Second)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: 30 * time.Second}))
	reader.SubscribeFeed(url)
	s.Peers()[2].SubscribeFeed(url)
	s.World.Run(5 * time.Minute)
	before := reader.Layers().Feeds.Stats()
	s.Partition(hosts(reader))
	s.World.Run(5 * time.Minute) // so that scribe no longer repeats what was sent, nor keeps it for new children
	s.Heal()
	s.World.Run(5 * time.Minute)
	after := reader.Layers().Feeds.Stats()
	if after.Gaps == before.Gaps || after.Filled == before.Filled || after.Fetches > 0 || after.Overdue > 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	s.World.Run(time.Second)
	log, lead := reader.Layers().Owners.Log(s.Key(url)), leader(t, s, url).Layers().Owners.Log(s.Key(url))
	if len(log) != len(lead) || log[len(log)-1].Hash != lead[len(lead)-1].Hash {
		t.Errorf("the reader has %d entries of %d", len(log), len(lead))
	}
}

// "or an overdue heartbeat": a client that is disconnected while the feed is silent notices that, too. "As a
// fallback, missing items may be recovered by retrieving the conventional RSS feed by HTTP": only if nobody has
// answered for a polling interval, and not all clients at the same time.
func TestAsAFallbackItemsAreRetrievedByHTTP(t *testing.T) {
	t.Parallel()
	const readers = 12
	s := swarm(5, func(c *node.Config) {
		c.Feeds.BeatInterval = 10 * time.Minute
		c.Feeds.PollInterval = 10 * time.Minute
		c.Feeds.DigestInterval = time.Minute // as with polls every half hour, because it determines what is overdue
	})
	f := s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: time.Hour, Limit: 1}))
	var cut []*sim.Peer
	for range readers {
		cut = append(cut, addClient(s))
	}
	s.World.Run(20 * time.Second)
	for _, p := range append(cut, s.Peers()[0]) {
		p.SubscribeFeed(url)
	}
	s.World.Run(45 * time.Minute)
	var overdue, fetches uint64
	for _, p := range cut {
		overdue += p.Layers().Feeds.Stats().Overdue
		fetches += p.Layers().Feeds.Stats().Fetches
	}
	if overdue+fetches > 0 {
		t.Errorf("%d heartbeats overdue, %d fetches without a fault", overdue, fetches)
	}

	s.Partition(hosts(cut...)) // they reach one another, but no owner of the feed
	s.Peers()[0].Kill(false)
	began, polls := s.Now(), f.Polls
	var first time.Duration
	most := uint64(0)
	asked := func(p *sim.Peer) uint64 {
		return p.Layers().Feeds.Stats().Fetches + p.Layers().Corona.Stats().Lone
	}
	for range 60 * 4 {
		before := fetches
		fetches, overdue = 0, 0
		s.World.Run(15 * time.Second)
		for _, p := range cut {
			overdue += p.Layers().Feeds.Stats().Overdue
			fetches += asked(p)
		}
		if fetches > 0 && first == 0 {
			first = s.Now().Sub(began)
		}
		most = max(most, fetches-before)
	}
	t.Logf("first fetch after %v, %d of %d, at most %d in 15 s, %d overdue, %d polls", first, fetches, readers, most, overdue, f.Polls-polls)
	if overdue < readers || fetches < readers {
		t.Errorf("%d heartbeats were overdue, %d fetched", overdue, fetches)
	}
	if first < 9*time.Minute || most > readers/2 {
		t.Errorf("the first fetch came after %v; %d in 15 s", first, most)
	}
	s.Heal()
	s.Peers()[0].Start()
	s.World.Run(45 * time.Minute)
	checkSwarm(t, s)
}

// Invented entries make nobody ask the origin, because the owners answer that they do not have them.
func TestInventedEntriesDoNotCauseFetches(t *testing.T) {
	in := newIntruder(t)
	s := choices(nil)
	for range 3 {
		for i := range intrudedFeeds {
			key := in.Key(in.feeds[i])
			log := in.target.Layers().Owners.Log(key)
			if len(log) == 0 {
				continue
			}
			e := log[len(log)-1]
			in.publish(key, &feedtreepb.News{News: &feedtreepb.News_Update{Update: &feedtreepb.Update{
				Entry: in.signer.Sign(wire.DomainEntry, wire.Encode(&ownerpb.EntryStatement{
					Key: key[:], Prev: e.Hash[:], TimeMs: s.number(), Body: make([]byte, 32), Set: make([]byte, 32), Size: 1,
					Position: &ownerpb.Position{Branch: e.At.Branch, Epoch: e.At.Epoch + 1, Seq: e.At.Seq + 1},
				})).Raw,
			}}})
		}
		in.World.Run(time.Minute)
	}
	in.checkAfter()
	if st := in.target.Layers().Feeds.Stats(); st.Gaps == 0 {
		t.Error("no repair was started")
	}
}

// "Clients coming online should catch up."
func TestClientsComingOnlineShouldCatchUp(t *testing.T) {
	s := swarm(6, nil)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: 4 * time.Minute, Window: 5})) // the document no longer shows the older items
	c := addClient(s)
	s.World.Run(10 * time.Second)
	var member *sim.Peer
	for _, p := range append(s.Peers()[1:], c) {
		p.SubscribeFeed(url)
	}
	s.World.Run(10 * time.Minute)
	lead := leader(t, s, url)
	for _, p := range s.Peers()[1:] {
		if p != lead && p != c {
			member = p
		}
	}
	member.Kill(false)
	c.Kill(true)
	s.World.Run(time.Hour)
	member.Start()
	c.Start()
	s.World.Run(time.Minute)
	have := len(lead.Layers().Owners.Log(s.Key(url)))
	for _, p := range []*sim.Peer{member, c} {
		sub, _ := p.Layers().Feeds.Subscription(s.Key(url))
		if log := p.Layers().Owners.Log(s.Key(url)); len(log) < have || sub.Items < 15 {
			t.Errorf("host %d has %d entries of %d, %d items, a minute after it came online", p.Index(), len(log), have, sub.Items)
		}
		if st := p.Layers().Feeds.Stats(); st.Fetches > 0 {
			t.Errorf("host %d asked the origin", p.Index())
		}
	}
	checkSwarm(t, s)
}

// A sequencer's clock is a day ahead, and is set back while the node restarts. Its heartbeats count again as soon
// as its log has grown.
func TestHeartbeatsAfterAClockWasSetBack(t *testing.T) {
	s := swarm(5, nil)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: 2 * time.Hour, Limit: 3}))
	reader := addClient(s)
	s.World.Run(10 * time.Second)
	reader.SubscribeFeed(url)
	s.World.Run(5 * time.Minute)
	lead := leader(t, s, url)
	epoch := func() uint32 {
		v, _ := reader.Layers().Owners.View(s.Key(url))
		return v.Epoch.Number
	}
	said := func() time.Duration {
		sub, _ := reader.Layers().Feeds.Subscription(s.Key(url))
		return sub.StateAt.Sub(s.Now())
	}
	before := epoch()
	lead.SetClock(24 * time.Hour)
	s.World.Run(100 * time.Minute) // longer than a beat interval
	if said() < 22*time.Hour {
		t.Fatalf("the last heartbeat is from %v", said())
	}
	lead.Kill(true)
	lead.SetClock(0)
	lead.Start()
	s.World.Run(90 * time.Minute) // an item, and a beat interval
	if epoch() != before {
		t.Fatal("another node leads the feed")
	}
	if said() > 0 || said() < -time.Hour {
		t.Errorf("the last heartbeat is from %v", said())
	}
	checkSwarm(t, s)
}

// A late joiner gets a snapshot of the window, with the set of items that the sequencer signed.
func TestALateJoinerGetsASnapshot(t *testing.T) {
	s := swarm(5, nil)
	f := s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: time.Minute, Window: 5}))
	s.Peers()[1].SubscribeFeed(url)
	s.World.Run(40 * time.Minute)
	late := addClient(s)
	s.World.Run(10 * time.Second)
	polls := f.Polls
	late.SubscribeFeed(url)
	s.World.Run(10 * time.Second)
	if sub, _ := late.Layers().Feeds.Subscription(s.Key(url)); sub.Items < 35 || f.Polls > polls+1 {
		t.Errorf("ten seconds after it joined it shows %d items; the origin was polled %d times", sub.Items, f.Polls-polls)
	}
	checkSwarm(t, s)
}

// A burstFeed is a feed that gains many items of a given size at once.
type burstFeed struct {
	few, many int
	size      int // of each item, in bytes that cannot be compressed
	at        time.Duration
}

func (p burstFeed) At(t time.Duration) script.Version {
	v := script.Version{ContentType: "application/rss+xml"}
	n := p.few
	if t >= p.at {
		n, v.Index, v.Since = p.few+p.many, 1, p.at
	}
	b := &strings.Builder{}
	b.WriteString(`<rss version="2.0"><channel><title>A pile</title>`)
	for i := range n {
		rng := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
		noise := make([]byte, p.size*3/4)
		_, _ = rng.Read(noise)
		fmt.Fprintf(b, `<item><guid isPermaLink="false">%d</guid><title>No. %d</title><description>%s</description></item>`, i, i, base64.StdEncoding.EncodeToString(noise))
	}
	b.WriteString(`</channel></rss>`)
	v.Body = []byte(b.String())
	return v
}

func (p burstFeed) Next(t time.Duration) (time.Duration, bool) { return p.at, t < p.at }

// Large bursts arrive: bodies too large for the tree, change reports too large for one entry, a hundred items at
// once.
func TestLargeBodiesAndManyItemsArrive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		pile    burstFeed
		entries int // smallest number of entries for the burst
	}{
		{"an item of 60 KiB", burstFeed{1, 1, 60 << 10, 4 * time.Minute}, 1},
		{"an item of 200 KiB", burstFeed{1, 1, 200 << 10, 4 * time.Minute}, 1},
		{"700 KiB at once", burstFeed{1, 10, 70 << 10, 4 * time.Minute}, 3},
		{"a hundred items", burstFeed{1, 100, 300, 4 * time.Minute}, 1},
		{"a thousand items", burstFeed{0, 1000, 300, 4 * time.Minute}, 2},
	} {
		s := swarm(6, nil)
		s.SetNetworkFaults(sim.NetworkFaults{Loss: 0.01})
		s.Serve(url, c.pile)
		readers := []*sim.Peer{addClient(s), s.Peers()[1], s.Peers()[2], s.Peers()[3]}
		s.World.Run(10 * time.Second)
		for _, p := range readers {
			p.SubscribeFeed(url)
		}
		s.World.Run(10 * time.Minute)
		for _, p := range readers {
			st, log := p.Layers().Feeds.Stats(), p.Layers().Owners.Log(s.Key(url))
			if want := c.pile.few + c.pile.many; st.Shown != uint64(want) || len(log) < c.entries || st.Fetches > 0 {
				t.Errorf("%s: host %d was shown %d of %d, in %d entries: %+v", c.what, p.Index(), st.Shown, want, len(log), st)
			}
		}
		checkSwarm(t, s)
		if t.Failed() {
			t.Fatal(c.what)
		}
	}
}

// All copies of a log drop the same old items, but never what the document still shows. After eleven days of a busy
// feed whose document reaches back ten days, longer than a log, all readers have the sequencer's set of items, and
// no item was shown twice. The sequencer fails in the middle and at the end.
func TestAllNodesPruneTheSameOldItems(t *testing.T) {
	t.Parallel()
	network := wire.DefaultNetwork("sim")
	network.PollInterval = longtest.Pick(3*time.Hour, network.PollInterval) // polls take most of the test's time
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 4, Topology: sim.Uniform(10 * time.Millisecond)}, Network: network})
	s.Grow(longtest.Pick(3, 5), 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: longtest.Pick(16*time.Minute, 40*time.Minute), Window: 350, Limit: 390}))
	for _, p := range s.Peers()[:3] {
		p.SubscribeFeed(url)
	}
	half := longtest.Pick(2*24*time.Hour, 5*24*time.Hour)
	s.World.Run(half)
	lead := leader(t, s, url)
	lead.Kill(false)
	s.World.Run(time.Hour)
	lead.Start()
	s.World.Run(half)
	late := addClient(s)
	s.World.Run(10 * time.Second)
	late.SubscribeFeed(url)
	s.World.Run(40 * time.Minute)
	leader(t, s, url).Kill(true)
	s.World.Run(longtest.Pick(12*time.Hour, 24*time.Hour))
	checkSwarm(t, s)
	for _, p := range append(s.Peers()[:3], late) {
		if !p.Up() {
			continue
		}
		if sub, _ := p.Layers().Feeds.Subscription(s.Key(url)); sub.Items < 350 || sub.Items > 500 {
			t.Errorf("host %d shows %d items", p.Index(), sub.Items)
		}
	}
}

// The weights of all readers of a feed reach its poller, which reports the sum to the origin.
func TestTheOriginLearnsTheNumberOfReaders(t *testing.T) {
	told := 0
	sc := script.NewLively(script.Config{Seed: 1, Limit: 1})
	s := sim.NewSwarm(sim.SwarmConfig{Network: quickNetwork(), World: sim.Config{Seed: 4, Topology: sim.Uniform(10 * time.Millisecond), Origin: func(_ time.Time, r env.Request) env.Answer {
		told = r.Subscribers
		v := sc.At(time.Hour)
		return env.Answer{Status: 200, FinalURL: r.URL, Private: true, ContentType: v.ContentType, Body: v.Body}
	}}})
	s.Grow(6, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	subscribe := func(p *sim.Peer, weight int) {
		p.Do(func() {
			p.Layers().Feeds.Subscribe(url, weight, nil, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	for i, p := range s.Peers()[:4] {
		subscribe(p, 1+i) // in total 10
	}
	s.World.Run(10 * time.Minute)
	if told != 10 {
		t.Errorf("the origin is told of %d readers, not 10", told)
	}
	subscribe(s.Peers()[0], 20)
	s.Peers()[3].Do(func() { s.Peers()[3].Layers().Feeds.Unsubscribe(url, func(error) {}) })
	s.World.Run(10 * time.Minute)
	if told != 25 {
		t.Errorf("the origin is told of %d readers, not 25", told)
	}
}

// After two leases without a reader the origin is no longer polled, and after a day the log is gone.
func TestAFeedWithoutReadersIsNotPolled(t *testing.T) {
	t.Parallel()
	s := swarm(5, nil)
	f := s.Serve(url, script.NewLively(script.Config{Seed: 1, Every: 10 * time.Minute}))
	readers := s.Peers()[1:3]
	for _, p := range readers {
		p.SubscribeFeed(url)
	}
	s.World.Run(20 * time.Minute)
	for _, p := range readers {
		p.Do(func() {
			p.Layers().Feeds.Unsubscribe(url, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	s.World.Run(7 * time.Minute) // two leases of two minutes, and the time that the weight takes to the root
	polls := f.Polls
	s.World.Run(6 * time.Hour)
	if f.Polls > polls {
		t.Errorf("polled %d times without readers", f.Polls-polls)
	}
	s.World.Run(20 * time.Hour)
	for _, p := range s.Peers() {
		if v, ok := p.Layers().Owners.View(s.Key(url)); ok {
			t.Errorf("host %d keeps its log after a day: %+v", p.Index(), v)
		}
	}

	// A new reader starts a new log.
	polls = f.Polls
	s.Peers()[3].Do(func() { s.Peers()[3].Layers().Feeds.Subscribe(url, 1, nil, func(error) {}) })
	s.World.Run(3 * time.Minute)
	if sub, _ := s.Peers()[3].Layers().Feeds.Subscription(s.Key(url)); f.Polls == polls || sub.Items < 10 {
		t.Errorf("a new reader sees %d items after %d polls", sub.Items, f.Polls-polls)
	}
}
