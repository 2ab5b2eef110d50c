package corona

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A channel counts as well while most of its pollers succeed, and recovers when most succeed again.
func TestAChannelFailsWhenMostOfItsPollersFail(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	well := v.origin
	failing := map[*member]bool{}
	v.origin = func(h *member, r env.Request) env.Answer {
		if failing[h] {
			return env.Answer{Status: 500}
		}
		return well(h, r)
	}
	for _, step := range []struct {
		failing int
		kind    coronapb.State_Kind
	}{{1, coronapb.State_OK}, {2, coronapb.State_FAILING}, {3, coronapb.State_FAILING}, {1, coronapb.State_OK}, {0, coronapb.State_OK}} {
		for i, h := range v.pollers {
			failing[h] = i < step.failing
		}
		v.poll(v.pollers...)
		if s := v.state(); s.Kind != step.kind {
			t.Errorf("with %d of 3 pollers failing the state is %v", step.failing, s)
		}
		if n := len(v.leader.leaders[v.key].failing); n != step.failing {
			t.Errorf("%d pollers are known to fail, %d do", n, step.failing)
		}
		v.run(2 * time.Minute) // longer than minStateGap
	}
}

// breaks makes the origin fail while the returned value is true.
func (v *channelNetwork) breaks() *bool {
	well, broken := v.origin, new(bool)
	v.origin = func(h *member, r env.Request) env.Answer {
		if *broken {
			return env.Answer{Status: 500}
		}
		return well(h, r)
	}
	return broken
}

// A poller that failed and was released, and so never reports success, does not keep a channel
// failing.
func TestAReleasedPollerDoesNotKeepAChannelFailing(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "one"))
	broken := v.breaks()
	*broken = true
	v.poll(v.pollers...)
	if s := v.state(); s.Kind != coronapb.State_FAILING {
		t.Fatalf("%v", s)
	}
	v.pollers[0].Release(v.key)
	*broken = false
	v.run(2 * time.Minute)
	v.poll(v.pollers[1])
	if s := v.state(); s.Kind != coronapb.State_FAILING {
		t.Errorf("with one of two failing the state is %v", s)
	}
	l := v.leader.leaders[v.key]
	v.leader.sequencer.monitor.forgetFailing(l, v.now.Add(5*l.interval))
	if s := v.state(); s.Kind != coronapb.State_OK || len(l.failing) > 0 {
		t.Errorf("when it is forgotten it is %v, %d are failing", s, len(l.failing))
	}
}

// A poller without a snapshot reports its whole document, and then gets the snapshot. A newly
// enlisted poller gets it from the node that enlisted it, with the limit for all pollers but not
// with a limit that one node alone has seen.
func TestAPollerWithoutASnapshotReportsEverything(t *testing.T) {
	doc := rss("A", "", "one", "two")
	v := newChannelNetwork(t, 2, doc)
	blank, other := v.pollers[0], v.pollers[1]
	blank.assignments.Get(v.key).snapshot = nil
	if b := blank.Handoff(v.key); b != nil {
		t.Errorf("who knows nothing hands on %d bytes", len(b))
	}
	v.poll(blank)
	if n := len(v.knowing(doc)); n != 2 || v.reports() != 1 || len(v.found) != 1 {
		t.Errorf("%d pollers know the snapshot, %d change reports, %d entries", n, v.reports(), len(v.found))
	}
	blank.assignments.Get(v.key).snapshot = nil
	other.poller.limitDomainOf(other.assignments.Get(v.key), v.now.Add(time.Hour))
	blank.Delivered(v.key, other.Handoff(v.key))
	if d := blank.assignments.Get(v.key); len(v.knowing(doc)) != 2 || d.extras().limitedUntil.After(v.now) {
		t.Errorf("%d know it, and are to rest until %v", len(v.knowing(doc)), d.extras().limitedUntil.Time())
	}
	other.assignments.Get(v.key).ensureExtra().limitedUntil = env.MomentOf(v.now.Add(time.Hour))
	blank.Delivered(v.key, other.Handoff(v.key))
	if d := blank.assignments.Get(v.key); !d.extras().limitedUntil.Time().Equal(v.now.Add(time.Hour)) {
		t.Errorf("to rest until %v", d.extras().limitedUntil.Time())
	}
}

