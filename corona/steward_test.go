package corona

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/longtest"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A channel that alone is read of its domain gets what it claims, as far as rule 3 goes: room for
// a quarter more pollers than it has.
func TestAChannelIsGrantedWhatItClaims(t *testing.T) {
	w := newTown(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(time.Minute)
	if l := f.leader.leads[f.key]; l.permit == nil || l.permit.pollers != 1 {
		t.Errorf("in the first interval %+v", l.permit)
	}
	w.run(25 * time.Minute)
	if l := f.leader.leads[f.key]; l.permit == nil || l.permit.pollers != 10 || f.order.N != 8 {
		t.Errorf("after a while %+v, %d pollers", l.permit, f.order.N)
	}
	w.run(15 * time.Minute) // who is new lets half an interval pass
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

// variants opens as many variants of one address, each read by some; a tenth of the houses
// lie, each channel of theirs in one way after the other.
func (w *town) variants(domain string, n, readers int, lies ...lie) {
	for i := range len(w.houses) / 10 {
		w.houses[5+10*i].liar = true
	}
	lying := 0
	for i := range n {
		f := &townFeed{url: fmt.Sprintf("http://www.%s/?x=%d", domain, i), readers: readers, want: 20}
		f.key = overlay.Key(w.network.Name, f.url)
		owners := w.nearest(f.key)[:5]
		liar := slices.IndexFunc(owners, func(h *house) bool { return h.liar })
		if liar >= 0 && lying < n/10 && len(lies) > 0 {
			f.leader, f.lie = owners[liar], lies[lying%len(lies)]
			if lying++; lying%3 == 0 && len(lies) > 1 {
				f.readers, f.want = 1<<30, 1<<19
			}
		} else {
			f.leader = owners[slices.IndexFunc(owners, func(h *house) bool { return !h.liar })]
		}
		w.add(f)
	}
	if lying != n/10 && len(lies) > 0 {
		w.t.Fatalf("%d of %d channels have a liar for a leader", lying, n)
	}
}

// unpolled counts the honest channels that nobody has polled since a time.
func (w *town) unpolled(since time.Time) (n int) {
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

// A thousand variants of one address on one domain, whose channels all would be polled by
// twenty, and a tenth of the members lie, with whatever they lead: honest members ask the
// domain no more than its budget bears, and poll each honest channel all the same.
func TestLiarsDoNotMakeADomainAskedMore(t *testing.T) {
	t.Parallel()
	const domain, budget = "variants.example", 600 // one a second, in ten minutes
	w := newTown(t, 30)
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

// Each lie alone, where the honest channels use all of the budget: what their readers would
// ask.
func TestNoLieAloneMakesADomainAskedMore(t *testing.T) {
	t.Parallel()
	const domain, channels, readers = "lies.example", 100, 3
	const budget = channels * readers * 600 / 1800
	for what, l := range map[string]lie{
		"many": lieMany, "doubles": lieDoubles, "bare": lieBare, "forged": lieForged, "other": lieOther,
		"replayed": lieReplayed, "hasty": lieHasty,
	} {
		t.Run(what, func(t *testing.T) {
			w := newTown(t, 30)
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

// A lie is what a leader tells its wedge in place of an order.
type lie func(w *town, f *townFeed, o wedge.Order)

// reword puts another grant into the words of an order.
func reword(o wedge.Order, grant []byte) wedge.Order {
	m := new(coronapb.Words)
	_ = proto.Unmarshal(o.Words, m)
	m.Grant = grant
	o.Words = marshal(m)
	return o
}

func grantOf(o wedge.Order) []byte {
	m := new(coronapb.Words)
	_ = proto.Unmarshal(o.Words, m)
	return m.Grant
}

// flood gives ranks to all, as if they were so many.
func (w *town) flood(f *townFeed, o wedge.Order, of int) {
	f.serving = w.nearest(f.key)
	for rank, h := range f.serving {
		f.serve(h, o, rank%of, of)
	}
}

// lieMany enlists more than were granted.
func lieMany(w *town, f *townFeed, o wedge.Order) { w.flood(f, o, len(w.houses)) }

// lieDoubles gives each rank to several.
func lieDoubles(w *town, f *townFeed, o wedge.Order) { w.flood(f, o, max(o.N, 1)) }

// lieBare tells all that each is the only one, without a grant.
func lieBare(w *town, f *townFeed, o wedge.Order) { w.flood(f, reword(o, nil), 1) }

// lieForged has a grant for many, that stewards have signed for fewer.
func lieForged(w *town, f *townFeed, o wedge.Order) {
	if g, err := openGrant(grantOf(o)); err == nil {
		g.pollers = 1000
		o = reword(o, g.state().append())
	}
	w.flood(f, o, len(w.houses))
}

// lieOther has the grant of another channel.
func lieOther(w *town, f *townFeed, o wedge.Order) {
	for _, f := range w.feeds {
		if l := f.leader; l != nil && l.leads[f.key].grant != nil {
			o = reword(o, l.leads[f.key].grant)
			break
		}
	}
	w.flood(f, o, len(w.houses))
}

// lieReplayed shows the first grant again and again.
func lieReplayed(w *town, f *townFeed, o wedge.Order) {
	switch g := grantOf(o); {
	case g != nil && f.old == nil:
		f.old = g
	case g != nil:
		w.flood(f, o, max(o.N, 1))
		w.after(time.Second, func() { w.flood(f, reword(o, f.old), len(w.houses)) })
		return
	}
	w.flood(f, o, max(o.N, 1))
}

// lieHasty has its pollers ask each minute, and claims channels of another domain, for whose
// readers its own would have a larger budget.
func lieHasty(w *town, f *townFeed, o wedge.Order) {
	o.Interval = time.Minute
	w.flood(f, o, max(o.N, 1))
	f.leader.routePoliteness(domainOf(f.url), f.leader.claiming([]*coronapb.Claim{
		{Url: "http://www.else.example/", Readers: 1e6, IntervalMs: 1800_000, Pollers: 9},
	}, f.leader.clock.Now()))
}

// Who releases its pollers, and enlists them anew so that they have a turn soon, is not polled
// for oftener than who does not.
func TestPollersKeepTheirTurns(t *testing.T) {
	w := newTown(t, 12)
	f := w.open("http://a.example/feed", 100, 4)
	w.run(25 * time.Minute)
	from := w.now
	f.leader.liar, f.lie = true, func(*town, *townFeed, wedge.Order) {}
	for range 12 {
		o := f.order
		o.Ref = w.now.Add(o.Interval/2 + 10*time.Second)
		for _, h := range f.serving {
			h.Release(f.key)
			f.serve(h, o, 0, o.N)
		}
		w.run(o.Interval/2 + time.Minute)
	}
	if n := w.honestHits(from, w.now, "a.example")[f.url]; n < 3*5 || n > 3*(6+ahead) {
		t.Errorf("%d polls by three honest pollers in six intervals", n)
	}
}

// Clocks that differ by minutes leave grants in force: of stewards, sequencers and pollers.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	const domain = "clocks.example"
	w := newTown(t, 16)
	for i, h := range w.houses {
		h.ahead = time.Duration(i%3-1) * 144 * time.Second // 288 s between any two at most
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

// One who claims very many channels leaves room for others.
func TestOneMemberDoesNotFillADomain(t *testing.T) {
	t.Parallel()
	const domain = "full.example"
	w := newTown(t, 30)
	w.open("http://www."+domain+"/", 1, 1)
	w.run(time.Minute)
	liar, steward := w.houses[7], w.steward(domain)
	var claims []*coronapb.Claim
	for i := range maxAccounts {
		claims = append(claims, &coronapb.Claim{Url: fmt.Sprintf("http://%s/?x=%d", domain, i), Readers: 1, IntervalMs: 1800_000, Pollers: 1})
		if len(claims) == maxClaims {
			m := liar.claiming(claims, w.now)
			m.Domain = domain
			steward.takePoliteness(liar.signer.PeerID(), m)
			claims = nil
		}
	}
	if n := steward.manners.held; n > fairAccounts*maxAccounts/30+1 {
		t.Errorf("%d channels of one domain are those of one member", n)
	}
	granted := steward.stats.Granted
	steward.run()
	if steward.stats.Granted > granted {
		t.Error("a budget is shared out each time that somebody asks")
	}
	f := w.open("http://blog."+domain+"/", 1, 1)
	w.run(2 * time.Minute)
	if l := f.leader.leads[f.key]; l.permit == nil {
		t.Error("another one has got no grant")
	}
}

// Nobody claims in another's name, nor again what another claimed: who leads a channel would
// lose its share by it.
func TestNobodyClaimsInAnothersName(t *testing.T) {
	const domain = "names.example"
	w := newTown(t, 16)
	f := w.open("http://www."+domain+"/", 100, 8)
	w.run(25 * time.Minute)
	steward, liar := w.steward(domain), w.houses[5]
	if liar == f.leader || liar == steward {
		liar = w.houses[6]
	}
	ask := func(by, name *house, claims ...*coronapb.Claim) *coronapb.Politeness {
		m := by.claiming(claims, w.now)
		m.Domain, m.GetAsk().Record = domain, name.node.Self().Raw
		return m
	}
	claim := func(pollers uint32) *coronapb.Claim {
		return &coronapb.Claim{Url: f.url, Readers: pollers, IntervalMs: 1800_000, Pollers: pollers}
	}
	o, _ := steward.office(domain)
	account := o.account(f.key)
	had := account.claim
	steward.takePoliteness(liar.signer.PeerID(), ask(liar, f.leader, claim(1)))
	if account.claim != had {
		t.Errorf("%+v was claimed by another in its name, where it had %+v", account.claim, had)
	}
	old := ask(f.leader, f.leader, claim(1))
	w.run(time.Minute)
	steward.takePoliteness(f.leader.signer.PeerID(), ask(f.leader, f.leader, claim(9)))
	claimed := account.claim
	steward.takePoliteness(liar.signer.PeerID(), old)
	if account.claim != claimed || claimed.pollers != 9 {
		t.Errorf("%+v was claimed again, where %+v was claimed last", account.claim, claimed)
	}
	w.run(time.Hour)
	garbage, replayed := steward.stats.Garbage, steward.stats.Replayed
	steward.takePoliteness(liar.signer.PeerID(), old)
	if steward.stats.Garbage != garbage || steward.stats.Replayed != replayed+1 {
		t.Error("what was claimed an hour ago is taken")
	}
}

// Grants are renewed though the domain's sequencer dies, and again the next one: the wedge
// stays as it is, and what was granted counts for who comes after.
func TestGrantsOutliveTheirSteward(t *testing.T) {
	t.Parallel()
	const domain = "deaths.example"
	w := newTown(t, 20)
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
		w.run(35 * time.Minute) // longer than any grant lasts
	}
	from := w.now.Add(-20 * time.Minute)
	after, lacking := 0, 0
	for _, f := range w.feeds {
		after += f.order.N
		if l := f.leader.leads[f.key]; l.permit == nil || !l.permit.expiry.After(w.now) {
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

// Shares follow the readers within three maintenance intervals, though what was granted
// before counts until it expires.
func TestSharesFollowTheReaders(t *testing.T) {
	t.Parallel()
	const domain = "shares.example"
	w := newTown(t, 16)
	w.variants(domain, 120, 3)
	for _, f := range w.feeds {
		f.want = 1000
		f.leader.leads[f.key].want = 1000
	}
	w.run(25 * time.Minute)
	granted := func(f *townFeed) int { return f.leader.leads[f.key].permit.pollers }
	one := w.feeds[7]
	was := granted(one)
	for _, f := range w.feeds {
		if n := granted(f); n < 2 || n > 3 {
			t.Fatalf("%d pollers where there are 45 readers for 16", n)
		}
	}
	one.readers = 48 // four times the root
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

// Who leads no channel of a domain any more does not care who its stewards are, though a look-up
// of them goes on: the domain is remembered for a while, and they are not.
func TestADomainIsLeftWhileItsStewardsAreLookedUp(t *testing.T) {
	t.Parallel()
	w := newTown(t, 160)
	for i := range 100 {
		name := fmt.Sprintf("d%d.example", i)
		f := w.open("http://"+name+"/feed", 100, 1)
		g := &townFeed{url: "http://" + name + "/other", readers: 100, want: 1, leader: f.leader}
		g.key = overlay.Key(w.network.Name, g.url)
		w.add(g)
		h, d := f.leader, f.leader.domains[name]
		d.solo = momentOf(h.Now()) // so it is remembered
		for range 60 * 50 {
			if d.stewards.doubted == nil {
				w.run(20 * time.Millisecond)
				continue
			}
			h.Cease(f.key)
			h.Cease(g.key)
			h.Release(f.key)
			h.Release(g.key)
			if h.domains[name] != d || d.stewards != nil {
				t.Fatalf("%s: %+v", name, d)
			}
			w.run(time.Minute)
			return
		}
	}
	t.Fatal("no stewards were looked up")
}

// Who may ask private origins, too, and takes over a channel that others poll, looks whether its
// domain is a private one, and asks for a grant where it is not.
func TestWhoTakesOverSeesWhetherADomainIsPrivate(t *testing.T) {
	w := newTownOf(t, 12, Config{Politeness: true, ExemptPrivate: true})
	f := &townFeed{url: "http://a.example/feed", readers: 100, want: 2}
	f.key, f.aside = overlay.Key(w.network.Name, f.url), true
	near := w.nearest(f.key)
	f.leader = near[0]
	w.add(f)
	w.run(40 * time.Minute)
	if len(f.note) == 0 || f.leader.leads[f.key].permit == nil {
		t.Fatalf("%+v", f.leader.leads[f.key])
	}
	f.leader.Cease(f.key)
	f.leader = near[len(near)-1]
	w.appoint(f)
	w.run(40 * time.Minute)
	if l := f.leader.leads[f.key]; l.permit == nil || l.permit.number == 0 || !l.domain.seen {
		t.Errorf("permit %+v", l.permit)
	}
}

// A node without others is its own steward.
func TestANodeAloneGrantsItself(t *testing.T) {
	w := newTown(t, 1)
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
