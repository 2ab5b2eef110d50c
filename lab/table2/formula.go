package table2

import (
	"fmt"
	"math"
	"time"

	"tidings/honeycomb"
)

// A Formula is what the paper's optimiser says of its scheme on one seed: the channels'
// wedges have as many nodes as the paper believes, N/b^l, but those of orphans, which have
// a wedge that is empty, have one.
type Formula struct {
	Seed      int64   `json:"seed"`
	Objective string  `json:"objective"`
	Orphans   float64 `json:"orphans"` // part of the channels
	Load      float64 `json:"load"`
	Detection float64 `json:"detection_s"`

	Notification float64 `json:"notification_s"`
}

// FewOrphans and ManyOrphans bound the part of the channels that are orphans in the paper's
// simulation. That is our inference, as the paper does not state it: on seeds with as many the
// formula comes near the detection that the paper reports.
const (
	FewOrphans  = 0.010
	ManyOrphans = 0.014
)

// OfPaper is the detection as part of the figure in the paper's Table 2.
func (f *Formula) OfPaper() float64 {
	o, err := honeycomb.ParseObjective(f.Objective)
	if err != nil {
		return math.NaN()
	}
	return f.Detection / published[o].detection
}

// formulaBase is that of the paper's polling levels.
const formulaBase = 16

// FormulaOf solves the paper's problem for a load, in polls of an interval for each
// subscription. Fast is the same curve as Lite, read at its load.
func FormulaOf(w *Workload, objective honeycomb.Objective, interval time.Duration, load float64) (Formula, error) {
	solved := objective
	if objective == honeycomb.Fast {
		solved = honeycomb.Lite
	}
	p, channels := w.Problem(solved, interval, load, 0)
	p.Granularity, p.Base = honeycomb.Levels, formulaBase
	believed := p.EstimatedWedges()
	shift := 64 - 4*max(len(believed)-2, 0) // the level above the owner's
	there := map[uint64]bool{}
	for m := range w.Members {
		there[w.MemberID(m)>>shift] = true
	}
	f := Formula{Seed: w.Seed, Objective: objective.String()}
	for i := range channels {
		if there[channels[i].Key>>shift] {
			channels[i].Wedges = believed
		} else {
			f.Orphans += 1 / float64(len(channels))
		}
	}
	s, err := honeycomb.Solve(p, channels, nil)
	if err != nil {
		return f, fmt.Errorf("the paper's formula: %w", err)
	}
	m := honeycomb.Measure(p, channels, func(i int) float64 { return s.Pollers(p, channels, i) })
	f.Load, f.Detection, f.Notification = m.Load, m.Detection, m.Notification
	return f, nil
}
