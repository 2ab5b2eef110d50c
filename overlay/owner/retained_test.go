package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A pull of a key that is forgotten releases its memory.
func TestPullsOfForgottenKeysEnd(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(8)
	w.Run(20 * time.Second)
	w.want(1)
	w.Run(10 * time.Second)
	key := w.key(w.urls[0])
	w.write(5*time.Second, time.Second, owner.MaxBody-16)
	w.Run(10 * time.Second)
	near := w.nearest(key)
	reader := w.members[slices.IndexFunc(w.members, func(m *member) bool { return !slices.Contains(near, m) })]
	answers := 0
	reader.Do(func() {
		reader.owners.Follow(key, w.urls[0])
		reader.owners.Pull(near[0].Peer(), key, func(bool) { answers++ })
	})
	w.Run(200 * time.Millisecond)
	if reader.owners.Retained().Pulled == 0 {
		t.Fatal("nothing is being pulled")
	}
	reader.Do(func() { reader.owners.Unfollow(key) })
	if left := reader.owners.Retained().Pulled; left != 0 || answers != 1 {
		t.Errorf("%d bytes are taken by a pull of nothing; answered %d times", left, answers)
	}
}

// A body that every owner has, or that some will not have soon, is not kept in memory.
func TestBodiesInFlightAreReleased(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(5)
	w.Run(20 * time.Second)
	w.want(20)
	w.Run(20 * time.Second)
	for _, url := range w.urls {
		w.append(url, 1000)
	}
	w.Run(10 * time.Minute)
	for _, m := range w.members {
		if h := m.owners.Retained(); h.Lagging > 0 {
			t.Errorf("member %d holds the last bodies of %d logs", m.Index(), h.Lagging)
		}
	}
}

// The keys that a dead member has listed are forgotten.
func TestListsOfTheDeadEnd(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(6)
	w.Run(20 * time.Second)
	m, liar := w.members[1], w.members[2]
	m.Do(func() {
		for _, msg := range []*ownerpb.Message{
			{Body: &ownerpb.Message_Heartbeat{Heartbeat: &ownerpb.Heartbeat{Nonce: 7, Count: 5, Digest: 5}}},
			{Body: &ownerpb.Message_LogList{LogList: &ownerpb.LogList{Nonce: 7, States: []*ownerpb.LogState{{Key: make([]byte, 32), Number: 1}}}}},
		} {
			b := wire.Encode(msg)
			if err := m.owners.Receive(liar.ID(), b); err != nil {
				t.Fatal(err)
			}
		}
	})
	if m.owners.Retained().Listed != 1 {
		t.Fatal("nothing is listed")
	}
	liar.Crash(true)
	w.Run(5 * time.Minute)
	if n := m.owners.Retained().Listed; n > 0 {
		t.Errorf("%d keys are listed by nobody", n)
	}
}

// With a disk that refuses everything, attempts are repeated and leave nothing behind.
func TestFailedCandidaciesLeaveNothing(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(1)
	w.Run(20 * time.Second)
	m := w.members[0]
	m.SetDisk(sim.DiskFull)
	w.want(10)
	w.Run(time.Hour)
	if h, st := m.owners.Retained(), m.owners.Stats(); h.Abandoned > 0 || st.Candidacies < 100 {
		t.Errorf("%d candidacies have left %d proposals", st.Candidacies, h.Abandoned)
	}
	m.SetDisk(sim.DiskOK)
	w.Run(time.Minute)
	if led := len(m.led()); led != 10 {
		t.Errorf("%d of 10 keys are led when there is room", led)
	}
}

// A query is repeated as often as it may be, whatever was asked before.
func TestQueriesAreRepeated(t *testing.T) {
	var took []time.Duration
	for _, before := range []int{0, 3} {
		w := newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
		w.grow(8)
		w.Run(20 * time.Second)
		w.want(1)
		w.Run(10 * time.Second)
		key := w.key(w.urls[0])
		m := w.members[slices.IndexFunc(w.members, func(m *member) bool { return !m.overlay.IsRoot(key) })]
		for range before {
			m.Do(func() { m.owners.FindOwners(key, func(owner.Found) {}) })
			w.Run(300 * time.Millisecond)
		}
		w.Partition([]*sim.Host{m.Host})
		began := w.Now()
		m.Do(func() { m.owners.FindOwners(key, func(owner.Found) { took = append(took, w.Now().Sub(began)) }) })
		w.Run(time.Minute)
	}
	if len(took) != 2 || took[1] < took[0]*9/10 {
		t.Errorf("given up after %v, and after %v when others were answered before", took[0], took[1])
	}
}
