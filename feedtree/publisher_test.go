package feedtree_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay/scribe"
	"tidings/sim"
)

// A site is an origin whose document the test changes.
type site struct {
	index int
	body  []byte
}

func (s *site) At(time.Duration) script.Version {
	return script.Version{Index: s.index, ContentType: "application/rss+xml", Body: s.body}
}

func (s *site) Next(time.Duration) (time.Duration, bool) { return 0, false }

// shows makes the site's document name a publisher, unless p is nil, and show items with the given names.
func (s *site) shows(p *feed.Publisher, names ...string) {
	var b strings.Builder
	b.WriteString(`<rss version="2.0"><channel>`)
	if p != nil {
		b.WriteString(p.Metadata(feed.RSS))
	}
	b.WriteString(`<title>A feed</title><link>http://feed.example/</link><description/>`)
	for _, name := range names {
		guid, _, _ := strings.Cut(name, "@") // "twin@1" has the guid "twin"
		b.WriteString(`<item><guid>` + guid + `</guid><title>Headline of ` + name + `</title></item>`)
	}
	b.WriteString(`</channel></rss>`)
	s.index, s.body = s.index+1, []byte(b.String())
}

// A testPublisher signs the items of a feed.
type testPublisher struct {
	t    testing.TB
	key  ed25519.PrivateKey
	next ed25519.PrivateKey
	seq  uint64
	prev feed.Hash
}

func newPublisher(t testing.TB, n byte) *testPublisher {
	seed := func(n byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	}
	return &testPublisher{t: t, key: seed(n), next: seed(n + 1)}
}

func (a *testPublisher) public() ed25519.PublicKey { return a.key.Public().(ed25519.PublicKey) }

func (a *testPublisher) metadata() *feed.Publisher {
	return &feed.Publisher{Key: a.public(), Next: difference.KeyHash(a.next.Public().(ed25519.PublicKey)), Beat: 10 * time.Minute}
}

func newItem(t testing.TB, name string) *feed.Item {
	it, err := feed.ReadItem(feed.RSS, []byte(`<item><guid>`+name+`</guid><title>All of `+name+`</title></item>`), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &it
}

// write signs the next item.
func (a *testPublisher) write(s *sim.Swarm, name string) *difference.Publication {
	p := a.sign(s, a.seq+1, a.prev, newItem(a.t, name))
	a.seq, a.prev = p.Seq, p.Hash
	return p
}

func (a *testPublisher) sign(s *sim.Swarm, seq uint64, prev feed.Hash, it *feed.Item) *difference.Publication {
	p, err := difference.Publish(a.key, url, seq, prev, s.Now(), it)
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// push publishes a publication through a peer's node and returns the result.
func push(s *sim.Swarm, by *sim.Peer, p *difference.Publication) (err error) {
	told := false
	by.Do(func() { by.Layers().Feeds.Publish(p.Raw, func(e error) { told, err = true, e }) })
	if !s.RunUntil(func() bool { return told }, 10*time.Millisecond, 2*time.Minute) {
		return errors.New("no answer")
	}
	return err
}

// seen returns a reader's view of a feed: title and provenance of each item by guid. What owners have witnessed counts
// as single here, because that depends on when they have polled.
func seen(s *sim.Swarm, p *sim.Peer) map[string]string {
	got := map[string]string{}
	done := false
	p.Do(func() {
		p.Layers().Feeds.Read(s.Key(url), func(d feedtree.Document) {
			for _, e := range d.Entries {
				m, _ := e.Item.Meaning("")
				by := e.Provenance
				if strings.HasPrefix(by, feedtree.Witnessed) {
					by = feedtree.Single
				}
				got[m.GUID] = m.Title + ", " + by
			}
			done = true
		})
	})
	s.RunUntil(func() bool { return done }, 10*time.Millisecond, time.Second)
	return got
}

// A publishedFeed is a network with a feed, its publisher's node and two readers.
type publishedFeed struct {
	*sim.Swarm
	site          *site
	publisher     *testPublisher
	publisherNode *sim.Peer
	readers       []*sim.Peer
}

func newPublishedFeed(t *testing.T, items ...string) *publishedFeed {
	t.Helper()
	return newPublishedFeedWith(t, 7, items...)
}

func newPublishedFeedWith(t *testing.T, members int, items ...string) *publishedFeed {
	t.Helper()
	n := &publishedFeed{Swarm: swarm(members, nil), site: new(site), publisher: newPublisher(t, 1)}
	n.site.shows(n.publisher.metadata(), items...)
	n.Serve(url, n.site)
	n.publisherNode, n.readers = addClient(n.Swarm), n.Peers()[5:7]
	n.World.Run(10 * time.Second)
	for _, p := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		p.SubscribeFeed(url)
	}
	n.World.Run(30 * time.Second)
	return n
}

// checkAll checks every reader's view of an item.
func (n *publishedFeed) checkAll(t *testing.T, name, want string) {
	t.Helper()
	for _, p := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		if !p.Up() {
			continue
		}
		if got := seen(n.Swarm, p)[name]; got != want {
			t.Errorf("host %d shows for %s %q, want %q", p.Index(), name, got, want)
		}
	}
}

