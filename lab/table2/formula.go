package table2

import (
	"fmt"
	"math"
	"time"

	"tidings/honeycomb"
)

// A Formula is the prediction of the paper's optimiser for its own scheme on one seed. Wedges have
// the size that the paper assumes, N/b^l; those of orphans are empty, so one node polls.
type Formula struct {
	Seed      int64   `json:"seed"`
	Objective string  `json:"objective"`
	Orphans   float64 `json:"orphans"` // share of the channels
	Load      float64 `json:"load"`
	Detection float64 `json:"detection_s"`

	Notification float64 `json:"notification_s"`
}

// FewOrphans and ManyOrphans bound the share of orphans in the paper's simulation. They are our
// inference, because the paper does not state the share: on seeds within these bounds the formula
// comes near the detection that the paper reports.
const (
	FewOrphans  = 0.010
	ManyOrphans = 0.014
)

// OfPaper returns the detection divided by the figure in the paper's Table 2.
func (f *Formula) OfPaper() float64 {
	o, err := honeycomb.ParseObjective(f.Objective)
	if err != nil {
		return math.NaN()
	}
	return f.Detection / published[o].detection
}

// formulaBase is the base of the paper's polling levels.
const formulaBase = 16

// FormulaOf solves the paper's problem for a load in polls per interval and subscription. Fast is
// the same curve as Lite, read at its load.
func FormulaOf(w *Workload, objective honeycomb.Objective, interval time.Duration, load float64) (Formula, error) {
	solved := objective
	if objective == honeycomb.Fast {
		solved = honeycomb.Lite
	}
	p, channels := w.Problem(solved, interval, load, 0)
	p.Granularity, p.Base = honeycomb.Levels, formulaBase
	believed := p.EstimatedWedges()
	shift := 64 - 4*max(len(believed)-2, 0) // the level above the owner's own
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
