package corona

import (
	"container/heap"
	"crypto/ed25519"
	"encoding/binary"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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

// testNetwork is a small network of real overlays, owners and Coronas, whose frames take 20 ms. It
// replaces wedges and the owners of channels, both of which work at once. Origins report "not
// modified" unless the test says otherwise.
type testNetwork struct {
	t       testing.TB
	now     time.Time
	queue   happenings
	seq     int
	network wire.Network
	verify  wire.Verifier
	houses  []*member
	byID    map[env.PeerID]*member
	feeds   []*testChannel
	byKey   map[overlay.ID]*testChannel
	hits    []hit
	origin  func(h *member, r env.Request) env.Answer // nil: every document is unmodified
	routed  []time.Time                               // arrival times of messages at the roots of their keys
	cfg     Config
	way     func(from, to *member, layer wire.Layer, body []byte) []time.Duration // delay of each copy of a frame; nil: one copy, 20 ms
	others  honeycomb.Totals                                                      // what each node hears of all others
	whole   bool                                                                  // others covers the whole network
	deaf    func(*member) bool                                                    // members that messages down a wedge do not reach; nil: none
}

// member is a node of the test network.
type member struct {
	*Corona
	town    *testNetwork
	signer  *wire.Signer
	id      overlay.ID
	overlay *overlay.Node
	owners  *owner.Owners
	up      bool
	liar    bool
	saw     int           // documents that it has vouched for
	ahead   time.Duration // offset of its clock
	wake    time.Time
	records map[string][]byte
}

// testChannel is a channel of the test network.
type testChannel struct {
	url     string
	key     overlay.ID
	readers int
	want    int
	leader  *member
	epoch   uint64
	note    []byte
	order   wedge.Order
	serving []*member
	// outlived says that the sequencer's order ended because the order of another sequencer
	// replaced it and ended, too.
	outlived bool
	lie      lie    // what its sequencer tells the wedge, if it is malicious
	old      []byte // its first grant, for lieReplayed
	testLog
}

// hit is a request at an origin.
type hit struct {
	at     time.Time
	url    string
	honest bool
	who    *member
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

// newTestNetwork returns a network of some members that know each other, with politeness.
func newTestNetwork(t testing.TB, n int) *testNetwork {
	return newTestNetworkOf(t, n, Config{Politeness: true})
}

func newTestNetworkOf(t testing.TB, n int, cfg Config) *testNetwork {
	cfg.Network = "town"
	w := &testNetwork{
		cfg: cfg,
		t:   t, now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), network: wire.DefaultNetwork("town"),
		byID: map[env.PeerID]*member{}, byKey: map[overlay.ID]*testChannel{},
	}
	hash := wire.HashOf(w.network.Descriptor())
	w.verify = wire.NewCachingVerifier(wire.NewVerifier(hash), 1<<18)
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		binary.BigEndian.PutUint64(seed, uint64(i+1))
		h := &member{town: w, signer: wire.NewSigner(ed25519.NewKeyFromSeed(seed), hash), up: true, records: map[string][]byte{}}
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
			t.Fatalf("member %d is %v", i, h.overlay.State())
		}
	}
	return w
}

func (h *member) build(i int) {
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
	h.allocator.decided = true // the test sets the number of pollers
	if w.cfg.Politeness {
		h.EnablePoliteness(h.owners)
	}
	h.overlay.Handle(wire.Corona, passing{h})
}

// Now implements env.Clock.
func (h *member) Now() time.Time { return h.town.now.Add(h.ahead) }

func (w *testNetwork) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, happening{w.now.Add(d), w.seq, do})
}

// run lets time pass.
func (w *testNetwork) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.queue) > 0 && !w.queue[0].at.After(end) {
		x := heap.Pop(&w.queue).(happening)
		w.now = x.at
		x.do()
	}
	w.now = end
}

