package page

import "slices"

// Sizes decide what is noise (region.go, core.go), and a page may be near a bound. An edit in one place could
// then include or drop a region or a menu in which nothing has changed. Therefore a known passage stays on the
// side on which most of it was.

// A sidedLine is a line of a document with its side.
type sidedLine struct {
	text    string
	passage int  // region or run of links to which it belongs; 0: none, it is content
	left    bool // not in the core
	row     int  // row of a list
}

// A side is a set of the sides on which a line was.
type side uint8

const (
	wasIn side = 1 << iota
	wasOut
)

// maxOmitted bounds the omitted lines that are remembered.
const maxOmitted = 1 << 12

// contentLines returns the lines that are not left out, and their rows.
func contentLines(all []sidedLine) (lines []string, rows []int) {
	lines, rows = make([]string, 0, len(all)), make([]int, 0, len(all))
	for i := range all {
		if !all[i].left {
			lines, rows = append(lines, all[i].text), append(rows, all[i].row)
		}
	}
	return lines, rows
}

// keepSides returns a core in which known passages are on their former sides, if a good part of them was there
// before. It also returns the keys of the lines that are left out.
func keepSides(now Core, in []string, out []uint64) (Core, []uint64) {
	if now.all == nil {
		return now, nil
	}
	was := make(map[uint64]side, len(in)+len(out))
	for _, l := range in {
		was[keyOf(l)] |= wasIn
	}
	for _, k := range out {
		was[k] |= wasOut
	}
	type votes struct{ size, in int } // in bytes; omitted lines count negative in in
	sides := map[int]votes{}
	keys := make([]uint64, len(now.all))
	for i, l := range now.all {
		keys[i] = keyOf(l.text)
		v := sides[l.passage]
		v.size += len(l.text)
		switch was[keys[i]] { // a line that was on both sides says nothing
		case wasIn:
			v.in += len(l.text)
		case wasOut:
			v.in -= len(l.text)
		}
		sides[l.passage] = v
	}
	all := slices.Clone(now.all) // others may use now.all, too
	var left []uint64
	for i := range all {
		l := &all[i]
		if v := sides[l.passage]; l.passage != 0 && max(v.in, -v.in)*contentShare >= v.size {
			l.left = v.in < 0
		}
		if l.left && len(left) < maxOmitted {
			left = append(left, keys[i])
		}
	}
	now.all = nil
	now.Lines, now.rows = contentLines(all)
	return now, left
}