// "interested parties receive these information bursts immediately, without polling the source": a publication is
// visible to readers within two seconds, as the publisher's.
func TestInterestedPartiesReceiveInformationImmediately(t *testing.T) {
	n := newPublishedFeed(t, "old")
	began, polls := n.Now(), n.FeedStats().Polls
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "new")); err != nil {
		t.Fatal(err)
	}
	there := func() bool {
		for _, p := range n.readers {
			if seen(n.Swarm, p)["new"] == "" {
				return false
			}
		}
		return true
	}
	if !n.RunUntil(there, 10*time.Millisecond, 2*time.Second-n.Now().Sub(began)) {
		t.Fatalf("not visible after %v", n.Now().Sub(began))
	}
	t.Logf("at all readers after %v", n.Now().Sub(began))
	if now := n.FeedStats().Polls; now != polls {
		t.Errorf("%d polls were made", now-polls)
	}
	n.checkAll(t, "new", "All of new, publisher")
	n.checkAll(t, "old", "Headline of old, single")
	checkSwarm(t, n.Swarm)
}

// "publishing simple (low-bandwidth) headlines in a conventional RSS feed, while delivering full HTML stories in
// FeedTree": readers have the story, whichever comes first.
func TestFullStoriesWinOverHeadlines(t *testing.T) {
	n := newPublishedFeed(t, "first")
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "first")); err != nil {
		t.Fatal(err)
	}
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "second")); err != nil {
		t.Fatal(err)
	}
	n.site.shows(n.publisher.metadata(), "second", "first")
	n.World.Run(5 * time.Minute)
	n.checkAll(t, "first", "All of first, publisher")
	n.checkAll(t, "second", "All of second, publisher")
	if st := n.FeedStats(); st.Unlike > 0 || st.Unread > 0 {
		t.Errorf("%+v", st)
	}
}

// Items that polls find stay out of the log while the publisher speaks. When the publisher has been silent for two of
// its beat intervals, these items are shown as unsigned.
func TestASilentPublisherIsPolledLikeAnyFeed(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.site.shows(n.publisher.metadata(), "forgotten", "one")
	n.World.Run(15 * time.Minute)
	n.checkAll(t, "forgotten", "")
	beat := n.publisher.sign(n.Swarm, n.publisher.seq, n.publisher.prev, nil)
	if err := push(n.Swarm, n.publisherNode, beat); err != nil {
		t.Fatal(err)
	}
	n.World.Run(15 * time.Minute)
	n.checkAll(t, "forgotten", "") // its heartbeat was heard
	if err := push(n.Swarm, n.publisherNode, beat); err != nil {
		t.Fatal(err) // replayed: it does not count
	}
	n.World.Run(10 * time.Minute)
	n.checkAll(t, "forgotten", "Headline of forgotten, single")
	n.checkAll(t, "one", "All of one, publisher")
}

