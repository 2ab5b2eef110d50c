package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// A bench is what a component needs for a test of its own: a clock, a store, the layers below of a node that is alone,
// and a record of what the component sends and asks for.
type bench struct {
	*common
	now     time.Time
	owned   *owner.Owners
	store   map[string][]byte
	sent    []*feedtreepb.Message // of this layer
	fetches []time.Time           // documents that were requested
	alone   []bool                // PollAlone
	news    []string              // titles of items
	changes int                   // StateChanged
	polled  time.Duration         // interval at which the network says that it polls the feed
}

const benchURL = "http://a.example/"

func (b *bench) Witnessed(overlay.ID, []feed.ID)            {}
func (b *bench) Look(overlay.ID, string) bool               { b.fetches = append(b.fetches, b.now); return true }
func (b *bench) Looking(overlay.ID, int)                    {}
func (b *bench) Contested(overlay.ID, []difference.Version) {}
func (b *bench) Interval([]byte) (time.Duration, bool)      { return b.polled, true }
func (b *bench) PollSoon(overlay.ID) int                    { return 0 }
func (b *bench) Pushed(overlay.ID) bool                     { return false }

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{now: began, store: map[string][]byte{}}
	e := env.Env{Clock: b, Network: b, Store: b, Worker: b, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	verify := wire.NewVerifier(network)
	node := overlay.New(e, signer(), verify, overlay.Config{Network: wire.DefaultNetwork("fuzz"), Founder: true})
	owners, err := owner.New(e, node, signer(), verify, owner.Config{}, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	b.owned = owners
	b.polled = Config{}.withDefaults().PollInterval
	b.common = &common{
		cfg: Config{}.withDefaults(), clock: b, net: b, rand: e.Rand, log: e.Log, node: node,
		scribe: scribe.New(e, node, scribe.Config{}, func(scribe.Delivery) {}), owners: owners, signer: signer(), verify: verify, app: b,
		refusals: &refusals{clock: b}, feeds: channels{}, ownerAddrs: map[env.PeerID]env.Peer{},
	}
	return b
}

// follow returns the record of a feed that this node follows.
func (b *bench) follow() *channel {
	c := b.channel(key, benchURL)
	c.subscribed = true
	b.owners.Follow(key, benchURL)
	return c
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(time.Second)
		b.owned.Run(b.now)
		b.common.run(b.now)
	}
}

func (b *bench) Now() time.Time             { return b.now }
func (b *bench) Do(pure, done func())       { pure(); done() }
func (b *bench) Get([]byte) ([]byte, error) { return nil, nil }

func (b *bench) Send(_ env.Peer, _ env.Class, frame []byte) {
	if layer, body, err := wire.ParseFrame(frame); err == nil && layer == wire.Feed {
		if m, err := parse(body); err == nil {
			b.sent = append(b.sent, m)
		}
	}
}

func (b *bench) Commit(ops []env.Op, done func(error)) {
	for _, op := range ops {
		if b.store[string(op.Key)] = op.Value; op.Value == nil {
			delete(b.store, string(op.Key))
		}
	}
	done(nil)
}

func (b *bench) Range(prefix []byte, each func(key, value []byte) bool) error {
	for k, v := range b.store {
		if strings.HasPrefix(k, string(prefix)) {
			each([]byte(k), v)
		}
	}
	return nil
}

func (b *bench) News(_ overlay.ID, changes []difference.Change, _ time.Time) {
	for _, ch := range changes {
		b.news = append(b.news, titleOf(ch.Item))
	}
}

func titleOf(it feed.Item) string {
	m, err := it.Meaning("")
	if err != nil {
		return err.Error()
	}
	return m.Title
}

func (b *bench) StateChanged(overlay.ID, []byte, time.Time)                       { b.changes++ }
func (b *bench) Fetch(overlay.ID, string)                                         { b.fetches = append(b.fetches, b.now) }
func (b *bench) PollAlone(_ overlay.ID, _ string, on bool)                        { b.alone = append(b.alone, on) }
func (b *bench) HandOver(overlay.ID, *feed.Head, []feed.Item, []difference.Entry) {}
func (b *bench) Filter(_ overlay.ID, d difference.Delta) difference.Delta         { return d }

