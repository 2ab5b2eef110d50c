package corona

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// The only channel of a domain gets what it claims within the domain's budget: room for a quarter
// more pollers than it has.
func TestAChannelIsGrantedWhatItClaims(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(time.Minute)
	if l := f.leader.leaders[f.key]; l.permit == nil || l.permit.pollers != 1 {
		t.Errorf("in the first interval %+v", l.permit)
	}
	w.run(25 * time.Minute)
	if l := f.leader.leaders[f.key]; l.permit == nil || l.permit.pollers != 10 || f.order.N != 8 {
		t.Errorf("after a while %+v, %d pollers", l.permit, f.order.N)
	}
	w.run(15 * time.Minute) // a new poller lets half an interval pass
	from := w.now
	w.run(time.Hour)
	if n := w.honestHits(from, w.now, "a.example")[f.url]; n < 15 || n > 17 {
		t.Errorf("%d polls in an hour of 8 pollers", n)
	}
	st := w.stats()
	if st.Forged+st.Replayed+st.Denied+st.Misclaimed+st.Garbage+st.Short > 0 || st.Granted < 3 {
		t.Errorf("%+v", st)
	}
}

// variants opens so many variants of one address, each with some readers. A tenth of the members
// lie, in one way for each of their channels.
func (w *testNetwork) variants(domain string, n, readers int, lies ...lie) {
	for i := range len(w.houses) / 10 {
		w.houses[5+10*i].liar = true
	}
	lying := 0
	for i := range n {
		f := &testChannel{url: fmt.Sprintf("http://www.%s/?x=%d", domain, i), readers: readers, want: 20}
		f.key = overlay.Key(w.network.Name, f.url)
		owners := w.nearest(f.key)[:5]
		liar := slices.IndexFunc(owners, func(h *member) bool { return h.liar })
		if liar >= 0 && lying < n/10 && len(lies) > 0 {
			f.leader, f.lie = owners[liar], lies[lying%len(lies)]
			if lying++; lying%3 == 0 && len(lies) > 1 {
				f.readers, f.want = 1<<30, 1<<19
			}
		} else {
			f.leader = owners[slices.IndexFunc(owners, func(h *member) bool { return !h.liar })]
		}
		w.add(f)
	}
	if lying != n/10 && len(lies) > 0 {
		w.t.Fatalf("%d of %d channels have a liar for a leader", lying, n)
	}
}

// unpolled counts the honest channels that nobody has polled since a time.
func (w *testNetwork) unpolled(since time.Time) (n int) {
	polled := map[string]bool{}
	for _, x := range w.hits {
		if !x.at.Before(since) {
			polled[x.url] = true
		}
	}
	for _, f := range w.feeds {
		if !polled[f.url] && f.lie == nil {
			n++
		}
	}
	return n
}

// Of a domain with a thousand variants of one address, each channel would have twenty pollers, and
// a tenth of the members lie about the channels that they lead. Honest members still keep the
// domain's budget and poll each honest channel.
func TestLiarsDoNotExceedADomainsBudget(t *testing.T) {
	t.Parallel()
	const domain, budget = "variants.example", 600 // one request per second, in ten minutes
	w := newTestNetwork(t, 30)
	start := w.now
	w.variants(domain, longtest.Pick(400, 1000), 5, lieMany, lieDoubles, lieBare, lieForged, lieOther, lieReplayed, lieHasty)
	w.run(60 * time.Minute)
	if got := w.busiest(start, domain); got > budget*11/10 {
		t.Errorf("%d requests in ten minutes, where %d are the budget", got, budget)
	}
	if n := w.unpolled(w.now.Add(-40 * time.Minute)); n > 0 {
		t.Errorf("%d honest channels were not polled in 40 minutes", n)
	}
	if st := w.stats(); st.Forged == 0 || st.Replayed == 0 || st.Skipped == 0 || st.Misclaimed == 0 {
		t.Errorf("not all lies were noticed: %+v", st)
	}
}

// Each kind of lie by itself, while honest channels use the whole budget.
func TestNoSingleLieExceedsADomainsBudget(t *testing.T) {
	t.Parallel()
	const domain, channels, readers = "lies.example", 100, 3
	const budget = channels * readers * 600 / 1800
	for what, l := range map[string]lie{
		"many": lieMany, "doubles": lieDoubles, "bare": lieBare, "forged": lieForged, "other": lieOther,
		"replayed": lieReplayed, "hasty": lieHasty,
	} {
		t.Run(what, func(t *testing.T) {
			w := newTestNetwork(t, 30)
			start := w.now
			w.variants(domain, channels, readers, l)
			w.run(55 * time.Minute)
			got := w.busiest(start, domain)
			if got > budget*11/10 || got < budget*7/10 {
				t.Errorf("%d requests in ten minutes, where %d are the budget; %+v", got, budget, w.stats())
			}
			if n := w.unpolled(w.now.Add(-40 * time.Minute)); n > 0 {
				t.Errorf("%d honest channels were not polled in 40 minutes", n)
			}
		})
	}
}

