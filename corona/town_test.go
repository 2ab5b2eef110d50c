package corona

import (
	"container/heap"
	"crypto/ed25519"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

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
	origin  func(h *house, r env.Request) env.Answer // nil: all is as it was
	routed  []time.Time                              // when messages came to the roots of their keys
	cfg     Config
	way     func(from, to *house, layer wire.Layer, body []byte) []time.Duration // of each copy of a frame; nil: 20 ms
	others  honeycomb.Totals                                                     // what each hears of all others
	whole   bool                                                                 // and that is of all of them
	deaf    func(*house) bool                                                    // whom nothing reaches that goes down a wedge; nil: nobody
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
	// outlived says that the leader's order ended, because that of another leader took its place and ended, too.
	outlived bool
	lie      lie    // what its leader tells its wedge, if it is a liar
	old      []byte // the first grant, of one that shows it again
	townLog
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

// newTown returns a town of some houses who know each other, and are polite.
func newTown(t testing.TB, n int) *town { return newTownOf(t, n, Config{Politeness: true}) }

func newTownOf(t testing.TB, n int, cfg Config) *town {
	cfg.Network = "town"
	w := &town{
		cfg: cfg,
		t:   t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), network: wire.DefaultNetwork("town"),
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
	h.Corona = New(e, h.overlay, h.signer, w.verify, h, w.cfg, h)
	h.Join(h)
	h.decided = true // once and for all: the test says how many would poll a channel
	if w.cfg.Politeness {
		h.BePolite(h.owners)
	}
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
	from, other := h.signer.PeerID(), h.town.byID[to.ID]
	layer, body, err := wire.ParseFrame(frame)
	if err != nil || len(frame) > env.MaxFrame {
		h.town.t.Errorf("a frame of %d bytes: %v", len(frame), err)
	}
	ways := []time.Duration{20 * time.Millisecond}
	if h.town.way != nil && other != nil {
		ways = h.town.way(h, other, layer, body)
	}
	for _, way := range ways {
		h.town.after(way, func() { h.arrive(from, other, layer, body) })
	}
}

// arrive brings a frame to a house.
func (h *house) arrive(from env.PeerID, other *house, layer wire.Layer, body []byte) {
	if other == nil || !other.up || !h.up {
		return
	}
	var err error
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
		a = w.origin(h, r)
	}
	if a.FinalURL == "" {
		a.FinalURL = r.URL
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
func (p passing) Deliver(m *overlay.Message) {
	p.town.routed = append(p.town.routed, p.town.now)
	p.Corona.Deliver(m.Key, m.Payload)
}
func (p passing) LeafChanged()        {}
func (p passing) PeerGone(env.PeerID) {}

// below is what stands above the owners of domains' keys.
type below struct{ h *house }

func (b below) Lead(overlay.ID, bool)                      {}
func (b below) VisibleChanged(overlay.ID)                  {}
func (b below) Committed(overlay.ID, *owner.Entry, []byte) {}
func (b below) Absorb(overlay.ID, []byte)                  {}
func (b below) Absorbing(overlay.ID) bool                  { return false }
func (b below) BranchMerged(overlay.ID)                    {}
func (b below) Siblings(overlay.ID) []*overlay.Contact     { return nil }
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
	f.leader.Lead(f.key, f.url, f.epoch, f.known(), f.note)
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
	if f.leader != h {
		return nil // a later term counts
	}
	f.order, f.outlived = o, false
	if h.liar && f.lie != nil {
		f.lie(h.town, f, o)
		return nil
	}
	near := h.town.nearest(key)
	if f.aside {
		near = slices.DeleteFunc(near, func(n *house) bool { return n == f.leader })
	}
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

// Leads implements Wedges.
func (h *house) Leads(key overlay.ID) bool {
	f := h.town.byKey[key]
	return f.leader == h && !f.outlived
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
			if p.up && (p.town.deaf == nil || !p.town.deaf(p)) {
				p.Delivered(key, b)
				p.run()
			}
		})
	}
	return nil
}

// Serving implements Wedges.
func (h *house) Serving(overlay.ID) (served, declined int) { return 0, 0 }

// Relevel implements Wedges.
func (h *house) Relevel() {}

// Set implements Sums, as do Rest and Disturbed: what others say is as the test has it.
func (h *house) Set([]byte) error { return nil }
func (h *house) Rest() (any, bool) {
	return &honeycomb.Bins{Totals: h.town.others}, h.town.whole
}
func (h *house) Disturbed() {}

func (h *house) SetNote(key overlay.ID, note []byte)          { h.town.byKey[key].note = note }
func (h *house) Fetched(overlay.ID, *feed.Feed, Offer, State) {}
func (h *house) Weight(key overlay.ID) int                    { return h.town.byKey[key].readers }

func (h *house) Owns(key overlay.ID) bool {
	near := h.town.nearest(key)
	return slices.Contains(near[:min(5, len(near))], h)
}

func (h *house) Term(key overlay.ID) uint64 { return h.town.byKey[key].epoch }

func (h *house) Leader(key overlay.ID) (env.Peer, bool) {
	return env.Peer{ID: h.town.byKey[key].leader.signer.PeerID()}, true
}
