package feed

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// A tidier makes a document well-formed, with namespaces, and checks the limits. It leaves correct parts
// unchanged, to the byte. Of a correct document it returns a slice, from the root's start tag to its end tag.
type tidier struct {
	lexer
	open      []element
	scope     scope
	unbound   []string // prefixes that nobody declared
	fault     string   // description of the first problem; "" if none is known
	checkRoot func(local []byte, uri string) error
	itemEnd   int      // end in doc of the last whole item; 0: there is none yet
	around    [][]byte // names of the elements around that item

	closedChannel bool // the channel of an RSS document ended last

	out  []byte // the tidy document up to done
	done int    // offset in doc; 0: nothing has been written yet
	bad  repairs
}

// An element is an open element.
type element struct {
	name  []byte
	scope int // number of bindings in force outside of it
}

// tidy tidies the document at the start of doc, in a scope. rooted checks the root element, before anything
// else in the document can fail.
func tidy(doc []byte, outer scope, rooted func(local []byte, uri string) error) ([]byte, repairs, error) {
	t := tidier{lexer: lexer{doc: doc}, scope: outer, checkRoot: rooted}
	return t.tidy()
}

func (t *tidier) tidy() ([]byte, repairs, error) {
	doc := t.doc
	root, err := t.prolog()
	if err != nil {
		return nil, t.bad, err
	}
	from := root.start
	t.done = from
	if err := t.start(root); err != nil {
		return nil, t.bad, err
	}
	for len(t.open) > 0 {
		if !t.next() {
			if t.err == nil {
				t.truncated(fmt.Sprintf("inside <%s>", clipBytes(t.open[len(t.open)-1].name)))
			}
			if !t.nearlyComplete() {
				return nil, t.bad, t.err
			}
			return t.declare(t.complete(), root), t.bad, nil
		}
		if err := t.handle(t.latest); err != nil {
			return nil, t.bad, err
		}
		if len(t.out) > MaxDocument {
			return nil, t.bad, fmt.Errorf("%w: more than %d bytes once it is mended", ErrLimit, MaxDocument)
		}
	}
	if t.out == nil && len(t.unbound) == 0 {
		return doc[from:t.pos], t.bad, nil
	}
	return t.declare(append(t.out, doc[t.done:t.pos]...), root), t.bad, nil
}

// prolog returns the root's start tag.
func (t *tidier) prolog() (token, error) {
	for {
		ok := t.next()
		tok := t.latest
		switch {
		case !ok && t.err != nil:
			return tok, t.err
		case !ok:
			return tok, ErrEmpty
		case tok.kind == start:
			return tok, nil
		case tok.kind == doctype && isHTML(t.doc[tok.start:tok.end]):
			return tok, fmt.Errorf("a web page, %w", ErrNotFeed)
		case tok.kind == text && spaceLen(t.doc[tok.start:tok.end]) == tok.end-tok.start,
			tok.kind == comment, tok.kind == instr, tok.kind == doctype:
		default:
			return tok, fmt.Errorf("%w: it begins with %q", ErrNotFeed, clipBytes(bytes.TrimSpace(t.doc)))
		}
	}
}

func isHTML(doctype []byte) bool {
	words := bytes.Fields(doctype)
	return len(words) > 1 && len(words[1]) >= 4 && bytes.EqualFold(words[1][:4], []byte("html"))
}

// clipBytes shortens untrusted bytes for an error.
func clipBytes(b []byte) []byte {
	if len(b) > 40 {
		b = b[:40]
	}
	return bytes.ToValidUTF8(b, nil)
}

func (t *tidier) handle(tok token) error {
	switch b := t.doc[tok.start:tok.end]; tok.kind {
	case text:
		t.references(tok)
	case stray:
		t.replace(tok.start, tok.end, "&lt;", badReferences)
	case comment:
		if inner := b[len("<!--") : len(b)-len("-->")]; bytes.Contains(inner, []byte("--")) || bytes.HasSuffix(inner, []byte("-")) {
			t.drop(tok)
		}
	case instr:
		after := b[2+len(tok.name):]
		if len(tok.name) == 0 || bytes.IndexByte(tok.name, ':') >= 0 || bytes.EqualFold(tok.name, []byte("xml")) ||
			spaceLen(after) == 0 && string(after) != "?>" {
			t.drop(tok)
		}
	case doctype:
		t.drop(tok)
	case start:
		return t.start(tok)
	case end:
		return t.end(tok)
	}
	return nil
}

// replace writes s in place of a part of the document.
func (t *tidier) replace(start, end int, s string, why repairs) {
	if t.out == nil {
		t.out = make([]byte, 0, len(t.doc)-t.done+len(t.doc)/8)
	}
	t.out = append(t.out, t.doc[t.done:start]...)
	t.out = append(t.out, s...)
	t.done = end
	t.bad |= why
}

