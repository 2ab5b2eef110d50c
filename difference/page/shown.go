package page

import "strings"

const (
	// maxRejoined is how many added lines of a change are looked for in the running text of a page, because they are no lines
	// there.
	maxRejoined = 64
	// samePage: a core is of the same page as another version if it has one of so many of that version's lines.
	samePage = 2
)

// ShownBy reports whether a page as this node has read it itself shows a change that another node has found: it has all
// lines that the change adds, and none that it removes. It may differ otherwise, because each node leaves out the noise that
// it knows, and breaks lines in its own way.
func (f *Result) ShownBy(seen *Core) bool {
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
	text, rejoined := "", 0
	brokenElsewhere := func(l string) bool {
		if rejoined++; rejoined > maxRejoined {
			return false
		}
		if text == "" {
			text = " " + strings.Join(seen.Lines, " ") + " "
		}
		return strings.Contains(text, " "+l+" ")
	}
	for _, h := range f.Patch.Hunks {
		for _, l := range h.Add {
			if !here[l] && !brokenElsewhere(l) {
				return false
			}
		}
		for _, l := range f.Before.Lines[h.At : h.At+h.Omit] {
			if here[l] && !after[l] {
				return false
			}
		}
	}
	return true
}

func lineSet(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, l := range lines {
		set[l] = true
	}
	return set
}
