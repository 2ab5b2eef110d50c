//go:build planted

package table2

import (
	"testing"

	"tidings/honeycomb"
	"tidings/internal/wire"
	"tidings/sim/plant"
)

// A bug planted in corona changes the table: every other time, one of four polls is missed.
func TestPlanted(t *testing.T) {
	measure := func() (missed int) {
		s := Config{Load: NewWorkload(1, 24, 100, 2000), Objective: honeycomb.Lite, Scheme: Scheme{rankCut, wire.Bound}, Hours: 3}
		row, err := s.Run(t.Context(), func(float64) {})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range row.Marks() {
			t.Logf("%s: %.4f", m.Figure, m.Value)
			if m.Missed() {
				missed++
			}
		}
		return missed
	}
	healthy := measure()
	plant.SkippedSlot = true
	defer func() { plant.SkippedSlot = false }()
	if ill := measure(); ill <= healthy {
		t.Errorf("%d figures are missed without the bug, %d with it", healthy, ill)
	}
}
