package feed

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	text    kind = iota // text up to the next markup
	stray               // a '<' that begins no markup
	cdata               //
	comment             //
	instr               // a processing instruction or the XML declaration
	doctype             //
	start               // a start tag, or the tag of an empty element
	end                 //
)

// A token is a part of a document. All tokens together are the document.
type token struct {
	kind       kind
	start, end int    // offsets in the document
	name       []byte // of start, end and instr
	empty      bool   // <name/>
	malformed  bool   // a tag that XML forbids, but that can be understood
}

type attribute struct {
	name, value []byte // value as written, between the quotes
}

// A lexer splits a document into tokens. It ignores nesting, accepts everything that it can understand, and
// keeps nothing: it takes linear time and constant memory.
type lexer struct {
	doc    []byte
	pos    int
	latest token
	attrs  []attribute // of the last start tag
	err    error       // why there are no more tokens
}

// next moves to the next token and stores it in latest. It returns false at the end of the document and on an
// error.
func (l *lexer) next() bool {
	t := &l.latest
	*t = token{start: l.pos}
	if l.err != nil || l.pos >= len(l.doc) {
		return false
	}
	rest := l.doc[l.pos:]
	switch {
	case rest[0] != '<':
		t.kind = text
		n := bytes.IndexByte(rest, '<')
		if n < 0 {
			n = len(rest)
		}
		l.pos += n
	case has(rest, "<![CDATA["):
		t.kind = cdata
		l.until(len("<![CDATA["), "]]>", "CDATA section")
	case has(rest, "<!--"):
		t.kind = comment
		l.until(len("<!--"), "-->", "comment")
	case has(rest, "<?"):
		t.kind = instr
		t.name = rest[2 : 2+nameLen(rest[2:])]
		l.until(len("<?"), "?>", "processing instruction")
	case has(rest, "<!"):
		t.kind = doctype
		l.declaration()
	case has(rest, "</"):
		l.endTag(t)
	default:
		l.startTag(t)
	}
	t.end = l.pos
	return l.err == nil
}

