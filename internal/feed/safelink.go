package feed

import "strings"

// isHarmless reports whether a browser that follows an address comes to the Web, or, as the address is
// relative, to where the document is. It reads the scheme as browsers do: white space and control
// characters around an address do not count, nor do tabs and ends of lines within it. So
// "java\nscript:" is a script.
func isSafeLink(address string) bool {
	address = strings.TrimLeftFunc(address, func(r rune) bool { return r <= ' ' })
	address = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(address)
	end := strings.IndexAny(address, ":/?#\\")
	if end < 0 || address[end] != ':' {
		return true
	}
	scheme := address[:end]
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

// harmlessOnly is an address, or nothing if a reader must not follow it.
func safeLink(address string) string {
	if !isSafeLink(address) {
		return ""
	}
	return address
}

// leadsAstray reports whether a member of a head's JSON holds, at whatever depth below names that are those of
// addresses, one that is not harmless. Readers make links and pictures of them.
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
