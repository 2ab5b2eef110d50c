package corona

import (
	"slices"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Each component of a Corona is built and tested here by itself, without the others above it.

// parts returns what the components of a node share. Requests to origins and messages are recorded.
func (l *lab) parts(cfg Config) (*base, *recorder) {
	r := &recorder{}
	b := *l.poller(cfg).base
	b.net, b.app, b.wedges = r, r, r
	return &b, r
}

// recorder stands for the world around a component.
type recorder struct {
	nobody
	Application
	fetches  []env.Request
	messages []*coronapb.Message
	states   []State
	done     []func(ok bool) // of changes that the log does not hold yet
	told     int             // snapshots sent down a wedge
}

func (r *recorder) Fetch(_ env.Handle, q env.Request) { r.fetches = append(r.fetches, q) }
func (r *recorder) Send(_ env.Peer, _ env.Class, frame []byte) {
	if _, body, err := wire.ParseFrame(frame); err == nil {
		if m, _, err := parse(body); err == nil {
			r.messages = append(r.messages, m)
		}
	}
}
func (r *recorder) Weight(overlay.ID) int                    { return 1 }
func (r *recorder) Leader(overlay.ID) (env.Peer, bool)       { return env.Peer{ID: "sequencer"}, true }
func (r *recorder) Saw(overlay.ID, string, *feed.Feed, bool) {}

func (r *recorder) SawPage(overlay.ID, string, *page.Core) {}
func (r *recorder) Fading(overlay.ID, int) []feed.ID       { return nil }
func (r *recorder) SetNote(overlay.ID, []byte)             {}
func (r *recorder) Enlist(overlay.ID, wedge.Order) error   { return nil }
func (r *recorder) Leads(overlay.ID) bool                  { return true }
func (r *recorder) Served(overlay.ID) (int, int)           { return 1, 0 }
func (r *recorder) AdjustLevels()                          {}
func (r *recorder) Decline(overlay.ID)                     {}
func (r *recorder) Broadcast(overlay.ID, []byte) error     { r.told++; return nil }
func (r *recorder) Found(_ overlay.ID, _ difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	r.done = append(r.done, done)
	return true
}
func (r *recorder) AloneStateChanged(overlay.ID)           {}
func (r *recorder) ShowAlone(overlay.ID, difference.Delta) {}
func (r *recorder) Recall(_ overlay.ID, then func(*difference.Known)) {
	then(new(difference.Known))
}
func (r *recorder) StateChanged(_ overlay.ID, state []byte, _ Urgency) {
	s, _ := ParseState(state)
	r.states = append(r.states, s)
}

// A domain is forgotten when nothing refers to it, unless it is rate-limited or was polled without a
// grant a moment ago.
func TestDomainsRememberWhatLimitsPolls(t *testing.T) {
	l := newLab(t)
	b, _ := l.parts(Config{})
	ds := &domains{base: b, byName: map[string]*domain{}}
	for name, use := range map[string]func(d *domain){
		"limited.example":   func(d *domain) { ds.limit(d, l.now.Add(time.Hour)) },
		"ungranted.example": func(d *domain) { ds.takeUngranted(d, l.now) },
		"plain.example":     func(*domain) {},
	} {
		d := ds.refer(name, false)
		use(d)
		ds.release(d)
	}
	if len(ds.byName) != 2 || ds.byName["plain.example"] != nil {
		t.Errorf("%v are remembered", ds.byName)
	}
	d := ds.refer("ungranted.example", false)
	if ds.takeUngranted(d, l.now.Add(ungrantedGap-1)) || !ds.takeUngranted(d, l.now.Add(ungrantedGap)) {
		t.Error("polls without a grant do not keep their distance")
	}
}

// claimed is a channel whose demand the test sets.
type claimed struct {
	readers int
	got     []overlay.ID
}

func (c *claimed) demand(overlay.ID) (int, time.Duration, float64, bool) {
	return c.readers, 30 * time.Minute, 1000, true
}
func (c *claimed) granted(key overlay.ID, _ time.Time) { c.got = append(c.got, key) }

// A steward that owns a domain's key alone divides its budget, and the permits of the same node take
// the grant. A channel is not granted more pollers than it has readers.
func TestAStewardGrantsWhatPermitsTake(t *testing.T) {
	w := newTestNetwork(t, 1)
	h := w.houses[0]
	ds := &domains{base: h.base, byName: map[string]*domain{}, budgeted: true}
	up := &claimed{readers: 60}
	ps := &permits{base: h.base, domains: ds, up: up}
	st := &steward{base: h.base, permits: ps, store: h}
	ps.owners = h.owners
	st.enable(h.owners)
	const url = "http://a.example/feed"
	l := &channelBudget{key: overlay.Key("town", url), url: url, domain: ds.refer("a.example", false), since: env.MomentOf(w.now), desiredPollers: 1000}
	ps.join(l, w.now)
	ask := func() {
		m := ps.signClaims([]*coronapb.Claim{{Url: url, Readers: 60, IntervalMs: 1800_000, Pollers: 1000}}, h.Now())
		m.Domain = "a.example"
		st.deliver(overlay.StewardKey("town", "a.example"), m)
	}
	ask() // the key has no owners yet
	w.run(time.Minute)
	ask()
	w.run(2 * issuePause)
	st.run(w.now)
	w.run(time.Second) // the grant becomes durable
	if !slices.Equal(up.got, []overlay.ID{l.key}) || l.permit == nil || l.permit.pollers != 1 {
		t.Fatalf("%d grants, permit %+v", len(up.got), l.permit)
	}
	if most := ps.pollerLimit(l.domain, l.permit, 60, 30*time.Minute); most != 1 {
		t.Errorf("%d pollers by a permit for one", most)
	}
	if !ps.awaitsGrant(l, w.now) || ps.decisionLimit(l, 60, 30*time.Minute, w.now) != 60 {
		t.Error("a new channel does not wait for the grant of the next interval")
	}
}

// led are the channels that an allocator decides about.
type led struct {
	channels []allocated
	enlisted map[overlay.ID]int
}

func (x *led) active() []allocated                       { return x.channels }
func (x *led) enlist(key overlay.ID, n int, _ time.Time) { x.enlisted[key] = n }

// others is what all other nodes publish.
type others struct {
	totals honeycomb.Totals
	whole  bool
	sent   int
}

func (o *others) Set([]byte) error    { o.sent++; return nil }
func (o *others) Remote() (any, bool) { return &honeycomb.Bins{Totals: o.totals}, o.whole }
func (o *others) RequestQuickRounds() {}

// An allocator gives a channel with more readers more pollers. It keeps its decision while shares of
// other nodes are missing.
func TestAnAllocatorKeepsItsDecisionWithoutTheOthers(t *testing.T) {
	w := newTestNetworkOf(t, 24, Config{Cut: honeycomb.Ranks})
	b := w.houses[0].base
	ds := &domains{base: b, byName: map[string]*domain{}}
	a := newAllocator(b, &permits{base: b, domains: ds})
	x, rest := &led{enlisted: map[overlay.ID]int{}}, &others{totals: honeycomb.Totals{Polls: 6}, whole: true}
	a.up, a.aggregate = x, rest
	for i, readers := range []int{2, 18} {
		x.channels = append(x.channels, allocated{
			&channelBudget{key: overlay.ID{byte(i)}, domain: ds.refer("a.example", false)},
			&allocation{pollers: 1}, &estimates{}, readers, 30 * time.Minute, false,
		})
	}
	a.startDecisions(w.now)
	now := w.now
	for range 4 { // the first decision only publishes the channels
		now = a.decideAt
		a.run(now, false)
	}
	few, many := x.enlisted[overlay.ID{0}], x.enlisted[overlay.ID{1}]
	if !a.decided || few < 1 || many < 2*few || few+many > 20 {
		t.Fatalf("%d and %d pollers for 2 and 18 readers", few, many)
	}
	if v, ok := a.Decision(); !ok || v.Target != 20*a.problem.Load || v.Polls != 6 {
		t.Errorf("%v polls of a target of %v", v.Polls, v.Target)
	}
	rest.whole, x.enlisted = false, map[overlay.ID]int{}
	x.channels[0].readers = 18
	sent := rest.sent
	if a.run(a.decideAt, false); len(x.enlisted) != 0 || rest.sent != sent+1 || !a.decideAt.After(now) {
		t.Errorf("%v were enlisted without the others' shares", x.enlisted)
	}
	if v, ok := a.Decision(); !ok || v.Polls != 0 || v.Target != 0 {
		t.Errorf("without the others' shares, the network makes %v polls of %v", v.Polls, v.Target)
	}
}

// unled leads no channel.
type unled struct{}

func (unled) leads(overlay.ID) bool                           { return false }
func (unled) begin(*assignment, time.Time)                    {}
func (unled) planned(overlay.ID, time.Time, string)           {}
func (unled) unreadable(overlay.ID) int                       { return 0 }
func (unled) observed(overlay.ID, observation, time.Time)     {}
func (unled) pollFailed(d *assignment, s State, at time.Time) {}

func (l *lab) poll(b *base, r *recorder) (*poller, *requests) {
	ds := &domains{base: b, byName: map[string]*domain{}}
	ps := &permits{base: b, domains: ds}
	rq := &requests{base: b, domains: ds, fetcher: r, open: map[env.Handle]request{}, moves: map[overlay.ID]seenMove{}}
	lp := &lonePolls{base: b, domains: ds, requests: rq, byKey: map[overlay.ID]*lonePoll{}, localReaders: r}
	po := newPoller(b, ds, ps, newAllocator(b, ps), rq, lp, &reports{base: b})
	po.up = unled{}
	return po, rq
}

// A poller polls once in an interval, and repeats a poll whose answer never comes.
func TestAPollerRepeatsWhatIsNotAnswered(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{Network: "lab"})
	po, _ := l.poll(b, r)
	po.Serve(key("http://a.example/"), wedge.Assignment{N: 1, Ranks: wedge.SingleRank(0), IntervalStart: l.now, Interval: time.Hour, Payload: channelParams{}.payload("http://a.example/")})
	for range 2 {
		l.now = po.next()
		po.run(l.now)
		po.checkOverdue(l.now)
	}
	if len(r.fetches) != 2 || b.stats.Late != 1 || po.responded(1, env.Answer{Status: 304}) {
		t.Fatalf("%d requests, %d late", len(r.fetches), b.stats.Late)
	}
	asked := l.now
	if !po.responded(2, env.Answer{Status: 304}) || po.next().Sub(asked) != time.Hour-answerTimeout {
		t.Errorf("the next poll is %v later", po.next().Sub(asked))
	}
}

