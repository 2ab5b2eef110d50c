package feed

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"unicode"
)

// An opmlLexer reads the tags of an OPML document, of which parts may not be XML: people edit lists by hand, and
// programs write addresses and titles without escaping them. Each tag is read by itself, so that a fault ends with
// the line that has it.
type opmlLexer struct {
	doc    []byte
	at     int // offset after the latest token
	latest opmlToken
	lines  struct{ at, count int } // line ends before an offset
	stop   int                     // offset of the next tag of a list behind the latest token, as far as it is known
	absent map[string]bool         // marks that do not occur in the rest of the document
}

const (
	opmlText = iota
	opmlStart
	opmlEnd
)

// An opmlToken is a tag, or the text before one.
type opmlToken struct {
	kind   int
	raw    []byte
	name   string // in lower case, without prefix
	attrs  []opmlAttr
	closed bool // a start tag is its own end
}

type opmlAttr struct{ name, value string }

const (
	// maxOPMLTag is the longest tag, in bytes. Outlines with whole descriptions have a few KiB.
	maxOPMLTag = 64 << 10
	// maxOPMLAttrs bounds the attributes of one tag; others are not read. Readers write ten.
	maxOPMLAttrs = 64
	// maxQuotes bounds the quotation marks within an attribute. Beyond it the first one ends the attribute.
	maxQuotes = 16
)

// line returns the number of the line of an offset in the latest token.
func (l *opmlLexer) line(offset int) int {
	at := l.at - len(l.latest.raw) + offset
	l.lines.count += bytes.Count(l.doc[l.lines.at:at], []byte("\n"))
	l.lines.at = at
	return l.lines.count + 1
}

// next reads the next token. Comments, declarations and CDATA sections are left out.
func (l *opmlLexer) next() bool {
	for l.at < len(l.doc) {
		rest := l.doc[l.at:]
		l.latest = opmlToken{}
		switch {
		case rest[0] != '<':
			l.take(bytes.IndexByte(rest, '<'), len(rest))
		case has(rest, "<!--"):
			l.skip(rest, "-->")
			continue
		case has(rest, "<![CDATA["):
			l.skip(rest, "]]>")
			continue
		case has(rest, "<!"), has(rest, "<?"):
			l.skip(rest, ">")
			continue
		case has(rest, "</"):
			l.latest.kind = opmlEnd
			l.latest.name, _ = tagName(rest[2:])
			n := 2
			if i := bytes.IndexAny(rest[1:], "<>") + 1; rest[i] == '>' {
				n = i + 1
			}
			l.take(n, n)
		default:
			l.startTag(rest)
		}
		return true
	}
	l.latest = opmlToken{}
	return false
}

// take ends the latest token after n bytes, or after all if n is negative.
func (l *opmlLexer) take(n, all int) {
	if n < 0 {
		n = all
	}
	l.latest.raw = l.doc[l.at : l.at+n]
	l.at += n
}

// skip goes on behind a mark, or behind the < if there is none. It looks for a mark that is absent only once, because a
// document can have a million comments without their ends.
func (l *opmlLexer) skip(rest []byte, mark string) {
	if !l.absent[mark] {
		if n := bytes.Index(rest, []byte(mark)); n >= 0 {
			l.at += n + len(mark)
			return
		}
		if l.absent == nil {
			l.absent = map[string]bool{}
		}
		l.absent[mark] = true
	}
	l.at++
}

// tagName returns the name at the start of s, without its prefix, and its length.
func tagName(s []byte) (name string, n int) {
	for n < len(s) && (s[n] >= 0x80 || s[n] == '_' || s[n] == '-' || s[n] == '.' || s[n] == ':' || unicode.IsLetter(rune(s[n])) || unicode.IsDigit(rune(s[n]))) {
		n++
	}
	local := s[bytes.LastIndexByte(s[:n], ':')+1 : n]
	return strings.ToLower(string(local)), n
}

// startTag reads a start tag, which ends at the latest where another tag of the list begins.
func (l *opmlLexer) startTag(rest []byte) {
	t := &l.latest
	if l.stop <= l.at {
		l.stop = l.at + 1 + nextTag(rest[1:])
	}
	limit := min(l.stop-l.at, maxOPMLTag)
	s := rest[:limit]
	var i int
	if t.name, i = tagName(s[1:]); i == 0 { // the text "a < b"
		l.take(1, 0)
		return
	}
	t.kind = opmlStart
	for i++; i < len(s); {
		switch c := s[i]; {
		case c == '>':
			t.closed = s[i-1] == '/'
			l.take(i+1, 0)
			return
		case unicode.IsLetter(rune(c)) || c == '_' || c >= 0x80:
			name, n := attrName(s[i:])
			i += n
			from, value, ok := attrValue(s, i)
			if i = from; ok && len(t.attrs) < maxOPMLAttrs {
				t.attrs = append(t.attrs, opmlAttr{name, value})
			}
		default: // a blank, or something that does not belong there
			i++
		}
	}
	t.closed = !hasFold(rest[limit:], "</outline")
	l.take(limit, 0)
}

