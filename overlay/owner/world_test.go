package owner_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run only this seed")
	seedsFlag = flag.Uint64("seeds", 0, "run as many seeds")
)

// A world has members that own keys, and bodies that are appended to their logs.
// Checkers watch every entry that any member sees.
type world struct {
	*sim.World
	t       *testing.T
	network wire.Network
	hash    wire.Hash
	verify  wire.Verifier
	lease   time.Duration
	members []*member
	urls    []string

	made      map[int]string                               // bodies, with the URLs of their logs
	done      map[int]time.Time                            // committed bodies, with the time of the commit
	at        map[overlay.ID]map[owner.Position]owner.Hash // entries seen at each position
	sequencer map[string]env.PeerID                        // by key, branch and epoch
}

func newWorld(t *testing.T, c sim.Config, lease time.Duration) *world {
	network := wire.DefaultNetwork("sim")
	w := &world{
		World: sim.New(c), t: t, network: network, hash: wire.HashOf(network.Descriptor()), lease: lease,
		made: map[int]string{}, done: map[int]time.Time{},
		at: map[overlay.ID]map[owner.Position]owner.Hash{}, sequencer: map[string]env.PeerID{},
	}
	w.verify = wire.NewCachingVerifier(wire.NewVerifier(w.hash), 1<<16)
	return w
}

// grow adds members, one every tenth of a second.
func (w *world) grow(n int) {
	for i := range n {
		m := &member{Host: w.Host(sim.HostConfig{Open: true}), w: w}
		w.members = append(w.members, m)
		w.After(time.Duration(i+1)*100*time.Millisecond, m.start)
	}
}

// key returns the key of a channel.
func (w *world) key(url string) overlay.ID { return overlay.Key(w.network.Name, url) }

// want requests owners for new channels.
func (w *world) want(n int) {
	for i := range n {
		url := fmt.Sprintf("https://feed%d.example/", len(w.urls))
		w.urls = append(w.urls, url)
		m := w.members[i%len(w.members)]
		m.Do(func() { m.owners.RequestOwners(w.key(url), url, func(bool) {}) })
	}
}

// append makes each sequencer of a channel, one in each part of the network, append a body.
func (w *world) append(url string, size int) {
	key := w.key(url)
	for _, m := range w.members {
		if !m.Up() || !m.leads[key] {
			continue
		}
		id := len(w.made)
		body := append(binary.BigEndian.AppendUint32(nil, uint32(id)), make([]byte, size)...)
		m.Do(func() {
			err := m.owners.Append(key, body, 1, sum, func(ok bool) {
				if ok {
					w.done[id] = w.Now()
				}
			})
			if err == nil {
				w.made[id] = url
			}
		})
	}
}

// write appends a body to every channel again and again.
func (w *world) write(d, pause time.Duration, size int) {
	for end := w.Now().Add(d); w.Now().Before(end); {
		for _, url := range w.urls {
			w.append(url, size)
		}
		w.Run(pause)
	}
}

// nearest returns the live members that should own a key.
func (w *world) nearest(key overlay.ID) []*member {
	of := w.sorted(key)
	return of[:min(w.network.Owners, len(of))]
}

// sorted returns the live members, nearest to a key first.
func (w *world) sorted(key overlay.ID) []*member {
	var of []*member
	for _, m := range w.members {
		if m.Up() && m.overlay.State() == overlay.Active {
			of = append(of, m)
		}
	}
	slices.SortFunc(of, func(a, b *member) int {
		if overlay.Nearer(key, a.id(), b.id()) {
			return -1
		}
		return 1
	})
	return of
}

// settled checks that the right members own each channel, agree about its log, and have every committed body.
func (w *world) settled() {
	w.t.Helper()
	for _, url := range w.urls {
		key := w.key(url)
		var head owner.Hash
		leaders := 0
		for i, m := range w.nearest(key) {
			v, ok := m.owners.View(key)
			if !ok || !v.Owns {
				w.t.Errorf("%s: member %d (rank %d) is no owner (%v)", url, m.Index(), i, ok)
				continue
			}
			if v.Leads {
				leaders++
			}
			log := m.owners.Log(key)
			var h owner.Hash
			if len(log) > 0 {
				h = log[len(log)-1].Hash
			}
			if i > 0 && h != head {
				w.t.Errorf("%s: owners disagree about the head: member %d has %v of %d, not %v", url, m.Index(), h, len(log), head)
			}
			head = h
			lacks := 0
			for id, of := range w.made {
				if _, held := w.done[id]; held && of == url && !m.has[key][id] {
					lacks++
				}
			}
			if lacks > 0 {
				w.t.Errorf("%s: member %d lacks %d committed bodies", url, m.Index(), lacks)
			}
		}
		if leaders != 1 {
			w.t.Errorf("%s: %d sequencers among the owners", url, leaders)
		}
	}
}

// A member is a host with overlay and owner, and the application of both.
type member struct {
	*sim.Host
	w       *world
	overlay *overlay.Node
	owners  *owner.Owners
	events  *env.Events[owner.Event]
	leads   map[overlay.ID]bool
	has     map[overlay.ID]map[int]bool               // bodies in its log
	tap     func(to env.PeerID, msg *ownerpb.Message) // sees what the member sends; nil: none
	told    func(owner.Event)                         // sees the events of the owners; nil: none
}

