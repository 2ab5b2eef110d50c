package page

import (
	"cmp"
	"slices"
	"time"
)

// stays is for how long what has little in common with a page has to be there to be the
// page, and saysSo for how long if it may be an error or a wall by what it says: few last longer, and a page may
// have come to say so. What surely is one never is in the place of another page; but it may be
// what a page is about of which nothing else was ever seen.
const (
	replacementAge = time.Hour
	wallAge        = 24 * time.Hour
)

// odd is a page that has turned into another one, perhaps for a moment.
type replacement struct {
	lines []uint64 // of the other one, when it was first seen, as skeletons
	since time.Time
}

// judge returns why what a fetch has brought is not the page; "" if it is.
func (o *replacement) reject(now, told *Core, first bool, at time.Time) string {
	if len(now.Lines) == 0 {
		return "the page is empty"
	}
	if told.complete && !now.complete && o.age(now, at) < replacementAge {
		return "the page ended too early"
	}
	alike := !first && countCommon(now.Lines, told.Lines)*2 >= len(now.Lines)
	if lost := linesMissing(told.Lines, now.Lines); len(lost) >= muchLost && len(lost)*3 >= told.size() {
		alike = false // its head alone is not the page
	}
	reason, sure := wall(now, told, first, alike)
	long := wallAge
	if first {
		long = replacementAge
	}
	little := now.size()*10 < told.size() || now.size()*4 < told.size() && now.size() < wallLength && countWords(linesMissing(now.Lines, told.Lines)) <= fewWords
	if reason == "" && !first && !alike && little {
		reason, long = "a much shorter document in its place", replacementAge
	}
	switch {
	case reason == "":
		if alike {
			*o = replacement{}
		}
	case (first || !sure) && o.age(now, at) >= long:
		reason = ""
	}
	return reason
}

// fewWords are what says nothing new: "It works!"
const fewWords = 4

// muchLost is how many bytes of a page have to be gone, a third of it or more, that what is left need
// not be it.
const muchLost = 120

// lasts is for how long a document like this one has been there.
func (o *replacement) age(now *Core, at time.Time) time.Duration {
	lines := skeletonKeys(now.Lines)
	if o.since.IsZero() || countCommon(lines, o.lines)*2 < len(lines) {
		*o = replacement{lines: lines, since: at}
	}
	return at.Sub(o.since)
}

// skeletons are the keys of lines without what may change by itself.
func skeletonKeys(lines []string) []uint64 {
	of := make([]uint64, len(lines))
	for i, l := range lines {
		of[i] = lineKey(l)
	}
	return of
}

// common is how many of some lines are among others.
func countCommon[E cmp.Ordered](of, others []E) int {
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