// nobody is above the owners of a bench.
type nobody struct{}

func (nobody) Emit(ev owner.Event) {
	if a, ok := ev.(owner.Appended); ok {
		a.Done(a.OK)
	}
}
func (nobody) Absorbing(overlay.ID) bool              { return false }
func (nobody) Weight(overlay.ID) (int, bool)          { return 0, false }
func (nobody) Siblings(overlay.ID) []*overlay.Contact { return nil }

// Refusals are bounded, a repeated one counts once, and an accepted publication takes back its refusals.
func TestRefusals(t *testing.T) {
	r := &refusals{clock: fixedClock{}}
	for range 2 {
		r.add(Refusal{URL: benchURL, Seq: 1, Key: []byte("key"), Why: "a gap", retryable: true})
	}
	if n := len(r.Refusals()); n != 1 {
		t.Errorf("%d refusals", n)
	}
	it := version(t, "A")
	r.forget(benchURL, &difference.Publication{Seq: 1, Key: []byte("key"), Item: &it}, began.Add(time.Second))
	if n := len(r.Refusals()); n != 0 {
		t.Errorf("%d refusals of an accepted publication", n)
	}
	for i := range 2 * maxRefusals {
		r.add(Refusal{Seq: uint64(i)})
	}
	if got := r.Refusals(); len(got) != maxRefusals || got[maxRefusals-1].Seq != 2*maxRefusals-1 {
		t.Errorf("%d refusals", len(got))
	}
}

// Plans for the same time are carried out in the order in which they were made, whatever component made them.
func TestPlansKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	var order []string
	first := b.newPlans(func(overlay.ID) { order = append(order, "first") })
	second := b.feedPlans(func(c *channel) { order = append(order, c.url) })
	b.channel(key, benchURL)
	second.add(began, key)
	first.add(began, key)
	second.add(began, overlay.ID{}) // of an unknown feed
	second.add(began.Add(time.Hour), key)
	b.common.run(began)
	if next := b.common.cal.Next(); !slices.Equal(order, []string{benchURL, "first"}) || !next.Equal(began.Add(time.Hour)) {
		t.Errorf("%v, next at %v", order, next)
	}
}

// A node polls a silent feed itself until another node vouches for the feed again. What the node found is handed over
// from then on.
func TestAloneUntilAnotherNodeIsHeard(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	c := b.follow()
	o.check(b.feeds.sorted(), b.now)
	b.now = b.now.Add(b.cfg.feedSilence() + time.Second)
	for range 2 {
		o.check(b.feeds.sorted(), b.now)
	}
	if !c.alone || !slices.Equal(b.alone, []bool{true}) || b.stats.Silences != 1 {
		t.Errorf("polls %v, alone: %v", b.alone, c.alone)
	}
	o.markCertain(c)
	if c.alone || !slices.Equal(b.alone, []bool{true, false}) || c.handOversLeft != handOverTries || c.confirmed != env.MomentOf(b.now) {
		t.Errorf("polls %v, alone: %v, %d hand-overs", b.alone, c.alone, c.handOversLeft)
	}
}

// A repair that no node can help asks the origin once, within a polling interval after its third round.
func TestARepairAsksTheOriginOnce(t *testing.T) {
	b := newBench(t)
	rp := newRepairer(b.common, &cutOffs{b.common})
	c := b.follow()
	rp.start(c, owner.Hash{1})
	rp.start(c, owner.Hash{1})
	b.pass(3 * time.Second)
	if len(b.fetches) > 0 || c.repair == nil {
		t.Fatal("the origin is asked before the nodes")
	}
	b.pass(b.cfg.PollInterval + 5*time.Minute)
	if len(b.fetches) != 1 || b.stats.Gaps != 1 || c.repair != nil {
		t.Errorf("%d requests to the origin for %d gaps, repair %+v", len(b.fetches), b.stats.Gaps, c.repair)
	}
}

