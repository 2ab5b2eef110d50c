package feed

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"tidings/internal/markup"
)

// appendVisible appends what a reader sees of HTML: its text without white space, the targets of links, and the
// names of pictures. It ignores markup, styles and scripts, and also queries of addresses and the hosts of
// pictures, which carry session tokens and names of replicas.
func appendVisible(dst []byte, s string) []byte {
	if strings.IndexByte(s, '<') < 0 {
		return appendNonSpace(dst, html.UnescapeString(s))
	}
	z := markup.NewTokenizer([]byte(s), false)
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
	dst = appendNonSpace(dst, cleanAddress(address))
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

// timeAgo matches the end of a text without white space, before "ago".
var timeAgo = regexp.MustCompile(`(?i)(?:\d+|an?|one)(?:second|sec|minute|min|hour|day|week|month|year)s?$`)

// longestAgo bounds the text that timeAgo looks at, in bytes.
const longestAgo = 24

// withoutNumbers returns visible content with each number, and each time like "3 minutes ago", replaced by one mark.
// Addresses keep their digits, because they name other targets.
func withoutNumbers(visible []byte) []byte {
	dst := make([]byte, 0, len(visible))
	const mark = '0'
	address := false
	for i := 0; i < len(visible); i++ {
		c := visible[i]
		switch {
		case c == 0:
			address = !address
			dst = append(dst, c)
		case address:
			dst = append(dst, c)
		case isDigit(c):
			for i+1 < len(visible) && (isDigit(visible[i+1]) ||
				(visible[i+1] == '.' || visible[i+1] == ',') && i+2 < len(visible) && isDigit(visible[i+2])) {
				i++
			}
			dst = append(dst, mark)
		default:
			dst = append(dst, c)
			if c == 'o' && bytes.HasSuffix(dst, []byte("ago")) {
				before := dst[:len(dst)-len("ago")]
				tail := before[max(len(before)-longestAgo, 0):]
				if at := timeAgo.FindIndex(tail); at != nil {
					dst = append(dst[:len(before)-len(tail)+at[0]], mark)
				}
			}
		}
	}
	return dst
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// cleanLink returns an address without the parts that change although the target stays: those that cleanAddress
// removes, and parameters that track campaigns.
func cleanLink(s string) string {
	s, fragment, anchored := strings.Cut(strings.TrimSpace(s), "#")
	before, query, ok := strings.Cut(s, "?")
	s = cleanAddress(before)
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		if ok && !isTracking(part) {
			kept = append(kept, part)
		}
	}
	if len(kept) > 0 {
		s += "?" + strings.Join(kept, "&")
	}
	if anchored {
		s += "#" + fragment
	}
	return s
}

// cleanAddress returns an address without scheme, "www." and default port, and with its host in lower case, because
// sites move between these spellings and servers of one pool may differ in them. It also removes slashes at the
// end. Other texts stay as they are.
func cleanAddress(s string) string {
	rest := dropScheme(s)
	if !strings.HasPrefix(rest, "//") {
		return rest
	}
	host, tail, deeper := strings.Cut(rest[2:], "/")
	host = strings.TrimPrefix(strings.ToLower(host), "www.")
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
	if tail = strings.TrimRight(tail, "/"); deeper && tail != "" {
		return "//" + host + "/" + tail
	}
	return "//" + host
}

// isAddress reports whether a text is a web address.
func isAddress(s string) bool {
	return strings.HasPrefix(dropScheme(s), "//") && len(dropScheme(s)) < len(s)
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

// resolve resolves ref relative to base, which may be relative, too.
func resolve(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil || base == "" {
		return ref
	}
	r, err := url.Parse(strings.TrimSpace(ref))
	if err != nil {
		return ref
	}
	s := b.ResolveReference(r).String()
	if !b.IsAbs() && b.Host == "" && !strings.HasPrefix(b.Path, "/") && !r.IsAbs() && r.Host == "" && !strings.HasPrefix(r.Path, "/") {
		return strings.TrimPrefix(s, "/") // net/url makes every path begin there
	}
	return s
}
