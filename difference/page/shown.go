package page

import "strings"

const (
	// maxGone bounds the lines of earlier texts that a node remembers, in bytes: the item of a change shows no more. The oldest
	// are dropped.
	maxGone = maxEntry
	// maxSought bounds the text in which the removed lines of a change are searched, in bytes, the text once for each line. That
	// takes some 20 ms. A change that needs more is not shown.
	maxSought = 1 << 26
	// samePage: a core is of the same page as another version if it has at least one in so many of that version's lines.
	samePage = 2
)

// Seen is what a node has read of a page itself: the last text, and lines of earlier texts.
type Seen struct {
	Core
	gone []string // lines of earlier texts that went and have not come back, the latest last; at most maxGone bytes
}

// Next returns what a node has seen that now reads another text of the page. s is nil if that is the first one.
func (s *Seen) Next(text *Core) *Seen {
	next := &Seen{Core: *text}
	if s == nil {
		return next
	}
	fewer := map[string]int{} // how many lines of each text have gone; negative: have come
	for _, l := range s.Lines {
		fewer[l]++
	}
	for _, l := range text.Lines {
		fewer[l]--
	}
	for _, l := range s.gone {
		if fewer[l] >= 0 {
			next.gone = append(next.gone, l)
		}
	}
	for _, l := range s.Lines {
		if fewer[l] > 0 {
			fewer[l] = 0
			next.gone = append(next.gone, strings.Clone(l))
		}
	}
	size := length(next.gone)
	for ; size > maxGone; next.gone = next.gone[1:] {
		size -= len(next.gone[0])
	}
	return next
}

// ShownBy reports whether what a node has itself seen of a page shows a change that another node has found. The last text has
// each line that the change adds, and the lines that it removes have gone from the texts before. The line before
// each hunk is there, too, because readers are shown it. The text may differ otherwise, because each node leaves out the noise
// that it knows.
func (f *Result) ShownBy(seen *Seen) bool {
	if f.Kind != Changed || len(f.Patch.Hunks) == 0 {
		return false
	}
	if _, ok := figure(f.Core.Lines); ok && f.Core.Title != seen.Title {
		return false // the headline has the title
	}
	here, after := lineSet(seen.Lines), lineSet(f.Core.Lines)
	common := 0
	for l := range after {
		if here[l] {
			common++
		}
	}
	if common*samePage < len(after) {
		return false // it may be an error or a log-in page
	}
	var others []string // lines in which a removed one may stand on, because they are broken elsewhere
	for _, l := range seen.Lines {
		if !after[l] {
			others = append(others, l)
		}
	}
	other, sought := " "+strings.Join(others, " ")+" ", 0
	gone, added := lineSet(seen.gone), map[string]bool{}
	for _, h := range f.Patch.Hunks {
		for _, l := range h.Add {
			if added[l] = true; !here[l] {
				return false
			}
		}
	}
	for _, h := range f.Patch.Hunks {
		for _, l := range f.Before.Lines[h.At : h.At+h.Omit] {
			if added[l] {
				continue // it has only moved
			}
			if sought += len(other); !gone[l] || sought > maxSought || strings.Contains(other, " "+l+" ") {
				return false
			}
		}
	}
	return f.placesShownBy(seen)
}

// placesShownBy reports whether a node has seen the line before each hunk. Only the numbers and dates of the line may be others,
// if the node has seen them change.
func (f *Result) placesShownBy(seen *Seen) bool {
	var here, bones, changing map[string]bool
	for _, h := range f.Patch.Hunks {
		if h.At == 0 {
			continue
		}
		if here == nil {
			texts, gone := plainLines(seen.Lines), plainLines(seen.gone)
			here, bones, changing = lineSet(texts), lineSet(skeletons(texts)), lineSet(skeletons(gone))
		}
		l := withoutTargets(f.Before.Lines[h.At-1])
		if s, ok := skeleton(l); !here[l] && !(ok && bones[s] && changing[s]) {
			return false
		}
	}
	return true
}

// plainLines returns lines without the targets of their links.
func plainLines(lines []string) []string {
	plain := make([]string, len(lines))
	for i, l := range lines {
		plain[i] = withoutTargets(l)
	}
	return plain
}

func lineSet(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, l := range lines {
		set[l] = true
	}
	return set
}
