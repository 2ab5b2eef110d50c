package table2

import (
	"math/rand/v2"
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// A World is a simulated network whose members read the channels of a workload.
type World struct {
	*sim.World
	Workload *Workload
	Members  []*Member
	Tally    Tally
	Polls    *Polls
	// Plain has all layers of a member run at each event, as those of node.Node do; Mortal has
	// members watch each other as where some die; Polite has domains have budgets. To be set
	// before any runs.
	Plain, Mortal, Polite bool

	keys    []overlay.ID // of the channels
	origins *origins
}

// maxSigned is how many signatures, and epochs, are remembered at once: all who come
// across one do so within seconds.
const maxSigned = 1 << 17

// joinPause is the time between two members that join. All join through the first.
const joinPause = 100 * time.Millisecond

// NewWorld returns a world whose members join one after the other as soon as it runs.
// Time and distances are those of sim.King.
func NewWorld(load *Workload, network wire.Network) *World {
	w := &World{
		World:    sim.New(sim.Config{Seed: uint64(load.Seed), Topology: sim.King(uint64(load.Seed))}),
		Workload: load,
		Tally:    Tally{},
		Polls:    newPolls(load, network.PollInterval),
	}
	w.origins = newOrigins(load, w.Polls)
	for i := range load.Channels {
		w.keys = append(w.keys, overlay.Key(network.Name, load.URL(i)))
	}
	hash := wire.HashOf(network.Descriptor())
	verify := wire.Memo(wire.NewVerifier(hash), maxSigned)
	records := overlay.NewRecords(network.Name, verify, 2*load.Members)
	briefs := corona.NewBriefs(2 * len(load.Channels))
	epochs, orders := owner.NewEpochs(maxSigned), wedge.NewOrders(2*len(load.Channels))
	for i := range load.Members {
		h := w.Host(sim.HostConfig{Open: true})
		w.Members = append(w.Members, nil)
		w.After(time.Duration(i)*joinPause, func() {
			cfg := node.DefaultConfig(network)
			cfg.Overlay.Founder = i == 0
			cfg.Overlay.Records, cfg.Owner.Epochs = records, epochs
			cfg.Wedges.Orders, cfg.Corona.Briefs = orders, briefs
			if !w.Mortal {
				// What is kept up against deaths is renewed once in a maintenance interval, as the
				// paper's own state is.
				cfg.Scribe.BeatInterval = network.MaintenanceInterval
				cfg.Overlay.SaveInterval = network.MaintenanceInterval
				cfg.Overlay.WatchInterval = network.MaintenanceInterval / 6
				cfg.Owner.Lease, cfg.Owner.BeatInterval = network.MaintenanceInterval, network.MaintenanceInterval/10
			}
			h.Boot(func(e env.Env) env.Node {
				e.Network = tallied{e.Network, w.Tally}
				w.Members[i] = newMember(e, verify.Signer(h.Key(), hash), verify, cfg, i, w)
				return w.Members[i]
			})
			if i > 0 {
				h.Found(w.Hosts()[0])
			}
		})
	}
	return w
}

// Kill has some members die silently, so that a part of all are dead; the same dice choose them
// each time.
func (w *World) Kill(part float64) {
	order := rand.New(rand.NewPCG(uint64(w.Workload.Seed), uint64(len(w.Members)))).Perm(len(w.Members))
	for _, i := range order[:int(part*float64(len(order)))] {
		if h := w.Hosts()[i]; h.Up() {
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
	w.Polls.open(w.Now().UnixNano())
	w.origins.open(w.Now().UnixNano())
	wanted := make([]bool, len(w.keys))
	for i, list := range w.Workload.Memberships() {
		w.After(over*time.Duration(i)/time.Duration(len(w.Members)), func() {
			w.Hosts()[i].Do(func() { w.Members[i].Do(func() { w.subscribe(w.Members[i], list, wanted) }) })
		})
	}
}

func (w *World) subscribe(m *Member, list []Membership, wanted []bool) {
	for _, s := range list {
		if !wanted[s.Channel] {
			wanted[s.Channel] = true
			m.Owners.Want(w.keys[s.Channel], w.Workload.URL(int(s.Channel)), func(bool) {})
		}
		m.Scribe.Join(w.keys[s.Channel], int(s.Weight))
	}
}

// Key is the key of a channel.
func (w *World) Key(channel int) overlay.ID { return w.keys[channel] }
