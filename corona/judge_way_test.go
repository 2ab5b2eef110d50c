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

// As long as most pollers are well, so is the channel; and polls go well again when most do.
func TestAChannelIsAsIllAsMostOfItsPollers(t *testing.T) {
	v := newVillage(t, 3, rss("A", "", "one"))
	well := v.origin
	ill := map[*house]bool{}
	v.origin = func(h *house, r env.Request) env.Answer {
		if ill[h] {
			return env.Answer{Status: 500}
		}
		return well(h, r)
	}
	for _, step := range []struct {
		ill  int
		kind coronapb.State_Kind
	}{{1, coronapb.State_OK}, {2, coronapb.State_FAILING}, {3, coronapb.State_FAILING}, {1, coronapb.State_OK}, {0, coronapb.State_OK}} {
		for i, h := range v.pollers {
			ill[h] = i < step.ill
		}
		v.poll(v.pollers...)
		if s := v.state(); s.Kind != step.kind {
			t.Errorf("with %d of 3 pollers ill it is %v", step.ill, s)
		}
		if n := len(v.leader.leads[v.key].ill); n != step.ill {
			t.Errorf("%d pollers are known to be ill, %d are", n, step.ill)
		}
		v.run(2 * time.Minute) // longer than a poller says nothing again
	}
}

// breaks has the origin fail as long as what it returns is true.
func (v *village) breaks() *bool {
	well, broken := v.origin, new(bool)
	v.origin = func(h *house, r env.Request) env.Answer {
		if *broken {
			return env.Answer{Status: 500}
		}
		return well(h, r)
	}
	return broken
}

// A poller that failed and polls no longer, and so never says that it is well, does not keep a channel ill.
func TestWhoPollsNoLongerKeepsNoChannelIll(t *testing.T) {
	v := newVillage(t, 2, rss("A", "", "one"))
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
		t.Errorf("with one of two ill it is %v", s)
	}
	l := v.leader.leads[v.key]
	v.leader.forgetIll(l, v.now.Add(5*l.interval))
	if s := v.state(); s.Kind != coronapb.State_OK || len(l.ill) > 0 {
		t.Errorf("when it is forgotten it is %v, %d are ill", s, len(l.ill))
	}
}

// A poller who has not been told how the log stands tells the sequencer what it reads, and
// then it knows. Who is newly enlisted is told by who enlisted it, of the rest for all, too, but
// not of what one alone has seen.
func TestAPollerWithoutAStandingTellsAll(t *testing.T) {
	doc := rss("A", "", "one", "two")
	v := newVillage(t, 2, doc)
	blank, other := v.pollers[0], v.pollers[1]
	blank.duties.Get(v.key).standing = nil
	if b := blank.Handoff(v.key); b != nil {
		t.Errorf("who knows nothing hands on %d bytes", len(b))
	}
	v.poll(blank)
	if n := len(v.standings(doc)); n != 2 || v.sightings() != 1 || len(v.found) != 1 {
		t.Errorf("%d pollers know how the log stands, %d findings, %d entries", n, v.sightings(), len(v.found))
	}
	blank.duties.Get(v.key).standing = nil
	other.spareOf(other.duties.Get(v.key), v.now.Add(time.Hour))
	blank.Delivered(v.key, other.Handoff(v.key))
	if d := blank.duties.Get(v.key); len(v.standings(doc)) != 2 || d.extras().rest.after(v.now) {
		t.Errorf("%d know it, and are to rest until %v", len(v.standings(doc)), d.extras().rest.time())
	}
	other.duties.Get(v.key).rare().rest = momentOf(v.now.Add(time.Hour))
	blank.Delivered(v.key, other.Handoff(v.key))
	if d := blank.duties.Get(v.key); !d.extras().rest.time().Equal(v.now.Add(time.Hour)) {
		t.Errorf("to rest until %v", d.extras().rest.time())
	}
}

