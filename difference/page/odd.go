package page

import (
	"cmp"
	"slices"
	"time"
)

// stays is for how long what has little in common with a page has to be there to be the
// page. What surely is an error, or a wall, never is in the place of another page; but it may be
// what a page is about of which nothing else was ever seen.
const stays = time.Hour

// odd is a page that has turned into another one, perhaps for a moment.
type odd struct {
	lines []uint64 // of the other one, when it was first seen, as skeletons
	since time.Time
}

// judge returns why what a fetch has brought is not the page; "" if it is.
func (o *odd) judge(now, told *Core, first bool, at time.Time) string {
	if len(now.Lines) == 0 {
		return "the document is empty"
	}
	if told.ended && !now.ended && !o.lasts(now, at) {
		return "the data end in their middle"
	}
	alike := !first && common(now.Lines, told.Lines)*2 >= len(now.Lines)
	reason, sure := wall(now, told, first, alike)
	if reason == "" && !first && !alike && now.size()*10 < told.size() {
		reason = "another document in its place, much shorter"
	}
	switch {
	case reason == "":
		if alike {
			*o = odd{}
		}
	case (first || !sure) && o.lasts(now, at):
		reason = ""
	}
	return reason
}

// lasts says whether a document like this one has been there for long enough to be believed.
func (o *odd) lasts(now *Core, at time.Time) bool {
	lines := skeletons(now.Lines)
	if o.since.IsZero() || common(lines, o.lines)*2 < len(lines) {
		*o = odd{lines: lines, since: at}
	}
	return at.Sub(o.since) >= stays
}

// skeletons are the keys of lines without what may change by itself.
func skeletons(lines []string) []uint64 {
	of := make([]uint64, len(lines))
	for i, l := range lines {
		of[i] = lineKey(l)
	}
	return of
}

// common is how many of some lines are among others.
func common[E cmp.Ordered](of, others []E) int {
	others = slices.Clone(others)
	slices.Sort(others)
	n := 0
	for _, l := range of {
		if _, ok := slices.BinarySearch(others, l); ok {
			n++
		}
	}
	return n
}
