package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html/atom"
)

// maxIcons bounds the icons that Icons returns.
const maxIcons = 8

// Icons returns the icons that an HTML page names for its site, those for tabs and lists before those for phones, and the
// address to which theirs are relative, if the page gives one.
func Icons(doc []byte) (base string, icons []string) {
	var large []string
	base = eachLink(doc, func(tag atom.Atom, a map[string]string) bool {
		target, relations := strings.TrimSpace(a["href"]), strings.Fields(strings.ToLower(a["rel"]))
		switch {
		case tag != atom.Link || target == "" || len(target) > maxTarget:
		case slices.Contains(relations, "icon"):
			icons = append(icons, target)
		case slices.Contains(relations, "apple-touch-icon"):
			large = append(large, target)
		}
		return tag != atom.Body && len(icons)+len(large) < maxIcons
	})
	return base, append(icons, large...)
}