// drop removes a token. A space replaces it, so that the parts on both sides do not combine to something new.
func (t *tidier) drop(tok token) { t.replace(tok.start, tok.end, " ", badTags) }

// references repairs references and characters that character data cannot contain.
func (t *tidier) references(tok token) {
	b := t.doc[tok.start:tok.end]
	for i := 0; len(t.out) <= MaxDocument; { // larger output is refused after the token
		n := bytes.IndexByte(b[i:], '&')
		if n < 0 {
			break
		}
		i += n
		size, mended, ok := reference(b[i:])
		if !ok {
			t.escapeSectionEnds(b, tok.start, tok.start+i)
			t.replace(tok.start+i, tok.start+i+size, mended, badReferences)
		}
		i += size
	}
	t.escapeSectionEnds(b, tok.start, tok.end)
}

// escapeSectionEnds escapes "]]>" in text, from the written part up to end.
func (t *tidier) escapeSectionEnds(b []byte, start, end int) {
	for i := max(t.done, start); i < end; {
		n := bytes.Index(b[i-start:end-start], []byte("]]>"))
		if n < 0 {
			return
		}
		i += n + 3
		t.replace(i-1, i, "&gt;", badReferences)
	}
}

func (t *tidier) start(tok token) error {
	if len(t.open) == maxDepth {
		return fmt.Errorf("%w: more than %d elements within each other", ErrLimit, maxDepth)
	}
	prefix, local, ok := split(tok.name)
	if !ok || string(prefix) == "xmlns" || len(tok.name) > maxField { // names of open elements are compared with each end
		if len(t.open) == 0 {
			return fmt.Errorf("%w: it begins with <%s>", ErrNotFeed, clipBytes(tok.name))
		}
		t.drop(tok)
		return nil
	}
	before := len(t.scope)
	kept, sloppy := tidyDeclarations(t.attrs)
	t.attrs, tok.malformed = kept, tok.malformed || sloppy
	t.scope = t.scope.push(t.attrs)
	if len(t.scope) > maxBindings {
		return fmt.Errorf("%w: more than %d namespaces at one place", ErrLimit, maxBindings)
	}
	if len(t.open) == 0 {
		uri := t.scope.uri(prefix)
		if uri == "" && prefix != nil {
			uri = namespaceOf(string(prefix))
		}
		if err := t.checkRoot(local, uri); err != nil {
			return err
		}
	}
	if err := t.bind(prefix); err != nil {
		return err
	}
	if err := t.attributes(&tok); err != nil {
		return err
	}
	if tok.malformed {
		t.replace(tok.start, tok.end, t.formatTag(tok), badTags)
	}
	t.open = append(t.open, element{tok.name, before})
	if tok.empty {
		t.pop()
	}
	return nil
}

// tidyDeclarations drops declarations that XML namespaces forbid, and removes white space from namespace names,
// which some parsers refuse. It reports whether it changed anything.
func tidyDeclarations(attrs []attribute) (kept []attribute, sloppy bool) {
	kept = attrs[:0]
	for _, a := range attrs {
		if prefix, ok := boundPrefix(a.name); ok {
			uri := unescape(a.value)
			if strings.ContainsAny(uri, " \t\r\n") {
				uri = strings.Join(strings.Fields(uri), "")
				a.value = []byte(escape(uri))
				sloppy = true
			}
			if len(uri) > maxField || uri == "http://www.w3.org/2000/xmlns/" || string(prefix) == "xmlns" ||
				prefix != nil && (uri == "" || nameLen(prefix) == 0) || (uri == xmlSpace) != (string(prefix) == "xml") {
				sloppy = true
				continue
			}
		}
		kept = append(kept, a)
	}
	return kept, sloppy
}

// setFault stores the description of the first problem.
func (t *tidier) setFault(format string, args ...any) {
	if t.fault == "" {
		t.fault = fmt.Sprintf(format, args...)
	}
}

// bind makes sure that a prefix is declared.
func (t *tidier) bind(prefix []byte) error {
	if prefix == nil || string(prefix) == "xml" || t.scope.find(prefix) >= 0 {
		return nil
	}
	if slices.Contains(t.unbound, string(prefix)) {
		return nil
	}
	if len(t.unbound) == maxUnbound {
		return fmt.Errorf("%w: more than %d prefixes without a namespace", ErrBroken, maxUnbound)
	}
	t.unbound = append(t.unbound, string(prefix))
	root := t.latest.name
	if len(t.open) > 0 {
		root = t.open[0].name
	}
	t.setFault(`the prefix %s is not declared: add xmlns:%[1]s="%s" to <%s>`, clipBytes(prefix), namespaceOf(string(prefix)), clipBytes(root))
	t.bad |= badNamespaces
	return nil
}

