package main

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// A table prints rows in aligned columns. On a terminal it is shrunk to fit. In a pipe it is as wide as its
// content.
type table struct {
	terminal
	columns []column
	lines   []tableLine
}

// A column of a table. The head may be empty. If all heads are empty, there is no head line.
type column struct {
	head    string
	right   bool // for numbers
	elastic int  // share of the space to give up so that the table fits; 0 for none
	wrap    bool // wraps text that does not fit instead of cutting it; only for the last column
}

type cell struct {
	text   string
	colour colour
}

// A tableLine is a row, or a note below a row.
type tableLine struct {
	cells []cell
	note  cell
}

const (
	gap = "  "
	// minColumn is the minimum width of an elastic column.
	minColumn = 8
)

func (t *table) row(cells ...cell) {
	for i := range cells {
		cells[i].text = oneLine(cells[i].text)
	}
	t.lines = append(t.lines, tableLine{cells: cells})
}

// note adds a text below the last row, indented by the first column.
func (t *table) note(text string, c colour) {
	t.lines = append(t.lines, tableLine{note: cell{oneLine(text), c}})
}

func (t *table) String() string {
	widths := t.widths()
	var b strings.Builder
	if t.hasHead() {
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
		for _, part := range wrap(l.note.text, t.availableWidth(indent)) {
			b.WriteString(strings.Repeat(" ", indent) + t.paint(l.note.colour, part) + "\n")
		}
	}
	return b.String()
}

// availableWidth returns the rest of a line after an indent, or 0 for unlimited.
func (t *table) availableWidth(indent int) int {
	if t.width == 0 {
		return 0
	}
	return max(t.width-indent, minColumn)
}

func (t *table) hasHead() bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.head != "" })
}

// widths returns the widths of the columns: those of their content, reduced until the table fits.
func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	total := (len(t.columns) - 1) * len(gap)
	for i, c := range t.columns {
		widths[i] = displayWidth(c.head)
		for _, l := range t.lines {
			if l.cells != nil {
				widths[i] = max(widths[i], displayWidth(l.cells[i].text))
			}
		}
		total += widths[i]
	}
	for t.width > 0 && total > t.width {
		// The column that is widest for its share gives up a character.
		widest := -1
		for i, c := range t.columns {
			if c.elastic > 0 && widths[i] > minColumn &&
				(widest < 0 || widths[i]*t.columns[widest].elastic > widths[widest]*c.elastic) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// print writes a row, on as many lines as its highest cell needs.
func (t *table) print(b *strings.Builder, widths []int, row []cell) {
	parts := make([][]string, len(row))
	height := 1
	for i, c := range row {
		if t.columns[i].wrap {
			parts[i] = wrap(c.text, widths[i])
		} else {
			parts[i] = []string{truncate(c.text, widths[i])}
		}
		height = max(height, len(parts[i]))
	}
	for y := range height {
		spaces := "" // no spaces at the end of a line
		for i, c := range row {
			text := ""
			if y < len(parts[i]) {
				text = parts[i][y]
			}
			space := strings.Repeat(" ", max(widths[i]-displayWidth(text), 0))
			switch {
			case text == "":
				spaces += space
			case t.columns[i].right:
				b.WriteString(spaces + space + t.paint(c.colour, text))
				spaces = ""
			default:
				b.WriteString(spaces + t.paint(c.colour, text))
				spaces = space
			}
			spaces += gap
		}
		b.WriteByte('\n')
	}
}

// displayWidth returns how many columns of a terminal a text takes.
func displayWidth(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// truncate shortens a text to a width of at least 1.
func truncate(text string, to int) string {
	if displayWidth(text) <= to {
		return text
	}
	return text[:fittingBytes(text, to-1)] + "…"
}

// fittingBytes returns how many bytes of a text fit into a width.
func fittingBytes(text string, width int) int {
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > width {
			return i
		}
	}
	return len(text)
}

// wrap breaks a text into lines of a width, between words. A word that is too long stays whole, so that it can be
// copied. A width of 0 means unlimited.
func wrap(text string, to int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case to > 0 && displayWidth(line)+1+displayWidth(word) > to:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
