package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner"
	"tidings/sim"
)

// tracked is a Tracker of the first channel at a member, and the epochs that it has reported.
type tracked struct {
	*owner.Tracker
	changed []*owner.Epoch
}

func (w *world) track(m *member, verify bool, url string) *tracked {
	x := &tracked{}
	m.Do(func() {
		x.Tracker = m.owners.Track(w.key(w.urls[0]), url, func() bool { return verify }, func(e *owner.Epoch) { x.changed = append(x.changed, e) })
	})
	return x
}

// distant returns the members whose leaf does not cover the key of the first channel.
func (w *world) distant() (of []*member) {
	for _, m := range w.members {
		if !m.overlay.Leaf().Covers(w.key(w.urls[0])) {
			of = append(of, m)
		}
	}
	return of
}

// A Tracker far from a key accepts the key's epoch after a lookup, and its successor without another one, and accepts
// messages of both.
func TestATrackerFollowsEpochs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 3}, 10*time.Minute)
	w.grow(96)
	w.Run(3 * time.Minute)
	w.want(1)
	w.Run(time.Minute)
	key := w.key(w.urls[0])
	far := w.distant()
	if len(far) < 2 {
		t.Fatal("all members are in one leaf")
	}
	m, gone := far[0], far[1]
	x, closed := w.track(m, true, ""), w.track(gone, true, "")
	m.Do(x.Refresh)
	gone.Do(closed.Refresh)
	for gone.owners.Stats().Lookups == 0 {
		w.Run(10 * time.Millisecond)
	}
	closed.Close()
	w.Run(time.Minute)
	v, _ := w.nearest(key)[0].owners.View(key)
	if len(x.changed) != 1 || x.Latest() == nil || x.Latest().Hash != v.Epoch.Hash || x.Epoch(v.Epoch.Hash) == nil || len(x.Owners()) != 5 {
		t.Fatalf("accepts %v", x.changed)
	}
	if len(closed.changed) > 0 {
		t.Error("a closed Tracker reports an epoch")
	}
	if x.Owners()[0].ID != v.Epoch.Sequencer || !x.Owns(v.Epoch.Sequencer) || x.Owns(m.ID()) || len(x.Owners()[0].Addrs) == 0 {
		t.Errorf("the owners are %v", x.Owners())
	}
	lookups, first := m.owners.Stats().Lookups, x.Latest()
	w.nearest(key)[4].Crash(true)
	w.Run(5 * time.Minute)
	v, _ = w.nearest(key)[0].owners.View(key)
	if v.Epoch.Hash == first.Hash {
		t.Fatal("the owners have not changed")
	}
	m.Do(func() {
		if x.Epoch(v.Epoch.Hash) != nil {
			t.Error("an epoch is known that nobody has sent")
		}
	})
	w.Run(time.Minute)
	if len(x.changed) != 2 || x.Epoch(v.Epoch.Hash) == nil || x.Epoch(first.Hash) == nil || m.owners.Stats().Lookups != lookups {
		t.Errorf("%d changes, %d lookups", len(x.changed), m.owners.Stats().Lookups-lookups)
	}
	if dead := first.Owners[slices.IndexFunc(first.Owners, func(p env.PeerID) bool { return !slices.Contains(v.Epoch.Owners, p) })]; x.Owns(dead) || !x.Owned(dead) {
		t.Error("the former owner is not told from the present ones")
	}
}

// A member that uses a key gives it owners by asking for them; another one is told that there are none.
func TestAKeyThatIsUsedGetsOwners(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(8)
	w.Run(20 * time.Second)
	w.urls = []string{"https://used.example/"}
	idle := w.track(w.members[1], false, "")
	w.members[1].Do(idle.Refresh)
	w.Run(10 * time.Second)
	if len(idle.changed) != 1 || idle.changed[0] != nil {
		t.Fatalf("%v of a key without owners", idle.changed)
	}
	x := w.track(w.members[2], true, w.urls[0])
	w.members[2].Do(x.Refresh)
	w.Run(10 * time.Second)
	w.members[2].Do(x.Refresh)
	w.Run(5 * time.Second)
	if x.Latest() == nil || len(x.Owners()) != 5 {
		t.Errorf("the key has the owners %v", x.Owners())
	}
}

// A Tracker whose questions reach nobody asks less and less often, and often again after an answer.
func TestATrackerBacksOff(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(8)
	w.Run(20 * time.Second)
	w.want(1)
	w.Run(10 * time.Second)
	for _, m := range w.members {
		m.Crash(true)
	}
	w.grow(1) // finds nobody
	w.Run(time.Second)
	m := w.members[8]
	x := w.track(m, false, "")
	asked := func(d time.Duration) (times int) {
		last := x.AskedAt()
		for end := w.Now().Add(d); w.Now().Before(end); w.Run(100 * time.Millisecond) {
			if m.Do(x.Refresh); !x.AskedAt().Equal(last) {
				times, last = times+1, x.AskedAt()
			}
		}
		return times
	}
	if n := asked(10 * time.Minute); n < 10 || n > 16 {
		t.Errorf("asked %d times in ten minutes without an answer", n)
	}
	for _, o := range w.members[:8] {
		o.start()
	}
	if asked(2 * time.Minute); x.Latest() == nil {
		t.Error("no epoch is known after the others returned")
	}
	if n := asked(time.Minute); n < 25 || n > 31 {
		t.Errorf("asked %d times in a minute in which all questions are answered", n)
	}
}
