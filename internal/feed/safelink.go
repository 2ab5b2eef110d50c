package feed

import "strings"

// isSafeLink reports whether an address leads a browser to the Web or, if it is relative, to the document's own
// origin. It reads the scheme as browsers do: they ignore white space and control characters around an address,
// and tabs and line ends within it. "java\nscript:" is therefore a script.
func isSafeLink(address string) bool {
	address = strings.TrimLeftFunc(address, func(r rune) bool { return r <= ' ' })
	address = withoutBreaks.Replace(address)
	end := strings.IndexAny(address, ":/?#\\")
	if end < 0 || address[end] != ':' {
		return true
	}
	scheme := address[:end]
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// safeLink returns an address, or "" if a reader must not follow it.
func safeLink(address string) string {
	if !isSafeLink(address) {
		return ""
	}
	return address
}

// hasUnsafeLink reports whether a member of a JSON head contains an unsafe address, at any depth below the
// names of address fields. Readers make links and pictures of them.
func hasUnsafeLink(name string, value []byte) bool {
	switch name {
	case "home_page_url", "next_url", "icon", "favicon", "url", "avatar":
		s := stringOf(value)
		return s != "" && !isSafeLink(s)
	case "author":
		return objectHasUnsafeLink(value)
	case "authors":
		astray := false
		if len(value) > 0 && value[0] == '[' {
			elements(value, func(author []byte) { astray = astray || objectHasUnsafeLink(author) })
		}
		return astray
	}
	return false
}

func objectHasUnsafeLink(object []byte) (astray bool) {
	if len(object) == 0 || object[0] != '{' {
		return false
	}
	members(object, func(m member) { astray = astray || hasUnsafeLink(m.name, object[m.value:m.end]) })
	return astray
}
