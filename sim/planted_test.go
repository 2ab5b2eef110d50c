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
