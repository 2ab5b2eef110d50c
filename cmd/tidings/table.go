package main

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// A table prints rows in aligned columns. On a terminal it is made to fit; in a pipe
// it is as wide as what is in it.
type table struct {
	terminal
	columns []column
	lines   []tableLine
}

// A column of a table. Its head may be empty; if all are, there is no head line.
type column struct {
	head    string
	right   bool // numbers
	elastic int  // share of what is to be given up for a table to fit; 0: none
	wrap    bool // what does not fit goes on below and is not cut; of the last column
}

type cell struct {
	text   string
	colour colour
}

// A tableLine is a row, or a note that stands below one.
type tableLine struct {
	cells []cell
	note  cell
}

const (
	gap = "  "
	// leastColumn is how narrow an elastic column is made.
	leastColumn = 8
)

func (t *table) row(cells ...cell) {
	for i := range cells {
		cells[i].text = oneLine(cells[i].text)
	}
	t.lines = append(t.lines, tableLine{cells: cells})
}

// note adds words below the last row, behind its first column.
func (t *table) note(text string, c colour) {
	t.lines = append(t.lines, tableLine{note: cell{oneLine(text), c}})
}

func (t *table) String() string {
	widths := t.widths()
	var b strings.Builder
	if t.headed() {
		heads := make([]cell, len(t.columns))
		for i, c := range t.columns {
			heads[i] = cell{c.head, faint}
		}
		t.print(&b, widths, heads)
	}
	for _, l := range t.lines {
		if l.cells != nil {
			t.print(&b, widths, l.cells)
			continue
		}
		indent := widths[0] + len(gap)
		for _, part := range wrap(l.note.text, t.room(indent)) {
			b.WriteString(strings.Repeat(" ", indent) + t.paint(l.note.colour, part) + "\n")
		}
	}
	return b.String()
}

// room is what is left of a line behind an indent; 0: as much as you like.
func (t *table) room(indent int) int {
	if t.width == 0 {
		return 0
	}
	return max(t.width-indent, leastColumn)
}

func (t *table) headed() bool {
	for _, c := range t.columns {
		if c.head != "" {
			return true
		}
	}
	return false
}

// widths are the columns' widths: what is in them, made to fit by turns.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	total := (len(t.columns) - 1) * len(gap)
	for i, c := range t.columns {
		widths[i] = cells(c.head)
		for _, l := range t.lines {
			if l.cells != nil {
				widths[i] = max(widths[i], cells(l.cells[i].text))
			}
		}
		total += widths[i]
	}
	for t.width > 0 && total > t.width {
		// The column that has most for its share gives a place up.
		most := -1
		for i, c := range t.columns {
			if c.elastic > 0 && widths[i] > leastColumn &&
				(most < 0 || widths[i]*t.columns[most].elastic > widths[most]*c.elastic) {
				most = i
			}
		}
		if most < 0 {
			break
		}
		widths[most]--
		total--
	}
	return widths
}

// print writes a row, on as many lines as its longest cell takes.
func (t *table) print(b *strings.Builder, widths []int, row []cell) {
	parts := make([][]string, len(row))
	height := 1
	for i, c := range row {
		if t.columns[i].wrap {
			parts[i] = wrap(c.text, widths[i])
		} else {
			parts[i] = []string{cut(c.text, widths[i])}
		}
		height = max(height, len(parts[i]))
	}
	for y := range height {
		pending := "" // no spaces at the end of a line
		for i, c := range row {
			text := ""
			if y < len(parts[i]) {
				text = parts[i][y]
			}
			space := strings.Repeat(" ", max(widths[i]-cells(text), 0))
			switch {
			case text == "":
				pending += space
			case t.columns[i].right:
				b.WriteString(pending + space + t.paint(c.colour, text))
				pending = ""
			default:
				b.WriteString(pending + t.paint(c.colour, text))
				pending = space
			}
			pending += gap
		}
		b.WriteByte('\n')
	}
}

// cells is how many columns of a terminal a text takes.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens a text to a width, which is at least 1.
func cut(text string, to int) string {
	if cells(text) <= to {
		return text
	}
	return text[:fitting(text, to-1)] + "…"
}

// fitting is how many bytes of a text have room in a width.
func fitting(text string, width int) int {
	n := 0
	for i, r := range text {
		if n += cellsOf(r); n > width {
			return i
		}
	}
	return len(text)
}

// wrap breaks a text into lines of a width, between words: a word that is too long
// is left whole, to be copied. A width of 0 is as wide as you like.
func wrap(text string, to int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case to > 0 && cells(line)+1+cells(word) > to:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
