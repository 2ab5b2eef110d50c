package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html/atom"
)

// maxHubs bounds the hubs that a document names. Few name more than one.
const maxHubs = 4

// Hubs are the address that a document names for itself, and its hubs (W3C WebSub, section 4), as written.
type Hubs struct {
	Self string
	Hubs []string
}

// HubsOf returns what the links in the head of an HTML page name. Links in its body may be of those who comment. The
// addresses must be resolved against base, as those of Advertised.
func HubsOf(doc []byte) (base string, h Hubs) {
	base = eachLink(doc, func(tag atom.Atom, a map[string]string) bool {
		if tag == atom.Link {
			h.add(a)
		}
		return tag != atom.Body
	})
	return base, h
}

// HubsOfHeader returns what the fields of a Link header name.
func HubsOfHeader(fields []string) (h Hubs) {
	eachHeaderLink(fields, func(a map[string]string) bool {
		if a["anchor"] == "" { // otherwise it is a link of another document
			h.add(a)
		}
		return true
	})
	return h
}

func (h *Hubs) add(a map[string]string) {
	target, relations := strings.TrimSpace(a["href"]), strings.Fields(strings.ToLower(a["rel"]))
	if target == "" || len(target) > maxTarget {
		return
	}
	if slices.Contains(relations, "self") && h.Self == "" {
		h.Self = target
	}
	if slices.Contains(relations, "hub") && len(h.Hubs) < maxHubs {
		h.Hubs = append(h.Hubs, target)
	}
}
