package feed

import (
	"bytes"
	"html"
)

const xmlSpace = "http://www.w3.org/XML/1998/namespace"

// scope has the namespace bindings in force at a place of a document, the innermost last. It also has xml:base
// and xml:lang, as bindings of these names, with their values as written.
type scope []Binding

// find returns the index of a prefix's binding, or -1.
func (s scope) find(prefix []byte) int {
	n := len(prefix)
	for i := len(s) - 1; i >= 0; i-- {
		// Most prefixes differ in length or at the end.
		if p := s[i].Prefix; len(p) == n && (n == 0 || p[n-1] == prefix[n-1] && p == string(prefix)) {
			return i
		}
	}
	return -1
}

// uri returns the namespace of a prefix, or "".
func (s scope) uri(prefix []byte) string {
	if string(prefix) == "xml" {
		return xmlSpace
	}
	if i := s.find(prefix); i >= 0 {
		return s[i].URI
	}
	return ""
}

// boundPrefix returns the prefix that an attribute binds.
func boundPrefix(name []byte) (prefix []byte, ok bool) {
	if !has(name, "xmlns") {
		return nil, false
	}
	if len(name) == len("xmlns") {
		return nil, true
	}
	return name[len("xmlns:"):], name[len("xmlns")] == ':'
}

// push adds the bindings of a start tag.
func (s scope) push(attrs []attribute) scope {
	for _, a := range attrs {
		if prefix, ok := boundPrefix(a.name); ok {
			s = append(s, Binding{string(prefix), unescape(a.value)})
			continue
		}
		switch string(a.name) {
		case "xml:base", "xml:lang":
			if value := unescape(a.value); len(value) <= maxField {
				s = append(s, Binding{string(a.name), value})
			}
		}
	}
	return s
}

// value returns the value in force of a name that has a constant spelling, such as xml:lang.
func (s scope) value(name string) string { return s.uri([]byte(name)) }

// base returns the base in force, as far as the document says: each xml:base refers to the one around it.
func (s scope) base() string {
	r := resolver{scope: s}
	r.know()
	return r.base
}

// scopeOf returns the scope of bindings from outside.
func scopeOf(bindings []Binding) scope {
	return append(make(scope, 0, len(bindings)+8), bindings...)
}

// unescape returns the text of character data or of an attribute's value. A tidy document has only the five
// entities of XML.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '&') < 0 {
		return string(b)
	}
	return html.UnescapeString(string(b))
}

// wellKnown are prefixes that documents use without declaring them, with their usual namespaces.
var wellKnown = map[string]string{
	"atom":       nsAtom,
	"content":    nsContent,
	"dc":         nsDC,
	"dcterms":    "http://purl.org/dc/terms/",
	"feedburner": "http://rssnamespace.org/feedburner/ext/1.0",
	"geo":        "http://www.w3.org/2003/01/geo/wgs84_pos#",
	"georss":     "http://www.georss.org/georss",
	"googleplay": "http://www.google.com/schemas/play-podcasts/1.0",
	"itunes":     "http://www.itunes.com/dtds/podcast-1.0.dtd",
	"media":      "http://search.yahoo.com/mrss/",
	"podcast":    "https://podcastindex.org/namespace/1.0",
	"rdf":        nsRDF,
	"slash":      "http://purl.org/rss/1.0/modules/slash/",
	"sy":         nsSy,
	"thr":        "http://purl.org/syndication/thread/1.0",
	"wfw":        "http://wellformedweb.org/CommentAPI/",
	"xhtml":      nsXHTML,
	"xlink":      "http://www.w3.org/1999/xlink",
	"xsi":        "http://www.w3.org/2001/XMLSchema-instance",
}

const (
	nsAtom    = "http://www.w3.org/2005/Atom"
	nsAtom03  = "http://purl.org/atom/ns#"
	nsContent = "http://purl.org/rss/1.0/modules/content/"
	nsDC      = "http://purl.org/dc/elements/1.1/"
	nsRDF     = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	nsRSS10   = "http://purl.org/rss/1.0/"
	nsSy      = "http://purl.org/rss/1.0/modules/syndication/"
	nsXHTML   = "http://www.w3.org/1999/xhtml"
)

// namespaceOf returns the namespace for a prefix that its document does not declare.
func namespaceOf(prefix string) string {
	if uri, ok := wellKnown[prefix]; ok {
		return uri
	}
	return "urn:tidings:undeclared:" + prefix
}
