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

// absolute returns the address that ref stands for in a document at base. An absolute address stays as it is
// written, and so does any if base is none.
func absolute(base, ref string) string {
	if ref == "" || !isOnWeb(base) {
		return ref
	}
	if r, err := url.Parse(strings.TrimSpace(ref)); err != nil || r.Scheme != "" {
		return ref
	}
	return resolve(base, ref)
}

// AbsoluteLink returns the page of a feed as an absolute address. base is the address of its document.
func AbsoluteLink(base, link string) string { return absolute(base, link) }

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
				value := unescape(a.value)
				s := absoluteAttribute(at, string(a.name), value)
				if string(a.name) == "url" {
					s = absolute(at, value)
				}
				if s != value {
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

// absoluteAttribute returns an attribute's value with absolute addresses. An address within the content itself, such
// as that of a footnote, stays.
func absoluteAttribute(base, name, value string) string {
	switch name {
	case "href", "src", "poster", "cite", "longdesc", "data":
		if strings.HasPrefix(strings.TrimSpace(value), "#") {
			return value
		}
		return absolute(base, value)
	case "srcset":
		return absoluteSet(base, value)
	}
	return value
}

// absoluteSet makes the addresses of a srcset absolute (HTML, 4.8.4.2.1): candidates with commas between them, each an
// address, white space and a descriptor.
func absoluteSet(base, set string) string {
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
		b.WriteString(absolute(base, ref))
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

// absolute returns the content that the element gets; ok is false if it keeps its own.
func (l *leafElement) absolute() (content string, ok bool) {
	text := l.text.String()
	if l.html {
		s := absoluteHTML(l.base, text)
		return htmlText(s), s != text
	}
	if text = strings.TrimSpace(text); text == "" || text[0] == '#' || !l.ok(text) {
		return "", false
	}
	s := absolute(l.base, text)
	return escapeAny(s), s != text
}

// maxGrowth bounds the growth of a text by absolute addresses, in bytes beyond twice its size. Otherwise an item full
// of short addresses below a base of 4 KiB would become several hundred times as large. Text beyond it keeps its
// addresses as they are written.
const maxGrowth = 16 << 10

// absoluteHTML returns HTML with absolute addresses. Tags without relative addresses keep their bytes.
func absoluteHTML(base, doc string) string {
	if strings.IndexByte(doc, '<') < 0 || !isOnWeb(base) {
		return doc
	}
	var b strings.Builder
	for z := html.NewTokenizer(strings.NewReader(doc)); ; {
		kind, raw := z.Next(), string(z.Raw())
		switch kind {
		case html.ErrorToken:
			b.WriteString(raw) // an incomplete tag
			return b.String()
		case html.StartTagToken, html.SelfClosingTagToken:
			if b.Len() > 2*len(doc)+maxGrowth {
				break
			}
			t, changed := z.Token(), false
			for i, a := range t.Attr {
				if t.Data == "base" && a.Key == "href" {
					base = resolve(base, a.Val)
				}
				t.Attr[i].Val = absoluteAttribute(base, a.Key, a.Val)
				changed = changed || t.Attr[i].Val != a.Val
			}
			if changed {
				raw = t.String()
			}
		}
		b.WriteString(raw)
	}
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
		if s := absoluteHTML(base, stringOf(value)); s != stringOf(value) {
			return marshal(s)
		}
	case value[0] == '"' && slices.Contains(addressMembers, name):
		if s := absolute(base, stringOf(value)); s != stringOf(value) {
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