// The head of a feed is published once for entries that follow each other within a second.
func TestEntriesThatFollowSoonShareAHead(t *testing.T) {
	b := newBench(t)
	hb := newHeartbeats(b.common, &cutOffs{b.common}, nil)
	c := b.channel(key, benchURL)
	c.leader = new(leaderState)
	hb.lead(c)
	for range 3 {
		hb.published(c)
	}
	if b.cal.Len() != 2 || !c.leader.headScheduled { // a heartbeat and a head
		t.Errorf("%d plans", b.cal.Len())
	}
	b.pass(2 * time.Second)
	if c.leader.headScheduled || b.cal.Len() != 1 {
		t.Errorf("%d plans after the head", b.cal.Len())
	}
	c.leader = nil
	b.pass(b.cfg.BeatInterval + time.Second) // a node that no longer leads sends no heartbeat
	if b.cal.Len() != 0 || b.stats.Beats != 0 {
		t.Errorf("%d plans, %d heartbeats of a former sequencer", b.cal.Len(), b.stats.Beats)
	}
}

// An entry that does not follow its head is pulled after five seconds. The probation of one entry is followed by that
// of the latest one.
func TestALateEntryIsPulled(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	rp := newRepairer(b.common, o)
	dv := newDeliveries(b.common, o, rp, newHeartbeats(b.common, o, rp))
	c := b.follow()
	for i := range 3 {
		dv.startProbation(c, owner.Hash{byte(i + 1)}, uint64(i+1))
	}
	b.pass(entryTimeout - time.Second)
	if b.stats.Late != 0 {
		t.Error("the entry is late at once")
	}
	b.pass(2 * time.Second)
	if b.stats.Late != 1 || c.repair == nil || c.repair.want != (owner.Hash{1}) {
		t.Errorf("%d late, repair %+v", b.stats.Late, c.repair)
	}
	b.pass(probationTime)
	if c.probation.want != (owner.Hash{3}) || !c.probation.running {
		t.Errorf("probation of %x", c.probation.want[:1])
	}
}

// A stranger that asks for heads is told of no feed, and an audit without an answer makes the node look the owners up.
func TestAuditsWithoutAnswer(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	rp := newRepairer(b.common, o)
	a := newAuditor(b.common, o, rp, newDeliveries(b.common, o, rp, nil))
	c := b.follow()
	a.onHeads("stranger", &feedtreepb.Heads{Heads: []*feedtreepb.Head{{Key: key[:], Head: 1}}})
	if reply := b.sent[0].GetHeadsReply(); len(reply.GetUnknown()) != 1 || len(reply.GetDifferent()) != 0 {
		t.Errorf("a stranger is told %v", reply)
	}
	a.auditOwner(env.Peer{ID: "owner"}, []*channel{c}, b.now)
	if owner, ok := a.mayReportBehind(c, "owner"); !owner || !ok {
		t.Error("the owner that was asked may not answer")
	}
	a.expire(b.now.Add(b.cfg.DigestInterval / 4))
	if c.ownersUnknown || len(a.pending) != 1 {
		t.Error("the audit ended too soon")
	}
	a.expire(b.now.Add(b.cfg.DigestInterval))
	if !c.ownersUnknown || len(a.pending) != 0 {
		t.Error("the audit did not end")
	}
	if _, ok := a.mayReportBehind(c, "owner"); ok {
		t.Error("a stranger may report a gap")
	}
}

// A node that looks owners up to ask them does not ask itself, even if it is one of them.
func TestANodeDoesNotAskItself(t *testing.T) {
	b := newBench(t)
	self := &overlay.Contact{Peer: env.Peer{ID: b.signer.PeerID()}}
	other := &overlay.Contact{Peer: env.Peer{ID: "other"}}
	found := owner.Found{Owners: []*overlay.Contact{self, other}, Followers: []*overlay.Contact{self}}
	if got := b.others(found); len(got) != 1 || got[0].ID != "other" {
		t.Errorf("%v", got)
	}
}

