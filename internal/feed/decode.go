package feed

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

// decode returns a document in UTF-8, without byte order mark and without
// characters that XML forbids.
//
// What says the charset counts in this order: the mark, the HTTP header, the
// document's own word, the look of the bytes; but nobody's word against what the
// bytes show (fits). A header or a mark comes and goes with the replica that
// answers, the bytes do not: so a document means the same however it is labelled,
// as far as bytes can tell. Where they show only that all who spoke are wrong,
// the document is broken: nonsense would look like an edit of every item.
func decode(doc []byte, contentType string) ([]byte, repairs, error) {
	if len(doc) > MaxDocument {
		return nil, 0, fmt.Errorf("%w: %d bytes, more than %d", ErrLimit, len(doc), MaxDocument)
	}
	var bad repairs
	enc, mark := marked(doc)
	doc = doc[mark:]
	if enc == nil {
		var err error
		if enc, bad, err = declaredCharset(doc, contentType, mark > 0); err != nil {
			return nil, 0, err
		}
	}
	if enc != nil {
		r := io.LimitReader(transform.NewReader(bytes.NewReader(doc), enc.NewDecoder()), MaxDocument+1)
		decoded := bytes.NewBuffer(make([]byte, 0, min(len(doc)+len(doc)/4+512, MaxDocument)))
		if _, err := decoded.ReadFrom(r); err != nil {
			return nil, 0, fmt.Errorf("%w: its charset: %w", ErrBroken, err)
		}
		if decoded.Len() > MaxDocument {
			return nil, 0, fmt.Errorf("%w: more than %d bytes in UTF-8", ErrLimit, MaxDocument)
		}
		doc = decoded.Bytes()
	}
	doc, dropped := dropImpossible(doc)
	if len(doc) > MaxDocument {
		return nil, 0, fmt.Errorf("%w: more than %d bytes in UTF-8", ErrLimit, MaxDocument)
	}
	if dropped {
		bad |= badCharacters
	}
	return doc, bad, nil
}

