package feed

import (
	"bytes"
	"slices"
	"strings"
)

// Readers get documents from this node, and many ignore xml:base. A relative address would lead them to the node.
// So every address in a written document is absolute. The rest of the source keeps its bytes.

// absolute returns the address that ref stands for in a document at base. An absolute address stays as it is
// written, and so does any if base is none.
func absolute(base, ref string) string {
	r := resolver{document: base, spare: maxGrowth}
	return r.absolute(ref)
}

// AbsoluteLink returns the page of a feed as an absolute address. base is the address of its document.
func AbsoluteLink(base, link string) string { return absolute(base, link) }

// absoluteXML returns a tidy document, or an item of one with the scope that it has there, with absolute addresses.
// base is the address of the source.
func absoluteXML(doc []byte, outer scope, base string) []byte {
	var (
		edits []edit
		leaf  *leafElement // the last element that started, if it has had no other content than text
		r     = resolver{document: base, spare: min(len(doc), MaxDocument) + maxDocumentGrowth}
	)
	replace := func(start, end int, text string) { edits = append(edits, edit{start, end, text}) }
	for w := walk(doc, outer); w.step(); {
		switch {
		case w.starts():
			r.enter(w.scope)
			for _, a := range w.attrs {
				value := unescape(a.value)
				s := r.attribute(string(a.name), value)
				if string(a.name) == "url" {
					s = r.absolute(value)
				}
				if s != value {
					start := offset(doc, a.value)
					replace(start, start+len(a.value), escapeAny(s))
				}
			}
			if leaf = nil; !w.latest.empty {
				leaf = w.leaf()
			}
		case w.ends():
			if leaf != nil {
				r.enter(w.scope)
				if s, ok := leaf.absolute(&r); ok {
					replace(leaf.from, w.latest.start, s)
				}
			}
			leaf = nil
		case leaf != nil:
			leaf.text.WriteString(w.text())
		}
	}
	return edited(doc, edits)
}

// offset returns where a part of a document begins. The part must be sliced from doc without a capacity of its own,
// as doc[i:j], and never appended to: both then end at the same place in memory.
func offset(doc, part []byte) int { return cap(doc) - cap(part) }

// edited returns a document with edits, which are in order.
func edited(doc []byte, edits []edit) []byte {
	if edits == nil {
		return doc
	}
	out, done := make([]byte, 0, len(doc)+len(doc)/8), 0
	for _, e := range edits {
		out = append(append(out, doc[done:e.start]...), e.text...)
		done = e.end
	}
	return append(out, doc[done:]...)
}

// A leafElement is an element whose text is an address or HTML.
type leafElement struct {
	from int // where its content begins
	html bool
	text strings.Builder
	ok   func(text string) bool // whether the text is an address
}

// leaf returns the element that starts if its text is an address or HTML; otherwise nil.
func (w *walker) leaf() *leafElement {
	l := &leafElement{from: w.latest.end, ok: func(string) bool { return true }}
	kind := strings.ToLower(w.value("type"))
	switch string(w.local) {
	case "link", "comments", "docs", "url", "uri", "icon", "logo", "commentRss":
		return l
	case "guid": // a word is no address, although isPermaLink is true by default
		isPermalink := w.value("isPermaLink") != "false"
		l.ok = func(s string) bool { return isPermalink && s[0] == '/' }
		return l
	case "description", "encoded", "fullitem", "summary", "content", "subtitle", "title", "tagline", "info", "rights", "copyright":
		isText := string(w.local) == "title" || isAtom(w.uri)
		if l.html = true; isText && !strings.Contains(kind, "html") {
			return nil
		}
		return l
	}
	return nil
}

// absolute returns the content that the element gets; ok is false if it keeps its own.
func (l *leafElement) absolute(r *resolver) (content string, ok bool) {
	text := l.text.String()
	if l.html {
		s := r.html(text)
		return htmlText(s), s != text
	}
	if text = strings.TrimSpace(text); text == "" || text[0] == '#' || !l.ok(text) {
		return "", false
	}
	s := r.absolute(text)
	return escapeAny(s), s != text
}

// absoluteJSON returns a JSON Feed, or an item of one, with absolute addresses.
func absoluteJSON(doc []byte, base string) []byte {
	var (
		edits []edit
		visit func(name string, value []byte)
		r     = resolver{document: base, spare: min(len(doc), MaxDocument) + maxDocumentGrowth}
	)
	replace := func(value []byte, absolute func(string) string) {
		old := stringOf(value)
		if s := absolute(old); s != old {
			start := offset(doc, value)
			edits = append(edits, edit{start, start + len(value), string(marshal(s))})
		}
	}
	visit = func(name string, value []byte) {
		switch {
		case value[0] == '{':
			members(value, func(m member) { visit(m.name, value[m.value:m.end]) })
		case value[0] == '[':
			elements(value, func(e []byte) { visit(name, e) })
		case value[0] == '"' && name == "content_html":
			replace(value, r.html)
		case value[0] == '"' && slices.Contains(addressMembers, name):
			replace(value, r.absolute)
		}
	}
	visit("", doc)
	return edited(doc, edits)
}

// addressMembers are the members of a JSON Feed that are addresses.
var addressMembers = []string{"home_page_url", "url", "external_url", "image", "banner_image", "icon", "favicon", "next_url", "avatar"}

// Redirected notes that the document at one address came from another one, to which its relative addresses refer. It
// has no effect if they lead to the same places from both.
func (f *Feed) Redirected(requested, final string) error {
	if !isOnWeb(final) || resolve(requested, ".") == resolve(final, ".") {
		return nil
	}
	if f.Head.Format == JSON {
		return f.redirectedJSON(final)
	}
	root := walk(f.Head.Raw, nil)
	root.step()
	base := Binding{"xml:base", final}.sanitised().attribute()
	if _, has := root.attr("xml:base"); !has && len(f.Head.Raw)+len(base) <= MaxHead {
		at := 1 + len(root.latest.name)
		raw := slices.Concat(f.Head.Raw[:at], []byte(base), f.Head.Raw[at:])
		head, err := readHeadXML(f.Head.Format, raw)
		if err != nil {
			return err
		}
		f.Head = head
	}
	for i := range f.Items {
		it := &f.Items[i]
		base := Binding{"xml:base", resolve(final, scopeOf(it.Scope).base())}.sanitised()
		rest := slices.DeleteFunc(slices.Clone(it.Scope), func(b Binding) bool { return b.Prefix == base.Prefix })
		at, _ := slices.BinarySearchFunc(rest, base.Prefix, func(b Binding, p string) int { return strings.Compare(b.Prefix, p) })
		if rest = slices.Insert(rest, at, base); len(base.URI) <= maxField && isScopeSmall(rest) {
			it.Scope = rest
		}
	}
	return nil
}

func (f *Feed) redirectedJSON(final string) error {
	if raw := absoluteJSON(f.Head.Raw, final); len(raw) <= MaxHead {
		head, err := ReadHead(JSON, raw)
		if err != nil {
			return err
		}
		f.Head = head
	}
	for i, it := range f.Items {
		if raw := absoluteJSON(it.Raw, final); !bytes.Equal(raw, it.Raw) && len(raw) <= MaxItem {
			item, err := ReadItem(JSON, raw, nil, it.Qualifiers)
			if err != nil {
				return err
			}
			f.Items[i] = item
		}
	}
	return nil
}