// attributes drops invalid attributes, and decides whether the tag must be rewritten.
func (t *tidier) attributes(tok *token) error {
	kept := t.attrs[:0]
	for _, a := range t.attrs {
		prefix, _, ok := split(a.name)
		if !ok || t.repeats(kept, a.name) {
			tok.malformed = true
			continue
		}
		if string(prefix) != "xmlns" {
			if err := t.bind(prefix); err != nil {
				return err
			}
		}
		if !isTidyValue(a.value) {
			tok.malformed = true
		}
		kept = append(kept, a)
	}
	t.attrs = kept
	return nil
}

// repeats reports whether attrs already has an attribute of that name.
func (t *tidier) repeats(attrs []attribute, name []byte) bool {
	prefix, local, _ := split(name)
	for _, a := range attrs {
		if !bytes.HasSuffix(a.name, local) {
			continue
		}
		if bytes.Equal(a.name, name) {
			return true
		}
		p, l, _ := split(a.name)
		if p != nil && prefix != nil && bytes.Equal(l, local) && t.uriOf(p) == t.uriOf(prefix) {
			return true
		}
	}
	return false
}

// uriOf returns the namespace of a prefix, now or once it is declared.
func (t *tidier) uriOf(prefix []byte) string {
	if uri := t.scope.uri(prefix); uri != "" {
		return uri
	}
	return namespaceOf(string(prefix))
}

// formatTag returns a start tag in its correct form.
func (t *tidier) formatTag(tok token) string {
	var b strings.Builder
	b.WriteByte('<')
	b.Write(tok.name)
	for _, a := range t.attrs {
		b.WriteByte(' ')
		b.Write(a.name)
		b.WriteString(`="`)
		for i := 0; i < len(a.value) && b.Len() <= MaxDocument; i++ { // larger output is refused
			switch c := a.value[i]; c {
			case '<':
				b.WriteString("&lt;")
			case '"':
				b.WriteString("&quot;")
			case '&':
				size, mended, ok := reference(a.value[i:])
				if ok {
					mended = string(a.value[i : i+size])
				}
				b.WriteString(mended)
				i += size - 1
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
	}
	if tok.empty {
		b.WriteByte('/')
	}
	b.WriteByte('>')
	return b.String()
}

// end closes an element. Open elements inside are closed first, as browsers do, but never an item or an element
// around items. If such an element has no end, the document was truncated at an unknown place.
func (t *tidier) end(tok token) error {
	i := len(t.open) - 1
	for ; i >= 0; i-- {
		if bytes.Equal(t.open[i].name, tok.name) || t.isStructural(i) {
			break
		}
	}
	if i < 0 || !bytes.Equal(t.open[i].name, tok.name) {
		for j := range max(i, 0) {
			if t.isStructural(j) && bytes.Equal(t.open[j].name, tok.name) {
				return fmt.Errorf("%w: <%s> ends inside <%s>", ErrBroken, clipBytes(tok.name), clipBytes(t.open[i].name))
			}
		}
		t.setFault("</%s> closes nothing", clipBytes(tok.name))
		t.drop(tok)
		return nil
	}
	for j := len(t.open) - 1; j > i; j-- {
		t.setFault("<%s> is not closed", clipBytes(t.open[j].name))
		t.replace(tok.start, tok.start, "</"+string(t.open[j].name)+">", badTags)
		t.pop()
	}
	if tok.malformed {
		t.replace(tok.start, tok.end, "</"+string(tok.name)+">", badTags)
	}
	if _, local, _ := split(tok.name); i > 0 && t.isStructural(i) && !isNamed(local, "channel") {
		t.itemEnd, t.around = tok.end, t.around[:0]
		for _, e := range t.open[:i] {
			t.around = append(t.around, e.name)
		}
	}
	t.pop()
	return nil
}

// isStructural reports whether an open element is an item or contains items.
func (t *tidier) isStructural(i int) bool {
	if i == 0 {
		return true
	}
	if i > 2 {
		return false
	}
	local := localOf(t.open[i].name)
	return isNamed(local, "channel") || isNamed(local, "item") || isNamed(local, "entry")
}

func (t *tidier) pop() {
	last := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	t.closedChannel = len(t.open) == 1 && isNamed(localOf(last.name), "channel") && isNamed(localOf(t.open[0].name), "rss")
	t.scope = t.scope[:last.scope]
}

// declare binds the undeclared prefixes at the root of a tidy document.
func (t *tidier) declare(doc []byte, root token) []byte {
	if len(t.unbound) == 0 {
		return doc
	}
	var b strings.Builder
	for _, prefix := range t.unbound {
		b.WriteString(" xmlns:" + prefix + `="` + escape(namespaceOf(prefix)) + `"`)
	}
	at := 1 + len(root.name)
	out := make([]byte, 0, len(doc)+b.Len())
	out = append(out, doc[:at]...)
	out = append(out, b.String()...)
	return append(out, doc[at:]...)
}