// attrName returns the name of an attribute at the start of s. A prefix belongs to it, because text and x:text are
// two attributes.
func attrName(s []byte) (string, int) {
	_, n := tagName(s)
	return strings.ToLower(string(s[:n])), max(n, 1)
}

// attrValue returns the value of an attribute whose name ends at i, and the offset behind it. ok is false if there is
// none.
func attrValue(s []byte, i int) (after int, value string, ok bool) {
	at := i + spaceLen(s[i:])
	if at == len(s) || s[at] != '=' {
		return i, "", false
	}
	at++
	at += spaceLen(s[at:])
	if at == len(s) {
		return at, "", false
	}
	quote := s[at]
	if quote != '"' && quote != '\'' {
		end := bytes.IndexAny(s[at:], " \t\r\n>")
		if end < 0 {
			return len(s), "", false
		}
		value := s[at : at+end]
		if s[at+end] == '>' {
			value = bytes.TrimSuffix(value, []byte("/"))
		}
		return at + len(value), strings.Trim(unescapeAttr(value), typographicQuotes), true
	}
	at++
	end := closingQuote(s[at:], quote)
	if end < 0 {
		return len(s), "", false
	}
	return at + end + 1, unescapeAttr(s[at : at+end]), true
}

// typographicQuotes are the marks that word processors, and programs that escape too much, put around a value.
const typographicQuotes = "\"'“”„‟«»‘’‚‛"

// closingQuote returns the offset of the quotation mark that ends a value: the first one that the tag's end or
// another attribute follows. In well-formed XML that is the first one; in others a value may have quotation marks
// within. If no mark is like that, the first one counts; without any the result is negative.
func closingQuote(s []byte, quote byte) int {
	first := -1
	for i, seen := 0, 0; seen < maxQuotes; seen++ {
		n := bytes.IndexByte(s[i:], quote)
		if n < 0 {
			break
		}
		i += n
		if first < 0 {
			first = i
		}
		if afterValue.Match(s[i+1 : min(len(s), i+1+maxAfterValue)]) {
			return i
		}
		i++
	}
	return first
}

// maxAfterValue is how far behind a quotation mark another attribute is looked for, in bytes.
const maxAfterValue = 256

var (
	// afterValue is what follows the value of an attribute: the end of the tag, or the next attribute.
	afterValue = regexp.MustCompile(`^[\s,;]*(?:/?>|(?:[\pL_][\pL\d_.:-]*[\s,;]+)*[\pL_][\pL\d_.:-]*\s*=\s*["'])`)
	// addressName and addressAttr are the name of the attribute that has the address of a feed, alone and with what
	// gives it a value. They match in the text as it is written: in lower case a text can be longer or shorter.
	addressName = regexp.MustCompile(`(?i)xmlurl`)
	addressAttr = regexp.MustCompile(`(?i)xmlurl\s*=`)
	// quotedAddress is an address in quotation marks.
	quotedAddress = regexp.MustCompile(`(?i)xmlurl\s*=\s*(?:"([^"'<>\s]+)"|'([^"'<>\s]+)')`)
)

// findAddress returns the address in a tag whose attributes cannot be told apart.
func (t *opmlToken) findAddress() string {
	m := quotedAddress.FindSubmatch(t.raw)
	if m == nil {
		return ""
	}
	return unescapeAttr(append(bytes.Clone(m[1]), m[2]...))
}

// nextTag returns the offset of the next tag of a list, or the length of s.
func nextTag(s []byte) int {
	for i := 0; ; i++ {
		n := bytes.IndexByte(s[i:], '<')
		if n < 0 {
			return len(s)
		}
		i += n
		for _, tag := range []string{"<outline", "</outline", "</body", "</opml"} {
			if hasFold(s[i:], tag) {
				return i
			}
		}
	}
}

// entity is a reference as XML has it. One without its semicolon is a part of an address: &copy=1 is no ©.
var entity = regexp.MustCompile(`&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});`)

// unescapeAttr returns the value of an attribute, without the characters that XML forbids.
func unescapeAttr(raw []byte) string {
	value := entity.ReplaceAllStringFunc(string(raw), html.UnescapeString)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == '\ufffe' || r == '\uffff' { // written as references
			return -1
		}
		return r
	}, value))
}

// hasFold reports whether s begins with a text of ASCII, in any case.
func hasFold(s []byte, text string) bool {
	return len(s) >= len(text) && strings.EqualFold(string(s[:len(text)]), text)
}
