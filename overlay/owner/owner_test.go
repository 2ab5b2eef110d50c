package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/longtest"
	"tidings/sim"
)

func TestOneMemberIsEnoughAndOwnersGrow(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, time.Minute)
	w.grow(1)
	w.Run(5 * time.Second)
	w.want(3)
	w.Run(time.Second)
	w.write(5*time.Second, time.Second, 100)
	w.settled()
	w.grow(7)
	w.write(time.Minute, time.Second, 100)
	w.Run(2 * time.Minute)
	w.settled()
	if len(w.done) < 150 {
		t.Errorf("%d bodies committed of %d", len(w.done), len(w.made))
	}
}

// seeds calls do with every seed from 1 to n, unless -seed or -seeds chooses others.
func seeds(t *testing.T, n uint64, do func(t *testing.T, seed uint64)) {
	if *seedFlag > 0 {
		do(t, *seedFlag)
		return
	}
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	for seed := uint64(1); seed <= n; seed++ {
		do(t, seed)
		if t.Failed() {
			t.Fatalf("replay: %sgo test ./overlay/owner -run '^%s$' -seed %d", longtest.Prefix(), t.Name(), seed)
		}
	}
}

// As long as a quorum of each key's owners lives, no committed body is lost, no position is signed twice, and no epoch has
// two sequencers.
func TestCrashesLoseNothing(t *testing.T) {
	t.Parallel()
	seeds(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, 10*time.Minute)
		w.grow(longtest.Pick(16, 32))
		w.Run(30 * time.Second)
		w.want(longtest.Pick(5, 20))
		w.Run(10 * time.Second)
		dice := newDice(seed)
		for range longtest.Pick(12, 20) {
			m := w.members[dice.IntN(len(w.members))]
			if !m.Up() {
				continue
			}
			m.Crash(dice.IntN(2) == 0)
			w.write(30*time.Second, 3*time.Second, 100)
			m.start()
			w.write(30*time.Second, 3*time.Second, 100)
		}
		w.Run(3 * time.Minute)
		w.settled()
		t.Logf("seed %d: %d committed of %d", seed, len(w.done), len(w.made))
	})
}

// All owners of a key die at once and for good. A follower still has the log, and the new owners continue it.
func TestAFollowersLogOutlivesItsOwners(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 10*time.Minute)
	w.grow(16)
	w.Run(10 * time.Second)
	w.want(1)
	w.Run(time.Second)
	w.write(10*time.Second, time.Second, 100)
	url := w.urls[0]
	key := w.key(url)
	owners := w.nearest(key)
	var follower *member
	for _, m := range w.members {
		if !slices.Contains(owners, m) {
			follower = m
		}
	}
	follower.Do(func() {
		follower.owners.Follow(key, url)
		follower.owners.Pull(env.Peer{ID: owners[0].ID()}, key, func(bool) {})
	})
	w.Run(5 * time.Second)
	before := follower.owners.Log(key)
	if len(before) < 9 {
		t.Fatalf("the follower has %d entries", len(before))
	}
	for _, m := range owners {
		m.Crash(true)
	}
	w.Run(2 * time.Minute)
	follower.Do(func() { follower.owners.RequestOwners(key, url, func(bool) {}) })
	w.Run(20 * time.Second)
	w.write(10*time.Second, time.Second, 100)
	w.Run(time.Minute)
	w.settled()
	for _, m := range w.nearest(key) {
		if !m.owners.Has(key, before[0].Hash) {
			t.Errorf("member %d has begun anew", m.Index())
		}
	}
}

// The note of a key is valid if all entries up to its last one are in the log. Owners that never got that entry, and
// continue without those that did, have no note.
func TestANoteDoesNotOutliveItsEntries(t *testing.T) {
	w := newWorld(t, sim.Config{Seed: 1}, 2*time.Minute)
	w.grow(12)
	w.Run(10 * time.Second)
	w.want(1)
	w.Run(time.Second)
	w.write(5*time.Second, time.Second, 100)
	url := w.urls[0]
	key := w.key(url)
	owners := w.nearest(key)
	slices.SortStableFunc(owners, func(a, b *member) int { // the sequencer first
		if a.leads[key] {
			return -1
		}
		return 0
	})
	lead, quorum, rest := owners[0], owners[:3], owners[3:]
	note := func(m *member) string {
		return string(m.owners.Note(key))
	}
	lead.Do(func() { _ = lead.owners.SetNote(key, []byte("before")) })
	w.Run(time.Second)
	if note(rest[0]) != "before" {
		t.Fatalf("an owner has the record %q", note(rest[0]))
	}
	var side []*sim.Host
	for _, m := range quorum {
		side = append(side, m.Host)
	}
	w.Partition(side)
	w.append(url, 100)
	w.Run(8 * time.Second) // until it is not sent any more to owners that do not answer
	w.Heal()
	lead.Do(func() { _ = lead.owners.SetNote(key, []byte("after")) })
	w.Run(200 * time.Millisecond)
	for _, m := range rest {
		if m.owners.Has(key, lead.owners.LastCommitted(key).Hash) {
			t.Fatal("it got the entry: another seed is wanted")
		}
		if note(m) != "" {
			t.Errorf("an owner without the entry goes by the record %q", note(m))
		}
	}
	if note(lead) != "after" {
		t.Errorf("the sequencer has the record %q", note(lead))
	}
	w.Run(2 * time.Minute)
	if note(rest[0]) != "after" {
		t.Errorf("with the entry, the record is %q", note(rest[0]))
	}
}

// After a partition longer than a lease both halves continue. When they meet, the log of every key is one again and has
// what either half had committed.
func TestHalvesOfANetworkMerge(t *testing.T) {
	t.Parallel()
	seeds(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed, NetworkFaults: sim.NetworkFaults{Loss: 0.01}}, 10*time.Minute)
		w.grow(longtest.Pick(16, 32))
		w.Run(30 * time.Second)
		w.want(longtest.Pick(5, 20))
		w.Run(10 * time.Second)
		w.write(time.Minute, 5*time.Second, 100)
		w.part()
		w.write(25*time.Minute, 10*time.Second, 100)
		jumps := w.stats().ForcedReconfigs
		w.Heal()
		w.write(5*time.Minute, 10*time.Second, 100)
		w.Run(5 * time.Minute)
		w.settled()
		t.Logf("seed %d: %d committed of %d, %d forced reconfigurations, %d merged", seed, len(w.done), len(w.made), jumps, w.stats().Merged)
		if jumps == 0 {
			t.Error("no branch forked")
		}
	})
}
