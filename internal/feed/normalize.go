package feed

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// appendReading appends what a reader sees of HTML: its text without white space,
// where links lead, and what pictures are called. Markup, styles and scripts do not
// count, nor do queries of addresses, nor the hosts of pictures: they carry session
// tokens and the names of replicas.
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
			if !tiny { // one point wide: it counts readers
				dst = append(dst, address...)
			}
		}
	}
}

// appendAddress appends what counts of an address in a text.
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

// appendLetters appends text without white space and without characters nobody
// sees.
func appendNonSpace(dst []byte, s string) []byte {
	dst = slices.Grow(dst, len(s))
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf: // nearly all of it
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

// cleanLink returns an address without what differs between askers: whether it
// was asked for in the clear, and marks of campaigns.
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

// dropScheme leaves out http: and https:, which sites change between.
func dropScheme(s string) string {
	for _, scheme := range []string{"https:", "http:"} {
		if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
			return s[len(scheme):]
		}
	}
	return s
}

// resolve returns an address as it is meant at base.
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
