package page

import (
	"regexp"
	"slices"
	"strings"
)

// maxTarget is the longest target in bytes; of a link's that is longer, it is the beginning.
const maxTarget = 2 << 10

// target is where a link leads, without what says nothing about that: "" if that is no place.
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
	href = parentheses.Replace(href) // which end a link, as lines have it
	if strings.Contains(href, "%") {
		href = escapes.ReplaceAllStringFunc(href, strings.ToUpper)
	}
	path, fragment, has := strings.Cut(href, "#")
	path, query, asks := strings.Cut(path, "?")
	of := maskTokens(path)
	if asks {
		of += parameters(query)
	}
	if has {
		of += "#" + maskTokens(fragment)
	}
	return of
}

// blanks within an address are one (URL Standard, 4.4), ends of lines are none.
var blanks = strings.NewReplacer(" ", "%20")

var parentheses = strings.NewReplacer("(", "%28", ")", "%29")

// nowhere are the schemes of what is no place: programs, and documents in the page itself.
var nonLinkSchemes = map[string]bool{"javascript": true, "vbscript": true, "data": true, "blob": true}

// parameters are those of a query that do not follow visitors about, by their names.
func parameters(query string) string {
	var of []string
	for p := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(p, "=")
		if p != "" && !isTracking(strings.ToLower(name), value) {
			of = append(of, name+"="+maskTokens(value))
		}
	}
	if len(of) == 0 {
		return ""
	}
	slices.SortStableFunc(of, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return "?" + strings.Join(of, "&")
}

// name is that of a parameter.
func name(parameter string) string {
	of, _, _ := strings.Cut(parameter, "=")
	return of
}

// escapes matches bytes as URLs write them, of which %c3 is %C3 (RFC 3986, 6.2.2.1).
var escapes = regexp.MustCompile(`%[0-9a-fA-F]{2}`)

// tracks says whether a parameter of a URL tells who came from where, or when.
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
	case "sid", "_t", "_", "cb", "timestamp", "ts", "rand": // or a story's number, where it is short
		return len(value) >= minIDLength && !strings.ContainsFunc(value, func(c rune) bool { return c >= 0x80 || kindOf(byte(c)) == other && c != '.' })
	}
	return false
}

// passing is how long what a name like "ts" stands for is at least, if it means nothing.
const minIDLength = 8

// longToken is from how many letters and digits on a word of a URL with both is a token
// without meaning: no name has so many without a dash, a dot or a slash.
const longToken = 16

// tokens puts an ellipsis in the place of tokens without meaning: long runs of letters and digits that
// are hexadecimal, or in which digits, small and large letters follow each other as by chance. Digits
// alone are a number, which names something.
func maskTokens(s string) string {
	if len(s) < longToken {
		return s
	}
	var of strings.Builder
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
			of.WriteString("…")
		case end == begin:
			end++
			fallthrough
		default:
			of.WriteString(s[begin:end])
		}
		begin = end
	}
	return of.String()
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
