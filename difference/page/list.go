package page

import (
	"cmp"
	"slices"
)

// A row is an item of an unordered list of a page.
type row struct {
	list int // its list, from 0; a list within another one has the higher number
	up   int // the row that contains the list; none: there is none
	deep int // rows around it
}

// maxDepth bounds the rows around a row. Lists within deeper ones have no rows of their own.
const maxDepth = 8

// A sheet is the rows of a page.
type sheet struct {
	rows  []row
	lists int
}

// begin adds a row to a list, and returns it.
func (s *sheet) begin(list, up int) int {
	deep := 0
	if up != none {
		deep = s.rows[up].deep + 1
	}
	if deep > maxDepth || len(s.rows) >= maxLines {
		return up
	}
	s.rows = append(s.rows, row{list, up, deep})
	return len(s.rows) - 1
}

// of returns the row of a list that contains a row, or none.
func (s *sheet) of(row, list int) int {
	for row != none && s.rows[row].list != list {
		row = s.rows[row].up
	}
	return row
}

// An item is the lines of a row, with their position in the other text.
type item struct{ begin, end, at int }

// arrange puts the rows of each list into the order in which they stand in a text. A row that is not there stays
// behind the row that it follows.
func (c *Core) arrange(visible []string) {
	if len(c.rows) != len(c.Lines) || c.sheet.lists == 0 {
		return
	}
	at := map[string]int{} // of lines that the text has once; none: more often
	for i, l := range visible {
		if _, twice := at[l]; twice {
			i = none
		}
		at[l] = i
	}
	spans := make([]struct{ begin, end int }, c.sheet.lists)
	for i, r := range c.rows {
		for ; r != none; r = c.sheet.rows[r].up {
			span := &spans[c.sheet.rows[r].list]
			if span.end == 0 {
				span.begin = i
			}
			span.end = i + 1
		}
	}
	c.Lines, c.rows = slices.Clone(c.Lines), slices.Clone(c.rows)
	for list, span := range slices.Backward(spans) { // a list within another one first
		if blocks, ok := c.blocks(list, span.begin, span.end); ok {
			for i := range blocks {
				blocks[i].at = c.find(blocks[i], visible, at)
			}
			c.sort(blocks, span.begin)
		}
	}
}

// blocks returns the rows of a list. It is not ok if a line belongs to no row, or if there is only one.
func (c *Core) blocks(list, begin, end int) (blocks []item, ok bool) {
	last := none
	for i := begin; i < end; i++ {
		r := c.sheet.of(c.rows[i], list)
		if r == none {
			return nil, false
		}
		if r != last {
			blocks = append(blocks, item{begin: i})
		}
		blocks[len(blocks)-1].end, last = i+1, r
	}
	return blocks, len(blocks) > 1
}

// find returns where the lines of a block stand in a text, or none.
func (c *Core) find(b item, visible []string, at map[string]int) int {
	lines := c.Lines[b.begin:b.end]
	for i, l := range lines {
		if found, is := at[l]; is && found != none {
			if from := found - i; from >= 0 && from+len(lines) <= len(visible) && slices.Equal(visible[from:from+len(lines)], lines) {
				return from
			}
			return none
		}
	}
	return none
}

// sort orders adjacent blocks that begin at a line by their positions, each with those behind it that have none.
func (c *Core) sort(blocks []item, begin int) {
	var groups [][]item
	for _, b := range blocks {
		if b.at != none || len(groups) == 0 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], b)
	}
	order := func(a, b []item) int { return cmp.Compare(a[0].at, b[0].at) } // a first group without a position stays first
	if slices.IsSortedFunc(groups, order) {
		return
	}
	slices.SortStableFunc(groups, order)
	var lines []string
	var rows []int
	for _, g := range groups {
		for _, b := range g {
			lines, rows = append(lines, c.Lines[b.begin:b.end]...), append(rows, c.rows[b.begin:b.end]...)
		}
	}
	copy(c.Lines[begin:], lines)
	copy(c.rows[begin:], rows)
}
