package feed

import (
	"cmp"
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"tidings/internal/markup"
)

// A resolver makes the addresses of a document or an item absolute, up to a bound.
type resolver struct {
	document string // address of the document
	scope    scope  // where the addresses stand
	isKnown  bool   // base and url are those of scope
	base     string
	url      *url.URL       // base; nil if it is none on the Web
	bases    []resolvedBase // of the latest place, the innermost last, and perhaps of one within it
	spare    int            // how many bytes the addresses may still become longer; beyond it they stay as they are written
}

// A resolvedBase is an xml:base.
type resolvedBase struct{ written, resolved string }

const (
	// maxGrowth bounds how much longer an item becomes by absolute addresses, beyond its own size in bytes. Otherwise
	// an item full of short addresses below a base of 4 KiB would become several hundred times as large.
	maxGrowth = 16 << 10
	// maxDocumentGrowth is the same for a document. It is enough for 2,000 items with ten addresses each that become
	// longer by 50 bytes.
	maxDocumentGrowth = 1 << 20
)

// enter moves to another place of the document. The scope must stay as it is until the next place.
func (r *resolver) enter(s scope) { r.scope, r.isKnown = s, false }

// know finds the base of the place. A place may have no relative address, and the next one may have the same base, so
// that nothing is resolved before it must be, nor twice.
func (r *resolver) know() {
	if r.isKnown {
		return
	}
	r.isKnown = true
	base, n := r.document, 0
	for _, b := range r.scope {
		if b.Prefix != "xml:base" {
			continue
		}
		if n == len(r.bases) || r.bases[n].written != b.URI {
			inner := resolve(base, b.URI)
			if len(inner) > maxField { // no item could have it from its document
				inner = base
			}
			r.bases = append(r.bases[:n], resolvedBase{b.URI, inner})
		}
		base = r.bases[n].resolved
		n++
	}
	if base != r.base {
		r.base, r.url = base, onWeb(base)
	}
}

// absolute returns the address that ref stands for. An absolute address stays as it is written, and so does any if the
// base is none.
func (r *resolver) absolute(ref string) string {
	if ref == "" || r.spare == 0 {
		return ref
	}
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil || u.Scheme != "" {
		return ref
	}
	if r.know(); r.url == nil {
		return ref
	}
	s := r.url.ResolveReference(u).String()
	if r.spare -= max(0, len(s)-len(ref)); r.spare < 0 {
		r.spare = 0
		return ref
	}
	return s
}

// attribute returns an attribute's value with absolute addresses. An address within the content itself, such
// as that of a footnote, stays.
func (r *resolver) attribute(name, value string) string {
	switch name {
	case "href", "src", "poster", "cite", "longdesc", "data":
		if strings.HasPrefix(strings.TrimSpace(value), "#") {
			return value
		}
		return r.absolute(value)
	case "srcset":
		return r.set(value)
	}
	return value
}

// set makes the addresses of a srcset absolute (HTML, 4.8.4.2.1): candidates with commas between them, each an
// address, white space and a descriptor.
func (r *resolver) set(set string) string {
	const space = " \t\r\n\f"
	var b strings.Builder
	for {
		skipped := len(set) - len(strings.TrimLeft(set, space+","))
		b.WriteString(set[:skipped])
		if set = set[skipped:]; set == "" {
			return b.String()
		}
		end := cmp.Or(strings.IndexAny(set, space)+1, len(set)+1) - 1
		ref := strings.TrimRight(set[:end], ",")
		b.WriteString(r.absolute(ref))
		if set = set[len(ref):]; end > len(ref) {
			continue // a comma after the address: there is no descriptor
		}
		end = cmp.Or(strings.IndexByte(set, ',')+1, len(set)+1) - 1
		b.WriteString(set[:end])
		set = set[end:]
	}
}

// html returns HTML with absolute addresses. Tags without relative addresses keep their bytes.
func (r *resolver) html(doc string) string {
	if strings.IndexByte(doc, '<') < 0 {
		return doc
	}
	if r.know(); r.url == nil {
		return doc
	}
	outside := *r
	defer func() { r.base, r.url = outside.base, outside.url }()
	var (
		b       strings.Builder
		hasBase bool // the first <base> counts (HTML, 4.2.3)
	)
	for z := markup.NewTokenizer([]byte(doc), false); ; {
		kind, raw := z.Next(), string(z.Raw())
		switch kind {
		case html.ErrorToken:
			b.WriteString(raw) // an incomplete tag
			return b.String()
		case html.StartTagToken, html.SelfClosingTagToken:
			t, changed := z.Token(), false
			for i, a := range t.Attr {
				s := r.attribute(a.Key, a.Val)
				if t.Data == "base" && a.Key == "href" && !hasBase {
					hasBase = true
					if u := onWeb(s); u != nil && len(s) <= maxField {
						r.base, r.url = s, u
					}
				}
				t.Attr[i].Val = s
				changed = changed || s != a.Val
			}
			if changed {
				raw = t.String()
			}
		}
		b.WriteString(raw)
	}
}