// marked returns what a byte order mark says, and its length; no encoding is
// UTF-8.
func marked(doc []byte) (encoding.Encoding, int) {
	utf16 := func(e unicode.Endianness) encoding.Encoding { return unicode.UTF16(e, unicode.IgnoreBOM) }
	for _, m := range []struct {
		mark string
		size int
		enc  encoding.Encoding
	}{
		{"\xef\xbb\xbf", 3, nil},
		{"\xff\xfe\x00\x00", 4, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
		{"\x00\x00\xfe\xff", 4, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
		{"\xff\xfe", 2, utf16(unicode.LittleEndian)},
		{"\xfe\xff", 2, utf16(unicode.BigEndian)},
		// No marks, but nothing else begins so.
		{"<\x00?\x00", 0, utf16(unicode.LittleEndian)},
		{"\x00<\x00?", 0, utf16(unicode.BigEndian)},
		{"<\x00\x00\x00", 0, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
		{"\x00\x00\x00<", 0, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	} {
		if has(doc, m.mark) {
			return m.enc, m.size
		}
	}
	return nil, 0
}

// declaredCharset returns the encoding of a document whose mark, if there is one, is
// that of UTF-8; none is UTF-8.
func declaredCharset(doc []byte, contentType string, marked bool) (encoding.Encoding, repairs, error) {
	_, params, _ := mime.ParseMediaType(contentType)
	names := []string{params["charset"], prologCharset(doc)}
	if marked {
		names = append([]string{"utf-8"}, names...)
	}
	look := lookAt(doc)
	said := false // that it is something else
	for _, name := range names {
		enc, err := htmlindex.Get(name)
		if name == "" || err != nil {
			continue
		}
		if canonical, _ := htmlindex.Name(enc); look.fits(canonical, enc) {
			bad := repairs(0)
			if said {
				bad = badCharset
			}
			if canonical == "utf-8" {
				enc = nil
			}
			return enc, bad, nil
		}
		said = true
	}
	switch {
	case look.utf8() && said:
		return nil, badCharset, nil
	case look.utf8():
		return nil, 0, nil
	case look.western():
		return charmap.Windows1252, badCharset, nil
	}
	return nil, 0, fmt.Errorf("%w: its charset cannot be told: it is neither UTF-8 nor what the origin says, if it says any", ErrBroken)
}

// prologCharset is the encoding that an XML declaration names.
func prologCharset(doc []byte) string {
	doc = doc[spaceLen(doc):]
	if !has(doc, "<?xml") {
		return ""
	}
	doc = doc[:min(len(doc), 1024)]
	n := bytes.Index(doc, []byte("?>"))
	if n < 0 {
		return ""
	}
	l := lexer{doc: append([]byte("<a "), append(bytes.Clone(doc[len("<?xml"):n]), '>')...)}
	l.next()
	name, _ := l.attr("encoding")
	return string(name)
}

// A look is what the bytes of a document show of its charset.
type look struct {
	good, bad int // characters of UTF-8 beyond ASCII, and bytes that belong to none
	alone     int // bytes beyond ASCII that stand among a few of their kind
	crowded   int // those in long runs of letters
}

const (
	// crowd is a run of letters beyond ASCII that no Western language has: the
	// words of others are made of nothing else.
	crowd = 4
	// manyChars are so many characters that a charset of two bytes a
	// character does not look like UTF-8 by chance: one in seven does.
	manyChars = 8
)

func lookAt(doc []byte) look {
	var l look
	for i := 0; i < len(doc); {
		if doc[i] < utf8.RuneSelf {
			i++
			continue
		}
		from, letters := i, 0
		for i < len(doc) && doc[i] >= utf8.RuneSelf {
			if doc[i] >= 0xc0 { // in ISO 8859-1
				letters++
			}
			i++
		}
		if i-from >= crowd && 2*letters >= i-from {
			l.crowded += i - from
		} else {
			l.alone += i - from
		}
		for run := doc[from:i]; len(run) > 0; {
			r, size := utf8.DecodeRune(run)
			if r == utf8.RuneError && size == 1 {
				l.bad++
			} else {
				l.good++
			}
			run = run[size:]
		}
	}
	return l
}

// utf8 tells whether most of what is not ASCII is UTF-8: one torn character, as
// where a text was shortened by bytes, does not make a document another charset's.
func (l look) utf8() bool { return l.good > l.bad || l.good+l.bad == 0 }

// western tells whether the bytes can be Windows-1252, where letters beyond ASCII
// stand among others.
func (l look) western() bool { return l.alone >= l.crowded }

// fits tells whether what somebody says agrees with the bytes. It is the look that
// tells UTF-8 from charsets of one byte a character, where hardly a word is UTF-8
// by chance, and no text. Windows-1252, also known as ISO 8859-1 and ASCII, is
// what servers say that were never told.
func (l look) fits(name string, enc encoding.Encoding) bool {
	_, oneByte := enc.(*charmap.Charmap)
	switch {
	case name == "utf-8":
		return l.utf8()
	case name == "utf-16le", name == "utf-16be", name == "replacement":
		return false // it was read as ASCII
	case l.bad == 0 && (oneByte && l.good > 0 || l.good >= manyChars):
		return false
	case name == "windows-1252":
		return l.western()
	}
	return true
}

// dropImpossible returns doc without what XML forbids, with U+FFFD for what is not
// UTF-8; doc itself, and false, if there is nothing of that.
func dropImpossible(doc []byte) ([]byte, bool) {
	var out []byte
	done := 0
	for i := 0; i < len(doc); {
		c := doc[i]
		if c >= 0x20 && c < utf8.RuneSelf || isSpace(c) {
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		torn := r == utf8.RuneError && size == 1
		if torn || !isChar(r) {
			if out == nil {
				out = make([]byte, 0, len(doc)+len(doc)/8)
			}
			out = append(out, doc[done:i]...)
			if torn {
				out = append(out, "\ufffd"...)
			}
			done = i + size
		}
		i += size
	}
	if out == nil {
		return doc, false
	}
	return append(out, doc[done:]...), true
}
