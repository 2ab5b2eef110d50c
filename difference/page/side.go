package page

import "slices"

// What is noise is judged by sizes (region.go, core.go), and a page may be near a bound: an edit in one
// place would bring in, or take away, a region or a menu in which nothing has changed. So a passage
// that was there before stays on the side on which most of it was.

// A sided is a line of a document, and the side on which it is.
type sidedLine struct {
	text    string
	passage int  // what it is judged with: a region, or a run of links; 0: nothing, it is content
	left    bool // out of the core
}

// A side is one on which a line was.
type side uint8

const (
	wasIn side = 1 << iota
	wasOut
)

// maxOut is of how many lines it is remembered that they were left out.
const maxOmitted = 1 << 12

// chosen are those lines that are not left out.
func contentLines(all []sidedLine) []string {
	of := make([]string, 0, len(all))
	for i := range all {
		if !all[i].left {
			of = append(of, all[i].text)
		}
	}
	return of
}

// settled returns a look with its passages on the sides on which they were, as far as a good part of one
// was there before, and the keys of the lines that are left out.
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
	type votes struct{ size, in int } // in bytes, of which those that were left out are taken from in
	of := map[int]votes{}
	keys := make([]uint64, len(now.all))
	for i, l := range now.all {
		keys[i] = keyOf(l.text)
		v := of[l.passage]
		v.size += len(l.text)
		switch was[keys[i]] { // what was on both says nothing
		case wasIn:
			v.in += len(l.text)
		case wasOut:
			v.in -= len(l.text)
		}
		of[l.passage] = v
	}
	all := slices.Clone(now.all) // which others may look at, too
	var left []uint64
	for i := range all {
		l := &all[i]
		if v := of[l.passage]; l.passage != 0 && max(v.in, -v.in)*contentShare >= v.size {
			l.left = v.in < 0
		}
		if l.left && len(left) < maxOmitted {
			left = append(left, keys[i])
		}
	}
	now.all, now.Lines = nil, contentLines(all)
	return now, left
}