// lie is what a malicious sequencer tells its wedge in place of an order.
type lie func(w *testNetwork, f *testChannel, o wedge.Order)

// replaceGrant replaces the grant in the payload of an order.
func replaceGrant(o wedge.Order, grant []byte) wedge.Order {
	m := new(coronapb.ChannelParams)
	_ = proto.Unmarshal(o.Payload, m)
	m.Grant = grant
	o.Payload = wire.Encode(m)
	return o
}

func grantOf(o wedge.Order) []byte {
	m := new(coronapb.ChannelParams)
	_ = proto.Unmarshal(o.Payload, m)
	return m.Grant
}

// flood gives ranks to all members, as if they were so many.
func (w *testNetwork) flood(f *testChannel, o wedge.Order, of int) {
	f.serving = w.nearest(f.key)
	for rank, h := range f.serving {
		f.serve(h, o, rank%of, of)
	}
}

// lieMany enlists more pollers than were granted.
func lieMany(w *testNetwork, f *testChannel, o wedge.Order) { w.flood(f, o, len(w.houses)) }

// lieDoubles gives each rank to several members.
func lieDoubles(w *testNetwork, f *testChannel, o wedge.Order) { w.flood(f, o, max(o.N, 1)) }

// lieBare tells every member that it is the only poller, without a grant.
func lieBare(w *testNetwork, f *testChannel, o wedge.Order) { w.flood(f, replaceGrant(o, nil), 1) }

// lieForged changes a grant for few pollers, signed by stewards, into one for many.
func lieForged(w *testNetwork, f *testChannel, o wedge.Order) {
	if g, err := openGrant(grantOf(o)); err == nil {
		g.pollers = 1000
		o = replaceGrant(o, g.state().append())
	}
	w.flood(f, o, len(w.houses))
}

// lieOther uses the grant of another channel.
func lieOther(w *testNetwork, f *testChannel, o wedge.Order) {
	for _, f := range w.feeds {
		if l := f.leader; l != nil && l.leaders[f.key].grant != nil {
			o = replaceGrant(o, l.leaders[f.key].grant)
			break
		}
	}
	w.flood(f, o, len(w.houses))
}

// lieReplayed uses the first grant again and again.
func lieReplayed(w *testNetwork, f *testChannel, o wedge.Order) {
	switch g := grantOf(o); {
	case g != nil && f.old == nil:
		f.old = g
	case g != nil:
		w.flood(f, o, max(o.N, 1))
		w.after(time.Second, func() { w.flood(f, replaceGrant(o, f.old), len(w.houses)) })
		return
	}
	w.flood(f, o, max(o.N, 1))
}

// lieHasty orders polls every minute, and claims channels of another domain whose readers would
// enlarge its own budget.
func lieHasty(w *testNetwork, f *testChannel, o wedge.Order) {
	o.Interval = time.Minute
	w.flood(f, o, max(o.N, 1))
	domain, _ := Origin(f.url)
	f.leader.permits.routePoliteness(overlay.StewardKey(w.network.Name, domain), domain, f.leader.permits.signClaims([]*coronapb.Claim{
		{Url: "http://www.else.example/", Readers: 1e6, IntervalMs: 1800_000, Pollers: 9},
	}, f.leader.clock.Now()), func(overlay.Receipt, bool) {})
}

// A sequencer that releases and re-enlists its pollers, so that their slots come early, gets no
// more polls than others.
func TestReenlistedPollersKeepTheirInterval(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 4)
	w.run(25 * time.Minute)
	from := w.now
	f.leader.liar, f.lie = true, func(*testNetwork, *testChannel, wedge.Order) {}
	for range 12 {
		o := f.order
		o.IntervalStart = w.now.Add(o.Interval/2 + 10*time.Second)
		for _, h := range f.serving {
			h.Release(f.key)
			f.serve(h, o, 0, o.N)
		}
		w.run(o.Interval/2 + time.Minute)
	}
	if n := w.honestHits(from, w.now, "a.example")[f.url]; n < 3*5 || n > 3*(6+maxAhead) {
		t.Errorf("%d polls by three honest pollers in six intervals", n)
	}
}

