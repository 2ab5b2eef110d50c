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
	// Plain has all layers of a member run at each event, as those of node.Node do; Mortal has
	// members watch each other as where some die; Polite has domains have budgets. To be set
	// before any runs.
	RunAll, WatchDeaths, Polite bool

	seriesInterval time.Duration // between two points of the series, in whole minutes; 0: there is none
	minutes        int           // that hours have run
	series         []Span

	network wire.Network
	hosts   []*sim.Host  // of the members
	keys    []overlay.ID // of the channels
	lanes   []*lane
	verify  *wire.Memory
}

// lanes is into how many parts a world is split: how many processors it makes use of.
const laneCount = 2

// stride is for how long lanes go on by themselves, and the least that a frame takes: by
// sim.King, one pair of hosts in five is nearer. Polls, by the half hour, do not depend on it, and in shorter ones a lane waits
// longer for the other.
const lookahead = 40 * time.Millisecond

// maxSigned is how many signatures, and epochs, are remembered at once: all who come
// across one do so within seconds.
const maxRemembered = 1 << 17

// joinPause is the time between two members that join. All join through the first.
const joinInterval = 100 * time.Millisecond

// NewWorld returns a world whose members join one after the other as soon as it runs.
// Time and distances are those of sim.King, but for the stride.
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
	w.network, w.verify = network, wire.Memo(wire.NewVerifier(wire.HashOf(network.Descriptor())), maxRemembered)
	w.verify = w.verify.Guarded(new(sync.Mutex))
	for range laneCount {
		w.lanes = append(w.lanes, newLane(load, network.Name, w.verify))
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
	if !w.WatchDeaths {
		// What is kept up against deaths is renewed once in a maintenance interval, as the
		// paper's own state is.
		every := w.network.MaintenanceInterval
		cfg.Scribe.HeartbeatInterval, cfg.Overlay.SaveInterval, cfg.Overlay.WatchInterval = every, every, every/6
		cfg.Owner.Lease, cfg.Owner.HeartbeatInterval = 2*every, every/2
	}
	h.Boot(func(e env.Env) env.Node {
		e.Network = countedNetwork{e.Network, l.tally}
		w.Members[i] = newMember(e, w.verify.Signer(h.Key(), hash), w.verify, cfg, i, w.RunAll, w.Polite, l)
		return w.Members[i]
	})
}

// Kill has some members die silently, so that a part of all are dead; the same dice choose them
// each time.
func (w *World) Kill(part float64) {
	order := rand.New(rand.NewPCG(uint64(w.Workload.Seed), uint64(len(w.Members)))).Perm(len(w.Members))
	for _, i := range order[:int(part*float64(len(order)))] {
		if h := w.hosts[i]; h.Up() {
			h.Crash(false)
		}
	}
}

// Joined says whether all members are active and know how many they are.
func (w *World) Joined() bool {
	for _, m := range w.Members {
		if m == nil || m.Overlay.State() != overlay.Active || m.Overlay.Count(0) != len(w.Members) {
			return false
		}
	}
	return true
}

// Subscribe has each member subscribe to all that its clients read at once, as a node that
// starts again does, one member after the other within a time that begins now. In seconds,
// they are a network that starts again as a whole: each tree grows once, and children are
// pushed down when it has grown. The first that reads a channel wants it owned.
func (w *World) Subscribe(over time.Duration) {
	w.open()
	wanted := make([]bool, len(w.keys))
	for i, list := range w.Workload.Memberships() {
		w.After(over*time.Duration(i)/time.Duration(len(w.Members)), func() {
			w.subscribe(i, list, wanted)
		})
	}
}

// open begins to update the channels, and to measure.
func (w *World) open() {
	w.Polls.open(w.Now().UnixNano())
	for _, l := range w.lanes {
		l.origins.open(w.Now().UnixNano())
	}
}

// subscribe has a member subscribe to what its clients read, and want of that what nobody has
// wanted before.
func (w *World) subscribe(member int, list []Membership, wanted []bool) {
	m, first := w.Members[member], make([]bool, len(list))
	for i, s := range list {
		first[i] = !wanted[s.Channel]
		wanted[s.Channel] = true
	}
	w.hosts[member].Enqueue(func() {
		m.Do(func() {
			for i, s := range list {
				if first[i] {
					m.Owners.RequestOwners(w.keys[s.Channel], w.Workload.URL(int(s.Channel)), func(bool) {})
				}
				m.Scribe.Join(w.keys[s.Channel], int(s.Weight))
			}
		})
	})
}

// Key is the key of a channel.
func (w *World) Key(channel int) overlay.ID { return w.keys[channel] }