// run runs a member, and plans the next call.
func (h *member) run() {
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
func (h *member) Send(to env.Peer, _ env.Class, frame []byte) {
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

// arrive delivers a frame to a member.
func (h *member) arrive(from env.PeerID, other *member, layer wire.Layer, body []byte) {
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
func (h *member) Do(pure, done func()) {
	pure()
	done()
}

// Commit implements env.Store, as do Get and Range.
func (h *member) Commit(ops []env.Op, done func(error)) {
	h.town.after(time.Millisecond, func() {
		for _, op := range ops {
			h.records[string(op.Key)] = op.Value
		}
		done(nil)
		h.run()
	})
}

func (h *member) Get(key []byte) ([]byte, error) { return h.records[string(key)], nil }

func (h *member) Range(prefix []byte, each func(k, v []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(h.records)) {
		if value := h.records[key]; value != nil && strings.HasPrefix(key, string(prefix)) && !each([]byte(key), value) {
			break
		}
	}
	return nil
}

// Fetch implements env.Fetcher.
func (h *member) Fetch(handle env.Handle, r env.Request) {
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

// passing delivers routed messages to a Corona.
type passing struct{ *member }

func (p passing) Forward(*overlay.Message) bool { return false }
func (p passing) Deliver(m *overlay.Message) {
	p.town.routed = append(p.town.routed, p.town.now)
	p.Corona.Deliver(m.Key, m.Payload)
}
func (p passing) LeafChanged()        {}
func (p passing) PeerGone(env.PeerID) {}

// below is the application of the owners of domains' keys.
type below struct{ h *member }

func (b below) Emit(owner.Event)                       {}
func (b below) Absorbing(overlay.ID) bool              { return false }
func (b below) Siblings(overlay.ID) []*overlay.Contact { return nil }
func (b below) Weight(key overlay.ID) (int, bool) {
	if b.h.StewardKeyInUse(key) {
		return 1, true
	}
	return 0, false
}

// nearest returns the running members, the nearest to a key first.
func (w *testNetwork) nearest(key overlay.ID) []*member {
	of := slices.DeleteFunc(slices.Clone(w.houses), func(h *member) bool { return !h.up })
	slices.SortFunc(of, func(a, b *member) int {
		if overlay.Nearer(key, a.id, b.id) {
			return -1
		}
		return 1
	})
	return of
}

// open opens a channel that would have so many pollers if its domain had no budget.
func (w *testNetwork) open(url string, readers, want int) *testChannel {
	f := &testChannel{url: url, key: overlay.Key(w.network.Name, url), readers: readers, want: want}
	f.leader = w.nearest(f.key)[0]
	w.add(f)
	return f
}

func (w *testNetwork) add(f *testChannel) {
	w.feeds = append(w.feeds, f)
	w.byKey[f.key] = f
	w.appoint(f)
}

// appoint makes a member the sequencer of a channel.
func (w *testNetwork) appoint(f *testChannel) {
	f.epoch++
	f.leader.Lead(f.key, f.url, f.epoch, f.known(), f.note)
	l := f.leader.leaders[f.key]
	l.desiredPollers = f.want
	f.leader.sequencer.order(l, f.want, f.leader.Now())
	f.leader.run()
}

// kill ends a member; the channels that it led get other sequencers.
func (w *testNetwork) kill(h *member) {
	h.up = false
	for _, f := range w.feeds {
		f.serving = slices.DeleteFunc(f.serving, func(o *member) bool { return o == h })
		if f.leader == h {
			f.leader = w.nearest(f.key)[0]
			w.appoint(f)
		}
	}
}

// Enlist implements Wedges.
func (h *member) Enlist(key overlay.ID, o wedge.Order) error {
	f := h.town.byKey[key]
	if f.leader != h {
		return nil // a later term is in force
	}
	f.order, f.outlived = o, false
	if h.liar && f.lie != nil {
		f.lie(h.town, f, o)
		return nil
	}
	near := h.town.nearest(key)
	if f.aside {
		near = slices.DeleteFunc(near, func(n *member) bool { return n == f.leader })
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
func (h *member) Leads(key overlay.ID) bool {
	f := h.town.byKey[key]
	return f.leader == h && !f.outlived
}

// serve gives a member a rank of a channel.
func (f *testChannel) serve(h *member, o wedge.Order, rank, of int) {
	ref := o.IntervalStart.Add(h.ahead - f.leader.ahead).Add(o.Interval * time.Duration(rank) / time.Duration(of))
	h.town.after(20*time.Millisecond, func() {
		if h.up {
			h.Serve(f.key, wedge.Assignment{Term: o.Term, Ranks: wedge.SingleRank(0), N: of, IntervalStart: ref, Interval: o.Interval, Payload: o.Payload})
			h.run()
		}
	})
}

func (h *member) Broadcast(key overlay.ID, b []byte) error {
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

// Served implements Wedges.
func (h *member) Served(key overlay.ID) (served, declined int) {
	if f := h.town.byKey[key]; f != nil {
		served = len(f.serving)
	}
	return served, 0
}

// AdjustLevels implements Wedges.
func (h *member) AdjustLevels() {}

func (h *member) Decline(overlay.ID) {}

// Set implements Aggregate, as do Rest and Disturbed: the test decides what others publish.
func (h *member) Set([]byte) error { return nil }
func (h *member) Remote() (any, bool) {
	return &honeycomb.Bins{Totals: h.town.others}, h.town.whole
}
func (h *member) RequestQuickRounds() {}

func (h *member) SetNote(key overlay.ID, note []byte)          { h.town.byKey[key].note = note }
func (h *member) Fetched(overlay.ID, *feed.Feed, Offer, State) {}
func (h *member) Weight(key overlay.ID) int                    { return h.town.byKey[key].readers }

func (h *member) Owns(key overlay.ID) bool {
	near := h.town.nearest(key)
	return slices.Contains(near[:min(5, len(near))], h)
}

func (h *member) Term(key overlay.ID) uint64 { return h.town.byKey[key].epoch }

func (h *member) Leader(key overlay.ID) (env.Peer, bool) {
	return env.Peer{ID: h.town.byKey[key].leader.signer.PeerID()}, true
}
