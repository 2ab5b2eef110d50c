package main

import (
	"fmt"
	"slices"

	"tidings/internal/plot"
	"tidings/lab/churn"
	"tidings/lab/figure"
)

// drawChurn draws hops by size, control messages by session, lookups and keys after deaths and
// after a partition, and the time without a sequencer. It returns the number of these figures for
// which there is a curve.
func drawChurn(dir string, reports []churn.Report) (drawn int, err error) {
	hops := plot.Line{Name: "measured"}
	bound := plot.Line{Name: "1.1 log₁₆ N + 1", Dashed: true}
	control := plot.Line{Name: "measured"}
	var right, several, without []plot.Line
	for _, report := range reports {
		switch r := report.(type) {
		case *churn.Result:
			switch {
			case r.SessionMin > 0:
				control.X = append(control.X, r.SessionMin)
				control.Y = append(control.Y, r.MsgsPerNodeS)
			case r.Loss == 0:
				hops.X, hops.Y = append(hops.X, float64(r.Nodes)), append(hops.Y, r.HopsMean)
				bound.X, bound.Y = append(bound.X, float64(r.Nodes)), append(bound.Y, churn.HopsBound(r.Nodes))
			}
		case *churn.KilledResult:
			l := plot.Line{Name: fmt.Sprintf("%d of %d killed", r.Killed, r.Nodes)}
			for second, part := range r.Right {
				l.X, l.Y = append(l.X, float64(second)), append(l.Y, 100*part)
			}
			right = append(right, l)
		case *churn.PartitionResult:
			several = append(several, bySecond("several roots", r.SeveralRoots), bySecond("several heads", r.SeveralHeads))
		case *churn.SequencerExitResult:
			without = append(without, plot.Distribution("it "+string(r.Mode), r.Took, len(r.Took)+r.WithoutSequencer))
		}
	}
	for _, f := range []namedFigure{
		{"hops", figure.Figure{Title: "Hops of a lookup in a calm network", X: "members", Y: "hops", LogX: true, Lines: []plot.Line{hops.Sorted(), bound.Sorted()}}},
		{"control", figure.Figure{Title: "Control traffic under churn", X: "median session, minutes", Y: "control messages per node and second", Lines: []plot.Line{control.Sorted()}}},
		{"killed", figure.Figure{Title: "Lookups after many deaths at once", X: "seconds since", Y: "right, %", Lines: right}},
		{"parted", figure.Figure{Title: "Keys after a partition", X: "seconds since", Y: "keys", Lines: several}},
		{"sequencer", figure.Figure{Title: "Keys with a new sequencer", X: "seconds after the old one's end", Y: "keys, %", Lines: without}},
	} {
		if !slices.ContainsFunc(f.Lines, func(l plot.Line) bool { return len(l.X) > 1 }) {
			continue // one point is not a curve
		}
		if err := f.Save(dir, "churn-"+f.name); err != nil {
			return drawn, err
		}
		drawn++
	}
	return drawn, nil
}

// bySecond returns a line with a value per second.
func bySecond(name string, of []int) plot.Line {
	l := plot.Line{Name: name}
	for second, n := range of {
		l.X, l.Y = append(l.X, float64(second+1)), append(l.Y, float64(n))
	}
	return l
}
