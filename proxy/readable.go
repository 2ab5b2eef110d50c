package proxy

import (
	"net/http"
	"strconv"
	"strings"
)

// wantsPage reports whether a person has opened the address of a feed in a browser, and gets the page of the subscription
// in place of XML. A browser says that it navigates, and prefers HTML to all that a feed can be. Feed readers do neither,
// even those that accept HTML to find feeds in it. The page is for the node's user alone, and shows subscriptions; a request
// that names a format gets that.
func (s *Server) wantsPage(r *http.Request, t target) bool {
	if t.format != 0 || !s.isBrowser(r) {
		return false
	}
	_, subscribed := s.subs.Version(t.url)
	return subscribed
}

// isBrowser reports whether the node's user has opened an address in a browser.
func (s *Server) isBrowser(r *http.Request) bool {
	navigates := r.Header.Get("Sec-Fetch-Mode") == "navigate" || r.Header.Get("Upgrade-Insecure-Requests") == "1" // Safari sends only the latter to this machine
	return navigates && prefersHTML(r.Header.Get("Accept")) && s.auth.isAuthorized(r)
}

// prefersHTML reports whether a header Accept has a greater weight for HTML than for XML, JSON and everything else.
func prefersHTML(accept string) bool {
	html, other := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		for p := range strings.SplitSeq(parameters, ";") {
			if q, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				weight, _ = strconv.ParseFloat(q, 64) // what is no number means "not at all"
			}
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "text/html":
			html = weight
		case strings.HasSuffix(name, "/xml"), strings.HasSuffix(name, "+xml") && name != "application/xhtml+xml", strings.HasSuffix(name, "json"), name == "*/*":
			other = max(other, weight)
		}
	}
	return html > other
}

// showReadable leads a browser from the address of a feed to a page.
func showReadable(w http.ResponseWriter, r *http.Request, page string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, page, http.StatusSeeOther)
}