// Clocks of stewards, sequencers and pollers may differ by minutes; grants stay in force.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	const domain = "clocks.example"
	w := newTestNetwork(t, 16)
	for i, h := range w.houses {
		h.ahead = time.Duration(i%3-1) * 144 * time.Second // any two differ by at most 288 s
	}
	w.variants(domain, 60, 9)
	w.run(80 * time.Minute)
	pollers := 0
	for _, f := range w.feeds {
		pollers += f.order.N
	}
	const budget = 60 * 9 * 600 / 1800
	if most := budget * 3; pollers < most*8/10 {
		t.Errorf("%d pollers, where %d make the budget", pollers, most)
	}
	if got := w.busiest(w.now.Add(-40*time.Minute), domain); got > budget*11/10 || got < budget*7/10 {
		t.Errorf("%d requests in ten minutes, where %d are the budget", got, budget)
	}
	if st := w.stats(); st.Denied+st.Expired > 0 {
		t.Errorf("%+v", st)
	}
}

// A member that claims very many channels leaves room for others.
func TestOneMemberDoesNotFillADomain(t *testing.T) {
	t.Parallel()
	const domain = "full.example"
	w := newTestNetwork(t, 30)
	w.open("http://www."+domain+"/", 1, 1)
	w.run(time.Minute)
	liar, steward := w.houses[7], w.steward(domain)
	var claims []*coronapb.Claim
	for i := range maxAccounts {
		claims = append(claims, &coronapb.Claim{Url: fmt.Sprintf("http://%s/?x=%d", domain, i), Readers: 1, IntervalMs: 1800_000, Pollers: 1})
		if len(claims) == maxClaims {
			m := liar.permits.signClaims(claims, w.now)
			m.Domain = domain
			steward.steward.receive(liar.signer.PeerID(), m)
			claims = nil
		}
	}
	if n := steward.steward.accountCount; n > fairShareFactor*maxAccounts/30+1 {
		t.Errorf("%d channels of one domain are those of one member", n)
	}
	granted := steward.stats.Granted
	steward.run()
	if steward.stats.Granted > granted {
		t.Error("a budget is shared out each time that somebody asks")
	}
	f := w.open("http://blog."+domain+"/", 1, 1)
	w.run(2 * time.Minute)
	if l := f.leader.leaders[f.key]; l.permit == nil {
		t.Error("another one has got no grant")
	}
}

// A claim in another node's name, or a copy of an earlier claim, is ignored. Otherwise a channel
// could lose its share.
func TestForgedClaimsAreIgnored(t *testing.T) {
	const domain = "names.example"
	w := newTestNetwork(t, 16)
	f := w.open("http://www."+domain+"/", 100, 8)
	w.run(25 * time.Minute)
	steward, liar := w.steward(domain), w.houses[5]
	if liar == f.leader || liar == steward {
		liar = w.houses[6]
	}
	ask := func(by, name *member, claims ...*coronapb.Claim) *coronapb.Politeness {
		m := by.permits.signClaims(claims, w.now)
		m.Domain, m.GetGrantRequest().Record = domain, name.node.Self().Raw
		return m
	}
	claim := func(pollers uint32) *coronapb.Claim {
		return &coronapb.Claim{Url: f.url, Readers: pollers, IntervalMs: 1800_000, Pollers: pollers}
	}
	o, _ := steward.steward.stewardOf(domain)
	account := o.account(f.key)
	had := account.claim
	steward.steward.receive(liar.signer.PeerID(), ask(liar, f.leader, claim(1)))
	if account.claim != had {
		t.Errorf("%+v was claimed by another in its name, where it had %+v", account.claim, had)
	}
	old := ask(f.leader, f.leader, claim(1))
	w.run(time.Minute)
	steward.steward.receive(f.leader.signer.PeerID(), ask(f.leader, f.leader, claim(9)))
	claimed := account.claim
	steward.steward.receive(liar.signer.PeerID(), old)
	if account.claim != claimed || claimed.pollers != 9 {
		t.Errorf("%+v was claimed again, where %+v was claimed last", account.claim, claimed)
	}
	w.run(time.Hour)
	garbage, replayed := steward.stats.Garbage, steward.stats.Replayed
	steward.steward.receive(liar.signer.PeerID(), old)
	if steward.stats.Garbage != garbage || steward.stats.Replayed != replayed+1 {
		t.Error("what was claimed an hour ago is taken")
	}
}

