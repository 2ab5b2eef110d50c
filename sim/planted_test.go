//go:build planted

package sim

import (
	"testing"

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

// So is each that is planted into logs and their readers. Without it the worlds are
// whole: quarrel_test.go, disk_test.go.
func TestPlantedInFeeds(t *testing.T) {
	const tries = 20 // seeds: two owners must try to lead at one instant, say
	for _, bug := range []struct {
		name   string
		on     *bool
		breaks string
		world  func(seed uint64) *Swarm
	}{
		{"VoteTwice", &plant.VoteTwice, TwoSequencers, lossy},
		{"HeldEarly", &plant.HeldEarly, Forgotten, lonely},
		{"ShowAgain", &plant.ShowAgain, ShownTwice, contested},
		{"BlindToGaps", &plant.BlindToGaps, NotShown, lonely},
		{"DeafToDisk", &plant.DeafToDisk, Forgotten, failing},
		{"DeafToDisk", &plant.DeafToDisk, TwoEntries, torn},
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
