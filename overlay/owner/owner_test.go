package owner_test

import (
	"testing"
	"time"

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
		t.Errorf("%d bodies held of %d", len(w.done), len(w.made))
	}
}

// seeds calls do with every seed that was asked for, n of them by default.
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
			t.Fatalf("replay: go test ./overlay/owner -run '^%s$' -seed %d", t.Name(), seed)
		}
	}
}

// Whoever dies, as long as a quorum of each key's owners lives: what a quorum
// held stays, no position is signed twice, no epoch has two sequencers.
func TestCrashesLoseNothing(t *testing.T) {
	seeds(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.01}}, 10*time.Minute)
		w.grow(32)
		w.Run(30 * time.Second)
		w.want(20)
		w.Run(10 * time.Second)
		dice := newDice(seed)
		for range 20 {
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
		t.Logf("seed %d: %d held of %d", seed, len(w.done), len(w.made))
	})
}

// Parted for longer than a lease, both halves go on; when they meet, the log of
// every key is one again and has what either half held.
func TestHalvesGoOnAndMeet(t *testing.T) {
	seeds(t, 1, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.01}}, 10*time.Minute)
		w.grow(32)
		w.Run(30 * time.Second)
		w.want(20)
		w.Run(10 * time.Second)
		w.write(time.Minute, 5*time.Second, 100)
		w.part()
		w.write(25*time.Minute, 10*time.Second, 100)
		jumps := w.stats().Jumps
		w.Heal()
		w.write(5*time.Minute, 10*time.Second, 100)
		w.Run(5 * time.Minute)
		w.settled()
		t.Logf("seed %d: %d held of %d, %d jumps, %d merged", seed, len(w.done), len(w.made), jumps, w.stats().Merged)
		if jumps == 0 {
			t.Error("no lineage forked")
		}
	})
}
