package page

import (
	"bytes"
	"net/url"
	"strings"

	"tidings/internal/selection"
)

// A Location is the address of a document. The zero value is unknown: links stay as written, and a <base> names
// the page's own host.
type Location struct {
	Address string // requested address, to which relative links in entries refer
	Final   string // address after redirects; "": the same

	What selection.Rule // the parts of the page and the kinds of changes that count
}

// base returns the base of a document's relative links, or nil if that equals Address. Several hosts behind one
// address must not make its page different each time, as far as that is visible.
func (p *Location) base() *url.URL {
	own, err := url.Parse(p.Address)
	if err != nil {
		return nil
	}
	found, err := url.Parse(p.Final)
	if err != nil || p.Final == "" || host(own) == host(found) && folder(own) == folder(found) {
		return nil
	}
	return found
}

// host returns the host of a location.
func (p *Location) host() string {
	u, err := url.Parse(p.Address)
	if err != nil || p.Address == "" {
		return ""
	}
	return host(u)
}

// host returns a host without "www.", since hosts answer with and without it, by HTTP and by HTTPS.
func host(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return strings.TrimPrefix(strings.ToLower(u.Host), "www.")
}

// folder returns the path to which relative paths are appended.
func folder(u *url.URL) string {
	return "/" + strings.TrimPrefix(u.Path[:strings.LastIndexByte(u.Path, '/')+1], "/")
}

// absolute returns a link's target relative to the document's final address or to its <base>, without the host
// if that is the page's own.
func (r *reader) absolute(href string) string {
	if r.base == nil || strings.HasPrefix(href, "#") || len(href) > maxTarget {
		return href
	}
	to, err := r.base.Parse(strings.TrimSpace(href))
	if err != nil {
		return href
	}
	if to.Host != "" && host(to) == r.host {
		to.Scheme, to.Host, to.Path = "", "", "/"+strings.TrimLeft(to.Path, "/")
	}
	return to.String()
}

// readBase reads the first <base> of a page (HTML, 4.2.3).
func (r *reader) readBase() {
	for more := !r.baseSeen; more; {
		var key, value []byte
		if key, value, more = r.tokens.TagAttr(); string(key) != "href" {
			continue
		}
		r.baseSeen = true
		to, err := url.Parse(string(value))
		if err == nil && r.base != nil {
			to = r.base.ResolveReference(to)
		}
		if err != nil || len(value) > maxTarget || to.Opaque != "" {
			return
		}
		if r.base = to; r.host == "" {
			r.host = host(to)
		}
		return
	}
}

// isPasswordField reports whether an input element is a field for a password.
func (r *reader) isPasswordField() bool {
	for more := true; more; {
		var key, value []byte
		if key, value, more = r.tokens.TagAttr(); string(key) == "type" {
			return bytes.EqualFold(value, []byte("password"))
		}
	}
	return false
}

// escapeBrackets makes sure that a link's text does not end the link: brackets that are unbalanced, or nested
// too deep, become parentheses.
func (r *reader) escapeBrackets() {
	depth, deepest := 0, 0
	text := r.current.text[r.current.link+1:]
	for _, c := range text {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		if deepest = max(deepest, depth); depth < 0 {
			break
		}
	}
	if depth == 0 && deepest <= deepBrackets {
		return
	}
	for i, c := range text {
		switch c {
		case '[':
			text[i] = '('
		case ']':
			text[i] = ')'
		}
	}
}

// deepBrackets is how deep nested brackets in a link's text are understood; see links.
const deepBrackets = 2
