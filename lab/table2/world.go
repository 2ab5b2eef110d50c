package table2

import (
	"math/rand/v2"
	"sync"
	"time"

	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// A World is a simulated network whose members read the channels of a workload.
type World struct {
	*sim.World
	Workload *Workload
	Members  []*Member
	Polls    *Polls
	// WatchDeaths makes members watch each other, for worlds with deaths; Polite gives domains
	// budgets. Set them before the world runs.
	WatchDeaths, Polite bool

	seriesInterval time.Duration // between two points of the series, in whole minutes; 0: no series
	minutes        int           // minutes that hours have run
	series         []Span

	network wire.Network
	hosts   []*sim.Host  // of the members
	keys    []overlay.ID // of the channels
	lanes   []*lane
	verify  *wire.CachingVerifier
}

// laneCount is the number of parts of a world, and of processors that it uses.
const laneCount = 2

// lookahead is how long lanes run without synchronising, and the minimum delay of a frame; in
// sim.King, one pair of hosts in five is nearer. The number of polls per half hour does not depend
// on it. With a shorter one, lanes wait longer for each other.
const lookahead = 40 * time.Millisecond

// maxRemembered bounds the cached signatures and epochs. All members that see one do so within
// seconds.
const maxRemembered = 1 << 17

// joinInterval is the time between two members that join. All join through the first.
const joinInterval = 100 * time.Millisecond

// NewWorld returns a world whose members join one after the other as soon as it runs. Delays are
// those of sim.King, but at least the lookahead.
func NewWorld(load *Workload, network wire.Network) *World {
	garbage := newCollector(load.Heap() * 11 / 20)
	w := &World{
		World: sim.New(sim.Config{
			Seed: uint64(load.Seed), Topology: sim.King(uint64(load.Seed)),
			Lanes: laneCount, Lookahead: lookahead,
			Parallel: func(do []func()) (all, end func()) { return inParallel(do, garbage.collectIfDue) },
		}),
		Workload: load,
		Polls:    newPolls(load, network.PollInterval),
	}
	for i := range load.Channels {
		w.keys = append(w.keys, overlay.Key(network.Name, load.URL(i)))
	}
	w.network, w.verify = network, wire.NewCachingVerifier(wire.NewVerifier(wire.HashOf(network.Descriptor())), maxRemembered)
	w.verify = w.verify.WithLock(new(sync.Mutex))
	for range laneCount {
		w.lanes = append(w.lanes, newLane(load, network, w.verify))
	}
	w.Members, w.hosts = make([]*Member, load.Members), make([]*sim.Host, load.Members)
	for i := range load.Members {
		w.hosts[i] = w.Host(sim.HostConfig{Open: true})
		w.After(time.Duration(i)*joinInterval, func() {
			w.boot(i)
			if i > 0 {
				w.hosts[i].Found(w.hosts[0])
			}
		})
	}
	return w
}

// boot starts a member.
func (w *World) boot(i int) {
	h, hash := w.hosts[i], wire.HashOf(w.network.Descriptor())
	l := w.lanes[h.Lane()]
	cfg := node.DefaultConfig(w.network)
	cfg.Overlay.Founder = h.Index() == 0
	cfg.Overlay.Records, cfg.Owner.EpochCache = l.records, l.epochs
	cfg.Wedges.OrderCache, cfg.Corona.Payloads = l.orders, l.payloads
	cfg.Corona.Politeness = w.Polite
	if !w.WatchDeaths {
		// State that protects against deaths is renewed once per maintenance interval, as in the
		// paper.
		every := w.network.MaintenanceInterval
		cfg.Scribe.HeartbeatInterval, cfg.Overlay.SaveInterval, cfg.Overlay.WatchInterval = every, every, every/6
		cfg.Owner.Lease, cfg.Owner.HeartbeatInterval = 2*every, every/2
	}
	h.Boot(func(e env.Env) env.Node {
		e.Network = countedNetwork{e.Network, l.tally}
		w.Members[i] = newMember(e, w.verify.Signer(h.Key(), hash), w.verify, cfg, i, l)
		return w.Members[i]
	})
}

// Kill makes members die silently until a share of all are dead; a seed always chooses the same
// ones.
func (w *World) Kill(part float64) {
	order := rand.New(rand.NewPCG(uint64(w.Workload.Seed), uint64(len(w.Members)))).Perm(len(w.Members))
	for _, i := range order[:int(part*float64(len(order)))] {
		if h := w.hosts[i]; h.Up() {
			h.Crash(false)
		}
	}
}

// Joined reports whether all members are active and know their number.
func (w *World) Joined() bool {
	for _, m := range w.Members {
		if m == nil || m.Overlay.State() != overlay.Active || m.Overlay.Count(0) != len(w.Members) {
			return false
		}
	}
	return true
}

// Subscribe makes each member make all its subscriptions at once, as a restarted node does, one
// member after the other within a time that begins now. Within seconds, that is a network that
// restarts as a whole: each tree grows once, and children are pushed down when it has grown. The
// first member that reads a channel asks for owners.
func (w *World) Subscribe(over time.Duration) {
	w.open()
	wanted := make([]bool, len(w.keys))
	for i, list := range w.Workload.Memberships() {
		w.After(over*time.Duration(i)/time.Duration(len(w.Members)), func() {
			w.subscribe(i, list, wanted)
		})
	}
}

// open starts the updates of channels, and the measurement.
func (w *World) open() {
	w.Polls.open(w.Now().UnixNano())
	for _, l := range w.lanes {
		l.origins.open(w.Now().UnixNano())
	}
}

// subscribe makes the subscriptions of a member, and asks for owners of the channels that no other
// member has asked for.
func (w *World) subscribe(member int, list []Membership, wanted []bool) {
	m, first := w.Members[member], make([]bool, len(list))
	for i, s := range list {
		first[i] = !wanted[s.Channel]
		wanted[s.Channel] = true
	}
	w.hosts[member].Enqueue(func() {
		for i, s := range list {
			if first[i] {
				m.Owners.RequestOwners(w.keys[s.Channel], w.Workload.URL(int(s.Channel)), func(bool) {})
			}
			m.Scribe.Join(w.keys[s.Channel], int(s.Weight))
		}
	})
}

// Key returns the key of a channel.
func (w *World) Key(channel int) overlay.ID { return w.keys[channel] }