// Hints and a new address that a poller finds in a document apply to all pollers.
func TestHintsThatAPollerFindsSetTheIntervalOfAll(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	if v.order.Interval != 30*time.Minute {
		t.Fatalf("interval %v", v.order.Interval)
	}
	v.serve(rss("A", "<ttl>120</ttl><skipHours><hour>3</hour><hour>4</hour></skipHours>", "one", "two"), func(a *env.Answer) {
		a.Moved, a.FinalURL = true, "http://b.example/feed"
	})
	v.poll(v.pollers[1])
	if s := v.state(); s.Moved != "http://b.example/feed" || s.Interval != 2*time.Hour || s.Why != "the feed's ttl" {
		t.Errorf("the state is %+v", s)
	}
	for _, h := range v.pollers {
		turn, _ := h.Slot(v.key)
		if d := h.assignments.Get(v.key); turn.Interval != 2*time.Hour || d.target.params.skips.hours != 1<<3|1<<4 {
			t.Errorf("a poller has an interval of %v, and leaves out the hours %b", turn.Interval, d.target.params.skips.hours)
		}
		if at := h.assignments.Get(v.key).next.Time().Hour(); at == 3 || at == 4 {
			t.Errorf("the next poll is at %d", at)
		}
	}
}

// Change reports beyond the limit are dropped, and their pollers repeat them.
func TestTooManyReportsAreDropped(t *testing.T) {
	v := newChannelNetwork(t, maxItemFetches+3, rss("A", "", "one"))
	shut := true
	v.way = func(_, _ *member, layer wire.Layer, body []byte) []time.Duration {
		m, _, err := parse(body)
		if layer == wire.Corona && err == nil && m.GetItemRequest() != nil && shut {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	doc, raw := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(doc)
	v.poll(v.pollers...)
	if l := v.leader.leaders[v.key]; len(l.itemFetches) != maxItemFetches || v.leader.intake.fetching != maxItemFetches || v.leader.Stats().Crowded != 3 {
		t.Errorf("%d item fetches wait, %d in all, %d were dropped", len(l.itemFetches), v.leader.intake.fetching, v.leader.Stats().Crowded)
	}
	shut = false
	v.run(2 * time.Minute)
	if len(v.found) != 2 || len(v.items) != 1+len(raw) || v.leader.intake.fetching != 0 || len(v.leader.leaders[v.key].itemFetches) != 0 {
		t.Errorf("%d entries with %d items; %d item fetches wait", len(v.found), len(v.items), v.leader.intake.fetching)
	}
	if n := len(v.knowing(doc)); n != len(v.pollers) {
		t.Errorf("%d pollers know that", n)
	}
	v.leader.intake.fetching = maxAllItemFetches
	last, _ := bulky(rand.New(rand.NewPCG(2, 2)), 2, 40<<10)
	v.serve(last)
	v.poll(v.pollers[0])
	if n := len(v.leader.leaders[v.key].itemFetches); n != 0 || v.leader.Stats().Crowded != 4 {
		t.Errorf("%d item fetches wait where there is no room, %d were dropped", n, v.leader.Stats().Crowded)
	}
}

// A poller that does not send its items cannot block the reports of others: small items come with
// the report and need no fetch, and a stalled fetch is dropped after a while.
func TestStalledItemFetchesGiveWay(t *testing.T) {
	v := newChannelNetwork(t, maxItemFetches+2, rss("A", "", "one"))
	liars := v.pollers[:maxItemFetches]
	v.way = func(from, _ *member, layer wire.Layer, body []byte) []time.Duration {
		m, _, err := parse(body)
		if layer == wire.Corona && err == nil && m.GetItemChunk() != nil && slices.Contains(liars, from) {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	doc, _ := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(doc)
	v.poll(liars...)
	l := v.leader.leaders[v.key]
	if len(l.itemFetches) != maxItemFetches {
		t.Fatalf("%d item fetches wait", len(l.itemFetches))
	}
	hold := func() {
		for _, g := range l.itemFetches {
			if slices.ContainsFunc(liars, func(h *member) bool { return h.signer.PeerID() == g.from.ID }) {
				g.tries = 0 // one byte has arrived
			}
		}
	}
	v.serve(rss("A", "", "one", "two"))
	v.leader.intake.dropItemFetch(l, l.itemFetches[0]) // otherwise there is no room at all
	v.poll(v.pollers[maxItemFetches])
	if titles(v.items) != "one two" {
		t.Errorf("the log has %q while others hold places", titles(v.items))
	}
	v.serve(doc)
	v.poll(v.pollers[maxItemFetches+1])
	for range len(liars) * int(sharedFetchLimit/time.Second) {
		hold()
		v.run(time.Second)
	}
	if len(v.items) <= 2 {
		t.Errorf("the log has %q: who says that he has found something, and sends nothing, has kept others out", titles(v.items))
	}
}

// Items that the log cannot take now, or that no quorum holds, are reported again, and no poller is
// told that the log holds them.
func TestChangesThatTheLogRefusesAreReportedAgain(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "one"))
	doc := rss("A", "", "one", "two")
	v.serve(doc)
	v.full = true
	v.poll(v.pollers...)
	if n := len(v.knowing(doc)); n != 0 || len(v.found) != 1 {
		t.Errorf("%d pollers believe that the log has it, which has %d entries", n, len(v.found))
	}
	v.full = false
	v.run(30 * time.Second) // they report again
	if n := len(v.knowing(doc)); n != 2 || titles(v.items) != "one two" {
		t.Errorf("%d pollers know that the log has %q", n, titles(v.items))
	}
}

// A document that is not accepted is reported again when the suspicion period is over, whichever
// node polls.
func TestASuspiciousDocumentIsReportedAgain(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", numbered(9)...))
	other := elsewhere("Another", "a", "b", "c", "d", "e")
	v.serve(other)
	v.run(50 * time.Minute)
	if n := len(v.found); n != 1 || v.state().Kind != coronapb.State_NOT_A_FEED || v.reports() != 2 {
		t.Fatalf("%d entries, %v, %d change reports", n, v.state(), v.reports())
	}
	v.run(time.Hour)
	if n := len(v.found); n != 2 || v.state().Kind != coronapb.State_OK || len(v.knowing(other)) != 2 {
		t.Errorf("%d entries, %v; %d know that the log has it", n, v.state(), len(v.knowing(other)))
	}
}

// A new sequencer gets a report that is in progress from its poller, even if the sequencer is one
// of the pollers.
func TestANewSequencerGetsPendingReports(t *testing.T) {
	for name, to := range map[string]int{"a poller": 1, "who found it": 0} {
		t.Run(name, func(t *testing.T) {
			v := newChannelNetwork(t, 3, rss("A", "", "one"))
			finder, next := v.pollers[0], v.pollers[to]
			handed := false
			v.way = func(from, house *member, layer wire.Layer, body []byte) []time.Duration {
				if from == house {
					return nil // a node has no link to itself
				}
				m, _, err := parse(body)
				if layer == wire.Corona && err == nil && m.GetItemChunk() != nil && !handed {
					handed = true
					v.hand(next)
				}
				return []time.Duration{20 * time.Millisecond}
			}
			doc, raw := bulky(rand.New(rand.NewPCG(1, 1)), 4, 100<<10)
			v.serve(doc)
			finder.Corona.poller.poll(finder.assignments.Get(v.key), v.now)
			v.run(keepReportFor + time.Minute)
			if !handed || len(v.items) != 1+len(raw) || len(v.found) != 2 {
				t.Errorf("handed on: %v; %d entries with %d items", handed, len(v.found), len(v.items))
			}
			for _, h := range v.houses {
				if h.intake.fetching != 0 || len(h.reports.pending) != 0 {
					t.Errorf("%d item fetches wait, %d reports are pending", h.intake.fetching, len(h.reports.pending))
				}
			}
		})
	}
}

// A poller becomes the sequencer of a log that lacks items of the earlier one, as in a new branch.
// It finds these items again: it neither continues from its snapshot nor gets snapshots any more.
func TestANewSequencerTrustsOnlyItsOwnLog(t *testing.T) {
	old, next := rss("A", "", "one"), rss("A", "", "one", "two")
	v := newChannelNetwork(t, 2, old)
	note := v.note
	v.serve(next)
	v.poll(v.pollers...)
	if n := len(v.knowing(next)); n != 2 {
		t.Fatalf("%d pollers know the snapshot", n)
	}
	who := v.pollers[0]
	word := who.Handoff(v.key)
	v.found, v.items, v.note, v.aside = v.found[:1], v.items[:1], note, false
	v.hand(who)
	who.Delivered(v.key, word)
	v.run(time.Minute)
	who.Corona.poller.poll(who.assignments.Get(v.key), v.now)
	v.run(time.Minute)
	if titles(v.items) != "one two" {
		t.Errorf("the log has %q", titles(v.items))
	}
}

// A node that stops leading ends its order, and takes no part in the results of its changes.
func TestCeaseEndsTheOrder(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	v.slow = true
	v.serve(rss("A", "", "one", "two"))
	v.poll(v.pollers[0])
	v.leader.Cease(v.key)
	v.run(time.Second)
	for _, h := range v.pollers {
		if _, ok := h.Slot(v.key); ok {
			t.Error("a poller polls on")
		}
	}
	v.hold(true)
	v.run(time.Hour)
	if n := len(v.knowing(rss("A", "", "one", "two"))); n != 0 {
		t.Errorf("%d waiting pollers were remembered", n)
	}
	if _, ok := v.leader.View(v.key); ok || v.leader.Stats().Channels != 0 {
		t.Error("it still returns a state")
	}
	v.leader.Cease(v.key) // a second call does nothing
}

// A document with the largest number of items, some of them new, fits into one message, whatever
// else the message holds.
func TestTheLongestDocumentFitsIntoAMessage(t *testing.T) {
	long := func(a *env.Answer) {
		a.ETag, a.LastModified = strings.Repeat("e", maxValidator), strings.Repeat("m", maxValidator)
	}
	of := numbered(feed.MaxItems)
	v := newChannelNetwork(t, 2, rss("A", "", of[:feed.MaxItems-1]...))
	noise, raw := bulky(rand.New(rand.NewPCG(1, 1)), 1, 22<<10)
	_ = noise
	doc := rss("A", "", append(slices.Clone(of[:feed.MaxItems-1]), raw...)...)
	d := difference.Delta{Changes: []difference.Change{{Item: parsed(t, doc).Items[feed.MaxItems-1]}}}
	if b, err := d.Encode(); err != nil || len(b) > maxInline || len(b)+feed.MaxItems*fingerprintSize < overlay.MaxPayload {
		t.Fatalf("%d bytes, %v: not what this test is about", len(b), err)
	}
	for _, h := range v.pollers {
		// Snapshots do not carry the fingerprints of such a document. Here they are set, so that
		// only one item is new.
		h.assignments.Get(v.key).snapshot.fingerprints = fingerprintsOf(parsed(t, rss("A", "", of[:feed.MaxItems-1]...)))
	}
	v.serve(doc, long)
	v.poll(v.pollers[0])
	if len(v.found) != 2 || len(v.items) != feed.MaxItems {
		t.Errorf("%d entries, %d items", len(v.found), len(v.items))
	}
}

// Messages of other nodes change nothing.
func TestMessagesOfOtherNodesAreIgnored(t *testing.T) {
	doc := rss("A", "", "one")
	v := newChannelNetwork(t, 2, doc)
	stranger := newChannelNetwork(t, 0, doc).leader
	from := stranger.signer.PeerID()
	poller, leader := v.pollers[0], v.leader
	tell := func(to *member, m *coronapb.Message) { _ = to.Receive(from, wire.Encode(m)) }

	s := &snapshot{fingerprints: []fingerprint{{hash: 1}}, digest: 7}
	for _, nonce := range []uint64{0, 1} {
		tell(poller, s.message(v.key, nonce, 20*time.Hour, 0))
	}
	w := &pendingReport{nonce: 9, key: key("http://other.example/"), observation: observation{f: parsed(t, doc)}, since: v.now}
	poller.reports.pending = append(poller.reports.pending, w)
	tell(poller, s.message(v.key, 9, 20*time.Hour, 0))
	poller.Delivered(v.key, wire.Encode(s.message(w.key, 9, 0, 0)))
	if d := poller.assignments.Get(v.key); d.snapshot.digest == 7 || d.extras().limitedUntil.After(v.now) || len(poller.reports.pending) != 1 {
		t.Errorf("a poller believes that the log stands at %x, and rests until %v", d.snapshot.digest, d.extras().limitedUntil.Time())
	}

	bulk, _ := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(bulk)
	v.way = func(_, _ *member, layer wire.Layer, body []byte) []time.Duration {
		if m, _, err := parse(body); layer == wire.Corona && err == nil && m.GetItemRequest() != nil {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	v.poll(poller)
	g := leader.leaders[v.key].itemFetches[0]
	tell(leader, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: v.key[:], Nonce: g.nonce}}})
	tell(leader, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: v.key[:], Nonce: g.nonce, Size: 1, Data: []byte{1}}}})
	if l := leader.leaders[v.key]; !slices.Contains(l.itemFetches, g) || len(g.packed) > 0 {
		t.Error("another node has ended a change report, or added to it")
	}
	// Neither does a message of the right node if it is not what was requested.
	_ = leader.Receive(g.from.ID, wire.Encode(&coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: v.key[:], Nonce: g.nonce, Size: 3, Data: []byte("xyz")}}}))
	if st := leader.Stats(); st.Garbage != 1 || leader.intake.fetching != 0 || len(v.found) != 1 {
		t.Errorf("%d invalid messages, %d item fetches wait, %d entries", st.Garbage, leader.intake.fetching, len(v.found))
	}
}

