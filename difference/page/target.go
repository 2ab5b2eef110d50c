package page

import (
	"regexp"
	"slices"
	"strings"
)

// maxTarget is the maximum length of a target in bytes. Longer ones are cut.
const maxTarget = 2 << 10

// target returns the significant part of a link's target, or "" if the link leads nowhere.
func target(href string) string {
	if len(href) > 2*maxTarget {
		href = strings.ToValidUTF8(href[:2*maxTarget], "")
	}
	href = blanks.Replace(strings.TrimFunc(strings.ToValidUTF8(href, "\uFFFD"), isBlank))
	href = strings.Map(func(c rune) rune {
		if isBlank(c) {
			return -1
		}
		return c
	}, href)
	if scheme, _, has := strings.Cut(href, ":"); href == "#" || has && nonLinkSchemes[strings.ToLower(scheme)] {
		return ""
	}
	if len(href) > maxTarget {
		href = strings.ToValidUTF8(href[:maxTarget], "") + "…"
	}
	href = parentheses.Replace(href) // would end a link in a line
	if strings.Contains(href, "%") {
		href = escapes.ReplaceAllStringFunc(href, strings.ToUpper)
	}
	path, fragment, has := strings.Cut(href, "#")
	path, query, asks := strings.Cut(path, "?")
	result := maskTokens(path)
	if asks {
		result += parameters(query)
	}
	if has {
		result += "#" + maskTokens(fragment)
	}
	return result
}

// blanks encodes blanks within an address (URL Standard, 4.4); line ends are dropped.
var blanks = strings.NewReplacer(" ", "%20")

var parentheses = strings.NewReplacer("(", "%28", ")", "%29")

// nonLinkSchemes are the schemes of programs, and of documents within the page itself.
var nonLinkSchemes = map[string]bool{"javascript": true, "vbscript": true, "data": true, "blob": true}

// parameters returns the parameters of a query that do not track visitors, sorted by name.
func parameters(query string) string {
	var kept []string
	for p := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(p, "=")
		if p != "" && !isTracking(strings.ToLower(name), value) {
			kept = append(kept, name+"="+maskTokens(value))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	slices.SortStableFunc(kept, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return "?" + strings.Join(kept, "&")
}

// name returns the name of a parameter.
func name(parameter string) string {
	key, _, _ := strings.Cut(parameter, "=")
	return key
}

// escapes matches percent-encoded bytes, in which case does not count (RFC 3986, 6.2.2.1).
var escapes = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// isTracking reports whether a parameter of a URL tracks visitors, sessions or times.
func isTracking(name, value string) bool {
	for _, prefix := range []string{"utm_", "mc_", "pk_", "mtm_", "hsa_", "_hs", "__hs", "ga_", "vero_", "wt_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "fbclid", "gclid", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "twclid", "igshid", "ttclid", "_ga", "_gl", "ref_src", "ref_url", "sessionid", "session_id",
		"phpsessid", "jsessionid", "aspsessionid", "nonce", "cachebuster":
		return true
	case "sid", "_t", "_", "cb", "timestamp", "ts", "rand": // a short value may be the number of an article
		return len(value) >= minIDLength && !strings.ContainsFunc(value, func(c rune) bool { return c >= 0x80 || kindOf(byte(c)) == other && c != '.' })
	}
	return false
}

// minIDLength is the minimum length of a meaningless value of a name like "ts".
const minIDLength = 8

// longToken is the minimum length of a random token of letters and digits. No name is so long without a dash, a
// dot or a slash.
const longToken = 16

// maskTokens replaces random tokens by an ellipsis: long runs of letters and digits that are hexadecimal, or in
// which digits, small and capital letters alternate as by chance. A run of digits is a number, which identifies
// something.
func maskTokens(s string) string {
	if len(s) < longToken {
		return s
	}
	var b strings.Builder
	for begin := 0; begin < len(s); {
		end := begin
		digits, hex, turns, kind, seen := 0, true, 0, other, [4]bool{}
		for end < len(s) {
			c := s[end]
			was := kind
			switch kind = kindOf(c); kind {
			case other:
			case digit:
				digits++
			default:
				hex = hex && c|0x20 <= 'f'
			}
			if kind == other {
				break
			}
			if end > begin && kind != was {
				turns++
			}
			seen[kind] = true
			end++
		}
		switch {
		case end-begin >= longToken && digits > 0 && (hex && digits < end-begin || seen[small] && seen[capital] && turns*4 >= end-begin):
			b.WriteString("…")
		case end == begin:
			end++
			fallthrough
		default:
			b.WriteString(s[begin:end])
		}
		begin = end
	}
	return b.String()
}

// Kinds of bytes.
const (
	other = iota
	digit
	small
	capital
)

func kindOf(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return digit
	case 'a' <= c && c <= 'z':
		return small
	case 'A' <= c && c <= 'Z':
		return capital
	}
	return other
}
