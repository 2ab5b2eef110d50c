package main

import (
	"fmt"

	"tidings/internal/plot"
	"tidings/lab/figure"
	"tidings/lab/mark"
	"tidings/lab/table2"
)

// printTable2 prints the rows, and below them the cost of politeness and deaths, and the paper's
// formula on each seed.
func printTable2(line printer, r *table2Result) {
	line("objective\tscheme\tmembers\tchannels\tload\tallowed\tdetection s\tof updates s\tper notification s\tbound s\tpaper s @ load\tevenness\tfirst hours s @ load")
	for _, row := range r.Rows {
		line("%s", rowOf(row))
	}
	if len(r.Rows) > 0 {
		line("load, allowed: polls per channel in half an hour. detection: the mean wait of all readers for the next poll, as an integral over time.")
		line("of updates: the same for actual updates. per notification: weighted by readers. evenness: detection relative to that of")
		line("the same polls with equal gaps. bound: the optimum at that load, with fractional numbers of pollers. -: computed, or nothing to measure.")
		line("seed of the world: %d", r.Seed)
	}
	for i, row := range r.Rows {
		if row.Polite && row.OnCrowded > 0 && i > 0 {
			without := r.Rows[i-1]
			line("\n%s, %s\tchannels\twithout s\tpolite s\tcost %%", row.Objective, row.Scheme)
			line("all\t%d\t%.2f\t%.2f\t%.2f", row.Channels, without.Detection, row.Detection, 100*(row.Detection/without.Detection-1))
			line("on crowded domains\t%d\t%.2f\t%.2f\t%.2f", row.OnCrowded, without.Crowded, row.Crowded, 100*(row.Crowded/without.Crowded-1))
		}
	}
	for _, row := range r.Rows {
		if len(row.After) > 0 {
			line("\n%s, %s\tdead %%\tload\tdetection s\tevenness", row.Objective, row.Scheme)
		}
		for _, d := range row.After {
			line("hour after\t%g\t%.2f\t%.2f\t%.3f", 100*d.Part, d.Load, d.Detection, d.Evenness)
		}
	}
	for _, row := range r.Rows {
		if c := row.DuringChurn; c != nil {
			line("\n%s, %s\tload\tdetection s\tevenness", row.Objective, row.Scheme)
			line("before\t%.2f\t%.2f\t%.3f", row.Load, row.Detection, row.Evenness)
			line("with sessions and loss\t%.2f\t%.2f\t%.3f", c.Load, c.Detection, c.Evenness)
		}
	}
	if len(r.Formulas) > 0 {
		line("\npaper's formula\tseed\torphans %%\tload\tdetection s\trelative to the paper")
	}
	for _, f := range r.Formulas {
		line("%s\t%d\t%.2f\t%.2f\t%.1f\t%.3f", f.Objective, f.Seed, 100*f.Orphans, f.Load, f.Detection, f.OfPaper())
	}
	if len(r.Formulas) > 0 {
		line("orphans: channels whose wedge is empty. The paper does not state their share in its simulation. That it is %g to %g %% is our inference:",
			100*table2.FewOrphans, 100*table2.ManyOrphans)
		line("on seeds in this range the formula comes near the paper's figures. The marks are for these seeds, and for all seeds.")
	}
}

// rowOf formats a row of the table.
func rowOf(row *table2.Row) string {
	scheme, event, evenness, before := row.Scheme, "-", "-", "" // computed rows have no updates and no gaps
	if row.Polite {
		scheme += ", polite"
	}
	if row.Overload > 0 {
		scheme += fmt.Sprintf(", N = %.4g", row.Overload)
	}
	if row.Updates > 0 {
		event = fmt.Sprintf("%.2f", row.Event)
	}
	if row.Evenness > 0 {
		evenness = fmt.Sprintf("%.3f", row.Evenness)
	}
	for _, b := range row.Before {
		before += fmt.Sprintf("%.4g @ %.4g  ", b.Detection, b.Load)
	}
	return fmt.Sprintf("%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%.2f\t%g @ %g\t%s\t%s", row.Objective, scheme, row.Nodes, row.Channels,
		row.Load, row.BoundLoad, row.Detection, event, row.Notification, row.Bound, row.Paper, row.PaperLoad, evenness, before)
}

// marksOf returns all figures with their targets.
func marksOf(r *table2Result) []mark.Mark {
	of := table2.FormulaMarks(r.Formulas)
	for i, row := range r.Rows {
		of = append(of, row.Marks()...)
		if row.Polite && i > 0 {
			of = append(of, table2.CostMark(row, r.Rows[i-1]))
		}
	}
	return of
}

// drawTable2 draws how the detection of each scheme falls after a cold start.
func drawTable2(dir string, rows []*table2.Row) error {
	for _, o := range table2.Objectives {
		f := figure.Figure{Title: "Detection from a cold start: " + o.String(), X: "hours", Y: "seconds"}
		for _, row := range rows {
			if row.Objective != o.String() {
				continue
			}
			l, at := plot.Line{Name: row.Scheme}, 0.
			for _, s := range append(row.Before, row.Span) {
				l.X, l.Y = append(l.X, at+s.Hours/2), append(l.Y, s.Detection)
				at += s.Hours
			}
			f.Lines = append(f.Lines, l)
			if row.Scheme == "rank-cut-coordinated" {
				f.Lines = append(f.Lines, plot.Line{Name: "bound", X: []float64{0, at}, Y: []float64{row.Bound, row.Bound}, Dashed: true})
			}
		}
		if len(f.Lines) == 0 {
			continue
		}
		if err := f.Save(dir, "table2-"+o.String()); err != nil {
			return err
		}
	}
	return nil
}
