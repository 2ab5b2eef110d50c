package wedge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// A world has members with overlay and wedge, and observes what they serve.
type world struct {
	*sim.World
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	verify  wire.Verifier
	records *overlay.Records
	cfg     wedge.Config
	members []*member
}

func newWorld(t testing.TB, c sim.Config, cfg wedge.Config) *world {
	network := wire.DefaultNetwork("sim")
	w := &world{World: sim.New(c), t: t, network: network, hash: wire.HashOf(network.Descriptor()), cfg: cfg}
	w.verify = wire.NewCachingVerifier(wire.NewVerifier(w.hash), 1<<16)
	w.records = overlay.NewRecords(network, w.verify, 1<<14)
	return w
}

// grow adds members, one every tenth of a second, and waits until they are stable.
func (w *world) grow(n int) {
	for i := range n {
		m := w.member()
		w.After(time.Duration(i+1)*100*time.Millisecond, m.start)
	}
	w.Run(time.Duration(n) * 100 * time.Millisecond)
	w.waitForCounts()
}

// counted waits until all counts of members are right.
func (w *world) waitForCounts() {
	w.t.Helper()
	right := func() bool {
		live := w.live()
		return !slices.ContainsFunc(live, func(m *member) bool {
			for d := range 16 {
				count := 0
				for _, o := range live {
					if m.overlay.ID().Common(o.overlay.ID()) >= d {
						count++
					}
				}
				if m.overlay.Count(d) != count {
					return true
				}
			}
			return false
		})
	}
	if !w.RunUntil(right, time.Minute, 2*time.Hour) {
		w.t.Fatal("somebody counts wrongly")
	}
}

func (w *world) member() *member {
	m := &member{Host: w.Host(sim.HostConfig{Open: true}), w: w}
	w.members = append(w.members, m)
	return m
}

func (w *world) key(i int) overlay.ID {
	return overlay.Key(w.network.Name, fmt.Sprintf("https://feed%d.example/", i))
}

// live returns the members that are up and have joined.
func (w *world) live() (of []*member) {
	for _, m := range w.members {
		if m.Up() && m.overlay.State() == overlay.Active {
			of = append(of, m)
		}
	}
	return of
}

// nearest returns the live members by their distance to a key.
func (w *world) nearest(key overlay.ID) []*member {
	of := w.live()
	slices.SortFunc(of, func(a, b *member) int {
		if overlay.Nearer(key, a.overlay.ID(), b.overlay.ID()) {
			return -1
		}
		return 1
	})
	return of
}

// enlist has a member give an order.
func (w *world) enlist(m *member, key overlay.ID, o wedge.Order) {
	w.t.Helper()
	if o.Interval == 0 {
		o.Interval = 30 * time.Minute
	}
	m.Do(func() {
		if err := m.wedge.Enlist(key, o); err != nil {
			w.t.Error(err)
		}
	})
}

// servers returns the members that serve each rank of a key.
func (w *world) servers(key overlay.ID) map[int][]*member {
	of := map[int][]*member{}
	for _, m := range w.live() {
		d, ok := m.wedge.Assignment(key)
		if !ok {
			continue
		}
		for i := range d.Ranks.Len() {
			of[d.Ranks.At(i)] = append(of[d.Ranks.At(i)], m)
		}
	}
	return of
}

// gaps counts the ranks of a key that nobody serves, and those that several members serve.
func (w *world) gaps(key overlay.ID, n int) (none, twice int) {
	servers := w.servers(key)
	for rank := range n {
		switch {
		case len(servers[rank]) == 0:
			none++
		case len(servers[rank]) > 1:
			twice++
		}
	}
	return none, twice
}

// evenness returns the mean wait for the next poll of a key, relative to n evenly spaced polls.
func (w *world) evenness(key overlay.ID, n int) float64 {
	var at []time.Duration
	var interval time.Duration
	for _, m := range w.live() {
		d, ok := m.wedge.Assignment(key)
		if !ok {
			continue
		}
		interval = d.Interval
		for i := range d.Ranks.Len() {
			next := d.IntervalStart.Add(time.Duration(wedge.Phase(d.Ranks.At(i), d.N) * float64(interval)))
			off := next.Sub(w.Now()) % interval
			if off < 0 {
				off += interval
			}
			at = append(at, off)
		}
	}
	if len(at) == 0 {
		return 0
	}
	slices.Sort(at)
	sum := 0.
	for i := range at {
		gap := at[(i+1)%len(at)] - at[i]
		if i == len(at)-1 {
			gap += interval
		}
		sum += float64(gap) * float64(gap)
	}
	return sum / (2 * float64(interval)) / (float64(interval) / float64(2*n))
}

