package owner_test

import (
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/sim"
)

// One of two nodes with many keys leaves in good order: the other leads all of them in the same branch, and no branch has
// to be left when it returns.
func TestOneOfTwoLeavesAndReturns(t *testing.T) {
	t.Parallel()
	const keys = 1000
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(2)
	w.Run(20 * time.Second)
	w.want(keys)
	w.Run(20 * time.Second)
	stays, leaves := w.members[0], w.members[1]
	if len(stays.led()) == 0 || len(leaves.led()) == 0 {
		t.Fatalf("%d and %d keys are led", len(stays.led()), len(leaves.led()))
	}
	before := w.branches(stays)

	done := false
	leaves.Do(func() { leaves.owners.HandOver(func() { done = true }) })
	const maxCandidacies = 256
	for end := w.Now().Add(10 * time.Second); !done && w.Now().Before(end); {
		w.Run(10 * time.Millisecond)
		if st := leaves.owners.Stats(); st.Candidacies > st.Epochs+maxCandidacies {
			t.Fatalf("%d candidacies are under way", st.Candidacies-st.Epochs)
		}
	}
	w.Run(time.Second) // the last news is on its way
	if led := len(stays.led()); !done || led != keys {
		t.Fatalf("handed over: %v; the other leads %d of %d keys", done, led, keys)
	}
	for key, e := range w.epochs(stays) {
		if len(e.Owners) != 1 {
			t.Fatalf("key %s has %d owners after one of two has left", key.Short(), len(e.Owners))
		}
	}
	leaves.Do(leaves.overlay.Leave)
	leaves.Crash(true)
	w.Run(30 * time.Second)
	leaves.start()
	w.Run(time.Minute)
	if st := w.stats(); st.ForcedReconfigs != 0 || st.Merged != 0 {
		t.Errorf("%d branches were founded, %d ended", st.ForcedReconfigs, st.Merged)
	}
	for key, branch := range w.branches(leaves) {
		if before[key] != branch {
			t.Errorf("key %s went on in another branch", key.Short())
		}
	}
	w.settled()
}

// A candidate that no other owner can answer asks once per candidacy, and not every second: its messages would all
// meet the other owner when that returns.
func TestTheDeadAreAskedOnce(t *testing.T) {
	const keys = 500
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(2)
	w.Run(20 * time.Second)
	w.want(keys)
	w.Run(20 * time.Second)
	stays, dies := w.members[0], w.members[1]
	before := stays.owners.Stats()
	dies.Crash(true)
	for stays.overlay.Leaf().Len() > 1 {
		w.Run(100 * time.Millisecond)
	}
	noticed := w.Now()
	w.Run(10 * time.Second)
	st := stays.owners.Stats()
	// Besides, a heartbeat may fall due, with the reports of the keys that this member is the root of.
	if candidacies, sent := st.Candidacies-before.Candidacies, st.Control-before.Control; candidacies < keys || sent > 2*candidacies {
		t.Errorf("%d messages were sent in %d candidacies", sent, candidacies)
	}
	for len(stays.led()) < keys && w.Now().Sub(noticed) < time.Minute {
		w.Run(100 * time.Millisecond)
	}
	if took := w.Now().Sub(noticed); len(stays.led()) < keys || took > 30*time.Second {
		t.Errorf("%d of %d keys are led %v after the death was noticed", len(stays.led()), keys, took)
	}
}

// The root of a key is told at once who owns the key, without a message to itself.
func TestTheRootKnowsTheOwners(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(2)
	w.Run(20 * time.Second)
	w.want(10)
	w.Run(5 * time.Second)
	roots := 0
	for _, m := range w.members {
		for _, url := range w.urls {
			key := w.key(url)
			if !m.overlay.IsRoot(key) {
				continue
			}
			roots++
			found, answers := 0, 0
			m.Do(func() {
				m.owners.FindOwners(key, func(f owner.Found) { found, answers = len(f.Owners), answers+1 })
			})
			if answers != 1 || found != 2 {
				t.Errorf("%s: answered %d times, with %d owners", url, answers, found)
			}
		}
	}
	if roots != len(w.urls) {
		t.Errorf("%d of %d keys have a root", roots, len(w.urls))
	}
}

// epochs are the epochs in force, as far as a member knows.
func (w *world) epochs(m *member) map[overlay.ID]*owner.Epoch {
	of := map[overlay.ID]*owner.Epoch{}
	for _, key := range m.owners.Keys() {
		if v, ok := m.owners.View(key); ok && v.Epoch != nil {
			of[key] = v.Epoch
		}
	}
	return of
}

func (w *world) branches(m *member) map[overlay.ID]uint64 {
	of := map[overlay.ID]uint64{}
	for key, e := range w.epochs(m) {
		of[key] = e.Branch
	}
	return of
}
