package corona

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/wedge"
)

// bench returns some owners of a domain's key, and their epoch.
func bench(domain string, n int) (signers []*wire.Signer, e *owner.Epoch) {
	e = &owner.Epoch{URL: overlay.StewardURL(domain), Hash: owner.HashOf([]byte(domain))}
	for i := range n {
		s := wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize)), wire.Hash{1})
		signers = append(signers, s)
		e.Owners = append(e.Owners, s.PeerID())
	}
	return signers, e
}

func signedGrant(domain string, by ...int) (*grant, *owner.Epoch) {
	signers, e := bench(domain, 5)
	g := (&grant{
		domain: domain, key: key("http://www." + domain + "/"), portion: portion{50, 30 * time.Minute},
		expiry: time.UnixMilli(1772442000000).UTC(), number: 1772442000000, epoch: e.Hash,
	}).state()
	for _, i := range by {
		g.signatures = append(g.signatures, countersignature{i, signers[i].Signature(wire.DomainGrant, g.statement)})
	}
	return g, e
}

// A grant is valid only with unchanged content and the signatures of a quorum of its own domain's
// stewards.
func TestAGrantNeedsAQuorum(t *testing.T) {
	verify := wire.NewVerifier(wire.Hash{1})
	for what, c := range map[string]struct {
		by    []int
		spoil func(g *grant, e *owner.Epoch)
		want  bool
	}{
		"three of five":         {by: []int{0, 2, 4}, want: true},
		"all":                   {by: []int{0, 1, 2, 3, 4}, want: true},
		"two of five":           {by: []int{0, 2}},
		"one three times":       {by: []int{1, 1, 1}},
		"a signature of others": {by: []int{0, 2, 4}, spoil: func(g *grant, _ *owner.Epoch) { g.signatures[1].owner = 3 }},
		"nobody's signature":    {by: []int{0, 2, 4}, spoil: func(g *grant, _ *owner.Epoch) { g.signatures[1].owner = 7 }},
		"another statement":     {by: []int{0, 2, 4}, spoil: func(g *grant, _ *owner.Epoch) { g.pollers++; g.state() }},
		"another epoch":         {by: []int{0, 2, 4}, spoil: func(_ *grant, e *owner.Epoch) { e.Hash[0]++ }},
		"another domain's key":  {by: []int{0, 2, 4}, spoil: func(_ *grant, e *owner.Epoch) { e.URL = overlay.StewardURL("b.example") }},
		"a channel's own key":   {by: []int{0, 2, 4}, spoil: func(_ *grant, e *owner.Epoch) { e.URL = "http://a.example/" }},
	} {
		g, e := signedGrant("a.example", c.by...)
		if c.spoil != nil {
			c.spoil(g, e)
		}
		if got := g.signedBy(verify, e); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A grant fits into the payload of an order, whatever the domain's name.
func TestAGrantIsSmall(t *testing.T) {
	long := strings.Repeat("a", maxDomain-8) + ".example"
	for domain, most := range map[string]int{"a.example": 350, long: 700} {
		g, _ := signedGrant(domain, 0, 1, 2)
		b := g.append()
		if len(b) > most {
			t.Errorf("%d bytes of a domain of %d", len(b), len(domain))
		}
		if again, err := openGrant(b); err != nil || string(again.append()) != string(b) {
			t.Errorf("%v", err)
		}
	}
	g, _ := signedGrant(long, 0, 1, 2, 3, 4)
	if n := len(g.append()); n > maxGrant {
		t.Errorf("%d bytes with five signatures", n)
	}
}

// FuzzGrant parses any bytes as a grant: a parsed grant is within bounds and survives a round trip.
func FuzzGrant(f *testing.F) {
	g, _ := signedGrant("a.example", 0, 1, 2)
	f.Add([]byte{})
	f.Add(g.append())
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := openGrant(b)
		if err != nil {
			return
		}
		if g.pollers < 1 || g.interval <= 0 || g.interval > maxStretch || len(g.domain) > maxDomain || len(g.signatures) > maxSigners {
			t.Errorf("a grant beyond bounds: %+v", g)
		}
		again, err := openGrant(g.append())
		if err != nil || again.portion != g.portion || again.number != g.number || again.key != g.key || len(again.signatures) != len(g.signatures) {
			t.Errorf("%+v became %+v, %v", g, again, err)
		}
		_, e := bench("a.example", 5)
		g.signedBy(wire.NewVerifier(wire.Hash{1}), e)
	})
}