// What a poller finds in a document beside its items holds for all: hints, and where it moved.
func TestHintsThatAPollerFindsSetTheIntervalOfAll(t *testing.T) {
	v := newVillage(t, 3, rss("A", "", "one"))
	if v.order.Interval != 30*time.Minute {
		t.Fatalf("interval %v", v.order.Interval)
	}
	v.serve(rss("A", "<ttl>120</ttl><skipHours><hour>3</hour><hour>4</hour></skipHours>", "one", "two"), func(a *env.Answer) {
		a.Moved, a.FinalURL = true, "http://b.example/feed"
	})
	v.poll(v.pollers[1])
	if s := v.state(); s.Moved != "http://b.example/feed" || s.Interval != 2*time.Hour || s.Why != "the feed's ttl" {
		t.Errorf("it is said %+v", s)
	}
	for _, h := range v.pollers {
		turn, _ := h.Turn(v.key)
		if d := h.duties.Get(v.key); turn.Interval != 2*time.Hour || d.said.brief.skips.hours != 1<<3|1<<4 {
			t.Errorf("a poller has an interval of %v, and leaves out the hours %b", turn.Interval, d.said.brief.skips.hours)
		}
		if at := h.duties.Get(v.key).next.time().Hour(); at == 3 || at == 4 {
			t.Errorf("the next poll is at %d", at)
		}
	}
}

