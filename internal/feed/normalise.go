package feed

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// appendVisible appends what a reader sees of HTML: its text without white space, the targets of links, and the
// names of pictures. It ignores markup, styles and scripts, and also queries of addresses and the hosts of
// pictures, which carry session tokens and names of replicas.
func appendVisible(dst []byte, s string) []byte {
	if strings.IndexByte(s, '<') < 0 {
		return appendNonSpace(dst, html.UnescapeString(s))
	}
	z := html.NewTokenizer(strings.NewReader(s))
	hidden := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			return dst
		case html.TextToken:
			if hidden == "" {
				dst = appendNonSpace(dst, string(z.Text()))
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == hidden {
				hidden = ""
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "script", "style":
				hidden = string(name)
			}
			tiny := false
			var address []byte
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				switch string(key) {
				case "href", "src":
					address = appendAddress(nil, string(key), string(value))
				case "width", "height":
					tiny = tiny || string(value) == "1" || string(value) == "0"
				}
			}
			if !tiny { // a picture of one pixel counts readers
				dst = append(dst, address...)
			}
		}
	}
}

// appendAddress appends the significant part of an address in a text.
func appendAddress(dst []byte, attr, address string) []byte {
	address, _, _ = strings.Cut(address, "#")
	address, _, _ = strings.Cut(address, "?")
	if attr == "src" {
		address = address[strings.LastIndexByte(address, '/')+1:]
	}
	dst = append(dst, 0)
	dst = appendNonSpace(dst, dropScheme(address))
	return append(dst, 0)
}

// appendNonSpace appends text without white space and invisible characters.
func appendNonSpace(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s))
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf: // nearly all characters
			if r > ' ' && r != '\x7f' {
				dst = append(dst, byte(r))
			}
		case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || unicode.IsControl(r):
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// cleanLink returns an address without the parts that differ between clients: the scheme, and parameters that
// track campaigns.
func cleanLink(s string) string {
	s = dropScheme(strings.TrimSpace(s))
	before, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	query, fragment, anchored := strings.Cut(query, "#")
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		if !isTracking(part) {
			kept = append(kept, part)
		}
	}
	s = before
	if len(kept) > 0 {
		s += "?" + strings.Join(kept, "&")
	}
	if anchored {
		s += "#" + fragment
	}
	return s
}

func isTracking(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	switch name {
	case "fbclid", "gclid", "mc_cid", "mc_eid":
		return true
	}
	return strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "amp;utm_")
}

// dropScheme removes http: and https:, between which sites change.
func dropScheme(s string) string {
	for _, scheme := range []string{"https:", "http:"} {
		if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			return s[len(scheme):]
		}
	}
	return s
}

// resolve resolves ref relative to base.
func resolve(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil || base == "" {
		return ref
	}
	r, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return ref
	}
	return b.ResolveReference(r).String()
}
