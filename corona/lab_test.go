package corona

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// lab is a small Web and a clock that the test moves. Origins answer after half a second.
type lab struct {
	t       *testing.T
	now     time.Time
	origins map[string]origin
	asked   []asked
	under   []answer // answers on their way, the earliest first
}

// origin computes the answer of a URL.
type origin func(r env.Request) env.Answer

type asked struct {
	at time.Time
	by *labNode
	env.Request
}

type answer struct {
	at     time.Time
	to     *labNode
	handle env.Handle
	env.Answer
}

const latency = 500 * time.Millisecond

func newLab(t *testing.T) *lab {
	return &lab{t: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), origins: map[string]origin{}} // a Monday
}

func (l *lab) Now() time.Time { return l.now }

// Do implements env.Worker at once.
func (l *lab) Do(pure, done func()) {
	pure()
	done()
}

// labNode is a node's Corona with stubs of the layers above. Each channel has a log, whose entries
// are held at once or when the test says so.
type labNode struct {
	*Corona
	l         *lab
	logs      map[overlay.ID]*channelLog
	slow      bool // entries are held only when the test calls hold
	full      bool // logs take no entries
	waiting   []func(ok bool)
	wish      time.Time
	readers   int
	owner     bool       // it owns channels that it does not lead
	epoch     uint64     // of the channels that it leads
	ended     wedge.Term // newest order that other nodes have ended; only newer ones are accepted
	said      []State
	saw       []bool // for each head, whether nobody could have changed it
	sawPages  int    // texts of pages that it handed over
	unchanged int    // documents that this node fetched before and that have not changed
	urgencies []Urgency
	fetched   []*feed.Feed
}

// channelLog is what outlives a poller: items and note.
type channelLog struct {
	url   string
	items []feed.Item
	found []difference.Delta
	note  []byte
}

func (l *lab) poller(cfg Config) *labNode {
	p := &labNode{l: l, logs: map[overlay.ID]*channelLog{}, readers: 1}
	e := env.Env{Clock: l, Fetcher: fetcher{p}, Worker: l, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	cfg.Network = "lab"
	e.Network, e.Store = nobody{}, nobody{}
	signer := wire.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), wire.Hash{})
	node := overlay.New(e, signer, wire.NewVerifier(wire.Hash{}), overlay.Config{Network: wire.DefaultNetwork("lab")})
	p.Corona = New(e, node, signer, wire.NewVerifier(wire.Hash{}), alone{p}, cfg, p)
	p.Join(nobody{})
	return p
}

// nobody is an empty network, with a disk that stores nothing.
type nobody struct{}

func (nobody) Send(env.Peer, env.Class, []byte)                 {}
func (nobody) Commit(_ []env.Op, done func(error))              { done(nil) }
func (nobody) Get([]byte) ([]byte, error)                       { return nil, nil }
func (nobody) Range([]byte, func(key, value []byte) bool) error { return nil }
func (nobody) Set([]byte) error                                 { return nil }
func (nobody) Remote() (any, bool)                              { return &honeycomb.Bins{}, true }
func (nobody) RequestQuickRounds()                              {}

// alone is the wedge of a node without others: it polls what it leads.
type alone struct{ *labNode }

func (a alone) Enlist(key overlay.ID, o wedge.Order) error {
	if o.N == 0 {
		a.Release(key)
		return nil
	}
	if o.Term.Compare(a.ended) <= 0 {
		return wedge.ErrOrder
	}
	a.Serve(key, wedge.Assignment{Term: o.Term, Ranks: wedge.SingleRank(0), N: o.N, IntervalStart: o.IntervalStart, Interval: o.Interval, Payload: o.Payload})
	return nil
}

func (a alone) Broadcast(overlay.ID, []byte) error { return nil }

// Leads says whether the node's order is still in force.
func (a alone) Leads(key overlay.ID) bool { return a.assignments.Get(key) != nil }

func (a alone) Served(overlay.ID) (served, declined int) { return 1, 0 }

func (a alone) AdjustLevels() {}

func (a alone) Decline(overlay.ID) {}

// fetcher asks the lab's origins.
type fetcher struct{ *labNode }

func (f fetcher) Fetch(h env.Handle, r env.Request) {
	l := f.l
	l.asked = append(l.asked, asked{l.now, f.labNode, r})
	a := env.Answer{Err: env.ErrDNS, Message: "no such host"}
	if o := l.origins[r.URL]; o != nil {
		a = o(r)
	}
	if a.FinalURL == "" {
		a.FinalURL = r.URL
	}
	l.under = append(l.under, answer{l.now.Add(latency), f.labNode, h, a})
}

func key(url string) overlay.ID { return overlay.Key("lab", url) }

// lead makes a poller lead and poll a channel, starting from what an earlier poller left.
func (p *labNode) lead(url string, old *channelLog) *channelLog {
	log := &channelLog{url: url}
	if old != nil {
		log = &channelLog{url: url, items: slices.Clone(old.items), found: slices.Clone(old.found), note: old.note}
	}
	p.logs[key(url)] = log
	known := new(difference.Known)
	for _, d := range log.found {
		known.Add(d)
	}
	p.epoch++
	p.Lead(key(url), url, p.epoch, known, log.note)
	return log
}

