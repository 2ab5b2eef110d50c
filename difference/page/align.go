package page

import (
	"slices"
	"strings"
)

// Before a check is compared, its text is laid out like the visible version where the layout says nothing: lines
// that are broken elsewhere are joined and broken as before, and the items of an unordered list (HTML, 4.4.6:
// their order does not change the meaning) are in the order in which readers have them.

// maxLayout bounds the comparison of changes word by word, for all changes of a page: for each, its removed lines times
// its added ones times their words. Sixty lines of twenty words each take 2^23. Further changes are compared line by line.
const maxLayout = 1 << 25

// align lays out a core like a text.
func (c *Core) align(visible []string) {
	c.arrange(visible)
	c.Lines = rejoin(visible, c.Lines)
}

// rejoin returns lines in which words that stand in the other text, too, are broken into lines as they are
// there.
func rejoin(visible, now []string) []string {
	if len(visible)+len(now) > manyLines {
		return now
	}
	var joined []string
	at, budget := 0, maxLayout
	for _, h := range changes(visible, now) {
		omit, add := visible[h.PosX:h.EndX], now[h.PosY:h.EndY]
		joined = append(joined, now[at:h.PosY]...)
		if at = h.EndY; len(omit) == 0 || len(omit)+len(add) < 3 {
			joined = append(joined, add...)
			continue
		}
		was, is := wordsOf(omit), wordsOf(add)
		cost := len(omit) * len(add) * (size(was) + size(is))
		if cost > budget {
			joined = append(joined, add...)
			continue
		}
		budget -= cost
		for x, y := 0, 0; y < len(add); {
			same := 0
			for from := x; from < len(omit) && same == 0; from++ {
				var size int
				if size, same = sameWords(was[from:], is[y:]); same > 0 {
					joined = append(joined, omit[from:from+size]...)
					x = from + size
				}
			}
			if same == 0 {
				joined, same = append(joined, add[y]), 1
			}
			y += same
		}
	}
	if at == 0 {
		return now
	}
	return append(joined, now[at:]...)
}

// wording is the words of a line and the targets of its links.
type wording struct{ words, targets []string }

// size returns the number of words.
func size(of []wording) (n int) {
	for _, w := range of {
		n += len(w.words)
	}
	return n
}

// wordsOf returns the wording of lines.
func wordsOf(lines []string) []wording {
	result := make([]wording, len(lines))
	for i, l := range lines {
		result[i].words = strings.Fields(withoutTargets(l))
		for _, m := range links.FindAllStringSubmatch(l, -1) {
			result[i].targets = append(result[i].targets, m[2])
		}
	}
	return result
}

// sameWords returns how many lines of each text begin with the same words and links, if they are broken
// differently, or 0.
func sameWords(a, b []wording) (x, y int) {
	var left, right []string // words that the other text has still to say
	var from, to []string
	for {
		n := min(len(left), len(right))
		if !slices.Equal(left[:n], right[:n]) {
			return 0, 0
		}
		left, right = left[n:], right[n:]
		switch {
		case len(left) == 0 && len(right) == 0 && x > 0:
			if x == 1 && y == 1 || !slices.Equal(slices.Compact(from), slices.Compact(to)) {
				return 0, 0
			}
			return x, y
		case len(left) == 0 && x < len(a):
			left, from = a[x].words, append(from, a[x].targets...)
			x++
		case len(right) == 0 && y < len(b):
			right, to = b[y].words, append(to, b[y].targets...)
			y++
		default:
			return 0, 0
		}
	}
}
