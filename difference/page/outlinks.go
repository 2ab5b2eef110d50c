package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html/atom"
)

// Outlinks returns the targets of the first n links in the text of an article, as they are written. It leaves out those that
// the author does not vouch for: what readers have written, and what was paid for.
func Outlinks(doc []byte, n int) (targets []string) {
	eachLink(doc, func(tag atom.Atom, a map[string]string) bool {
		target := strings.TrimSpace(a["href"])
		if tag == atom.A && target != "" && len(target) <= maxTarget && !slices.ContainsFunc(strings.Fields(strings.ToLower(a["rel"])), isUnvouched) {
			targets = append(targets, target)
		}
		return len(targets) < n
	})
	return targets
}

func isUnvouched(relation string) bool {
	return slices.Contains([]string{"nofollow", "ugc", "sponsored"}, relation)
}