// The number of waiting pollers is bounded.
func TestWaitingPollersAreBounded(t *testing.T) {
	l := &leaderState{}
	for i := range maxWaiters + 9 {
		for nonce := range uint64(3) {
			l.wait(waiter{env.Peer{ID: env.PeerID(fmt.Sprint(i))}, nonce})
		}
	}
	if len(l.waiters) != maxWaiters || l.waiters[0].nonce != 2 {
		t.Errorf("%d wait, the first for %d", len(l.waiters), l.waiters[0].nonce)
	}
}

// An order that the wedge refuses is given again.
func TestARefusedOrderIsRepeated(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "one"))
	l := v.leader.leaders[v.key]
	before := v.order
	v.leader.wedges = refusing{v.leader}
	v.leader.sequencer.order(l, 1, v.now)
	if l.pollers != 2 || l.order.N != before.N || l.order.Term != before.Term || v.leader.Stats().Unlisted != 1 {
		t.Errorf("%d pollers, order %+v, %d orders refused", l.pollers, l.order, v.leader.Stats().Unlisted)
	}
	v.leader.wedges = v.leader
	v.leader.sequencer.order(l, 1, v.now)
	if l.pollers != 1 || v.order.N != 1 || v.order.Term.Seq != before.Term.Seq+1 {
		t.Errorf("%d pollers, order %+v", l.pollers, v.order)
	}
}

