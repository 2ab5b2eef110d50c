// Package mark compares figures with their targets. Every command of the laboratory reports its
// figures as marks, so that all are judged, printed and encoded alike.
package mark

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Mark is a figure with its target.
type Mark struct {
	Run     string  // run or scenario of the figure; empty if the command has only one
	Figure  string  // what was measured
	Unit    string  // of the figure and its bounds, such as "s"
	Value   float64 // NaN if unknown; infinite if the awaited event never happened
	Min     float64 // lower bound; -Inf if there is none
	Max     float64 // upper bound; +Inf if there is none
	Stretch float64 // stretch target: a tighter bound than the target; 0 if there is none
	Note    string  // why the value is unknown, why there is no target, or what the paper states
	Skip    bool    // the value is unknown because a measurement was skipped on purpose
}

// Info is a figure without a target.
func Info(figure, unit string, got float64) Mark {
	return Between(figure, unit, got, math.Inf(-1), math.Inf(1))
}

// AtMost is a figure with an upper bound.
func AtMost(figure, unit string, got, most float64) Mark {
	return Between(figure, unit, got, math.Inf(-1), most)
}

// AtLeast is a figure with a lower bound.
func AtLeast(figure, unit string, got, least float64) Mark {
	return Between(figure, unit, got, least, math.Inf(1))
}

// Between is a figure with two bounds.
func Between(figure, unit string, got, least, most float64) Mark {
	return Mark{Figure: figure, Unit: unit, Value: got, Min: least, Max: most}
}

// Zero is a count that must be zero.
func Zero[N int | uint64](figure string, got N) Mark { return AtMost(figure, "", float64(got), 0) }

// NoneMissing is the number of missing items, which must be zero. It is unknown if no items were
// expected.
func NoneMissing(figure string, got, wanted int) Mark {
	m := Zero(figure, wanted-got)
	if wanted == 0 {
		m.Value = math.NaN()
	}
	return m
}

// WithoutTarget returns the mark without its target, and a note that says why.
func (m Mark) WithoutTarget(why string) Mark { return Info(m.Figure, m.Unit, m.Value).WithNote(why) }

// WithStretch returns the mark with a stretch target.
func (m Mark) WithStretch(stretch float64) Mark {
	m.Stretch = stretch
	return m
}

// WithNote returns the mark with a note.
func (m Mark) WithNote(note string) Mark {
	m.Note = note
	return m
}

// Skipped returns the mark as one that was not measured on purpose.
func (m Mark) Skipped(why string) Mark {
	m.Value, m.Note, m.Skip = math.NaN(), why, true
	return m
}

// ForRun returns the marks with the name of a run.
func ForRun(run string, marks ...Mark) []Mark {
	for i := range marks {
		marks[i].Run = run
	}
	return marks
}

// hasTarget reports whether the figure is compared with a target.
func (m Mark) hasTarget() bool {
	return !m.Skip && !(math.IsInf(m.Min, -1) && math.IsInf(m.Max, 1))
}

// Met reports whether the value is within the target. It is false if there is no target, or if the
// measurement was skipped.
func (m Mark) Met() bool { return m.hasTarget() && m.Value >= m.Min && m.Value <= m.Max }

// Missed reports whether the value is outside the target, or unknown although it was measured. It
// is false if there is no target, or if the measurement was skipped.
func (m Mark) Missed() bool { return m.hasTarget() && !m.Met() }

// StretchMet reports whether the stretch target is met.
func (m Mark) StretchMet() bool { return m.Stretch != 0 && m.Met() && m.atStretch().Met() }

// atStretch returns the mark with the stretch target as its target.
func (m Mark) atStretch() Mark {
	if math.IsInf(m.Max, 1) {
		return AtLeast(m.Figure, m.Unit, m.Value, m.Stretch)
	}
	return AtMost(m.Figure, m.Unit, m.Value, m.Stretch)
}

