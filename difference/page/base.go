package page

import (
	"bytes"
	"net/url"
	"strings"
)

// A Place is where a document is found. The zero value is not known: links are as they stand, and a
// <base> names the page's own host.
type Location struct {
	Address string // for which was asked, and from where readers of entries follow relative links
	Final   string // after redirects; "": there as well
}

// base is from where a document's relative links lead, nil if it is the same for its address. Hosts that
// share the work behind one address must not make its page another one each time, as far as that can
// be seen.
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

// host is whose a place is.
func (p *Location) host() string {
	u, err := url.Parse(p.Address)
	if err != nil || p.Address == "" {
		return ""
	}
	return host(u)
}

// host is whose place it is: hosts answer with and without "www.", by HTTP and by HTTPS.
func host(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return strings.TrimPrefix(strings.ToLower(u.Host), "www.")
}

// folder is what relative paths are appended to.
func folder(u *url.URL) string {
	return "/" + strings.TrimPrefix(u.Path[:strings.LastIndexByte(u.Path, '/')+1], "/")
}

// absolute is a link's target from where the document was found, or from where its <base> says: without
// the host, if that is the page's own.
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

// rebase takes what a <base> says, the first of them (HTML, 4.2.3).
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

// password says whether a field is one for a password.
func (r *reader) isPasswordField() bool {
	for more := true; more; {
		var key, value []byte
		if key, value, more = r.tokens.TagAttr(); string(key) == "type" {
			return bytes.EqualFold(value, []byte("password"))
		}
	}
	return false
}

// balance sees to it that a link's text does not end it: of brackets that are not in pairs, or too deep, it
// makes parentheses.
func (r *reader) escapeBrackets() {
	depth, deepest := 0, 0
	text := r.text[r.link+1:]
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

// deepBrackets is how deep brackets in a link's text are understood: see links.
const deepBrackets = 2