// A sequencer asks the origin for the publisher's key at most once in a sixth of a polling interval. A follower asks
// less often each time, as long as the question stays open.
func TestPacesOfKeyQuestions(t *testing.T) {
	b := newBench(t)
	q := newKeyQuestions(b.common)
	c := b.follow()
	c.leader = new(leaderState)
	for range 61 {
		q.askNow(c)
		b.now = b.now.Add(b.cfg.PollInterval / 60)
	}
	if n := len(b.fetches); n != 7 {
		t.Errorf("%d requests in a polling interval", n)
	}
	b.fetches = nil
	open := true
	q.open = func(*channel) (ask, again bool) { return open, open }
	q.askLater(c)
	q.askLater(c)
	b.pass(24 * time.Hour)
	n := len(b.fetches)
	if first := b.fetches[0].Sub(began); n < 5 || n > 10 || first > 3*b.cfg.PollInterval {
		t.Fatalf("%d requests in a day, the first after %v", n, first)
	}
	for i := 2; i < n; i++ {
		if pause := b.fetches[i].Sub(b.fetches[i-1]); pause < b.cfg.PollInterval<<min(i-1, maxKeyCheckDoublings) {
			t.Errorf("pause %d of %v", i, pause)
		}
	}
	open = false
	b.pass(24 * time.Hour)
	if len(b.fetches) != n || c.scheduled {
		t.Error("a question that was answered is asked again")
	}
}

// A follower trusts the first key that it hears of, doubts another one, and trusts that when a person says so.
func TestAnotherKeyIsDoubted(t *testing.T) {
	b := newBench(t)
	tr := newTrusts(b.common, newKeyQuestions(b.common))
	saved := 0
	tr.save = func(*channel) { saved++ }
	c := b.follow()
	pin := func(n byte) *difference.Pin {
		return &difference.Pin{Key: bytes.Repeat([]byte{n}, ed25519.PublicKeySize), Since: began}
	}
	tr.consider(c, pin(1))
	tr.consider(c, pin(2))
	if c.trust.Key[0] != 1 || c.doubt == nil || !c.scheduled || saved != 1 || b.stats.Doubted != 1 {
		t.Errorf("trusts %x, doubts %v, saved %d times", c.trust.Key[:1], c.doubt, saved)
	}
	if !tr.Trust(key) || c.trust.Key[0] != 2 || c.doubt != nil || saved != 2 || tr.Trust(key) {
		t.Errorf("trusts %x, doubts %v, saved %d times", c.trust.Key[:1], c.doubt, saved)
	}
}

// A body without bytes and one with another feed's publication are unreadable; only the former is lost.
func TestEntriesOfOtherFeeds(t *testing.T) {
	b := newBench(t)
	es := &entries{common: b.common, worker: b}
	it := version(t, "A")
	publisher := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	for url, own := range map[string]bool{benchURL: true, "http://b.example/": false} {
		p, err := difference.Publish(publisher, url, 1, feed.Hash{}, began, &it)
		if err != nil {
			t.Fatal(err)
		}
		if got := es.signedForFeed(key, difference.Delta{Changes: []difference.Change{{Item: *p.Item, Publication: p}}}); got != own {
			t.Errorf("%s: %v", url, got)
		}
	}
	read := 0
	es.decode([]*owner.Entry{{Key: key}}, func(_ *owner.Entry, d *decodedEntry) {
		if read++; !d.bodyLost || !d.unreadable || b.stats.Unread != 1 {
			t.Errorf("%+v", d)
		}
	}, func() { read++ })
	if read != 2 {
		t.Errorf("%d calls", read)
	}
	var d difference.Delta
	for i := range 3 {
		it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: fmt.Sprint(i), Title: "A", Content: strings.Repeat("x", maxPart/2)}, began)
		if err != nil {
			t.Fatal(err)
		}
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	if parts, bodies, err := es.encodeParts(b.channel(key, benchURL), d); err != nil || len(parts) != 3 || len(bodies) != 3 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}