func has(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// until moves to the end of the next closing mark.
func (l *lexer) until(skip int, mark, what string) {
	n := bytes.Index(l.doc[l.pos+skip:], []byte(mark))
	if n < 0 {
		l.truncated("in a " + what)
		return
	}
	l.pos += skip + n + len(mark)
}

func (l *lexer) truncated(where string) {
	l.err = fmt.Errorf("%w: %s", ErrTruncated, where)
}

// declaration moves to the end of a document type declaration. Its internal subset is ignored.
func (l *lexer) declaration() {
	depth := 0
	var quote byte
	for i := l.pos + 2; i < len(l.doc); i++ {
		switch c := l.doc[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case has(l.doc[i:], "<!--"):
			n := bytes.Index(l.doc[i+4:], []byte("-->"))
			if n < 0 {
				l.truncated("in a comment")
				return
			}
			i += 4 + n + 2
		case c == '<':
			depth++
		case c == '>' && depth > 0:
			depth--
		case c == '>':
			l.pos = i + 1
			return
		}
	}
	l.truncated("in a document type declaration")
}

func (l *lexer) endTag(t *token) {
	rest := l.doc[l.pos+2:]
	n := nameLen(rest)
	if n == 0 {
		t.kind = stray
		l.pos++
		return
	}
	t.kind, t.name = end, rest[:n]
	gap := spaceLen(rest[n:])
	switch {
	case n+gap == len(rest):
		l.truncated("in an end tag")
	case rest[n+gap] == '>':
		l.pos += 2 + n + gap + 1
	default: // such as </b foo> or </b<…
		t.malformed = true
		m := bytes.IndexAny(rest[n:], "<>")
		if m < 0 {
			l.truncated("in an end tag")
			return
		}
		l.pos += 2 + n + m
		if l.doc[l.pos] == '>' {
			l.pos++
		}
	}
}

func (l *lexer) startTag(t *token) {
	rest := l.doc[l.pos+1:]
	n := nameLen(rest)
	if n == 0 {
		t.kind = stray
		l.pos++
		return
	}
	t.kind, t.name = start, rest[:n]
	l.attrs = l.attrs[:0]
	i := l.pos + 1 + n
	for {
		gap := spaceLen(l.doc[i:])
		i += gap
		if i >= len(l.doc) {
			l.truncated("in a tag")
			return
		}
		switch c := l.doc[i]; {
		case c == '>':
			l.pos = i + 1
			return
		case c == '/' && i+1 < len(l.doc) && l.doc[i+1] == '>':
			t.empty = true
			l.pos = i + 2
			return
		case c == '<': // <a <b> is read as <a><b>
			t.malformed = true
			l.pos = i
			return
		}
		n := nameLen(l.doc[i:])
		if n == 0 {
			t.malformed = true
			i++
			continue
		}
		a := attribute{name: l.doc[i : i+n]}
		i += n
		if gap == 0 {
			t.malformed = true
		}
		var quoted bool
		if a.value, i, quoted = l.value(i); !quoted {
			t.malformed = true
		}
		if a.value == nil {
			a.value = a.name
		}
		if len(l.attrs) == maxAttributes {
			l.err = fmt.Errorf("%w: an element with more than %d attributes", ErrLimit, maxAttributes)
			return
		}
		l.attrs = append(l.attrs, a)
	}
}

// value reads ="value" at i and returns its end. The value is nil if there is none.
func (l *lexer) value(i int) (value []byte, after int, quoted bool) {
	j := i + spaceLen(l.doc[i:])
	if j >= len(l.doc) || l.doc[j] != '=' {
		return nil, i, false
	}
	j++
	j += spaceLen(l.doc[j:])
	if j >= len(l.doc) {
		return nil, j, false
	}
	if quote := l.doc[j]; quote == '"' || quote == '\'' {
		n := bytes.IndexByte(l.doc[j+1:], quote)
		if n < 0 {
			return nil, len(l.doc), false // the tag does not end either
		}
		return l.doc[j+1 : j+1+n], j + n + 2, true
	}
	n := bytes.IndexAny(l.doc[j:], " \t\r\n<>")
	if n < 0 {
		n = len(l.doc) - j
	}
	return l.doc[j : j+n], j + n, false
}

// attr returns an attribute of the last start tag, as written.
func (l *lexer) attr(name string) ([]byte, bool) {
	for _, a := range l.attrs {
		if string(a.name) == name {
			return a.value, true
		}
	}
	return nil, false
}

func spaceLen(b []byte) int {
	n := 0
	for n < len(b) && isSpace(b[n]) {
		n++
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// letters are letters beyond ASCII that every edition of XML allows in names and that occur in practice.
var letters = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0xc0, Hi: 0xd6, Stride: 1}, {Lo: 0xd8, Hi: 0xf6, Stride: 1}, {Lo: 0xf8, Hi: 0xff, Stride: 1}, // Latin
	{Lo: 0x410, Hi: 0x44f, Stride: 1},                                        // Cyrillic
	{Lo: 0x3041, Hi: 0x3094, Stride: 1}, {Lo: 0x30a1, Hi: 0x30fa, Stride: 1}, // Kana
	{Lo: 0x4e00, Hi: 0x9fa5, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, // Han, Hangul
}, LatinOffset: 3}

// nameLen returns the length of the name at the start of b, including colons.
func nameLen(b []byte) int {
	n := 0
	for n < len(b) {
		c := b[n]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == ':':
			n++
		case n > 0 && ('0' <= c && c <= '9' || c == '-' || c == '.'):
			n++
		case c < utf8.RuneSelf:
			return n
		default:
			r, size := utf8.DecodeRune(b[n:])
			if !unicode.Is(letters, r) {
				return n
			}
			n += size
		}
	}
	return n
}

// split splits a name at its colon. ok is false if XML namespaces forbid the name.
func split(name []byte) (prefix, local []byte, ok bool) {
	i := bytes.IndexByte(name, ':')
	if i < 0 {
		return nil, name, true
	}
	prefix, local = name[:i], name[i+1:]
	return prefix, local, i > 0 && nameLen(local) > 0 && bytes.IndexByte(local, ':') < 0
}