// An item that a node fetches itself has the provenance "single", and is no second version of an item that the
// publisher has signed.
func TestFetchedItemsHaveSingleProvenance(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	n.site.shows(n.publisher.metadata(), "forgotten", "one")
	r := n.readers[0]
	r.Do(func() { r.Layers().Corona.FetchOnce(n.Key(url), url) })
	n.World.Run(time.Minute)
	var got []string
	r.Do(func() {
		r.Layers().Feeds.Read(n.Key(url), func(d feedtree.Document) {
			for _, e := range d.Entries {
				m, _ := e.Item.Meaning("")
				got = append(got, m.Title+", "+e.Provenance)
			}
		})
	})
	n.World.Run(time.Second)
	if want := []string{"Headline of forgotten, single", "All of one, publisher"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Readers get items that a publisher cannot sign by polls, even while the publisher speaks: once, and unsigned.
func TestItemsThatCannotBeSignedArePolled(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.site.shows(n.publisher.metadata(), "twin@1", "twin@2", "forgotten", "one") // two items have one guid
	n.World.Run(15 * time.Minute)
	n.checkAll(t, "twin", "Headline of twin@2, single")
	n.checkAll(t, "forgotten", "")
	if log := leader(t, n.Swarm, url).Layers().Owners.Log(n.Key(url)); len(log) > 4 { // the head, one, the twins, and their certificate
		t.Errorf("%d entries in the log", len(log))
	}
}

// A new sequencer has not heard the publisher itself, but the log tells when the publisher spoke.
func TestANewSequencerKnowsWhenThePublisherLastSpoke(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Minute)
	first := leader(t, n.Swarm, url)
	first.Kill(true)
	n.site.shows(n.publisher.metadata(), "forgotten", "one")
	n.World.Run(10 * time.Minute)
	if leader(t, n.Swarm, url) == first {
		t.Fatal("no other node leads the feed")
	}
	n.checkAll(t, "forgotten", "")
	n.World.Run(20 * time.Minute)
	n.checkAll(t, "forgotten", "Headline of forgotten, single")
}

func TestPublicationsAreRefusedWithAReason(t *testing.T) {
	n := newPublishedFeed(t)
	one := n.publisher.write(n.Swarm, "one")
	if err := push(n.Swarm, n.publisherNode, one); err != nil {
		t.Fatal(err)
	}
	two := n.publisher.write(n.Swarm, "two")
	if err := push(n.Swarm, n.publisherNode, two); err != nil {
		t.Fatal(err)
	}
	three := n.publisher.write(n.Swarm, "three") // lost on its way
	stranger := newPublisher(t, 7)
	tampered := append([]byte(nil), three.Raw...)
	tampered[len(tampered)/2] ^= 1
	for _, c := range []struct {
		name string
		p    *difference.Publication
		says string
	}{
		{"forged", stranger.sign(n.Swarm, 3, two.Hash, newItem(t, "forged")), "does not name this key"},
		{"left out", n.publisher.sign(n.Swarm, 4, three.Hash, newItem(t, "four")), "the network has number 2 and this is number 4: items are missing"},
		{"given twice", n.publisher.sign(n.Swarm, 2, one.Hash, newItem(t, "other")), "number 2 was used before"},
		{"another past", n.publisher.sign(n.Swarm, 3, one.Hash, newItem(t, "other")), "does not continue number 2"},
		{"a beat of an old record", n.publisher.sign(n.Swarm, 1, one.Hash, nil), "the network has number 2"},
		{"a beat ahead", n.publisher.sign(n.Swarm, 3, three.Hash, nil), "items are missing"},
		{"tampered", &difference.Publication{Raw: tampered}, "wrong signature"},
	} {
		err := push(n.Swarm, n.publisherNode, c.p)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if err := push(n.Swarm, n.publisherNode, one); err != nil {
		t.Errorf("replayed: %v", err) // it is in the log already: nothing changes
	}
	// Publications that were changed or cut off on their way to the sequencer are refused, and so is an entry that
	// was changed on its way down the tree.
	lead := leader(t, n.Swarm, url)
	for _, raw := range [][]byte{tampered, three.Raw[:len(three.Raw)-9]} {
		b := wire.Encode(&feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: &feedtreepb.Push{Publication: raw}}})
		lead.Do(func() { lead.Layers().Feeds.Route(b) })
	}
	refused := lead.Layers().Feeds.Refusals()
	if len(refused) != 8 || refused[0].URL != url || refused[0].Why == "" {
		t.Errorf("%d refusals are kept: %+v", len(refused), refused)
	}
	for i, why := range []string{"wrong signature", "not an envelope"} {
		if r := refused[len(refused)-2+i]; r.Key != nil || !strings.Contains(r.Why, why) {
			t.Errorf("%+v, want %q", r, why)
		}
	}
	reader := n.readers[0]
	log := reader.Layers().Owners.Log(n.Key(url))
	entry := append([]byte(nil), log[len(log)-1].Raw()...)
	entry[len(entry)/2] ^= 1
	b := wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Update{Update: &feedtreepb.Update{Entry: entry}}})
	reader.Do(func() { reader.Layers().Feeds.Deliver(scribe.Delivery{Group: n.Key(url), Payload: b}) })
	if refused := reader.Layers().Feeds.Refusals(); len(refused) != 1 || refused[0].URL != url {
		t.Errorf("the reader has refused %+v", refused)
	}
	if err := push(n.Swarm, n.publisherNode, three); err != nil {
		t.Errorf("the next valid publication: %v", err)
	}
	n.World.Run(2 * time.Second)
	for name, want := range map[string]string{"one": "All of one, publisher", "two": "All of two, publisher", "three": "All of three, publisher", "forged": "", "other": "", "four": ""} {
		n.checkAll(t, name, want)
	}
	if err := push(n.Swarm, n.Peers()[0], three); !errors.Is(err, feedtree.ErrNotFollowed) {
		t.Errorf("from a node that does not follow the feed: %v", err)
	}
}