// A publication is sent for a minute. Only as many as fit wait for an answer, and a committed one ends.
func TestAPushEnds(t *testing.T) {
	b := newBench(t)
	pu := newPusher(b.common)
	publisher, it := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), version(t, "A")
	results := map[string]int{}
	publish := func(seq int) *difference.Publication {
		p, err := difference.Publish(publisher, benchURL, uint64(seq), feed.Hash{}, began, &it)
		if err != nil {
			t.Fatal(err)
		}
		pu.Publish(p.Raw, func(err error) {
			for _, known := range []error{ErrNotFollowed, ErrNotAccepted} {
				if errors.Is(err, known) {
					results[known.Error()]++
				}
			}
			if err == nil {
				results["committed"]++
			}
		})
		return p
	}
	publish(1)
	b.follow()
	for seq := range maxPushes + 1 {
		publish(seq + 1)
	}
	if results[ErrNotFollowed.Error()] != 1 || results[ErrNotAccepted.Error()] != 1 || len(pu.pushes) != maxPushes {
		t.Errorf("%v, %d wait", results, len(pu.pushes))
	}
	for _, p := range pu.pushes {
		pu.committed(p.publication.Hash)
		break
	}
	b.pass(pushTimeout + time.Second)
	if results["committed"] != 1 || results[ErrNotAccepted.Error()] != maxPushes || len(pu.pushes) != 0 {
		t.Errorf("%v, %d wait", results, len(pu.pushes))
	}
}

// Fetched items are shown once.
func TestFetchedItemsAreShownOnce(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	rp := newRepairer(b.common, o)
	rd := newReader(b.common, o, rp, newTrusts(b.common, newKeyQuestions(b.common)), &entries{common: b.common, worker: b}, newPusher(b.common), newStatements(b.common, rp), newOriginAudits(b.common, nil))
	b.follow()
	doc := &feed.Feed{Items: []feed.Item{version(t, "A")}}
	for range 2 {
		rd.Show(key, doc)
	}
	doc.Items = []feed.Item{version(t, "B")}
	rd.Show(key, doc)
	if !slices.Equal(b.news, []string{"A", "B"}) {
		t.Errorf("news %q", b.news)
	}
	rd.Read(key, func(d Document) {
		if len(d.Entries) != 1 || titleOf(d.Entries[0].Item) != "B" || d.Entries[0].Provenance != Single {
			t.Errorf("%+v", d.Entries)
		}
	})
}

// If only the content of a feed shows which version of an item a reader sees, all of it is read.
func TestVersionsOfDifferentReadersAreRead(t *testing.T) {
	for what, differ := range map[string]func(*window){
		"nothing": func(*window) {},
		"signed":  func(w *window) { w.signed = map[feed.ID]difference.Entry{{1}: {}} },
		"vouched": func(w *window) { w.vouched = map[feed.ID]vouchedEntry{{1}: {}} },
	} {
		b := newBench(t)
		o := &cutOffs{b.common}
		rp := newRepairer(b.common, o)
		rd := newReader(b.common, o, rp, newTrusts(b.common, newKeyQuestions(b.common)), &entries{common: b.common, worker: b}, newPusher(b.common), newStatements(b.common, rp), newOriginAudits(b.common, nil))
		b.follow()
		w := &b.feeds[key].window
		w.log.Apply(difference.Delta{Changes: []difference.Change{{Item: version(t, "A")}}}, b.now, 1)
		differ(w)
		asked := false
		rd.ReadUnknown(key, func(difference.Version) bool { asked = true; return true }, func(Document) {})
		if asked == (what != "nothing") {
			t.Errorf("%s: the caller was asked for what it knows: %v", what, asked)
		}
	}
}

