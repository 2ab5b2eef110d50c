package feed

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Readers get documents from this node, and many ignore xml:base. A relative address would lead them to the node.
// So every address in a written document is absolute. The rest of the source keeps its bytes.

// absolute returns a reference as an absolute address; ok is false if it stays as it is: it is one already, it is a
// place in the same document, or nothing is known to which it is relative.
func absolute(base, ref string) (address string, ok bool) {
	ref = strings.TrimSpace(ref)
	if ref == "" || ref[0] == '#' || !isOnWeb(base) {
		return "", false
	}
	r, err := url.Parse(ref)
	if err != nil || r.Scheme != "" {
		return "", false
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	return b.ResolveReference(r).String(), true
}

// absoluteXML returns a tidy document, or an item of one with the scope that it has there, with absolute addresses.
// base is the address of the source.
func absoluteXML(doc []byte, outer scope, base string) []byte {
	var (
		edits []edit
		leaf  *leafElement // the last element that started, if it has had no other content than text
	)
	replace := func(start, end int, text string) { edits = append(edits, edit{start, end, text}) }
	for w := walk(doc, outer); w.step(); {
		switch {
		case w.starts():
			at := resolve(base, w.scope.value("xml:base"))
			for _, a := range w.attrs {
				if s, ok := absoluteAttribute(string(a.name), unescape(a.value), at); ok {
					start := offset(doc, a.value)
					replace(start, start+len(a.value), escapeAny(s))
				}
			}
			if leaf = nil; !w.latest.empty {
				leaf = w.leaf(at)
			}
		case w.ends():
			if leaf != nil {
				if s, ok := leaf.absolute(); ok {
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

// offset returns where a part of a document begins.
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

// absoluteAttribute returns the value of an attribute that holds an address, as an absolute one.
func absoluteAttribute(name, value, base string) (string, bool) {
	switch name {
	case "href", "src", "url", "poster":
		return absolute(base, value)
	case "srcset":
		return absoluteSet(base, value)
	}
	return "", false
}

// absoluteSet makes the addresses of a srcset absolute (HTML, 4.8.4.2.1): candidates with commas between them, each an
// address, white space and a descriptor.
func absoluteSet(base, set string) (string, bool) {
	var b strings.Builder
	changed := false
	const space = " \t\r\n\f"
	for {
		skipped := len(set) - len(strings.TrimLeft(set, space+","))
		b.WriteString(set[:skipped])
		if set = set[skipped:]; set == "" {
			return b.String(), changed
		}
		end := cmp.Or(strings.IndexAny(set, space)+1, len(set)+1) - 1
		ref := strings.TrimRight(set[:end], ",")
		if s, ok := absolute(base, ref); ok {
			b.WriteString(s)
			changed = true
		} else {
			b.WriteString(ref)
		}
		if set = set[len(ref):]; end > len(ref) {
			continue // a comma after the address: there is no descriptor
		}
		end = cmp.Or(strings.IndexByte(set, ',')+1, len(set)+1) - 1
		b.WriteString(set[:end])
		set = set[end:]
	}
}

// A leafElement is an element whose text is an address or HTML.
type leafElement struct {
	from int // where its content begins
	base string
	html bool
	text strings.Builder
	ok   func(text string) bool // whether the text is an address
}

// leaf returns the element that starts if its text is an address or HTML; otherwise nil.
func (w *walker) leaf(base string) *leafElement {
	l := &leafElement{from: w.latest.end, base: base, ok: func(string) bool { return true }}
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

// absolute returns the content that the element gets.
func (l *leafElement) absolute() (string, bool) {
	text := l.text.String()
	if l.html {
		s, ok := absoluteHTML(text, l.base)
		return htmlText(s), ok
	}
	if text = strings.TrimSpace(text); text == "" || !l.ok(text) {
		return "", false
	}
	s, ok := absolute(l.base, text)
	return escapeAny(s), ok
}

// absoluteHTML returns HTML with absolute addresses. Tags without a relative address keep their bytes.
func absoluteHTML(doc, base string) (string, bool) {
	if strings.IndexByte(doc, '<') < 0 || !isOnWeb(base) {
		return doc, false
	}
	var b strings.Builder
	changed := false
	for z := html.NewTokenizer(strings.NewReader(doc)); z.Next() != html.ErrorToken; {
		raw := slices.Clone(z.Raw()) // Token overwrites it
		t := z.Token()
		isTag := t.Type == html.StartTagToken || t.Type == html.SelfClosingTagToken
		if isTag && t.Data == "base" {
			for _, a := range t.Attr {
				if a.Key == "href" {
					base = resolve(base, a.Val)
				}
			}
		}
		edited := false
		for i := range t.Attr {
			if a := &t.Attr[i]; isTag && a.Key != "url" {
				if s, ok := absoluteAttribute(a.Key, a.Val, base); ok {
					a.Val, edited = s, true
				}
			}
		}
		if edited {
			b.WriteString(t.String())
		} else {
			b.Write(raw)
		}
		changed = changed || edited
	}
	if !changed {
		return doc, false
	}
	return b.String(), true
}

// absoluteJSON returns a JSON Feed, or a value in one below a name, with absolute addresses.
func absoluteJSON(name string, value []byte, base string) []byte {
	var out []byte
	done := 0
	switch {
	case len(value) == 0:
	case value[0] == '{':
		members(value, func(m member) {
			if part := absoluteJSON(m.name, value[m.value:m.end], base); !bytes.Equal(part, value[m.value:m.end]) {
				out = append(append(out, value[done:m.value]...), part...)
				done = m.end
			}
		})
	case value[0] == '[':
		var parts [][]byte
		changed := false
		elements(value, func(e []byte) {
			parts = append(parts, absoluteJSON(name, e, base))
			changed = changed || !bytes.Equal(parts[len(parts)-1], e)
		})
		if changed {
			return append(append([]byte("["), bytes.Join(parts, []byte(",\n"))...), ']')
		}
	case value[0] == '"' && name == "content_html":
		if s, ok := absoluteHTML(stringOf(value), base); ok {
			return marshal(s)
		}
	case value[0] == '"' && slices.Contains(addressMembers, name):
		if s, ok := absolute(base, stringOf(value)); ok {
			return marshal(s)
		}
	}
	return append(out, value[done:]...)
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
		base := Binding{"xml:base", resolve(final, scopeOf(it.Scope).value("xml:base"))}.sanitised()
		rest := slices.DeleteFunc(slices.Clone(it.Scope), func(b Binding) bool { return b.Prefix == base.Prefix })
		if len(rest) == MaxScope || len(base.URI) > maxField {
			continue
		}
		at, _ := slices.BinarySearchFunc(rest, base.Prefix, func(b Binding, p string) int { return strings.Compare(b.Prefix, p) })
		it.Scope = slices.Insert(rest, at, base)
	}
	return nil
}

func (f *Feed) redirectedJSON(final string) error {
	if raw := absoluteJSON("", f.Head.Raw, final); len(raw) <= MaxHead {
		head, err := ReadHead(JSON, raw)
		if err != nil {
			return err
		}
		f.Head = head
	}
	for i, it := range f.Items {
		if raw := absoluteJSON("", it.Raw, final); !bytes.Equal(raw, it.Raw) && len(raw) <= MaxItem {
			item, err := ReadItem(JSON, raw, nil, it.Qualifiers)
			if err != nil {
				return err
			}
			f.Items[i] = item
		}
	}
	return nil
}