// Err returns an error with the number of missed marks, or nil if none is missed.
func Err(marks []Mark) error {
	missed, judged := 0, 0
	for _, m := range marks {
		if m.hasTarget() {
			judged++
		}
		if m.Missed() {
			missed++
		}
	}
	if missed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d marks missed", missed, judged)
}

// MarshalJSON encodes the mark. The keys figure, got, asked and met are always present: got is null
// if the value is unknown or infinite, asked is empty if there is no target, and met is null if
// there is nothing to judge.
func (m Mark) MarshalJSON() ([]byte, error) {
	o := struct {
		Run     string   `json:"run,omitempty"`
		Figure  string   `json:"figure"`
		Got     *float64 `json:"got"`
		Unit    string   `json:"unit,omitempty"`
		Asked   string   `json:"asked"`
		Stretch string   `json:"stretch,omitempty"`
		Met     *bool    `json:"met"`
		Note    string   `json:"note,omitempty"`
	}{Run: m.Run, Figure: m.Figure, Unit: m.Unit, Asked: m.formatBounds(), Stretch: m.formatStretch(), Note: m.formatNote()}
	if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
		o.Got = &m.Value
	}
	if met := m.Met(); m.hasTarget() {
		o.Met = &met
	}
	return json.Marshal(o)
}

// Print prints the marks as a table, one line each, with tabs between the columns. It prints
// nothing if there are no marks.
func Print(line func(format string, args ...any), marks []Mark) {
	if len(marks) == 0 {
		return
	}
	runs := slices.ContainsFunc(marks, func(m Mark) bool { return m.Run != "" })
	row := func(run string, cells ...string) {
		if runs {
			cells = append([]string{run}, cells...)
		}
		line("%s", strings.Join(cells, "\t"))
	}
	row("run", "figure", "value", "target", "", "")
	for _, m := range marks {
		row(m.Run, m.Figure, m.formatValue(), m.formatBounds(), m.verdict(), m.formatNote())
	}
}

// formatValue returns the value with its unit.
func (m Mark) formatValue() string {
	switch {
	case math.IsNaN(m.Value):
		return "-"
	case math.IsInf(m.Value, 0):
		return "never"
	}
	return m.formatQuantity(m.Value)
}

// formatBounds returns the target with its unit.
func (m Mark) formatBounds() string {
	switch {
	case math.IsInf(m.Min, -1) && math.IsInf(m.Max, 1):
		return ""
	case math.IsInf(m.Min, -1):
		return "≤ " + m.formatQuantity(m.Max)
	case math.IsInf(m.Max, 1):
		return "≥ " + m.formatQuantity(m.Min)
	}
	return formatNumber(m.Min) + " … " + m.formatQuantity(m.Max)
}

// formatStretch returns the stretch target with its unit.
func (m Mark) formatStretch() string {
	if m.Stretch == 0 {
		return ""
	}
	return m.atStretch().formatBounds()
}

// verdict returns the judgement for the table.
func (m Mark) verdict() string {
	switch {
	case m.Skip:
		return "skipped"
	case m.Missed():
		return "MISSED"
	case m.StretchMet():
		return "met, also the stretch target " + m.formatStretch()
	case m.Met() && m.Stretch != 0:
		return "met; stretch target " + m.formatStretch()
	case m.Met():
		return "met"
	}
	return ""
}

// formatNote returns the note, or a word for a value that is not a number.
func (m Mark) formatNote() string {
	switch {
	case m.Note != "":
		return m.Note
	case math.IsNaN(m.Value):
		return "unknown"
	case math.IsInf(m.Value, 0):
		return "never"
	}
	return ""
}

// formatQuantity returns a value with the mark's unit.
func (m Mark) formatQuantity(v float64) string {
	return strings.TrimSpace(formatNumber(v) + " " + m.Unit)
}

// formatNumber returns a value with four digits, or with all digits before the decimal point.
func formatNumber(v float64) string {
	if math.Abs(v) >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
