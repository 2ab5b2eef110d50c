package page

import (
	"bytes"
	"net/url"
	"strings"
)

// Moved returns from where the relative links of a document lead that was asked for at an address, and found at
// another one: "" if that is the same place for them. A page's entries name its own address, so
// links from elsewhere have to be written out; and hosts that share the work behind one address
// must not make its page another one each time, as far as that can be seen.
func Moved(address, found string) string {
	a, err := url.Parse(address)
	if err != nil {
		return found
	}
	b, err := url.Parse(found)
	if err != nil || found == "" || host(a) == host(b) && folder(a) == folder(b) {
		return ""
	}
	return found
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

// absolute is a link's target from where the document was found, or from where its <base> says.
func (r *reader) absolute(href string) string {
	if r.base == nil || strings.HasPrefix(href, "#") || len(href) > maxTarget {
		return href
	}
	to, err := r.base.Parse(strings.TrimSpace(href))
	if err != nil {
		return href
	}
	return to.String()
}

// rebase takes what a <base> says, the first of them (HTML, 4.2.3).
func (r *reader) rebase() {
	for more := !r.based; more; {
		var key, value []byte
		if key, value, more = r.tokens.TagAttr(); string(key) != "href" {
			continue
		}
		r.based = true
		if to, err := url.Parse(r.absolute(string(value))); err == nil && len(value) <= maxTarget && to.Opaque == "" {
			r.base = to
		}
		return
	}
}

// password says whether a field is one for a password.
func (r *reader) password() bool {
	for more := true; more; {
		var key, value []byte
		if key, value, more = r.tokens.TagAttr(); string(key) == "type" {
			return bytes.EqualFold(value, []byte("password"))
		}
	}
	return false
}
