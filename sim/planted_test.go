//go:build planted

package sim

import (
	"strings"
	"testing"
	"time"

	"tidings/internal/plant"
)

// Each planted bug is caught by the checker of the invariant it breaks.
func TestPlanted(t *testing.T) {
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"DoubleRoot", &plant.DoubleRoot, WrongRoot},
		{"Cycle", &plant.Cycle, Cycle},
		{"LostChild", &plant.LostChild, NoWay},
		{"StaleCount", &plant.StaleCount, WrongCount},
		{"Duplicate", &plant.Duplicate, Twice},
		{"SilentDrop", &plant.SilentDrop, Missing},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			s := rough(1, 2000, 5)
			for _, v := range s.Wrong() {
				if v.What == bug.breaks {
					t.Logf("caught: %v", v)
					return
				}
			}
			t.Errorf("not caught; found %d other violations", len(s.Wrong()))
		})
	}
	t.Run("none", func(t *testing.T) { report(t, rough(1, 2000, 5)) })
}

// Random troubles catch bugs, too: each checker of what they check is seen to find one
// within a hundred seeds. What they have no time or no place for, other worlds find:
// counts (above), which take half an hour to be right, and what has to happen at one
// instant, or needs origins whose documents forget at once (below).
func TestPlantedInTroubles(t *testing.T) {
	const tries = 100
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"DoubleRoot", &plant.DoubleRoot, WrongRoot},
		{"NoAck", &plant.NoAck, NoAck},
		{"LateAck", &plant.LateAck, TooSlow},
		{"KeepDead", &plant.KeepDead, WrongLeaf},
		{"KeepDead", &plant.KeepDead, OneRoot},
		{"KeepMessages", &plant.KeepMessages, Overgrown},
		{"Cycle", &plant.Cycle, Cycle},
		{"LostChild", &plant.LostChild, NoWay},
		{"Duplicate", &plant.Duplicate, Twice},
		{"SilentDrop", &plant.SilentDrop, Missing},
		{"StaleWeight", &plant.StaleWeight, WrongWeight},
		{"StaleSequencer", &plant.StaleSequencer, OneLeader},
		{"StaleOwner", &plant.StaleOwner, Stray},
		{"LoseLastEntry", &plant.LoseLastEntry, WentBack},
		{"ShowTwice", &plant.ShowTwice, ShownTwice},
		{"IgnoreGaps", &plant.IgnoreGaps, NotShown},
		{"IgnoreGaps", &plant.IgnoreGaps, OneHead},
		{"ForgetWindow", &plant.ForgetWindow, TakenBack},
		{"EarlyAck", &plant.EarlyAck, Unsubscribed},
	} {
		t.Run(bug.name+"/"+strings.ReplaceAll(bug.breaks, " ", "-"), func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			others := map[string]int{}
			for seed := uint64(1); seed <= tries; seed++ {
				n := Nemesis{Seed: seed, Members: 24, Length: 6 * time.Minute}
				n.Plan = NewPlan(seed, n.Members, n.Length)
				for _, v := range n.Run(func(float64) bool { return true }).Wrong() {
					if v.What == bug.breaks {
						t.Logf("caught with seed %d: %v", seed, v)
						return
					}
					others[v.What]++
				}
			}
			t.Errorf("not caught; found %v", others)
		})
	}
	t.Run("none", func(t *testing.T) {
		for seed := uint64(1); seed <= 5; seed++ { // as many as it took to catch any
			n := Nemesis{Seed: seed, Members: 24, Length: 6 * time.Minute}
			n.Plan = NewPlan(seed, n.Members, n.Length)
			report(t, n.Run(func(float64) bool { return true }).Swarm)
		}
	})
}

// So is each that is planted into logs and their readers. Without it the worlds are
// whole: quarrel_test.go, disk_test.go.
func TestPlantedInFeeds(t *testing.T) {
	const tries = 100 // seeds: two owners must try to lead at one instant, say
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
		world  func(seed uint64) *Swarm
	}{
		{"VoteTwice", &plant.VoteTwice, TwoSequencers, lossy},
		{"EarlyCommit", &plant.EarlyCommit, Forgotten, lonely},
		{"ShowTwice", &plant.ShowTwice, ShownTwice, contested},
		{"IgnoreGaps", &plant.IgnoreGaps, NotShown, lonely},
		{"IgnoreDiskErrors", &plant.IgnoreDiskErrors, Forgotten, failing},
		{"IgnoreDiskErrors", &plant.IgnoreDiskErrors, TwoEntries, torn},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			others := 0
			for seed := uint64(1); seed <= tries; seed++ {
				for _, v := range bug.world(seed).Wrong() {
					if v.What == bug.breaks {
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

// So is each that is planted into what members do for each other's channels.
func TestPlantedInRanks(t *testing.T) {
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
	}{
		{"LostRank", &plant.LostRank, WrongRank},
		{"CountedTwice", &plant.CountedTwice, WrongSum},
	} {
		t.Run(bug.name, func(t *testing.T) {
			*bug.on = true
			defer func() { *bug.on = false }()
			s := stormy(1)
			for _, v := range s.Wrong() {
				if v.What == bug.breaks {
					t.Logf("caught: %v", v)
					return
				}
			}
			t.Errorf("not caught; found %d other violations", len(s.Wrong()))
		})
	}
}