// Grants are renewed although the budget leader dies, and the next one too. The wedge stays as it
// is, and earlier grants count for the new leader.
func TestGrantsSurviveTheirBudgetLeader(t *testing.T) {
	t.Parallel()
	const domain = "deaths.example"
	w := newTestNetwork(t, 20)
	w.variants(domain, 60, 9)
	w.run(25 * time.Minute)
	before := 0
	for _, f := range w.feeds {
		before += f.order.N
	}
	for range 2 {
		h := w.steward(domain)
		if h == nil {
			t.Fatal("nobody leads the domain's key")
		}
		w.kill(h)
		w.run(35 * time.Minute) // longer than the lifetime of a grant
	}
	from := w.now.Add(-20 * time.Minute)
	after, lacking := 0, 0
	for _, f := range w.feeds {
		after += f.order.N
		if l := f.leader.leaders[f.key]; l.permit == nil || !l.permit.expiry.After(w.now) {
			lacking++
		}
	}
	if lacking > 0 || after < before*9/10 {
		t.Errorf("%d channels lack a grant; %d pollers were %d", lacking, after, before)
	}
	const budget = 60 * 9 * 600 / 1800
	if got := w.busiest(w.now.Add(-70*time.Minute), domain); got > budget*11/10 {
		t.Errorf("%d requests in ten minutes, where %d are the budget", got, budget)
	}
	total := 0
	for _, n := range w.honestHits(from, w.now, domain) {
		total += n
	}
	if total < 2*budget*8/10 {
		t.Errorf("%d requests in the last 20 minutes, where %d are the budget", total, 2*budget)
	}
	if st := w.stats(); st.Denied > 0 {
		t.Errorf("%+v", st)
	}
}

// Shares follow the readers within three maintenance intervals, although earlier grants count until
// they expire.
func TestSharesFollowTheReaders(t *testing.T) {
	t.Parallel()
	const domain = "shares.example"
	w := newTestNetwork(t, 16)
	w.variants(domain, 120, 3)
	for _, f := range w.feeds {
		f.want = 1000
		f.leader.leaders[f.key].desiredPollers = 1000
	}
	w.run(25 * time.Minute)
	granted := func(f *testChannel) int { return f.leader.leaders[f.key].permit.pollers }
	one := w.feeds[7]
	was := granted(one)
	for _, f := range w.feeds {
		if n := granted(f); n < 2 || n > 3 {
			t.Fatalf("%d pollers where there are 45 readers for 16", n)
		}
	}
	one.readers = 48 // four times the square root
	start := w.now
	w.run(3*10*time.Minute + 2*time.Minute)
	sum := 0
	for _, f := range w.feeds {
		if f != one {
			sum += granted(f)
		}
	}
	mean := float64(sum) / 119
	if got := float64(granted(one)); got < 3.2*mean || got > 4.8*mean {
		t.Errorf("%v pollers where the others have %.1f, and all had %d", got, mean, was)
	}
	const budget = (119*3 + 48) * 600 / 1800
	if got := w.busiest(start.Add(-20*time.Minute), domain); got > budget*11/10 {
		t.Errorf("%d requests in ten minutes, where %d are the budget", got, budget)
	}
}

// A node that may fetch from private addresses and takes over a channel checks whether the domain
// is private, and requests a grant if it is not.
func TestANewSequencerChecksWhetherADomainIsPrivate(t *testing.T) {
	w := newTestNetworkOf(t, 12, Config{Politeness: true, ExemptPrivate: true})
	f := &testChannel{url: "http://a.example/feed", readers: 100, want: 2}
	f.key, f.aside = overlay.Key(w.network.Name, f.url), true
	near := w.nearest(f.key)
	f.leader = near[0]
	w.add(f)
	w.run(40 * time.Minute)
	if len(f.note) == 0 || f.leader.leaders[f.key].permit == nil {
		t.Fatalf("%+v", f.leader.leaders[f.key])
	}
	f.leader.Cease(f.key)
	f.leader = near[len(near)-1]
	w.appoint(f)
	w.run(40 * time.Minute)
	if l := f.leader.leaders[f.key]; l.permit == nil || l.permit.number == 0 || !l.domain.privateKnown {
		t.Errorf("permit %+v", l.permit)
	}
}

// A node without others is its own steward.
func TestANodeAloneGrantsItself(t *testing.T) {
	w := newTestNetwork(t, 1)
	f := w.open("http://a.example/feed", 1, 1)
	g := w.open("http://a.example/other", 1, 1)
	w.run(30 * time.Minute)
	from := w.now
	w.run(2 * time.Hour)
	hits := w.honestHits(from, w.now, "a.example")
	if st := w.stats(); hits[f.url] != 4 || hits[g.url] != 4 || st.Granted < 4 || st.Skipped > 2 {
		t.Errorf("%v, %+v", hits, st)
	}
}