// FuzzPoliteness parses any bytes as a message between sequencers and stewards, on a node that has
// state for each kind. Nothing panics.
func FuzzPoliteness(f *testing.F) {
	w := newTestNetwork(f, 3)
	feed := w.open("http://a.example/feed", 9, 3)
	w.run(15 * time.Minute)
	h := w.steward("a.example")
	g := feed.leader.leaders[feed.key].permit
	if h == nil || g == nil {
		f.Fatal("nothing was granted")
	}
	epoch, _ := h.owners.View(overlay.StewardKey(w.network.Name, "a.example"))
	statement := (&grant{domain: "a.example", key: feed.key, portion: portion{1, time.Hour}, expiry: w.now.Add(time.Minute), number: uint64(w.now.UnixMilli()), epoch: epoch.Epoch.Hash}).state().statement
	for _, m := range []*coronapb.Politeness{
		h.permits.signClaims([]*coronapb.Claim{{Url: feed.url, IntervalMs: 1800_000, Pollers: 3}}, w.now),
		{Body: &coronapb.Politeness_GrantResponse{GrantResponse: &coronapb.GrantResponse{Grants: [][]byte{feed.leader.leaders[feed.key].grant}}}},
		{Body: &coronapb.Politeness_Countersign{Countersign: &coronapb.Countersign{Epoch: epoch.Epoch.Hash[:], Statements: [][]byte{statement}, Readers: []uint32{9}}}},
		{Body: &coronapb.Politeness_Countersigned{Countersigned: &coronapb.Countersigned{Signatures: []*coronapb.Countersigned_Signature{{Key: feed.key[:], Signature: make([]byte, 64)}}}}},
		{Body: &coronapb.Politeness_LedgerRequest{LedgerRequest: &coronapb.LedgerRequest{Nonce: 1}}},
		{Body: &coronapb.Politeness_Ledger{Ledger: &coronapb.Ledger{Entries: []*coronapb.Ledger_Entry{{Key: feed.key[:], Pollers: 1, IntervalMs: 1}}}}},
		{Body: &coronapb.Politeness_ReadersRequest{ReadersRequest: &coronapb.ReadersRequest{Key: feed.key[:], Record: h.node.Self().Raw, Nonce: 1}}},
		{Body: &coronapb.Politeness_ReadersResponse{ReadersResponse: &coronapb.ReadersResponse{Nonce: 1, Readers: 9}}},
	} {
		m.Domain = "a.example"
		f.Add(wire.Encode(&coronapb.Message{Body: &coronapb.Message_Politeness{Politeness: m}}))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, h := range w.houses {
			_ = h.Corona.Receive(epoch.Epoch.Sequencer, b)
			h.Corona.Deliver(overlay.StewardKey(w.network.Name, "a.example"), b)
			h.steward.openClaims(h.node.Self(), h.signer.Sign(wire.DomainRequest, b).Raw, w.now)
		}
	})
}

