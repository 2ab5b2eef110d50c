package corona

import (
	"container/heap"
	"crypto/ed25519"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/wedge"
)

// A town is a small network: real overlays, owners and Coronas, whose frames take 20 ms. It
// stands in for wedges and for the owners of channels: both are right at once. Origins have
// never changed since they were asked last.
type town struct {
	t       testing.TB
	now     time.Time
	queue   happenings
	seq     int
	network wire.Network
	verify  wire.Verifier
	houses  []*house
	byID    map[env.PeerID]*house
	feeds   []*townFeed
	byKey   map[overlay.ID]*townFeed
	hits    []hit
	origin  func(h *house, url string) env.Answer // nil: all is as it was
}

// A house is a member of it.
type house struct {
	*Corona
	town    *town
	signer  *wire.Signer
	id      overlay.ID
	overlay *overlay.Node
	owners  *owner.Owners
	up      bool
	liar    bool
	ahead   time.Duration // its clock
	wake    time.Time
	records map[string][]byte
}

// A townFeed is a channel, as the town has it.
type townFeed struct {
	url     string
	key     overlay.ID
	readers int
	want    int
	leader  *house
	epoch   uint64
	note    []byte
	order   wedge.Order
	serving []*house
	lie     lie    // what its leader tells its wedge, if it is a liar
	old     []byte // the first grant, of one that shows it again
}

// A hit is a request at an origin.
type hit struct {
	at     time.Time
	url    string
	honest bool
	who    *house
}

type happening struct {
	at  time.Time
	seq int
	do  func()
}

type happenings []happening

func (q happenings) Len() int { return len(q) }
func (q happenings) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q happenings) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *happenings) Push(x any)   { *q = append(*q, x.(happening)) }
func (q *happenings) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

// newTown returns a town of some houses who know each other.
func newTown(t testing.TB, n int) *town {
	w := &town{
		t: t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), network: wire.DefaultNetwork("town"),
		byID: map[env.PeerID]*house{}, byKey: map[overlay.ID]*townFeed{},
	}
	hash := wire.HashOf(w.network.Descriptor())
	w.verify = wire.Memo(wire.NewVerifier(hash), 1<<18)
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		binary.BigEndian.PutUint64(seed, uint64(i+1))
		h := &house{town: w, signer: wire.NewSigner(ed25519.NewKeyFromSeed(seed), hash), up: true, records: map[string][]byte{}}
		h.id = overlay.NodeID(w.network.Name, h.signer.PeerID())
		w.houses = append(w.houses, h)
		w.byID[h.signer.PeerID()] = h
		h.build(i)
		w.after(time.Duration(i)*100*time.Millisecond, func() {
			h.overlay.Reachable([]string{"here"})
			if i > 0 {
				h.overlay.Found(env.Peer{ID: w.houses[0].signer.PeerID()})
			}
			h.run()
		})
	}
	w.run(2 * time.Minute)
	for i, h := range w.houses {
		if h.overlay.State() != overlay.Active {
			t.Fatalf("house %d is %v", i, h.overlay.State())
		}
	}
	return w
}

func (h *house) build(i int) {
	w := h.town
	e := env.Env{
		Clock: h, Network: h, Fetcher: h, Worker: h, Store: h,
		Rand: rand.New(rand.NewPCG(uint64(i), 7)), Log: slog.New(slog.DiscardHandler),
	}
	h.overlay = overlay.New(e, h.signer, w.verify, overlay.Config{Network: w.network, Founder: i == 0})
	var err error
	if h.owners, err = owner.New(e, h.overlay, h.signer, w.verify, owner.Config{}, below{h}); err != nil {
		w.t.Fatal(err)
	}
	h.Corona = New(e, h.overlay, h, Config{Network: w.network.Name, Politeness: true}, h)
	h.Join(h)
	h.decided = true // once and for all: the test says how many would poll a channel
	h.BePolite(h.owners, h.signer, w.verify)
	h.overlay.Handle(wire.Corona, passing{h})
}

// Now implements env.Clock.
func (h *house) Now() time.Time { return h.town.now.Add(h.ahead) }

func (w *town) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, happening{w.now.Add(d), w.seq, do})
}

// run lets time pass.
func (w *town) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.queue) > 0 && !w.queue[0].at.After(end) {
		x := heap.Pop(&w.queue).(happening)
		w.now = x.at
		x.do()
	}
	w.now = end
}