// A change of the trusted pin that comes while a subscription is being written is stored after it, and a subscription
// that has ended leaves nothing.
func TestSubscriptionsAreStored(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	rp := newRepairer(b.common, o)
	tr := newTrusts(b.common, newKeyQuestions(b.common))
	su := &subscriptions{common: b.common, store: b, cutOffs: o, repairer: rp, trusts: tr, audits: newOriginAudits(b.common, nil)}
	tr.save = su.saveTrust
	su.Subscribe(benchURL, 3, []byte("attributes"), func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	c := b.feeds[key]
	c.pendingWrites++
	tr.consider(c, &difference.Pin{Key: make([]byte, ed25519.PublicKeySize), Since: began})
	if record := b.store[string(subscriptionKey(key))]; !bytes.Equal(record, wire.Encode((&channel{url: c.url, subscription: c.subscription}).record())) {
		t.Error("the pin is written at the same time")
	}
	c.pendingWrites--
	su.commit(c, env.Op{Key: []byte("another record")}, func(error) {})
	again := &subscriptions{common: newBench(t).common, store: b}
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	if s := again.feeds[key]; s == nil || !s.subscribed || s.weight != 3 || s.trust == nil || string(s.attributes) != "attributes" {
		t.Errorf("stored %+v", s)
	}
	su.Unsubscribe(benchURL, func(error) {})
	if len(b.feeds) != 0 || b.store[string(subscriptionKey(key))] != nil {
		t.Error("the subscription has not ended")
	}
}

// A follower looks at the origin of a feed of which it is shown nothing at all: after it has subscribed, and after a restart.
func TestAFollowerOfASilentFeedLooks(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := newBench(t)
		b.cfg.AuditOneIn = 2
		o := &cutOffs{b.common}
		audits := newOriginAudits(b.common, &entries{common: b.common, worker: b})
		su := &subscriptions{
			common: b.common, store: b, cutOffs: o, repairer: newRepairer(b.common, o),
			trusts: newTrusts(b.common, newKeyQuestions(b.common)), audits: audits,
		}
		if restarted {
			b.follow()
			su.resume()
		} else {
			su.Subscribe(benchURL, 1, nil, func(error) {})
		}
		if b.pass(quietAudits * 2 * b.cfg.PollInterval); b.stats.OriginAudits == 0 {
			t.Errorf("restarted %v: has not looked", restarted)
		}
	}
}

// A follower looks at the origin once in AuditOneIn polling intervals of the feed, also if these are long; but a sequencer
// that claims to poll once in a month does not keep it from looking.
func TestARarelyPolledFeedIsLookedAtRarely(t *testing.T) {
	var looks []uint64
	for _, intervals := range []time.Duration{1, 4, maxRareIntervals, 100 * maxRareIntervals} {
		b := newBench(t)
		b.cfg.AuditOneIn = 2
		b.polled = intervals * b.cfg.PollInterval
		audits := newOriginAudits(b.common, &entries{common: b.common, worker: b})
		c := b.follow()
		audits.planQuiet(c)
		for range 40 {
			b.pass(20 * b.cfg.PollInterval)
			audits.saw(c, &feed.Feed{})
		}
		looks = append(looks, b.stats.OriginAudits)
	}
	t.Logf("%d looks", looks)
	if often := looks[0]; often < 35 || looks[1] >= often || looks[2] < 2 || looks[2] > often/2 || looks[3] < 2 || looks[3] > often/2 {
		t.Errorf("%d looks", looks)
	}
}

