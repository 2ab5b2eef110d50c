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
// characters that XML forbids. What says the charset counts in this order: the
// mark, the HTTP header, the document's own word, the look of the bytes. A word
// for UTF-8 counts only if the bytes look like it.
func decode(doc []byte, contentType string) ([]byte, repairs, error) {
	if len(doc) > MaxDocument {
		return nil, 0, fmt.Errorf("%w: %d bytes, more than %d", ErrLimit, len(doc), MaxDocument)
	}
	var bad repairs
	enc, mark := marked(doc)
	doc = doc[mark:]
	if enc == nil && mark == 0 {
		enc, bad = declaredCharset(doc, contentType)
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

// declaredCharset returns the encoding of a document without a mark; none is
// UTF-8.
func declaredCharset(doc []byte, contentType string) (encoding.Encoding, repairs) {
	_, params, _ := mime.ParseMediaType(contentType)
	looks := looksLikeUTF8(doc)
	said := false
	for _, name := range []string{params["charset"], prologCharset(doc)} {
		enc, err := htmlindex.Get(name)
		if name == "" || err != nil {
			continue
		}
		said = true
		switch canonical, _ := htmlindex.Name(enc); canonical {
		case "utf-8":
			if looks {
				return nil, 0
			}
		case "utf-16le", "utf-16be", "replacement": // it was read as ASCII: no
		default:
			return enc, 0
		}
	}
	switch {
	case !looks:
		return charmap.Windows1252, badCharset
	case said:
		return nil, badCharset
	}
	return nil, 0
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

// looksLikeUTF8 tells whether most of what is not ASCII is UTF-8: one torn
// character, as where a text was shortened by bytes, does not make a document
// another charset's.
func looksLikeUTF8(doc []byte) bool {
	if utf8.Valid(doc) {
		return true
	}
	good, bad := 0, 0
	for i := 0; i < len(doc); {
		if doc[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		if r == utf8.RuneError && size == 1 {
			bad++
		} else {
			good++
		}
		i += size
	}
	return good > bad
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