// A publication that was refused because an earlier one was missing, and was accepted later, is no longer reported.
// One that can never be accepted is.
func TestARefusalIsForgottenWhenThePublicationIsAccepted(t *testing.T) {
	n := newPublishedFeed(t)
	one, two := n.publisher.write(n.Swarm, "one"), n.publisher.write(n.Swarm, "two")
	three := n.publisher.write(n.Swarm, "three")
	beat := n.publisher.sign(n.Swarm, 3, three.Hash, nil)
	other := n.publisher.sign(n.Swarm, 1, feed.Hash{}, newItem(t, "other"))
	if err := push(n.Swarm, n.publisherNode, one); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*difference.Publication{three, beat, other} {
		if push(n.Swarm, n.publisherNode, p) == nil {
			t.Errorf("number %d was accepted", p.Seq)
		}
	}
	lead := leader(t, n.Swarm, url)
	if got := lead.Layers().Feeds.Refusals(); len(got) != 3 {
		t.Errorf("%+v", got)
	}
	for _, p := range []*difference.Publication{two, three, beat} {
		if err := push(n.Swarm, n.publisherNode, p); err != nil {
			t.Fatal(err)
		}
	}
	n.World.Run(time.Minute)
	if got := lead.Layers().Feeds.Refusals(); len(got) != 1 || got[0].Seq != 1 {
		t.Errorf("%+v", got)
	}
}

// Bytes that are not a publication are refused, and reported, by the node to which a program brings them.
func TestInvalidPublicationsAreRefusedWhereTheyEnter(t *testing.T) {
	n := newPublishedFeed(t)
	raw := n.publisher.write(n.Swarm, "one").Raw
	tampered := append([]byte(nil), raw...)
	tampered[len(tampered)/2] ^= 1
	for _, garbage := range [][]byte{tampered, raw[:len(raw)-9], []byte("garbage")} {
		if push(n.Swarm, n.publisherNode, &difference.Publication{Raw: garbage}) == nil {
			t.Errorf("%q was accepted", garbage)
		}
	}
	got := n.publisherNode.Layers().Feeds.Refusals()
	if len(got) != 2 || !strings.Contains(got[0].Why, "wrong signature") || !strings.Contains(got[1].Why, "not an envelope") {
		t.Errorf("%+v", got)
	}
}

func TestOnlyTheSequencerAnswersAPublisher(t *testing.T) {
	n := newPublishedFeed(t)
	p := n.publisher.write(n.Swarm, "one")
	var told []error
	for range 2 { // for instance the daemon and a command
		n.publisherNode.Do(func() { n.publisherNode.Layers().Feeds.Publish(p.Raw, func(err error) { told = append(told, err) }) })
	}
	liar := n.Peers()[3]
	if liar == leader(t, n.Swarm, url) {
		liar = n.Peers()[4]
	}
	for _, v := range []feedtreepb.PushReply_Verdict{feedtreepb.PushReply_COMMITTED, feedtreepb.PushReply_CONFLICT} {
		body := wire.Encode(&feedtreepb.Message{Body: &feedtreepb.Message_PushReply{PushReply: &feedtreepb.PushReply{Hash: p.Hash[:], Verdict: v}}})
		n.publisherNode.Do(func() { _ = n.publisherNode.Layers().Feeds.Receive(liar.ID(), body) })
	}
	if len(told) > 0 {
		t.Fatalf("results: %v", told)
	}
	n.World.Run(10 * time.Second)
	if len(told) != 2 || errors.Join(told...) != nil {
		t.Errorf("results: %v", told)
	}
}

// The metadata was just pasted into the document, and nobody has polled it since.
func TestANewPublisherIsRecognisedAtItsFirstPublication(t *testing.T) {
	other := &publishedFeed{Swarm: swarm(5, nil), site: new(site), publisher: newPublisher(t, 7)}
	other.site.shows(nil, "old")
	other.Serve(url, other.site)
	other.publisherNode = addClient(other.Swarm)
	other.World.Run(10 * time.Second)
	other.publisherNode.SubscribeFeed(url)
	other.World.Run(30 * time.Second)
	other.site.shows(other.publisher.metadata(), "old")
	if err := push(other.Swarm, other.publisherNode, other.publisher.write(other.Swarm, "new")); err != nil {
		t.Fatal(err)
	}
	other.World.Run(time.Second)
	other.checkAll(t, "new", "All of new, publisher")
}