// stats returns the sum of the counters of all members.
func (w *world) stats() (sum wedge.Stats) {
	for _, m := range w.live() {
		st := m.wedge.Stats()
		sum.Records += st.Records
		sum.Keys += st.Keys
		sum.Up += st.Up
		sum.Down += st.Down
		sum.Links += st.Links
		sum.Batches += st.Batches
		sum.Entries += st.Entries
		sum.Digests += st.Digests
		sum.Lists += st.Lists
		sum.Control += st.Control
		sum.Resent += st.Resent
		sum.Replaced += st.Replaced
		sum.Adopted += st.Adopted
		sum.Refused += st.Refused
		sum.Expired += st.Expired
		sum.Downs += st.Downs
		sum.Garbage += st.Garbage
		sum.Lost += st.Lost
	}
	return sum
}

// sound checks that all digests match the edges.
func (w *world) checkDigests() {
	w.t.Helper()
	for _, m := range w.live() {
		if err := m.wedge.Check(); err != nil {
			w.t.Errorf("member %d: %v", m.Index(), err)
		}
	}
}

// A member is a host with overlay and wedge, and the application of the wedge.
type member struct {
	*sim.Host
	w       *world
	overlay *overlay.Node
	wedge   *wedge.Wedge
	serves  map[overlay.ID]wedge.Assignment // according to Serve and Release
	refuses map[overlay.ID]bool             // keys whose assignments it declines
	invalid map[overlay.ID]bool             // keys whose orders it finds invalid
	level   map[overlay.ID]int              // the level that it wants a wedge to reach; absent: no further
	got     []string                        // received by Delivered
	catchUp map[overlay.ID][]byte           // its catch-up messages: the last broadcast for each key that it serves; nil: none
}

func (m *member) start() {
	m.serves = map[overlay.ID]wedge.Assignment{}
	if m.refuses == nil {
		m.refuses, m.invalid = map[overlay.ID]bool{}, map[overlay.ID]bool{}
	}
	m.Boot(func(e env.Env) env.Node {
		signer := wire.NewSigner(m.Key(), m.w.hash)
		m.overlay = overlay.New(e, signer, m.w.verify, overlay.Config{
			Network: m.w.network, Records: m.w.records, Founder: m.Index() == 0,
		})
		m.wedge = wedge.New(e, m.overlay, m.w.cfg, m)
		return corridor{m}
	})
	if m.Index() > 0 {
		m.Found(m.w.members[0].Host)
	}
}

func (m *member) Valid(key overlay.ID, _ wedge.Term, _ []byte) bool { return !m.invalid[key] }
func (m *member) Willing(key overlay.ID, _ []byte) bool             { return !m.refuses[key] }
func (m *member) Level(key overlay.ID) int {
	if level, ok := m.level[key]; ok {
		return level
	}
	return 64
}

func (m *member) Serve(key overlay.ID, d wedge.Assignment) {
	if m.serves != nil {
		m.serves[key] = d
	}
}

func (m *member) Release(key overlay.ID) {
	if _, ok := m.serves[key]; !ok && m.serves != nil {
		m.w.t.Errorf("member %d is released from what it does not serve", m.Index())
	}
	delete(m.serves, key)
}

func (m *member) CatchUp(key overlay.ID) []byte { return m.catchUp[key] }

func (m *member) Delivered(key overlay.ID, _ env.PeerID, message []byte) {
	m.got = append(m.got, string(message))
	if _, serves := m.serves[key]; serves && m.catchUp != nil {
		m.catchUp[key] = message
	}
}

// A corridor passes messages to the two layers.
type corridor struct{ *member }

func (c corridor) Run(now time.Time) time.Time { return env.RunDue(now, c.overlay, c.wedge) }

func (c corridor) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	if layer == wire.Wedge {
		return c.wedge.Receive(from, body)
	}
	return c.overlay.Receive(from, body)
}

func (c corridor) Found(peer env.Peer)      { c.overlay.Found(peer) }
func (c corridor) Reachable(addrs []string) { c.overlay.Reachable(addrs) }
func (c corridor) PeerDown(peer env.PeerID) { c.overlay.PeerDown(peer) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
