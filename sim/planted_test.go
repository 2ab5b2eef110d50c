//go:build planted

package sim

import (
	"strings"
	"testing"
	"time"

	"tidings/sim/plant"
)

// Each planted bug is caught by the checker of the invariant that it breaks.
func TestPlanted(t *testing.T) {
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"DoubleRoot", &plant.DoubleRoot, WrongRoot},
		{"Cycle", &plant.Cycle, Cycle},
		{"LostChild", &plant.LostChild, LostChild},
		{"StaleCount", &plant.StaleCount, StaleCount},
		{"Duplicate", &plant.Duplicate, Duplicate},
		{"SilentDrop", &plant.SilentDrop, Lost},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			s := crashingWorld(1, 2000, 5)
			for _, v := range s.Violations() {
				if v.Invariant == bug.breaks {
					t.Logf("caught: %v", v)
					return
				}
			}
			t.Errorf("not caught; found %d other violations", len(s.Violations()))
		})
	}
	t.Run("none", func(t *testing.T) { report(t, crashingWorld(1, 2000, 5)) })
}

// Random faults catch bugs, too: each checker of a Scenario catches one within a hundred seeds.
// Other worlds catch the rest: counts take half an hour to become right (above), and some bugs need
// two events at one instant, or origins whose documents drop items at once (below).
func TestPlantedInScenarios(t *testing.T) {
	const tries = 100
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"DoubleRoot", &plant.DoubleRoot, WrongRoot},
		{"NoAck", &plant.NoAck, NoAcknowledgement},
		{"LateAck", &plant.LateAck, SlowLookup},
		{"KeepDead", &plant.KeepDead, WrongLeaf},
		{"KeepDead", &plant.KeepDead, SeveralRoots},
		{"KeepMessages", &plant.KeepMessages, Overgrown},
		{"Cycle", &plant.Cycle, Cycle},
		{"LostChild", &plant.LostChild, LostChild},
		{"Duplicate", &plant.Duplicate, Duplicate},
		{"SilentDrop", &plant.SilentDrop, Lost},
		{"StaleWeight", &plant.StaleWeight, WrongWeight},
		{"StaleSequencer", &plant.StaleSequencer, NotOneSequencer},
		{"StaleOwner", &plant.StaleOwner, StrayOwner},
		{"LoseLastEntry", &plant.LoseLastEntry, PositionWentBack},
		{"ShowTwice", &plant.ShowTwice, ShownTwice},
		{"IgnoreGaps", &plant.IgnoreGaps, NotShown},
		{"IgnoreGaps", &plant.IgnoreGaps, SeveralHeads},
		{"ForgetWindow", &plant.ForgetWindow, ItemTakenBack},
		{"EarlyAck", &plant.EarlyAck, SubscriptionLost},
	} {
		t.Run(bug.name+"/"+strings.ReplaceAll(bug.breaks, " ", "-"), func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			others := map[string]int{}
			for seed := uint64(1); seed <= tries; seed++ {
				n := Scenario{Seed: seed, Members: 24, Length: 6 * time.Minute}
				n.Plan = NewFaultPlan(seed, n.Members, n.Length)
				for _, v := range n.Run(func(float64) bool { return true }).Violations() {
					if v.Invariant == bug.breaks {
						t.Logf("caught with seed %d: %v", seed, v)
						return
					}
					others[v.Invariant]++
				}
			}
			t.Errorf("not caught; found %v", others)
		})
	}
	t.Run("none", func(t *testing.T) {
		for seed := uint64(1); seed <= 5; seed++ { // as many as it took to catch any
			n := Scenario{Seed: seed, Members: 24, Length: 6 * time.Minute}
			n.Plan = NewFaultPlan(seed, n.Members, n.Length)
			report(t, n.Run(func(float64) bool { return true }).Swarm)
		}
	})
}

// Bugs planted into logs and their readers are caught in these worlds. Without a bug the worlds
// pass: contention_test.go, disk_test.go.
func TestPlantedInFeeds(t *testing.T) {
	const tries = 100 // seeds; for example, two owners must become candidates at one instant
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
		world  func(seed uint64) *Swarm
	}{
		{"VoteTwice", &plant.VoteTwice, TwoSequencers, lossyElections},
		{"EarlyCommit", &plant.EarlyCommit, ShownAndGone, isolatedSequencer},
		{"ShowTwice", &plant.ShowTwice, ShownTwice, partitionedOwners},
		{"IgnoreGaps", &plant.IgnoreGaps, NotShown, isolatedSequencer},
		{"IgnoreDiskErrors", &plant.IgnoreDiskErrors, ShownAndGone, fullDisks},
		{"IgnoreDiskErrors", &plant.IgnoreDiskErrors, TwoEntries, tornWrites},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			others := 0
			for seed := uint64(1); seed <= tries; seed++ {
				for _, v := range bug.world(seed).Violations() {
					if v.Invariant == bug.breaks {
						t.Logf("caught with seed %d: %v", seed, v)
						return
					}
					others++
				}
			}
			t.Errorf("not caught; found %d other violations", others)
		})
	}
}

// Bugs planted into shared polling are caught.
func TestPlantedInRanks(t *testing.T) {
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"LostRank", &plant.LostRank, RankNotServedOnce},
		{"CountedTwice", &plant.CountedTwice, WrongSum},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			s := afterStorm(1)
			for _, v := range s.Violations() {
				if v.Invariant == bug.breaks {
					t.Logf("caught: %v", v)
					return
				}
			}
			t.Errorf("not caught; found %d other violations", len(s.Violations()))
		})
	}
}
