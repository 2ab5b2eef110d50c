// Package mark compares figures with what is asked of them. Every command of the laboratory
// reports its figures as marks, so that all of them are judged, printed and encoded alike.
package mark

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Mark is a figure beside the bounds that are asked of it.
type Mark struct {
	Run     string  // run or scenario that the figure is of; empty if the command has only one
	Figure  string  // what was measured
	Unit    string  // of the figure and its bounds, such as "s"
	Value   float64 // NaN if it is not known; infinite if what was waited for never happened
	Min     float64 // lower bound; -Inf if there is none
	Max     float64 // upper bound; +Inf if there is none
	Stretch float64 // bound that would be better still; 0 if there is none
	Note    string  // why the figure is not known, why nothing is asked, or what the paper states
	Skip    bool    // the figure is not known because something was left out on purpose
}

// Fact is a figure of which nothing is asked.
func Info(figure, unit string, got float64) Mark {
	return Between(figure, unit, got, math.Inf(-1), math.Inf(1))
}

// AtMost is a figure with an upper bound.
func AtMost(figure, unit string, got, max float64) Mark {
	return Between(figure, unit, got, math.Inf(-1), max)
}

// AtLeast is a figure with a lower bound.
func AtLeast(figure, unit string, got, min float64) Mark {
	return Between(figure, unit, got, min, math.Inf(1))
}

// Between is a figure with two bounds.
func Between(figure, unit string, got, min, max float64) Mark {
	return Mark{Figure: figure, Unit: unit, Value: got, Min: min, Max: max}
}

// None is a count that has to be zero.
func Zero[N int | uint64](figure string, got N) Mark { return AtMost(figure, "", float64(got), 0) }

// All is how much is missing of what was wanted, of which nothing may be. It is not known if nothing
// was wanted at all.
func NoneMissing(figure string, got, wanted int) Mark {
	m := Zero(figure, wanted-got)
	if wanted == 0 {
		m.Value = math.NaN()
	}
	return m
}

// NotAsked returns the mark as a figure of which nothing is asked, for a reason.
func (m Mark) WithoutTarget(why string) Mark { return Info(m.Figure, m.Unit, m.Value).WithNote(why) }

// Better returns the mark with a bound that would be better still than the one that is asked.
func (m Mark) WithStretch(stretch float64) Mark {
	m.Stretch = stretch
	return m
}

// Noted returns the mark with a note.
func (m Mark) WithNote(note string) Mark {
	m.Note = note
	return m
}

// Without returns the mark as one that is not known, because something was left out on purpose.
func (m Mark) Skipped(why string) Mark {
	m.Value, m.Note, m.Skip = math.NaN(), why, true
	return m
}

// Of returns the marks as those of a run.
func ForRun(run string, marks ...Mark) []Mark {
	for i := range marks {
		marks[i].Run = run
	}
	return marks
}

// judged reports whether the figure is compared with anything.
func (m Mark) hasTarget() bool {
	return !m.Skip && !(math.IsInf(m.Min, -1) && math.IsInf(m.Max, 1))
}

// Met reports whether the figure is within the bounds that are asked of it. It is false if
// nothing is asked, or if the figure was left out.
func (m Mark) Met() bool { return m.hasTarget() && m.Value >= m.Min && m.Value <= m.Max }

// Missed reports whether the figure is beyond a bound that is asked of it, or is not known
// although it should be: its measurement has failed. It is false if nothing is asked, or if the
// figure was left out.
func (m Mark) Missed() bool { return m.hasTarget() && !m.Met() }

// Stretched reports whether the figure is better still than was asked.
func (m Mark) StretchMet() bool { return m.Stretch != 0 && m.Met() && m.atStretch().Met() }

// stretched is the mark with the bound that would be better still as the one that is asked.
func (m Mark) atStretch() Mark {
	if math.IsInf(m.Max, 1) {
		return AtLeast(m.Figure, m.Unit, m.Value, m.Stretch)
	}
	return AtMost(m.Figure, m.Unit, m.Value, m.Stretch)
}

// Err returns an error that says how many marks are missed, or nil if none is.
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

// MarshalJSON encodes the mark. The keys figure, got, asked and met are always there: got is null
// if the figure is not known or infinite, asked is empty if nothing is asked, and met is null if
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

// Print prints the marks as a table, a line each, with tabs between the columns. It prints nothing
// if there are no marks.
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
	row("run", "figure", "got", "asked", "", "")
	for _, m := range marks {
		row(m.Run, m.Figure, m.formatValue(), m.formatBounds(), m.verdict(), m.formatNote())
	}
}

// got is the figure with its unit.
func (m Mark) formatValue() string {
	switch {
	case math.IsNaN(m.Value):
		return "-"
	case math.IsInf(m.Value, 0):
		return "never"
	}
	return m.formatQuantity(m.Value)
}

// asked is the bounds with their unit.
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

// stretch is the bound that would be better still, with its unit.
func (m Mark) formatStretch() string {
	if m.Stretch == 0 {
		return ""
	}
	return m.atStretch().formatBounds()
}

// verdict is what the table says of the figure.
func (m Mark) verdict() string {
	switch {
	case m.Skip:
		return "left out"
	case m.Missed():
		return "MISSED"
	case m.StretchMet():
		return "met, and the stretch: " + m.formatStretch()
	case m.Met() && m.Stretch != 0:
		return "met; the stretch is " + m.formatStretch()
	case m.Met():
		return "met"
	}
	return ""
}

// note is the note, or the word for a figure that is no number.
func (m Mark) formatNote() string {
	switch {
	case m.Note != "":
		return m.Note
	case math.IsNaN(m.Value):
		return "not known"
	case math.IsInf(m.Value, 0):
		return "never"
	}
	return ""
}

// quantity is a value with the unit of the mark.
func (m Mark) formatQuantity(v float64) string {
	return strings.TrimSpace(formatNumber(v) + " " + m.Unit)
}

// number is a value with four digits, or with as many as it has before the point.
func formatNumber(v float64) string {
	if math.Abs(v) >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