func TestTheNamedNextKeyReplacesTheOldOne(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	polls := n.FeedStats().Polls
	next := newPublisher(t, 2)
	next.seq, next.prev = n.publisher.seq, n.publisher.prev
	if err := push(n.Swarm, n.publisherNode, next.write(n.Swarm, "two")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "two", "All of two, publisher")
	if now := n.FeedStats().Polls; now > polls {
		t.Errorf("the origin was polled %d times", now-polls)
	}
	for _, p := range n.readers {
		if sub, _ := p.Layers().Feeds.Subscription(n.Key(url)); sub.Doubt != nil || !bytes.Equal(sub.Publisher.Key, next.public()) {
			t.Errorf("%+v", sub.Publisher)
		}
	}
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "three")); err == nil || !strings.Contains(err.Error(), "another key has replaced this one") {
		t.Errorf("publication with the former key: %v", err)
	}
}

// The origin withdraws a stolen or lost key: several owners see another key there, and then each reader's own node
// does, within a polling interval. Until then nothing is revoked.
func TestTheOriginWithdrawsAKey(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	thief := *n.publisher
	if err := push(n.Swarm, n.publisherNode, thief.write(n.Swarm, "forged")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	n.checkAll(t, "forged", "All of forged, publisher") // nobody can know yet
	fresh := newPublisher(t, 9)
	fresh.seq, fresh.prev = thief.seq, thief.prev
	n.site.shows(fresh.metadata())
	if err := push(n.Swarm, n.publisherNode, fresh.write(n.Swarm, "two")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	waits := 0
	for _, p := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		if sub, _ := p.Layers().Feeds.Subscription(n.Key(url)); sub.Doubt == nil {
			continue // it owns the feed, and has checked the origin for the sequencer
		}
		waits++
		if got := seen(n.Swarm, p); got["two"] != "All of two, unconfirmed" || got["forged"] != "All of forged, publisher" {
			t.Errorf("host %d has not checked the origin, and shows %v", p.Index(), got)
		}
	}
	if waits == 0 {
		t.Error("no reader waits for its check of the origin")
	}
	n.World.Run(quickNetwork().PollInterval + time.Second)
	n.checkAll(t, "two", "All of two, publisher")
	n.checkAll(t, "forged", "All of forged, revoked")
	if err := push(n.Swarm, n.publisherNode, thief.write(n.Swarm, "more")); err == nil || !strings.Contains(err.Error(), "withdrawn this key") {
		t.Errorf("publication with the stolen key: %v", err)
	}
	var witnessed uint64
	for _, p := range n.Peers() {
		if p.Up() {
			witnessed += p.Layers().Feeds.Stats().Witnessed
		}
	}
	if witnessed < 2 {
		t.Errorf("%d owners have witnessed the key", witnessed)
	}
}

// A lying sequencer can say that a feed has another key. Followers doubt that key: they report the change, and show
// nothing that the key signs as the publisher's.
func TestFollowersDoubtAKeyThatOwnersHaveNotSeen(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	liar, lead := newPublisher(t, 9), leader(t, n.Swarm, url)
	sub, _ := n.readers[0].Layers().Feeds.Subscription(n.Key(url))
	own := difference.Attest(wire.NewSigner(lead.Key(), wire.HashOf(quickNetwork().Descriptor())), url, liar.public(), n.Now())
	p := liar.sign(n.Swarm, 2, n.publisher.prev, newItem(t, "false"))
	it := p.Item
	lead.Do(func() {
		lead.Layers().Feeds.Append(n.Key(url), difference.Delta{
			Pin: sub.Publisher.Rotate(liar.public(), feed.Hash{}, n.Now(), [][]byte{own.Raw, own.Raw, own.Raw}), Changes: []difference.Change{{Item: *it, Publication: p}},
		}, nil, func(bool) {})
	})
	n.World.Run(2 * time.Second)
	for _, r := range n.readers {
		if got := seen(n.Swarm, r)["false"]; got != "All of false, unconfirmed" {
			t.Errorf("host %d has %q", r.Index(), got)
		}
		now, _ := r.Layers().Feeds.Subscription(n.Key(url))
		if now.Doubt == nil || !bytes.Equal(now.Publisher.Key, n.publisher.public()) || r.Layers().Feeds.Stats().Doubted != 1 {
			t.Errorf("host %d trusts %+v", r.Index(), now.Publisher)
		}
	}
	// A person can decide to trust the key.
	r := n.readers[0]
	r.Do(func() { r.Layers().Feeds.Trust(n.Key(url)) })
	if got := seen(n.Swarm, r)["false"]; got != "All of false, publisher" {
		t.Errorf("after the decision to trust: %q", got)
	}
}

// A lying sequencer can say that the feed once had another key that was never withdrawn. Followers that know the
// feed's key do not trust what that other key signs.
func TestFollowersDoNotTrustInventedFormerKeys(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	liar, lead := newPublisher(t, 9), leader(t, n.Swarm, url)
	sub, _ := n.readers[0].Layers().Feeds.Subscription(n.Key(url))
	p := liar.sign(n.Swarm, 2, n.publisher.prev, newItem(t, "false"))
	told := *sub.Publisher
	told.Former = []difference.FormerKey{{Key: liar.public()}}
	lead.Do(func() {
		lead.Layers().Feeds.Append(n.Key(url), difference.Delta{Pin: &told, Changes: []difference.Change{{Item: *p.Item, Publication: p}}}, nil, func(bool) {})
	})
	n.World.Run(2 * time.Second)
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "false", "All of false, unconfirmed")
}