// A member polls if its grant covers the poll, and never by another channel's grant.
func TestAPermitCoversOnlyItsGrant(t *testing.T) {
	w := newTestNetwork(t, 10)
	f := w.open("http://a.example/feed", 100, 4)
	other := w.open("http://a.example/other", 100, 4)
	foreign := w.open("http://b.example/feed", 100, 4)
	w.run(25 * time.Minute)
	of := func(f *testChannel) *grant {
		g, err := openGrant(f.leader.leaders[f.key].grant)
		if err != nil || g.pollers != 5 {
			t.Fatalf("%+v, %v", g, err)
		}
		return g
	}
	near, far := w.nearest(f.key)[0], w.nearest(f.key)[9]
	sign := func(g *grant) *grant { // signed by too few stewards
		g.signatures = nil
		for i, p := range []*member{near, far} {
			g.signatures = append(g.signatures, countersignature{i, p.signer.Signature(wire.DomainGrant, g.state().statement)})
		}
		return g
	}
	for what, c := range map[string]struct {
		of       int
		interval time.Duration
		at       *member
		grant    func() *grant
		age      time.Duration
		want     bool
	}{
		"as granted":          {of: 5, grant: func() *grant { return of(f) }, want: true},
		"fewer":               {of: 2, grant: func() *grant { return of(f) }, want: true},
		"more rarely":         {of: 4, interval: time.Hour, grant: func() *grant { return of(f) }, want: true},
		"more":                {of: 6, grant: func() *grant { return of(f) }},
		"more often":          {of: 4, interval: 29 * time.Minute, grant: func() *grant { return of(f) }},
		"by a distant node":   {of: 4, at: far, grant: func() *grant { return of(f) }},
		"too late":            {of: 4, age: 31 * time.Minute, grant: func() *grant { return of(f) }},
		"of another channel":  {of: 4, grant: func() *grant { return of(other) }},
		"of another domain":   {of: 4, grant: func() *grant { return of(foreign) }},
		"signed by others":    {of: 4, grant: func() *grant { return sign(of(f)) }},
		"of an unknown epoch": {of: 4, grant: func() *grant { g := of(f); g.epoch[0]++; return sign(g) }},
		"none":                {of: 4},
	} {
		h := near
		if c.at != nil {
			h = c.at
		}
		h.Release(f.key)
		words := &coronapb.ChannelParams{Url: f.url}
		if c.grant != nil {
			words.Grant = c.grant().append()
		}
		interval := c.interval
		if interval == 0 {
			interval = 30 * time.Minute
		}
		h.Serve(f.key, wedge.Assignment{Term: f.order.Term, N: c.of, IntervalStart: w.now, Interval: interval, Payload: wire.Encode(words)})
		d := h.assignments.Get(f.key)
		if got := h.poller.permitted(d, w.now.Add(c.age)); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A steward signs what the budget allows, once for each number, and only for the budget leader.
func TestAStewardRefusesToSignBeyondTheBudget(t *testing.T) {
	w := newTestNetwork(t, 5)
	w.open("http://a.example/feed", 100, 4)
	w.run(25 * time.Minute)
	first := w.steward("a.example")
	var other *member
	for _, h := range w.houses {
		if h != first {
			other = h
		}
	}
	v, _ := other.owners.View(overlay.StewardKey(w.network.Name, "a.example"))
	number := uint64(w.now.UnixMilli())
	ask := func(from env.PeerID, n int, s portion, readers float64, change func(g *grant)) (signed int) {
		m := &coronapb.Countersign{Epoch: v.Epoch.Hash[:], ReadersPpm: uint64(readers * 1e6), Readers: make([]uint32, n)}
		for range n {
			number++
			g := &grant{domain: "a.example", key: overlay.Key(w.network.Name, fmt.Sprint("http://a.example/x", number)), portion: s, expiry: w.now.Add(10 * time.Minute), number: number, epoch: v.Epoch.Hash}
			if change != nil {
				change(g)
			}
			m.Statements = append(m.Statements, g.state().statement)
		}
		before := other.stats.Denied
		other.steward.onCountersign(from, "a.example", m, w.now)
		if other.stats.Astray > 0 {
			other.stats.Astray = 0
			return 0
		}
		return n - int(other.stats.Denied-before)
	}
	self, half := first.signer.PeerID(), 30*time.Minute
	if n := ask(w.houses[0].signer.PeerID(), 1, portion{1, half}, 9, nil); w.houses[0] != first && n != 0 {
		t.Errorf("signed for who is not the sequencer")
	}
	late := func(g *grant) { g.expiry = w.now.Add(time.Hour) }
	past := func(g *grant) { g.expiry, g.number = w.now, uint64(w.now.UnixMilli()) }
	old := func(g *grant) { g.key, g.number = w.feeds[0].key, 1 }
	for what, c := range map[string]struct {
		s      portion
		change func(g *grant)
	}{
		"too long":       {portion{1, half}, late},
		"expired":        {portion{1, half}, past},
		"an old number":  {portion{1, half}, old},
		"more often":     {portion{1, time.Minute}, nil},
		"all at once":    {portion{1801, half}, nil},
		"all of a floor": {portion{180, half}, nil}, // four are in force
	} {
		readers := 9.
		if what == "all of a floor" {
			readers = 0.01
		}
		if n := ask(self, 1, c.s, readers, c.change); n != 0 {
			t.Errorf("%s: signed", what)
		}
	}
	if n := ask(self, 60, portion{60, half}, 9, nil); n != 29 {
		t.Errorf("%d grants of 60 pollers were signed, where a request a second is the most and 4 pollers have theirs", n)
	}
	// When half of the readers have left, a channel may have half of its former pollers once more.
	had := overlay.Key(w.network.Name, fmt.Sprint("http://a.example/x", number-59)) // the first of the 60
	its := func(g *grant) { g.key = had }
	for _, c := range []struct {
		pollers, signed int
		change          func(g *grant)
	}{{60, 0, its}, {31, 0, its}, {30, 1, its}, {30, 0, its}, {1, 0, nil}} {
		if n := ask(self, 1, portion{c.pollers, half}, 0.5, c.change); n != c.signed {
			t.Errorf("%d grants of %d pollers were signed of half a budget, want %d", n, c.pollers, c.signed)
		}
	}
	again := &grant{domain: "a.example", key: w.feeds[0].key, portion: portion{4, half}, expiry: w.now.Add(time.Minute), number: number + 1, epoch: v.Epoch.Hash}
	one := func(g *grant) bool {
		out := other.steward.states[v.Epoch.Key].grantedRates()
		return other.steward.approves(other.steward.states[v.Epoch.Key], entry{g.portion, g.expiry, g.number, 1}, g.key, 9, &out, w.now)
	}
	for range 2 {
		if !one(again) {
			t.Error("the same was not signed again")
		}
	}
	if again.pollers = 3; one(again) {
		t.Error("another of the same number was signed")
	}
}