func (p *labNode) Saw(_ overlay.ID, _ string, doc *feed.Feed, secure bool) {
	if doc == nil {
		p.unchanged++
		return
	}
	p.saw = append(p.saw, secure)
}

func (p *labNode) SawPage(overlay.ID, string, *page.Core) { p.sawPages++ }

func (p *labNode) Found(key overlay.ID, d difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	if p.full {
		return false
	}
	log := p.logs[key]
	d = followed(p.l.t, d)
	held := func(ok bool) {
		if ok {
			log.found = append(log.found, d)
			for _, c := range d.Changes {
				log.items = append(log.items, c.Item)
			}
		}
		done(ok)
	}
	if p.slow {
		p.waiting = append(p.waiting, held)
		return true
	}
	held(true)
	return true
}

// followed returns changes as followers of the log get them: encoded and decoded.
func followed(t testing.TB, d difference.Delta) difference.Delta {
	t.Helper()
	var all difference.Delta
	for i, part := range d.Split(256 << 10) {
		packed, err := part.Encode()
		if err != nil {
			t.Fatalf("a change report that cannot be packed: %v", err)
		}
		read, err := difference.Decode(packed)
		if err != nil {
			t.Fatalf("a change report that nobody can read: %v", err)
		}
		if i == 0 {
			all = read
		} else {
			all.Changes = append(all.Changes, read.Changes...)
		}
	}
	return all
}

// hold ends the appends that wait, with a quorum or without.
func (p *labNode) hold(ok bool) {
	waiting := p.waiting
	p.waiting = nil
	for _, held := range waiting {
		held(ok)
	}
}

func (p *labNode) StateChanged(_ overlay.ID, state []byte, urgency Urgency) {
	s, err := ParseState(state)
	if err != nil {
		p.l.t.Errorf("a state that cannot be read: %v", err)
	}
	p.said, p.urgencies = append(p.said, s), append(p.urgencies, urgency)
}

func (p *labNode) SetNote(key overlay.ID, note []byte) { p.logs[key].note = note }

func (p *labNode) readersOf(url string) int {
	return p.Corona.readers(p.leaders[key(url)])
}

// cease makes a poller stop leading a channel, like a node that dies.
func (p *labNode) cease(url string) {
	p.Cease(key(url))
	p.Release(key(url))
}

func (p *labNode) Owns(key overlay.ID) bool { return p.owner || p.leaders[key] != nil }

func (p *labNode) Term(overlay.ID) uint64 { return p.epoch }

func (p *labNode) Leader(overlay.ID) (env.Peer, bool) { return env.Peer{}, false }

func (p *labNode) Fading(overlay.ID, int) []feed.ID { return nil }

func (p *labNode) Weight(overlay.ID) int { return p.readers }

func (p *labNode) Fetched(_ overlay.ID, f *feed.Feed, _ Offer, _ State) {
	p.fetched = append(p.fetched, f)
}

// run lets time pass for some pollers.
func (l *lab) run(d time.Duration, pollers ...*labNode) {
	l.t.Helper()
	end := l.now.Add(d)
	for range 1_000_000 {
		next := end
		for _, p := range pollers {
			if p.wish = p.Run(l.now); !p.wish.IsZero() && p.wish.Before(next) {
				next = p.wish
			}
		}
		if len(l.under) > 0 && l.under[0].at.Before(next) {
			next = l.under[0].at
		}
		if l.now = next; !next.Before(end) {
			return
		}
		for len(l.under) > 0 && !l.under[0].at.After(l.now) {
			a := l.under[0]
			l.under = l.under[1:]
			a.to.Answered(a.handle, a.Answer)
		}
	}
	l.t.Fatal("the pollers do not let time pass")
}

// polls returns the times at which a URL was requested.
func (l *lab) polls(url string) (at []time.Time) {
	for _, a := range l.asked {
		if a.URL == url {
			at = append(at, a.at)
		}
	}
	return at
}

// last is the last request.
func (l *lab) last() env.Request { return l.asked[len(l.asked)-1].Request }

// rss is a feed of some items; extra goes into the channel element.
func rss(title, extra string, items ...string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, `<?xml version="1.0"?><rss version="2.0"><channel><title>%s</title><link>http://feed.example/</link>%s`, title, extra)
	for _, it := range items {
		fmt.Fprintf(b, `<item><guid isPermaLink="false">%s</guid><title>%s</title><description>of %s</description></item>`, it, it, it)
	}
	return b.String() + `</channel></rss>`
}

// serves is an origin of one document, with an ETag that it honours.
func serves(doc string, change ...func(*env.Answer)) origin {
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(doc)))
	return func(r env.Request) env.Answer {
		a := env.Answer{Status: 200, ETag: etag, ContentType: "application/rss+xml", Body: []byte(doc)}
		if r.ETag == etag {
			a.Status, a.Body = 304, nil
		}
		for _, c := range change {
			c(&a)
		}
		return a
	}
}

func says(a env.Answer) origin { return func(env.Request) env.Answer { return a } }

func titles(items []feed.Item) string {
	var of []string
	for _, it := range items {
		_, rest, _ := strings.Cut(string(it.Raw), "<title>")
		title, _, _ := strings.Cut(rest, "</title>")
		of = append(of, title)
	}
	return strings.Join(of, " ")
}