// An item that a publisher has signed for one feed is not shown in another, even if both have the same key.
func TestAPublicationOfAnotherFeedIsNotShown(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	p, err := difference.Publish(n.publisher.key, "http://other.example/", 2, n.publisher.prev, n.Now(), newItem(t, "misplaced"))
	if err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	lead.Do(func() {
		lead.Layers().Feeds.Append(n.Key(url), difference.Delta{Changes: []difference.Change{{Item: *p.Item, Publication: p}}}, nil, func(bool) {})
	})
	n.World.Run(2 * time.Second)
	n.checkAll(t, "one", "All of one, publisher")
	n.checkAll(t, "misplaced", "")
	for _, r := range n.readers {
		if sub, _ := r.Layers().Feeds.Subscription(n.Key(url)); sub.Publisher.Seq != 1 || len(r.Layers().Feeds.Refusals()) != 1 {
			t.Errorf("host %d: %+v, refused %+v", r.Index(), sub.Publisher, r.Layers().Feeds.Refusals())
		}
	}
}

// All followers notice when a sequencer leaves out publications or puts an older version after a newer one. They
// report how many are missing, ask the origin, and show no older version.
func TestFollowersNoticeWithheldAndReorderedPublications(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	put := func(p *difference.Publication) {
		lead := leader(t, n.Swarm, url)
		lead.Do(func() {
			lead.Layers().Feeds.Append(n.Key(url), difference.Delta{Changes: []difference.Change{{Item: *p.Item, Publication: p}}}, nil, func(bool) {})
		})
		n.World.Run(2 * time.Second)
	}
	n.publisher.write(n.Swarm, "withheld")
	third := n.publisher.write(n.Swarm, "three")
	edited, err := feed.ReadItem(feed.RSS, []byte(`<item><guid>three</guid><title>All of three, edited</title></item>`), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	fourth := n.publisher.sign(n.Swarm, n.publisher.seq+1, n.publisher.prev, &edited)
	n.site.shows(n.publisher.metadata(), "one", "withheld")
	for _, p := range []*difference.Publication{third, fourth, third} {
		put(p)
	}
	n.checkAll(t, "three", "All of three, edited, publisher")
	for _, r := range n.readers {
		sub, _ := r.Layers().Feeds.Subscription(n.Key(url))
		why := fmt.Sprint(r.Layers().Feeds.Refusals())
		if sub.Lacks != 1 || !strings.Contains(why, "missing from its log (1)") || !strings.Contains(why, "older version") {
			t.Errorf("host %d lacks %d: %s", r.Index(), sub.Lacks, why)
		}
	}
	n.World.Run(35 * time.Minute) // the origin is asked within a polling interval
	n.checkAll(t, "withheld", "Headline of withheld, single")
}

// One of two branches that meet may have polled items that the other has from the publisher, word for word. These
// items are not news, but the publisher's numbers count.
func TestPublicationNumbersOfAnotherBranchCount(t *testing.T) {
	n := newPublishedFeed(t, "one", "two")
	n.checkAll(t, "two", "Headline of two, single")
	for _, name := range []string{"one", "two"} {
		it, err := feed.ReadItem(feed.RSS, []byte(`<item><guid>`+name+`</guid><title>Headline of `+name+`</title></item>`), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := n.publisher.sign(n.Swarm, n.publisher.seq+1, n.publisher.prev, &it)
		n.publisher.seq, n.publisher.prev = p.Seq, p.Hash
		body, err := difference.Delta{Changes: []difference.Change{{Item: *p.Item, Publication: p}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		lead := leader(t, n.Swarm, url)
		lead.Do(func() { lead.Layers().Feeds.Absorb(n.Key(url), body) })
	}
	n.World.Run(2 * time.Second)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "three")); err != nil {
		t.Error(err)
	}
	n.World.Run(time.Second)
	n.checkAll(t, "one", "Headline of one, publisher")
	n.checkAll(t, "two", "Headline of two, publisher")
	n.checkAll(t, "three", "All of three, publisher")
}

func TestAFeedWithoutItemsCanBePublished(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	sub, _ := n.readers[0].Layers().Feeds.Subscription(n.Key(url))
	if sub.Title != "A feed" || sub.Publisher.Seq != 1 {
		t.Errorf("%+v", sub)
	}
}

// A node still trusts a pin after a restart.
func TestATrustedPinSurvivesARestart(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	r := n.readers[0]
	r.Kill(true)
	n.World.Run(time.Second)
	r.Start()
	n.World.Run(30 * time.Second)
	if sub, ok := r.Layers().Feeds.Subscription(n.Key(url)); !ok || sub.Publisher == nil || !bytes.Equal(sub.Publisher.Key, n.publisher.public()) {
		t.Errorf("%+v", sub.Publisher)
	}
	n.checkAll(t, "one", fmt.Sprintf("All of one, %s", feedtree.ByPublisher))
}

// The trusted pin and the subscription share a record. Writing one does not undo a change of the other that is on
// its way to the disk.
func TestStoringAPinAndASubscriptionDoNotUndoEachOther(t *testing.T) {
	n := newPublishedFeed(t)
	lead := leader(t, n.Swarm, url)
	var r *sim.Peer // an owner, which has entries before it knows that they are committed
	for _, p := range n.Peers() {
		if v, ok := p.Layers().Owners.View(n.Key(url)); ok && v.Owns && p != lead {
			r = p
		}
	}
	r.Do(func() { r.Layers().Feeds.Subscribe(url, 1, nil, func(error) {}) })
	n.World.Run(5 * time.Second)
	for i := range 100 { // an entry is committed within fewer milliseconds
		said := []byte{byte(i)}
		told := difference.Pin{Key: n.publisher.public(), Since: n.Now().Truncate(time.Second), Beat: time.Duration(i+1) * time.Minute}
		lead.Do(func() { lead.Layers().Feeds.Append(n.Key(url), difference.Delta{Pin: &told}, nil, func(bool) {}) })
		n.World.Run(time.Duration(i) * time.Millisecond)
		acked := false
		r.Do(func() {
			done := func(err error) { acked = err == nil }
			if i%2 == 0 {
				r.Layers().Feeds.Unsubscribe(url, done)
			} else {
				r.Layers().Feeds.Subscribe(url, 1, said, done)
			}
		})
		n.World.Run(2 * time.Second)
		r.Kill(true)
		n.World.Run(time.Second)
		r.Start()
		n.World.Run(5 * time.Second)
		sub, ok := r.Layers().Feeds.Subscription(n.Key(url))
		if !acked || ok != (i%2 == 1) || ok && !bytes.Equal(sub.Attributes, said) {
			t.Errorf("%d ms after the pin: stored %v; after a restart: subscribed %v, attributes %v", i, acked, ok, sub.Attributes)
		}
		if i%2 == 0 {
			r.Do(func() { r.Layers().Feeds.Subscribe(url, 1, nil, func(error) {}) })
			n.World.Run(5 * time.Second)
		}
	}
}

// A publisher that does not know its feed's sequencer, and has not used a link to it for longer than links are
// kept, reaches it at once nevertheless.
func TestAPublisherReachesAnUnknownSequencerAtOnce(t *testing.T) {
	n := newPublishedFeedWith(t, 40)
	for i := range 3 {
		began := n.Now()
		if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if took := n.Now().Sub(began); i > 0 && took > time.Second { // the first one waits for the origin
			t.Errorf("committed after %v", took)
		}
		n.World.Run(4 * time.Minute)
	}
}

// The other branch knows a new key, but few publications. After the merge the publisher's count stays, and no
// reader considers items missing.
func TestAKeyOfAnotherBranchKeepsThePublishersCount(t *testing.T) {
	n := newPublishedFeed(t)
	first := n.publisher.write(n.Swarm, "one")
	for _, p := range []*difference.Publication{first, n.publisher.write(n.Swarm, "two"), n.publisher.write(n.Swarm, "three")} {
		if err := push(n.Swarm, n.publisherNode, p); err != nil {
			t.Fatal(err)
		}
	}
	sub, _ := n.publisherNode.Layers().Feeds.Subscription(n.Key(url))
	pin := *sub.Publisher
	pin.Seq, pin.Head = first.Seq, first.Hash
	n.publisher.key = n.publisher.next
	changed := pin.Rotate(n.publisher.public(), feed.Hash{}, n.Now(), nil)
	body, err := difference.Delta{Pin: changed}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	lead.Do(func() { lead.Layers().Feeds.Absorb(n.Key(url), body) })
	n.World.Run(2 * time.Second)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "four")); err != nil {
		t.Error(err)
	}
	n.World.Run(2 * time.Second)
	for _, r := range n.readers {
		if sub, _ := r.Layers().Feeds.Subscription(n.Key(url)); sub.Lacks != 0 || sub.Publisher.Seq != 4 {
			t.Errorf("host %d has number %d, and lacks %d", r.Index(), sub.Publisher.Seq, sub.Lacks)
		}
	}
	n.checkAll(t, "four", "All of four, publisher")
}

