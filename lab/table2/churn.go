package table2

import (
	"math/rand/v2"
	"time"

	"tidings/overlay"
	"tidings/sim"
)

// growInterval is the time between two rounds of new subscriptions while they grow.
const growInterval = 10 * time.Second

// Grow makes the clients of all members subscribe one after the other, over a time that begins now.
func (w *World) Grow(over time.Duration) {
	w.open()
	wanted := make([]bool, len(w.keys))
	steps := int(max(over/growInterval, 1))
	for i, list := range w.Workload.Memberships() {
		for step := range steps {
			part := list[len(list)*step/steps : len(list)*(step+1)/steps]
			w.After(time.Duration(step)*growInterval+growInterval*time.Duration(i)/time.Duration(len(w.Members)), func() {
				w.subscribe(i, part, wanted)
			})
		}
	}
}

// Churn describes departures and loss from the call of Begin on.
type Churn struct {
	Session time.Duration // median
	Loss    float64       // share of all frames that are lost
}

// Begin makes each member die silently when its session ends. A new member without state takes its
// place and its clients at once.
func (c Churn) Begin(w *World) {
	w.SetNetworkFaults(sim.NetworkFaults{Loss: c.Loss})
	if c.Session == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.Seed(), 0xc4))
	sessions, lists := sim.Sessions{Median: c.Session}, w.Workload.Memberships()
	var stay func(i int, d time.Duration)
	stay = func(i int, d time.Duration) {
		w.After(d, func() {
			w.replace(i, lists[i], rng)
			stay(i, sessions.Draw(rng))
		})
	}
	for i := range w.Members {
		stay(i, sessions.Residual(rng))
	}
}

// replace ends a member and starts another one that joins through three live members.
func (w *World) replace(i int, list []Membership, rng *rand.Rand) {
	if h := w.hosts[i]; h.Up() {
		h.Crash(false)
	}
	h := w.Host(sim.HostConfig{Open: true})
	w.hosts[i] = h
	w.boot(i)
	for range 3 {
		if via := w.hosts[rng.IntN(len(w.hosts))]; via != h {
			h.Found(via)
		}
	}
	w.whenActive(i, h, func() { w.subscribe(i, list, make([]bool, len(w.keys))) })
}

// whenActive calls do once a member has joined, unless its session ends before.
func (w *World) whenActive(i int, h *sim.Host, do func()) {
	w.After(time.Second, func() {
		switch {
		case w.hosts[i] != h:
		case w.Members[i].Overlay.State() == overlay.Active:
			do()
		default:
			w.whenActive(i, h, do)
		}
	})
}