// Of too many findings that wait for their items further ones are dropped. They come again.
func TestACrowdOfFindingsIsDropped(t *testing.T) {
	v := newVillage(t, maxGather+3, rss("A", "", "one"))
	shut := true
	v.way = func(_, _ *house, layer wire.Layer, body []byte) []time.Duration {
		m, _, err := parse(body)
		if layer == wire.Corona && err == nil && m.GetWant() != nil && shut {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	doc, raw := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(doc)
	v.poll(v.pollers...)
	if l := v.leader.leads[v.key]; len(l.gather) != maxGather || v.leader.gathers != maxGather || v.leader.Stats().Crowded != 3 {
		t.Errorf("%d findings wait, %d in all, %d were dropped", len(l.gather), v.leader.gathers, v.leader.Stats().Crowded)
	}
	shut = false
	v.run(2 * time.Minute)
	if len(v.found) != 2 || len(v.items) != 1+len(raw) || v.leader.gathers != 0 || len(v.leader.leads[v.key].gather) != 0 {
		t.Errorf("%d entries with %d items; %d findings wait", len(v.found), len(v.items), v.leader.gathers)
	}
	if n := len(v.standings(doc)); n != len(v.pollers) {
		t.Errorf("%d pollers know that", n)
	}
	v.leader.gathers = maxGathers
	last, _ := bulky(rand.New(rand.NewPCG(2, 2)), 2, 40<<10)
	v.serve(last)
	v.poll(v.pollers[0])
	if n := len(v.leader.leads[v.key].gather); n != 0 || v.leader.Stats().Crowded != 4 {
		t.Errorf("%d findings wait where there is no room, %d were dropped", n, v.leader.Stats().Crowded)
	}
}

// Who sends nothing of what he says that he has found keeps nobody else's findings out: few items
// travel with a finding, and need no place; and of those that do, one has to go after a while.
func TestFindingsThatDoNotComeGiveWay(t *testing.T) {
	v := newVillage(t, maxGather+2, rss("A", "", "one"))
	liars := v.pollers[:maxGather]
	v.way = func(from, _ *house, layer wire.Layer, body []byte) []time.Duration {
		m, _, err := parse(body)
		if layer == wire.Corona && err == nil && m.GetPart() != nil && slices.Contains(liars, from) {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	doc, _ := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(doc)
	v.poll(liars...)
	l := v.leader.leads[v.key]
	if len(l.gather) != maxGather {
		t.Fatalf("%d findings wait", len(l.gather))
	}
	hold := func() {
		for _, g := range l.gather {
			if slices.ContainsFunc(liars, func(h *house) bool { return h.signer.PeerID() == g.from.ID }) {
				g.tries = 0 // a byte has come
			}
		}
	}
	v.serve(rss("A", "", "one", "two"))
	v.leader.dropGather(l, l.gather[0]) // else there is no place at all
	v.poll(v.pollers[maxGather])
	if titles(v.items) != "one two" {
		t.Errorf("the log has %q while others hold places", titles(v.items))
	}
	v.serve(doc)
	v.poll(v.pollers[maxGather+1])
	for range len(liars) * int(hurried/time.Second) {
		hold()
		v.run(time.Second)
	}
	if len(v.items) <= 2 {
		t.Errorf("the log has %q: who says that he has found something, and sends nothing, has kept others out", titles(v.items))
	}
}

// What the log cannot take now, or what is not held, is found again; nobody is told that it is
// there.
func TestAFindingThatIsNotTakenIsFoundAgain(t *testing.T) {
	v := newVillage(t, 2, rss("A", "", "one"))
	doc := rss("A", "", "one", "two")
	v.serve(doc)
	v.full = true
	v.poll(v.pollers...)
	if n := len(v.standings(doc)); n != 0 || len(v.found) != 1 {
		t.Errorf("%d pollers believe that the log has it, which has %d entries", n, len(v.found))
	}
	v.full = false
	v.run(30 * time.Second) // they tell again
	if n := len(v.standings(doc)); n != 2 || titles(v.items) != "one two" {
		t.Errorf("%d pollers know that the log has %q", n, titles(v.items))
	}
}

// A document that is not believed is told again when that may be over, whoever polls.
func TestADocumentThatIsNotBelievedIsToldAgain(t *testing.T) {
	v := newVillage(t, 2, rss("A", "", numbered(9)...))
	other := elsewhere("Another", "a", "b", "c", "d", "e")
	v.serve(other)
	v.run(50 * time.Minute)
	if n := len(v.found); n != 1 || v.state().Kind != coronapb.State_NOT_A_FEED || v.sightings() != 2 {
		t.Fatalf("%d entries, %v, %d findings", n, v.state(), v.sightings())
	}
	v.run(time.Hour)
	if n := len(v.found); n != 2 || v.state().Kind != coronapb.State_OK || len(v.standings(other)) != 2 {
		t.Errorf("%d entries, %v; %d know that the log has it", n, v.state(), len(v.standings(other)))
	}
}

// Another leader in the middle of a finding gets it from its poller, also when it is one of
// the pollers itself.
func TestANewLeaderGetsWhatTheOneBeforeDidNot(t *testing.T) {
	for name, to := range map[string]int{"a poller": 1, "who found it": 0} {
		t.Run(name, func(t *testing.T) {
			v := newVillage(t, 3, rss("A", "", "one"))
			finder, next := v.pollers[0], v.pollers[to]
			handed := false
			v.way = func(from, house *house, layer wire.Layer, body []byte) []time.Duration {
				if from == house {
					return nil // nobody has a link to itself
				}
				m, _, err := parse(body)
				if layer == wire.Corona && err == nil && m.GetPart() != nil && !handed {
					handed = true
					v.hand(next)
				}
				return []time.Duration{20 * time.Millisecond}
			}
			doc, raw := bulky(rand.New(rand.NewPCG(1, 1)), 4, 100<<10)
			v.serve(doc)
			finder.Corona.poll(finder.duties.Get(v.key), v.now)
			v.run(heldFor + time.Minute)
			if !handed || len(v.items) != 1+len(raw) || len(v.found) != 2 {
				t.Errorf("handed on: %v; %d entries with %d items", handed, len(v.found), len(v.items))
			}
			for _, h := range v.houses {
				if h.gathers != 0 || len(h.held) != 0 {
					t.Errorf("%d findings wait, %d are held", h.gathers, len(h.held))
				}
			}
		})
	}
}

// A poller that becomes the leader of a log that lacks what the one before held, as in a new
// lineage, finds it: it neither goes on with what it was told, nor is it told any more.
func TestANewLeaderKnowsItsOwnLogAlone(t *testing.T) {
	old, next := rss("A", "", "one"), rss("A", "", "one", "two")
	v := newVillage(t, 2, old)
	note := v.note
	v.serve(next)
	v.poll(v.pollers...)
	if n := len(v.standings(next)); n != 2 {
		t.Fatalf("%d pollers know how the log stands", n)
	}
	who := v.pollers[0]
	word := who.Handoff(v.key)
	v.found, v.items, v.note, v.aside = v.found[:1], v.items[:1], note, false
	v.hand(who)
	who.Delivered(v.key, word)
	v.run(time.Minute)
	who.Corona.poll(who.duties.Get(v.key), v.now)
	v.run(time.Minute)
	if titles(v.items) != "one two" {
		t.Errorf("the log has %q", titles(v.items))
	}
}

// Who leads no more dismisses its wedge, and has no part in what comes of its findings.
func TestWhoLeadsNoMoreDismissesItsWedge(t *testing.T) {
	v := newVillage(t, 3, rss("A", "", "one"))
	v.slow = true
	v.serve(rss("A", "", "one", "two"))
	v.poll(v.pollers[0])
	v.leader.Cease(v.key)
	v.run(time.Second)
	for _, h := range v.pollers {
		if _, ok := h.Turn(v.key); ok {
			t.Error("a poller polls on")
		}
	}
	v.hold(true)
	v.run(time.Hour)
	if n := len(v.standings(rss("A", "", "one", "two"))); n != 0 {
		t.Errorf("%d were told of what was held", n)
	}
	if _, ok := v.leader.View(v.key); ok || v.leader.Stats().Channels != 0 {
		t.Error("it still says how polls go")
	}
	v.leader.Cease(v.key) // once more means nothing
}

// A document of as many items as there may be, some of them new, goes in one message, whatever
// else is in it.
func TestALongDocumentGoesInAMessage(t *testing.T) {
	long := func(a *env.Answer) {
		a.ETag, a.LastModified = strings.Repeat("e", maxValidator), strings.Repeat("m", maxValidator)
	}
	of := numbered(feed.MaxItems)
	v := newVillage(t, 2, rss("A", "", of[:feed.MaxItems-1]...))
	noise, raw := bulky(rand.New(rand.NewPCG(1, 1)), 1, 22<<10)
	_ = noise
	doc := rss("A", "", append(slices.Clone(of[:feed.MaxItems-1]), raw...)...)
	d := difference.Delta{Changes: []difference.Change{{Item: parsed(t, doc).Items[feed.MaxItems-1]}}}
	if b, err := d.Encode(); err != nil || len(b) > maxInline || len(b)+feed.MaxItems*printSize < overlay.MaxPayload {
		t.Fatalf("%d bytes, %v: not what this test is about", len(b), err)
	}
	for _, h := range v.pollers {
		// Such a document is told of in full: its prints do not go down. So that this item
		// alone is new, they have come.
		h.duties.Get(v.key).standing.prints = prints(parsed(t, rss("A", "", of[:feed.MaxItems-1]...)))
	}
	v.serve(doc, long)
	v.poll(v.pollers[0])
	if len(v.found) != 2 || len(v.items) != feed.MaxItems {
		t.Errorf("%d entries, %d items", len(v.found), len(v.items))
	}
}

// Words of strangers change nothing.
func TestStrangersAreNotHeeded(t *testing.T) {
	doc := rss("A", "", "one")
	v := newVillage(t, 2, doc)
	stranger := newVillage(t, 0, doc).leader
	from := stranger.signer.PeerID()
	poller, leader := v.pollers[0], v.leader
	tell := func(to *house, m *coronapb.Message) { _ = to.Receive(from, marshal(m)) }

	s := &standing{prints: []imprint{{hash: 1}}, digest: 7}
	for _, nonce := range []uint64{0, 1} {
		tell(poller, s.message(v.key, nonce, 20*time.Hour))
	}
	w := &found{nonce: 9, key: key("http://other.example/"), reading: reading{f: parsed(t, doc)}, since: v.now}
	poller.held = append(poller.held, w)
	tell(poller, s.message(v.key, 9, 20*time.Hour))
	poller.Delivered(v.key, marshal(s.message(w.key, 9, 0)))
	if d := poller.duties.Get(v.key); d.standing.digest == 7 || d.extras().rest.after(v.now) || len(poller.held) != 1 {
		t.Errorf("a poller believes that the log stands at %x, and rests until %v", d.standing.digest, d.extras().rest.time())
	}

	bulk, _ := bulky(rand.New(rand.NewPCG(1, 1)), 2, 40<<10)
	v.serve(bulk)
	v.way = func(_, _ *house, layer wire.Layer, body []byte) []time.Duration {
		if m, _, err := parse(body); layer == wire.Corona && err == nil && m.GetWant() != nil {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	v.poll(poller)
	g := leader.leads[v.key].gather[0]
	tell(leader, &coronapb.Message{Body: &coronapb.Message_Part{Part: &coronapb.Part{Key: v.key[:], Nonce: g.nonce}}})
	tell(leader, &coronapb.Message{Body: &coronapb.Message_Part{Part: &coronapb.Part{Key: v.key[:], Nonce: g.nonce, Size: 1, Data: []byte{1}}}})
	if l := leader.leads[v.key]; !slices.Contains(l.gather, g) || len(g.packed) > 0 {
		t.Error("a stranger has ended a finding, or added to it")
	}
	// Nor does what the right one sends, if it is not what was asked for.
	_ = leader.Receive(g.from.ID, marshal(&coronapb.Message{Body: &coronapb.Message_Part{Part: &coronapb.Part{Key: v.key[:], Nonce: g.nonce, Size: 3, Data: []byte("xyz")}}}))
	if st := leader.Stats(); st.Garbage != 1 || leader.gathers != 0 || len(v.found) != 1 {
		t.Errorf("%d pieces of garbage, %d findings wait, %d entries", st.Garbage, leader.gathers, len(v.found))
	}
}

// However many wait for an answer, it is bounded who is remembered.
func TestFewWaitForAnAnswer(t *testing.T) {
	l := &lead{}
	for i := range maxWaiters + 9 {
		for nonce := range uint64(3) {
			l.wait(waiter{env.Peer{ID: env.PeerID(fmt.Sprint(i))}, nonce})
		}
	}
	if len(l.waiters) != maxWaiters || l.waiters[0].nonce != 2 {
		t.Errorf("%d wait, the first for %d", len(l.waiters), l.waiters[0].nonce)
	}
}

// Of an order that the wedge refuses the leader takes no note: it is given again.
func TestAnOrderThatIsRefusedIsGivenAgain(t *testing.T) {
	v := newVillage(t, 2, rss("A", "", "one"))
	l := v.leader.leads[v.key]
	before := v.order
	v.leader.wedges = refusing{v.leader}
	v.leader.enlist(l, 1, v.now)
	if l.pollers != 2 || l.order.N != before.N || l.order.Term != before.Term || v.leader.Stats().Unlisted != 1 {
		t.Errorf("%d pollers, order %+v, %d orders refused", l.pollers, l.order, v.leader.Stats().Unlisted)
	}
	v.leader.wedges = v.leader
	v.leader.enlist(l, 1, v.now)
	if l.pollers != 1 || v.order.N != 1 || v.order.Term.Seq != before.Term.Seq+1 {
		t.Errorf("%d pollers, order %+v", l.pollers, v.order)
	}
}

// A sequencer gives its order again if the order of another sequencer has replaced it and ended. Without that,
// nobody polled the channel, and its state was ok.
func TestASequencerThatLostItsPollersGetsThemBack(t *testing.T) {
	v := newVillage(t, 3, rss("A", "", "one"))
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

// refusing are wedges that have no room.
type refusing struct{ *house }

func (refusing) Enlist(overlay.ID, wedge.Order) error { return fmt.Errorf("no room") }

// That somebody was well makes no channel well of which another poll has failed since.
func TestWhoWasWellBeforeIsNoWitness(t *testing.T) {
	v := newVillage(t, 2, rss("A", "", "one"))
	broken := v.breaks()
	for _, *broken = range []bool{true, false} {
		v.poll(v.pollers...)
		v.run(2 * time.Minute)
	}
	if s := v.state(); s.Kind != coronapb.State_OK {
		t.Fatalf("%+v", s)
	}
	*broken = true
	v.poll(v.pollers[0]) // the other polls no longer
	v.run(2 * time.Minute)
	l := v.leader.leads[v.key]
	v.leader.forgetIll(l, v.now.Add(5*l.interval))
	if s := v.state(); s.Kind == coronapb.State_OK {
		t.Errorf("%+v", s)
	}
}