// A leader that unsubscribes from its feed and subscribes again still knows the publisher's key.
func TestALeaderThatSubscribesAgainKnowsThePublisher(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	lead := leader(t, n.Swarm, url)
	told := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	lead.Do(func() { lead.Layers().Feeds.Subscribe(url, 1, nil, told) })
	n.World.Run(5 * time.Second)
	lead.Do(func() { lead.Layers().Feeds.Unsubscribe(url, told) })
	n.World.Run(5 * time.Second)
	lead.Do(func() { lead.Layers().Feeds.Subscribe(url, 1, nil, told) })
	n.World.Run(5 * time.Second)
	if got := seen(n.Swarm, lead)["one"]; got != "All of one, publisher" {
		t.Errorf("one: %q", got)
	}
}

// A publication was first answered with an unknown key, and later answers were lost. It counts as not accepted
// rather than refused, because it may have been committed.
func TestAPublicationThatMayBeCommittedIsNotRefused(t *testing.T) {
	n := &publishedFeed{Swarm: swarm(7, nil), site: new(site), publisher: newPublisher(t, 1)}
	n.site.shows(nil)
	n.Serve(url, n.site)
	n.publisherNode, n.readers = addClient(n.Swarm), n.Peers()[5:7]
	n.World.Run(10 * time.Second)
	for _, p := range append([]*sim.Peer{n.publisherNode}, n.readers...) {
		p.SubscribeFeed(url)
	}
	n.World.Run(30 * time.Second)
	p := n.publisher.write(n.Swarm, "one")
	var told error
	n.publisherNode.Do(func() { n.publisherNode.Layers().Feeds.Publish(p.Raw, func(err error) { told = err }) })
	lead := leader(t, n.Swarm, url)
	n.RunUntil(func() bool { return len(lead.Layers().Feeds.Refusals()) > 0 }, 10*time.Millisecond, 20*time.Second)
	n.World.Run(time.Second)
	n.site.shows(n.publisher.metadata())
	lead.Do(func() { lead.Layers().Corona.FetchOnce(n.Key(url), url) })
	var rest []*sim.Host
	for _, q := range n.Peers() {
		if q != n.publisherNode {
			rest = append(rest, q.Host)
		}
	}
	n.World.PartitionOneWay(rest, []*sim.Host{n.publisherNode.Host})
	n.RunUntil(func() bool { return told != nil }, 10*time.Millisecond, 2*time.Minute)
	if got := seen(n.Swarm, n.readers[0])["one"]; got == "" || !errors.Is(told, feedtree.ErrNotAccepted) {
		t.Errorf("a reader shows %q; the push ended with %v", got, told)
	}
}

// An item that nobody can sign causes one change report, and not a full fetch at each poll.
func TestAnItemThatCannotBeSignedIsReportedOnce(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.site.shows(n.publisher.metadata(), "twin@1", "twin@2", "one")
	for range 6 {
		n.World.Run(5 * time.Minute)
		if err := push(n.Swarm, n.publisherNode, n.publisher.sign(n.Swarm, n.publisher.seq, n.publisher.prev, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var polls, same uint64
	for _, p := range n.Peers() {
		st := p.Layers().Corona.Stats()
		polls, same = polls+st.Polls, same+st.Unchanged
	}
	if polls < 20 || same < polls*3/4 {
		t.Errorf("of %d polls %d found nothing new", polls, same)
	}
}