// run runs a house, and plans to do so again.
func (h *house) run() {
	if !h.up {
		return
	}
	var next time.Time
	now := h.Now()
	for range 2 {
		next = env.Sooner(h.overlay.Run(now), env.Sooner(h.owners.Run(now), h.Corona.Run(now)))
	}
	if next.IsZero() || h.wake.Equal(next) {
		return
	}
	h.wake = next
	h.town.after(max(next.Sub(now), 0), func() {
		if h.wake.Equal(next) {
			h.wake = time.Time{}
			h.run()
		}
	})
}

// Send implements env.Network.
func (h *house) Send(to env.Peer, _ env.Class, frame []byte) {
	from := h.signer.PeerID()
	h.town.after(20*time.Millisecond, func() {
		other := h.town.byID[to.ID]
		if other == nil || !other.up || !h.up {
			return
		}
		layer, body, err := wire.ParseFrame(frame)
		switch layer {
		case wire.Overlay:
			err = other.overlay.Receive(from, body)
		case wire.Owner:
			err = other.owners.Receive(from, body)
		case wire.Corona:
			err = other.Corona.Receive(from, body)
		}
		if err != nil {
			h.town.t.Errorf("a frame of layer %d: %v", layer, err)
		}
		other.run()
	})
}

// Do implements env.Worker.
func (h *house) Do(pure, done func()) {
	pure()
	done()
}

// Commit implements env.Store, as do Get and Range.
func (h *house) Commit(ops []env.Op, done func(error)) {
	h.town.after(time.Millisecond, func() {
		for _, op := range ops {
			h.records[string(op.Key)] = op.Value
		}
		done(nil)
		h.run()
	})
}

func (h *house) Get(key []byte) ([]byte, error)                         { return h.records[string(key)], nil }
func (h *house) Range(prefix []byte, each func(k, v []byte) bool) error { return nil }

// Fetch implements env.Fetcher.
func (h *house) Fetch(handle env.Handle, r env.Request) {
	w := h.town
	w.hits = append(w.hits, hit{w.now, r.URL, !h.liar, h})
	a := env.Answer{Status: 304, ETag: "1", FinalURL: r.URL}
	if w.origin != nil {
		a = w.origin(h, r.URL)
	}
	w.after(100*time.Millisecond, func() {
		if h.up {
			h.Answered(handle, a)
			h.run()
		}
	})
}

// passing is how routed messages come to a Corona.
type passing struct{ *house }

func (p passing) Forward(*overlay.Message) bool { return false }
func (p passing) Deliver(m *overlay.Message)    { p.Corona.Deliver(m.Key, m.Payload) }
func (p passing) LeafChanged()                  {}
func (p passing) PeerGone(env.PeerID)           {}

// below is what stands above the owners of domains' keys.
type below struct{ h *house }

func (b below) Lead(overlay.ID, bool)                  {}
func (b below) Grew(overlay.ID)                        {}
func (b below) Held(overlay.ID, *owner.Entry, []byte)  {}
func (b below) Absorb(overlay.ID, []byte)              {}
func (b below) Absorbing(overlay.ID) bool              { return false }
func (b below) Siblings(overlay.ID) []*overlay.Contact { return nil }
func (b below) Weight(key overlay.ID) (int, bool) {
	if b.h.Stewards(key) {
		return 1, true
	}
	return 0, false
}

// nearest are the houses that are up, the nearest to a key first.
func (w *town) nearest(key overlay.ID) []*house {
	of := slices.DeleteFunc(slices.Clone(w.houses), func(h *house) bool { return !h.up })
	slices.SortFunc(of, func(a, b *house) int {
		if overlay.Nearer(key, a.id, b.id) {
			return -1
		}
		return 1
	})
	return of
}

// open opens a channel, that would have some pollers if its domain had no budget.
func (w *town) open(url string, readers, want int) *townFeed {
	f := &townFeed{url: url, key: overlay.Key(w.network.Name, url), readers: readers, want: want}
	f.leader = w.nearest(f.key)[0]
	w.add(f)
	return f
}

func (w *town) add(f *townFeed) {
	w.feeds = append(w.feeds, f)
	w.byKey[f.key] = f
	w.appoint(f)
}

// appoint makes a house the leader of a channel.
func (w *town) appoint(f *townFeed) {
	f.epoch++
	f.leader.Lead(f.key, f.url, f.epoch, new(difference.Known), f.note)
	l := f.leader.leads[f.key]
	l.want = f.want
	f.leader.enlist(l, f.want, f.leader.Now())
	f.leader.run()
}