func (m *member) start() {
	m.leads, m.has = map[overlay.ID]bool{}, map[overlay.ID]map[int]bool{}
	m.Boot(func(e env.Env) env.Node {
		e.Network = tap{e.Network, m}
		signer := wire.NewSigner(m.Key(), m.w.hash)
		m.events = env.NewEvents(m.handle)
		m.overlay = overlay.New(e, signer, m.w.verify, overlay.Config{Network: m.w.network, Founder: m.Index() == 0})
		var err error
		m.owners, err = owner.New(e, m.overlay, signer, m.w.verify, owner.Config{Lease: m.w.lease}, m)
		if err != nil {
			m.w.t.Fatal(err)
		}
		for _, key := range m.owners.Keys() {
			log := m.owners.Log(key)
			m.has[key] = map[int]bool{}
			for _, entry := range log {
				m.owners.Body(entry, func(body []byte) { m.has[key][number(body)] = true })
			}
			m.saw(key, log)
		}
		return corridor{m}
	})
	if m.Index() > 0 {
		m.Found(m.w.members[0].Host)
	}
}

func (m *member) id() overlay.ID { return overlay.NodeID(m.w.network.Name, m.ID()) }

// sum returns a set hash from a number: the bodies of these worlds hold no items.
func sum(seq, _ uint64, _ time.Time) owner.Hash {
	return owner.HashOf(binary.BigEndian.AppendUint64(nil, seq))
}

func number(body []byte) int { return int(binary.BigEndian.Uint32(body)) }

func (m *member) Absorbing(key overlay.ID) bool {
	return slices.ContainsFunc(m.events.Waiting(), func(ev owner.Event) bool { a, ok := ev.(owner.Absorb); return ok && a.Key == key })
}
func (m *member) Weight(overlay.ID) (int, bool)          { return 0, false }
func (m *member) Siblings(overlay.ID) []*overlay.Contact { return nil }
func (m *member) Emit(ev owner.Event)                    { m.events.Emit(ev) }

func (m *member) handle(ev owner.Event) {
	if m.told != nil {
		m.told(ev)
	}
	switch ev := ev.(type) {
	case owner.BecameSequencer:
		m.leads[ev.Key] = true
	case owner.CeasedSequencer:
		m.leads[ev.Key] = false
	case owner.Committed:
		m.saw(ev.Entry.Key, []*owner.Entry{ev.Entry})
	case owner.Appended:
		ev.Done(ev.OK)
	case owner.VisibleChanged:
		m.visibleChanged(ev.Key)
	case owner.Absorb:
		m.absorb(ev.Key, ev.Body)
	}
}

func (m *member) visibleChanged(key overlay.ID) {
	log := m.owners.Log(key)
	m.saw(key, log)
	m.owners.Bodies(log, func(bodies [][]byte) {
		m.has[key] = map[int]bool{}
		for _, b := range bodies {
			if b != nil {
				m.has[key][number(b)] = true
			}
		}
	})
}

func (m *member) absorb(key overlay.ID, body []byte) {
	if !m.has[key][number(body)] {
		m.has[key][number(body)] = true
		_ = m.owners.Append(key, body, 1, sum, func(bool) {})
	}
}

// saw checks that no position has two entries, and that an epoch has one sequencer.
func (m *member) saw(key overlay.ID, entries []*owner.Entry) {
	w := m.w
	if w.at[key] == nil {
		w.at[key] = map[owner.Position]owner.Hash{}
	}
	for _, e := range entries {
		if h, ok := w.at[key][e.At]; ok && h != e.Hash {
			w.t.Errorf("two entries of %s at %v", key.Short(), e.At)
		}
		w.at[key][e.At] = e.Hash
		epoch := fmt.Sprint(key, e.At.Branch, e.At.Epoch)
		if s, ok := w.sequencer[epoch]; ok && s != e.Signer {
			w.t.Errorf("two sequencers of %s in %v", key.Short(), e.At)
		}
		w.sequencer[epoch] = e.Signer
	}
}

// A corridor passes calls and messages to the two layers.
type corridor struct{ *member }

func (c corridor) Run(now time.Time) time.Time { return env.RunDue(now, c.overlay, c.owners, c.events) }

func (c corridor) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	if layer == wire.Owner {
		return c.owners.Receive(from, body)
	}
	return c.overlay.Receive(from, body)
}

func (c corridor) Found(peer env.Peer)      { c.overlay.Found(peer) }
func (c corridor) Reachable(addrs []string) { c.overlay.Reachable(addrs) }
func (c corridor) PeerDown(peer env.PeerID) { c.overlay.PeerDown(peer) }

func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// part partitions half of the members from the others.
func (w *world) part() {
	var side []*sim.Host
	for i, m := range w.members {
		if i%2 == 0 {
			side = append(side, m.Host)
		}
	}
	w.Partition(side)
}

// stats adds up the counters of all members.
func (w *world) stats() (sum owner.Stats) {
	for _, m := range w.members {
		if m.Up() {
			st := m.owners.Stats()
			sum.ForcedReconfigs += st.ForcedReconfigs
			sum.Merged += st.Merged
			sum.Epochs += st.Epochs
			sum.Candidacies += st.Candidacies
			sum.Pulls += st.Pulls
			sum.Control += st.Control
			sum.Truncated += st.Truncated
			sum.Garbage += st.Garbage
			sum.Untrusted += st.Untrusted
		}
	}
	return sum
}