// A report is repeated, with longer and longer pauses, until the sequencer acknowledges it.
func TestAReportIsRepeatedUntilItIsAcknowledged(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{Network: "lab"})
	po, _ := l.poll(b, r)
	f := parsed(t, rss("A", "", "one"))
	po.HandOver(key("http://a.example/"), &f.Head, f.Items, nil)
	for _, pause := range []time.Duration{reportRetry, 2 * reportRetry} {
		at := po.reports.calendar.Next()
		if at.Sub(l.now) != pause {
			t.Errorf("repeated after %v, want %v", at.Sub(l.now), pause)
		}
		l.now = at
		po.repeatReports(l.now)
	}
	w := po.reports.pending[0]
	po.onSnapshot(w.key, snapshotNotice{snapshot: &snapshot{}, nonce: w.nonce})
	l.now = po.reports.calendar.Next()
	if po.repeatReports(l.now); len(po.reports.pending) != 0 || !po.reports.calendar.Next().IsZero() {
		t.Error("an acknowledged report is repeated")
	}
}

// A node does not poll a channel alone that it has just polled as a poller.
func TestLonePollsLeaveOutWhatWasJustPolled(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{Network: "lab"})
	po, _ := l.poll(b, r)
	lp := po.lonePolls
	k, polled := key("http://a.example/"), time.Time{}
	lp.lastPoll = func(overlay.ID) (time.Time, bool) { return polled, !polled.IsZero() }
	lp.PollAlone(k, "http://a.example/", true)
	l.now = lp.calendar.Next()
	polled = l.now.Add(-time.Minute)
	lp.run(l.now)
	if next := lp.calendar.Next(); len(r.fetches) != 0 || next.Sub(polled) != 30*time.Minute {
		t.Errorf("%d polls; the next one is at %v", len(r.fetches), next)
	}
	l.now, polled = lp.calendar.Next(), time.Time{}
	if lp.run(l.now); len(r.fetches) != 1 {
		t.Error("no lone poll")
	}
}

