package page

import (
	"cmp"
	"slices"
	"time"
)

// A document that has little in common with the page becomes the page after replacementAge. A possible error or
// wall needs wallAge: few last longer, and the page may really say so. A certain error never replaces a page.
// It may be the page itself if nothing else was ever found at the address.
const (
	replacementAge = time.Hour
	wallAge        = 24 * time.Hour
)

// replacement is a different document in the place of a page, perhaps temporary.
type replacement struct {
	lines []uint64 // skeleton keys of the document when it was first seen
	since time.Time
}

// reject returns why the document of a fetch is not the page, or "".
func (o *replacement) reject(now, visible *Core, first bool, at time.Time) string {
	if len(now.Lines) == 0 {
		return "the page is empty"
	}
	if visible.complete && !now.complete && o.age(now, at) < replacementAge {
		return "the page ended too early"
	}
	alike := !first && countCommon(now.Lines, visible.Lines)*2 >= len(now.Lines)
	if lost := linesMissing(visible.Lines, now.Lines); len(lost) >= muchLost && len(lost)*3 >= visible.size() {
		alike = false // the head of the page alone is not the page
	}
	reason, certain := wall(now, visible, first, alike)
	needed := wallAge
	if first {
		needed = replacementAge
	}
	short := now.size()*10 < visible.size() || now.size()*4 < visible.size() && now.size() < wallLength && countWords(linesMissing(now.Lines, visible.Lines)) <= fewWords
	if reason == "" && !first && !alike && short {
		reason, needed = "a much shorter document in its place", replacementAge
	}
	switch {
	case reason == "":
		if alike {
			*o = replacement{}
		}
	case (first || !certain) && o.age(now, at) >= needed:
		reason = ""
	}
	return reason
}

// fewWords is a number of words that say nothing new, such as "It works!"
const fewWords = 4

// muchLost is how many bytes of a page must be missing, and at least a third of the page, so that the remaining
// part may be another document.
const muchLost = 120

// age returns for how long a document like this one has been there.
func (o *replacement) age(now *Core, at time.Time) time.Duration {
	lines := skeletonKeys(now.Lines)
	if o.since.IsZero() || countCommon(lines, o.lines)*2 < len(lines) {
		*o = replacement{lines: lines, since: at}
	}
	return at.Sub(o.since)
}

// skeletonKeys returns the keys of the skeletons of lines.
func skeletonKeys(lines []string) []uint64 {
	keys := make([]uint64, len(lines))
	for i, l := range lines {
		keys[i] = lineKey(l)
	}
	return keys
}

// countCommon returns how many elements of one slice are in another.
func countCommon[E cmp.Ordered](list, others []E) int {
	others = slices.Clone(others)
	slices.Sort(others)
	n := 0
	for _, l := range list {
		if _, ok := slices.BinarySearch(others, l); ok {
			n++
		}
	}
	return n
}