// A sequencer judges a publication by the pin, the accepted publications and the publication itself, and by nothing else.
func TestVerdicts(t *testing.T) {
	seed := func(n byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
	}
	public := func(n byte) ed25519.PublicKey { return seed(n).Public().(ed25519.PublicKey) }
	sign := func(n byte, seq uint64, prev feed.Hash, it *feed.Item) *difference.Publication {
		p, err := difference.Publish(seed(n), benchURL, seq, prev, began, it)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	it := version(t, "A")
	last := sign(1, 5, feed.Hash{}, &it)
	fresh := &difference.Pin{Key: public(1), Since: began}
	pin := &difference.Pin{Key: public(1), Since: began, Seq: 5, Head: last.Hash, Next: difference.KeyHash(public(2)), Former: []difference.FormerKey{{Key: public(3)}, {Key: public(4), Revoked: true}}}
	receipts := map[uint64]receipt{5: {hash: last.Hash, committed: true}}
	const none, unknown, revoked, gap, conflict = feedtreepb.PushReply_NONE, feedtreepb.PushReply_UNKNOWN, feedtreepb.PushReply_REVOKED, feedtreepb.PushReply_GAP, feedtreepb.PushReply_CONFLICT
	for _, c := range []struct {
		what string
		pin  *difference.Pin
		p    *difference.Publication
		at   time.Duration // since the pin
		want verdict       // without the reason
	}{
		{"no publisher", nil, last, 0, verdict{answer: unknown, askOrigin: true}},
		{"the first one may have any number", fresh, sign(1, 7, feed.Hash{9}, &it), 0, verdict{}},
		{"the next one", pin, sign(1, 6, last.Hash, &it), 0, verdict{}},
		{"the same again", pin, last, 0, verdict{repeated: true}},
		{"another one with its number", pin, sign(1, 5, feed.Hash{9}, &it), 0, verdict{answer: conflict}},
		{"another one before", pin, sign(1, 6, feed.Hash{9}, &it), 0, verdict{answer: conflict}},
		{"one is missing", pin, sign(1, 7, feed.Hash{9}, &it), 0, verdict{answer: gap}},
		{"a heartbeat", pin, sign(1, 5, last.Hash, nil), 0, verdict{}},
		{"an old heartbeat", pin, sign(1, 4, feed.Hash{9}, nil), 0, verdict{answer: conflict}},
		{"a heartbeat after an item that did not come", pin, sign(1, 6, feed.Hash{9}, nil), 0, verdict{answer: conflict}},
		{"the next key", pin, sign(2, 6, last.Hash, &it), 0, verdict{newKey: true}},
		{"the next key out of order", pin, sign(2, 8, last.Hash, &it), 0, verdict{answer: gap}},
		{"a former key", pin, sign(3, 6, last.Hash, &it), 0, verdict{answer: revoked}},
		{"a former key, later", pin, sign(3, 6, last.Hash, &it), 2 * originLag, verdict{answer: unknown, askOrigin: true}},
		{"a withdrawn key", pin, sign(4, 6, last.Hash, &it), 2 * originLag, verdict{answer: revoked, askOrigin: true}},
		{"a stranger's key", pin, sign(5, 6, last.Hash, &it), 0, verdict{answer: unknown, askOrigin: true}},
	} {
		got := judge(c.pin, receipts, c.p, began.Add(c.at))
		if (got.reason == "") != (got.answer == none) {
			t.Errorf("%s: %v because of %q", c.what, got.answer, got.reason)
		}
		if got.reason = ""; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// An acceptor takes publications in their order into one entry at a time, and gives all back if the log has no room.
func TestAnAcceptorWithoutRoom(t *testing.T) {
	b := newBench(t)
	ac := newAcceptor(b.common, newKeyQuestions(b.common), newPusher(b.common), &entries{common: b.common, worker: b})
	c := b.channel(key, benchURL)
	c.leader = &leaderState{ready: true}
	publisher, it := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), version(t, "A")
	c.leader.pin = &difference.Pin{Key: publisher.Public().(ed25519.PublicKey), Since: began}
	p, err := difference.Publish(publisher, benchURL, 1, feed.Hash{}, began, &it)
	if err != nil {
		t.Fatal(err)
	}
	ac.accept(c, []*difference.Publication{p}, env.Peer{ID: "publisher"})
	if v := b.sent[0].GetPushReply().GetVerdict(); v != feedtreepb.PushReply_BUSY || c.leader.pin.Seq != 0 || len(c.leader.receipts) != 0 {
		t.Errorf("%v, pin at number %d", v, c.leader.pin.Seq)
	}
	c.leader.hearPublisher(p, b.now.Add(time.Hour), b.now)
	if !c.leader.publisherHeardAt.Equal(b.now) || ac.publisherSilent(c.leader) {
		t.Error("a clock that is ahead makes a publisher heard in the future")
	}
}

// A sequencer keeps bodies of another branch until the log has room for them.
func TestASequencerWithoutRoomKeepsBodies(t *testing.T) {
	b := newBench(t)
	o := &cutOffs{b.common}
	rp := newRepairer(b.common, o)
	hb, es := newHeartbeats(b.common, o, rp), &entries{common: b.common, worker: b}
	ac := newAcceptor(b.common, newKeyQuestions(b.common), newPusher(b.common), es)
	sq := &sequencer{b.common, es, o, hb, newDeliveries(b.common, o, rp, hb), ac, newCertifier(b.common, es, &witnesses{common: b.common})}
	ready := 0
	sq.Lead(key, true, func(*difference.Known) { ready++ })
	sq.Absorb(key, []byte("body"))
	if ready != 1 || !sq.Absorbing(key) || sq.Append(key, difference.Delta{Head: &feed.Head{Title: "A"}}, nil, func(bool) {}) {
		t.Errorf("ready %d times, absorbing: %v", ready, sq.Absorbing(key))
	}
	sq.Lead(key, false, nil)
	if len(b.feeds) != 0 || sq.Absorbing(key) {
		t.Error("a feed that is no longer led stays")
	}
}