// kill ends a house; the channels that it led get other leaders.
func (w *town) kill(h *house) {
	h.up = false
	for _, f := range w.feeds {
		f.serving = slices.DeleteFunc(f.serving, func(o *house) bool { return o == h })
		if f.leader == h {
			f.leader = w.nearest(f.key)[0]
			w.appoint(f)
		}
	}
}

// Enlist implements Wedges.
func (h *house) Enlist(key overlay.ID, o wedge.Order) error {
	f := h.town.byKey[key]
	f.order = o
	if h.liar && f.lie != nil {
		f.lie(h.town, f, o)
		return nil
	}
	near := h.town.nearest(key)
	near = near[:min(o.N, len(near))]
	for _, old := range f.serving {
		if !slices.Contains(near, old) {
			old.Release(key)
		}
	}
	f.serving = near
	for rank, p := range near {
		f.serve(p, o, rank, o.N)
	}
	return nil
}

// serve gives a house a rank of a channel.
func (f *townFeed) serve(h *house, o wedge.Order, rank, of int) {
	ref := o.Ref.Add(h.ahead - f.leader.ahead).Add(o.Interval * time.Duration(rank) / time.Duration(of))
	h.town.after(20*time.Millisecond, func() {
		if h.up {
			h.Serve(f.key, wedge.Duty{Term: o.Term, Ranks: wedge.RankOf(0), Of: of, Ref: ref, Interval: o.Interval, Words: o.Words})
			h.run()
		}
	})
}

func (h *house) Down(key overlay.ID, b []byte) error {
	for _, p := range h.town.byKey[key].serving {
		h.town.after(20*time.Millisecond, func() {
			if p.up {
				p.Delivered(key, b)
				p.run()
			}
		})
	}
	return nil
}

// Serving implements Wedges.
func (h *house) Serving(overlay.ID) (served, declined int) { return 0, 0 }

// Set implements Sums, as do Rest and Disturbed: what others say is never known.
func (h *house) Set([]byte) error  { return nil }
func (h *house) Rest() (any, bool) { return &honeycomb.Bins{}, false }
func (h *house) Disturbed()        {}

func (h *house) Found(overlay.ID, difference.Delta, *feed.Feed, func(bool)) bool { return false }
func (h *house) Said(overlay.ID, []byte, Haste)                                  {}
func (h *house) SetNote(key overlay.ID, note []byte)                             { h.town.byKey[key].note = note }
func (h *house) Fading(overlay.ID, int) []feed.ID                                { return nil }
func (h *house) Fetched(overlay.ID, *feed.Feed, State)                           {}
func (h *house) Weight(key overlay.ID) int                                       { return h.town.byKey[key].readers }

func (h *house) Owns(key overlay.ID) bool {
	near := h.town.nearest(key)
	return slices.Contains(near[:min(5, len(near))], h)
}

func (h *house) Leader(key overlay.ID) (env.Peer, bool) {
	return env.Peer{ID: h.town.byKey[key].leader.signer.PeerID()}, true
}

// honestHits are the requests of honest houses at a domain, in some time, by their addresses.
func (w *town) honestHits(from, to time.Time, domain string) map[string]int {
	of := map[string]int{}
	for _, x := range w.hits {
		if x.honest && !x.at.Before(from) && x.at.Before(to) && strings.Contains(x.url, domain) {
			of[x.url]++
		}
	}
	return of
}

// busiest is the most that honest houses asked a domain in any ten minutes, since a time.
func (w *town) busiest(since time.Time, domain string) (most int) {
	var at []time.Time
	for _, x := range w.hits {
		if !x.honest || x.at.Before(since) || !strings.Contains(x.url, domain) {
			continue
		}
		for at = append(at, x.at); x.at.Sub(at[0]) >= 10*time.Minute; {
			at = at[1:]
		}
		most = max(most, len(at))
	}
	return most
}

// steward is the house that leads a domain's key.
func (w *town) steward(domain string) *house {
	for _, h := range w.houses {
		if v, ok := h.owners.View(overlay.StewardKey(w.network.Name, domain)); ok && h.up && v.Leads {
			return h
		}
	}
	return nil
}

// stats adds up the counters of the honest houses.
func (w *town) stats() (sum Stats) {
	for _, h := range w.houses {
		if h.liar {
			continue
		}
		st := h.Stats()
		sum.Skipped += st.Skipped
		sum.Solo += st.Solo
		sum.Forged += st.Forged
		sum.Expired += st.Expired
		sum.Replayed += st.Replayed
		sum.Granted += st.Granted
		sum.Short += st.Short
		sum.Denied += st.Denied
		sum.Misclaimed += st.Misclaimed
		sum.Garbage += st.Garbage
	}
	return sum
}