// A sequencer gives its order again if the order of another sequencer has replaced it and ended.
// Otherwise nobody would poll the channel although its state is ok.
func TestASequencerThatLostItsPollersGetsThemBack(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	for _, h := range v.serving {
		h.Release(v.key)
	}
	v.serving, v.outlived = nil, true
	v.serve(rss("A", "", "two", "one"))
	v.run(3 * v.pollers[0].cfg.MaintenanceInterval)
	if len(v.serving) != 3 || titles(v.items) != "one two" {
		t.Errorf("%d pollers, and the log has %q", len(v.serving), titles(v.items))
	}
}

// refusing is a wedge without room.
type refusing struct{ *member }

func (refusing) Enlist(overlay.ID, wedge.Order) error { return fmt.Errorf("no room") }

// A success before the last failure does not make a channel recover.
func TestAnEarlierSuccessIsNoRecovery(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "one"))
	broken := v.breaks()
	for _, *broken = range []bool{true, false} {
		v.poll(v.pollers...)
		v.run(2 * time.Minute)
	}
	if s := v.state(); s.Kind != coronapb.State_OK {
		t.Fatalf("%+v", s)
	}
	*broken = true
	v.poll(v.pollers[0]) // the other poller stops
	v.run(2 * time.Minute)
	l := v.leader.leaders[v.key]
	v.leader.sequencer.monitor.forgetFailing(l, v.now.Add(5*l.interval))
	if s := v.state(); s.Kind == coronapb.State_OK {
		t.Errorf("%+v", s)
	}
}
