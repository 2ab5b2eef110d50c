package feed

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// reference reads the reference at the start of b. If XML does not know the reference, ok is false and mended
// replaces its size bytes.
func reference(b []byte) (size int, mended string, ok bool) {
	const longest = 33 // longest name in HTML, including & and ;
	n := bytes.IndexByte(b[:min(len(b), longest)], ';')
	if n < 2 {
		return 1, "&amp;", false
	}
	name := string(b[1:n])
	switch name {
	case "amp", "lt", "gt", "quot", "apos":
		return n + 1, "", true
	}
	if name[0] == '#' {
		digits, base := name[1:], 10
		if strings.HasPrefix(digits, "x") {
			digits, base = digits[1:], 16
		}
		r, err := strconv.ParseUint(digits, base, 32)
		switch {
		case err != nil:
			return 1, "&amp;", false
		case !isChar(rune(r)):
			return n + 1, "\ufffd", false
		}
		return n + 1, "", true
	}
	s := html.UnescapeString(string(b[:n+1]))
	if strings.HasSuffix(s, ";") { // the name is unknown, or only a part of it is known
		return 1, "&amp;", false
	}
	return n + 1, escape(s), false
}

// isChar reports whether XML allows a character.
func isChar(r rune) bool {
	return r >= 0x20 && r < 0xd800 || r == '\t' || r == '\n' || r == '\r' ||
		r >= 0xe000 && r <= 0xfffd || r >= 0x10000 && r <= utf8.MaxRune
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// escape returns s as character data or as the value of an attribute in double quotes.
func escape(s string) string { return escaper.Replace(s) }

// isTidyValue reports whether an attribute's value can stay as written.
func isTidyValue(b []byte) bool {
	if bytes.IndexByte(b, '<') >= 0 {
		return false
	}
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '&')
		if n < 0 {
			return true
		}
		size, _, ok := reference(b[i+n:])
		if !ok {
			return false
		}
		i += n + size
	}
}
