package wedge_test

import (
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/wedge"
	"tidings/sim"
)

// A watch checks every second who serves the ranks of a key, and records how long a rank had no
// member, or several.
type watch struct {
	f           *wedges
	none, many  map[int]time.Time // since when, by key and rank
	gap, double time.Duration     // the longest
	most        int               // ranks served twice at the same time
}

func (f *wedges) watch() *watch {
	w := &watch{f: f, none: map[int]time.Time{}, many: map[int]time.Time{}}
	var look func()
	look = func() {
		w.look()
		f.After(time.Second, look)
	}
	f.After(0, look)
	return w
}

func (w *watch) look() {
	now := w.f.Now()
	note := func(since map[int]time.Time, rank int, is bool, longest *time.Duration) {
		if !is {
			delete(since, rank)
			return
		}
		if _, ok := since[rank]; !ok {
			since[rank] = now
		}
		*longest = max(*longest, now.Sub(since[rank]))
	}
	twice := 0
	for i := range w.f.keys {
		servers := w.f.servers(w.f.key(i))
		for rank := range w.f.n[i] {
			n := len(servers[rank])
			if n > 1 {
				twice++
			}
			note(w.none, i<<16|rank, n == 0, &w.gap)
			note(w.many, i<<16|rank, n > 1, &w.double)
		}
	}
	w.most = max(w.most, twice)
}

// A leader dies, and another takes over with a later term. The members change to it without a gap,
// and none serves the old order.
func TestAnotherLeaderTakesOver(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Minute
	w := newWorld(t, sim.Config{Seed: 4, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, wedge.Config{})
	w.grow(96)
	f := plant(w, 30)
	f.waitUntilServed("enlisted", 2*time.Minute)
	wasRef := map[overlay.ID]wedge.Assignment{}
	for i := range f.keys {
		wasRef[w.key(i)], _ = w.nearest(w.key(i))[0].wedge.Assignment(w.key(i))
	}
	watch := f.watch()
	for _, l := range f.leaders {
		if l.Up() {
			l.Crash(false)
		}
	}
	for i := range f.leaders {
		f.leaders[i] = w.live()[f.rng.IntN(60)]
	}
	w.Run(40 * time.Second)
	for i := range f.keys {
		if _, ok := f.leaders[i].wedge.View(w.key(i)); !ok {
			delete(wasRef, w.key(i)) // a leader without a part in the wedge does not know its phase
		}
		w.enlist(f.leaders[i], w.key(i), wedge.Order{Term: wedge.Term{Epoch: 1}, N: f.n[i], Payload: []byte("words")})
	}
	f.waitUntilServed("another leads", round)
	t.Logf("longest gap %v, longest time of two at one rank %v, at most %d ranks of %d twice at a time",
		watch.gap, watch.double, watch.most, f.total())
	if watch.gap > lease || watch.double > time.Minute {
		t.Errorf("a rank had no member for %v, two for %v", watch.gap, watch.double)
	}
	moved := 0
	for i := range f.keys {
		key := w.key(i)
		for _, m := range w.live() {
			d, ok := m.wedge.Assignment(key)
			if !ok {
				continue
			}
			if d.Term.Epoch != 1 {
				t.Errorf("key %d: member %d serves by %v", i, m.Index(), d.Term)
			}
			was, ok := wasRef[key]
			if !ok {
				continue
			}
			if off := (d.IntervalStart.Sub(was.IntervalStart) + d.Interval/2) % d.Interval; (off - d.Interval/2).Abs() > time.Second {
				moved++
			}
		}
	}
	if moved > 0 {
		t.Errorf("%d phases moved, under leaders who knew them", moved)
	}
}

// A leader dies and nobody takes over: the wedge ends soon after its leases.
func TestWedgeEndsWithItsLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 5}, wedge.Config{})
	w.grow(64)
	f := plant(w, 10)
	f.waitUntilServed("enlisted", 2*time.Minute)
	w.Run(40 * time.Minute) // two leases
	f.waitUntilServed("two leases later", time.Second)
	for _, l := range f.leaders {
		if l.Up() {
			l.Crash(false)
		}
	}
	w.Run(5 * time.Minute)
	if none, _ := f.wrongRanks(); none > f.total()/8 {
		t.Errorf("%d ranks of %d are not served soon after their leaders died", none, f.total())
	}
	w.Run(20 * time.Minute)
	if st := w.stats(); st.Records > 0 || st.Keys > 0 || st.Up+st.Down > 0 {
		t.Errorf("25 minutes later %d memberships are left, %d assignments, %d and %d edges", st.Records, st.Keys, st.Up, st.Down)
	}
	w.Run(5 * time.Minute)
	if st := w.stats(); st.Links > 0 {
		t.Errorf("%d links without a use are left", st.Links)
	}
}

// In a partition each side has a leader of its own. When the sides meet, the later term wins, and
// the application tells the other leader.
func TestAPartitionHasTwoLeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 6}, wedge.Config{})
	w.grow(64)
	f := plant(w, 20)
	f.waitUntilServed("enlisted", 2*time.Minute)
	var sides [2][]*sim.Host
	half := map[*member]int{}
	for i, m := range w.members {
		sides[i%2] = append(sides[i%2], m.Host)
		half[m] = i % 2
	}
	w.Partition(sides[0])
	w.Run(2 * time.Minute)
	other := make([]*member, f.keys)
	for i := range f.keys {
		side := 1 - half[f.leaders[i]]
		other[i] = w.members[2*f.rng.IntN(32)+side]
		w.enlist(other[i], w.key(i), wedge.Order{Term: wedge.Term{Epoch: 1}, N: f.n[i], Payload: []byte("words")})
	}
	w.Run(round)
	// Each side serves every rank.
	for i := range f.keys {
		for rank, servers := range w.servers(w.key(i)) {
			on := [2]int{}
			for _, m := range servers {
				on[half[m]]++
			}
			if on[0] > 1 || on[1] > 1 {
				t.Errorf("key %d: rank %d is served by %v on the two sides", i, rank, on)
			}
		}
	}
	w.Heal()
	w.Run(2 * time.Minute)
	for i := range f.keys {
		f.leaders[i].Do(func() {
			if err := f.leaders[i].wedge.Enlist(w.key(i), wedge.Order{}); err != nil {
				t.Error(err)
			}
		})
	}
	f.waitUntilServed("healed", 2*round)
	w.Run(time.Hour)
	f.waitUntilServed("an hour later", time.Second)
}
