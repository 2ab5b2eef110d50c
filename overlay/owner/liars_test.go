package owner_test

import (
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay/owner"
	"tidings/sim"
)

// A liarWorld has channels, some of whose owners lie.
type liarWorld struct {
	*world
	t      *testing.T
	liars  []*sim.OwnerLiar
	lying  map[*member]bool
	last   map[string]time.Time // last commit of each channel
	length map[string]int       // committed entries of each channel
	gap    time.Duration        // longest time without a commit in a channel
}

const liarLease = 4 * time.Minute

// lie makes a world in which the owners of one channel with the given ranks lie; rank 0 is the nearest to the key. The
// sequencer is one of the liars if leads is set, and otherwise dies after a while.
func lie(t *testing.T, seed uint64, ranks []int, leads bool, lies sim.OwnerLies) *liarWorld {
	w := &liarWorld{
		world: newWorld(t, sim.Config{Seed: seed, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, liarLease), t: t,
		lying: map[*member]bool{}, last: map[string]time.Time{}, length: map[string]int{},
	}
	w.grow(16)
	w.Run(30 * time.Second)
	w.want(1)
	w.Run(10 * time.Second)
	near := w.nearest(w.key(w.urls[0]))
	lead := w.leader(w.key(w.urls[0]))
	for _, rank := range ranks {
		if m := near[rank]; m != lead {
			w.corrupt(m, lies)
		}
	}
	if leads {
		w.corrupt(lead, lies)
	}
	w.work(2 * time.Minute)
	if !leads {
		lead.Crash(false)
	}
	w.work(5 * liarLease)
	return w
}

func (w *liarWorld) corrupt(m *member, lies sim.OwnerLies) {
	w.lying[m] = true
	w.liars = append(w.liars, sim.NewOwnerLiar(m.Host, w.hash, func() *owner.Owners { return m.owners }, lies))
}

// work appends a body every ten seconds, and tells each owner whether the log has what it should have. Liars campaign all
// the time.
func (w *liarWorld) work(d time.Duration) {
	for end := w.Now().Add(d); w.Now().Before(end); {
		for _, url := range w.urls {
			w.append(url, 100)
			for _, m := range w.members {
				if m.Up() && !w.lying[m] {
					m.Do(func() { w.tell(m, url) })
				}
			}
			n := 0
			for id := range w.done {
				if w.made[id] == url {
					n++
				}
			}
			if n > w.length[url] || w.last[url].IsZero() {
				w.length[url], w.last[url] = n, w.Now()
			}
			w.gap = max(w.gap, w.Now().Sub(w.last[url]))
		}
		for range 50 {
			for _, l := range w.liars {
				l.Prepare()
			}
			w.Run(200 * time.Millisecond)
		}
	}
}

// tell says what polls of the origin would: there is news all the time.
func (w *liarWorld) tell(m *member, url string) {
	m.owners.Missing(w.key(url), w.Now().Sub(w.last[url]) > 20*time.Second)
}

// progresses checks that the channel never stood still for more than two leases, or three if two liars may follow each other
// as sequencers, and that it goes on in the end.
func (w *liarWorld) progresses(name string) {
	w.t.Helper()
	if w.gap > time.Duration(1+len(w.liars))*liarLease || w.Now().Sub(w.last[w.urls[0]]) > time.Minute {
		w.t.Errorf("%s: no progress for %v; at the end for %v", name, w.gap, w.Now().Sub(w.last[w.urls[0]]))
	}
	w.t.Logf("%s: %d bodies committed, longest pause %v, %d forced reconfigurations", name, len(w.done), w.gap, w.stats().ForcedReconfigs)
}

// One or two of five owners lie. If the sequencer is honest, it dies. The channel goes on.
func TestAMinorityOfLyingOwnersHoldsNothingUp(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name string
		lies sim.OwnerLies
	}{
		{"refuse", sim.OwnerLies{Refuse: true}},
		{"campaign", sim.OwnerLies{Campaign: true}},
		{"stall", sim.OwnerLies{Stall: true}},
		{"false heads", sim.OwnerLies{Heads: true}},
		{"date ahead", sim.OwnerLies{Ahead: true}},
		{"all", sim.OwnerLies{Refuse: true, Campaign: true, Stall: true, Heads: true, Ahead: true}},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			seeds(t, uint64(longtest.Pick(1, 8)), func(t *testing.T, seed uint64) {
				dice := newDice(seed)
				lie(t, seed, []int{1 + dice.IntN(2)}, true, k.lies).progresses("the sequencer and another")
				lie(t, seed, []int{dice.IntN(2) * 4}, false, k.lies).progresses("one, and the sequencer dies")
			})
		})
	}
}