// The answer to a request is read once; an answer to no request is ignored.
func TestAnAnswerIsReadOnce(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{})
	_, rq := l.poll(b, r)
	var got []State
	h := rq.add(request{url: "http://a.example/", then: func(_ env.Handle, _ env.Answer, _ observation, s State, _ time.Time) { got = append(got, s) }})
	for _, h := range []env.Handle{h + 1, h, h} {
		rq.answered(h, env.Answer{Status: 200, Body: []byte(rss("A", "", "one")), ContentType: "application/rss+xml"})
	}
	if len(got) != 1 || got[0].Kind != coronapb.State_OK {
		t.Errorf("%+v", got)
	}
}

// The intake requests the items that a report does not bring along, and accepts the observation when
// all are here. It stops asking a poller that does not answer.
func TestTheIntakeFetchesMissingItems(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{})
	accepted := 0
	in := &intake{base: b, accept: func(_ *leaderState, _ env.Peer, o observation, _ uint64, _ time.Time) {
		if accepted++; len(o.f.Items) != 2 || len(o.f.Items[1].Raw) == 0 {
			t.Errorf("an observation without its items: %+v", o.f)
		}
	}}
	f := parsed(t, rss("A", "", "one", "two"))
	o := observation{f: f}
	c := &leaderState{known: new(difference.Known), reporting: in.begin(overlay.ID{}, 1)}
	in.onObservation(c, env.Peer{ID: "finder"}, o.message(c.key, fingerprintsOf(f)))
	if len(r.messages) != 1 || len(r.messages[0].GetItemRequest().GetItems()) != 2 || accepted != 0 {
		t.Fatalf("%v; %d accepted", r.messages, accepted)
	}
	packed, err := difference.Delta{Head: &f.Head, Changes: []difference.Change{{Item: f.Items[0]}, {Item: f.Items[1], After: f.Items[0].ID}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	in.onItemChunk(c, "finder", &coronapb.ItemChunk{Size: uint32(len(packed)), Data: packed})
	if accepted != 1 || in.fetching != 0 {
		t.Errorf("%d accepted, %d under way", accepted, in.fetching)
	}
	in.onObservation(c, env.Peer{ID: "silent"}, o.message(c.key, fingerprintsOf(f)))
	for at := in.calendar.Next(); !at.IsZero(); at = in.calendar.Next() {
		l.now = at
		in.run(l.now)
	}
	if len(r.messages) != 1+maxItemTries || in.fetching != 0 {
		t.Errorf("%d requests, %d under way", len(r.messages)-1, in.fetching)
	}
}

// A channel counts as failing when half of its pollers fail, and as well again when one of them
// reports so and the others are forgotten.
func TestTheMonitorCountsFailingPollers(t *testing.T) {
	l := newLab(t)
	b, r := l.parts(Config{})
	ds := &domains{base: b, byName: map[string]*domain{}}
	fetched := 0
	mo := &monitor{
		base: b, permits: &permits{base: b, domains: ds},
		polls: func(overlay.ID) bool { return false },
		fetch: func(*leaderState, time.Time) { fetched++ },
	}
	c := &leaderState{channelBudget: channelBudget{domain: ds.refer("a.example", false)}, allocation: allocation{pollers: 4}, pacing: pacing{interval: time.Hour}}
	c.state.Kind = coronapb.State_OK
	limited := State{Kind: coronapb.State_LIMITED, Polled: l.now}
	if mo.noteFailure(c, "a", limited, false, l.now); len(r.states) != 0 || fetched != 1 {
		t.Errorf("one of four fails: %v; %d fetches", r.states, fetched)
	}
	if mo.noteFailure(c, "b", limited, false, l.now); len(r.states) != 1 || c.state.Kind != coronapb.State_LIMITED {
		t.Errorf("two of four fail: %v", r.states)
	}
	c.recoveredAt = env.MomentOf(l.now)
	if mo.noteRecovery(c, l.now); c.state.Kind == coronapb.State_OK {
		t.Error("it recovers while half of its pollers fail")
	}
	if mo.forgetFailing(c, l.now.Add(3*time.Hour)); c.state.Kind != coronapb.State_OK || len(c.failing) != 0 {
		t.Errorf("%+v", c.state)
	}
}

// A sequencer tells its pollers of a document when the log holds the last of the changes that are
// under way, and tells nobody after its term.
func TestASequencerCommitsAfterTheLastChange(t *testing.T) {
	for _, cease := range []bool{false, true} {
		l := newLab(t)
		b, r := l.parts(Config{Network: "lab"})
		po, rq := l.poll(b, r)
		po.allocator.aggregate = &others{}
		sq := newSequencer(b, po.domains, po.permits, po.allocator, rq, po, &intake{base: b}, &callbacks{base: b})
		k := key("http://a.example/")
		sq.Lead(k, "http://a.example/", 1, new(difference.Known), nil)
		for _, doc := range []string{rss("A", "", "one"), rss("A", "", "one", "two")} {
			sq.observed(k, observation{f: parsed(t, doc)}, l.now)
		}
		if cease {
			sq.Cease(k)
		}
		r.done[1](true)
		before := r.told
		r.done[0](true)
		if want := map[bool]int{false: 1}[cease]; before != 0 || r.told != want {
			t.Errorf("ceased is %v: %d snapshots, then %d", cease, before, r.told)
		}
	}
}
