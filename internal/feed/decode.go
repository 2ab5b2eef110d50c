package feed

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"unicode/utf8"

	"tidings/internal/charset"
)

// errDecoded says that a document is too large once it is converted.
var errDecoded = fmt.Errorf("%w: more than %d bytes in UTF-8", ErrLimit, MaxDocument)

// decode returns a document in UTF-8, without byte order mark and without characters that XML forbids. The
// charset is named by the mark, then by the HTTP header, then by the document itself. If none of them is right
// the document is broken: nonsense would look like an edit of every item.
func decode(doc []byte, contentType string) ([]byte, repairs, error) {
	if len(doc) > MaxDocument {
		return nil, 0, fmt.Errorf("%w: %d bytes, more than %d", ErrLimit, len(doc), MaxDocument)
	}
	_, params, _ := mime.ParseMediaType(contentType)
	unmarked := bytes.TrimPrefix(doc, []byte("\xef\xbb\xbf"))
	doc, wrong, err := charset.UTF8(doc, MaxDocument, params["charset"], prologCharset(unmarked))
	switch {
	case errors.Is(err, charset.ErrLarge):
		return nil, 0, errDecoded
	case err != nil:
		return nil, 0, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var bad repairs
	if wrong {
		bad = badCharset
	}
	doc, dropped := dropInvalid(doc)
	if len(doc) > MaxDocument {
		return nil, 0, errDecoded
	}
	if dropped {
		bad |= badCharacters
	}
	return doc, bad, nil
}

// prologCharset returns the encoding that an XML declaration names.
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

// dropInvalid returns doc without characters that XML forbids, and with U+FFFD for invalid UTF-8. If there is
// nothing to change it returns doc itself and false.
func dropInvalid(doc []byte) ([]byte, bool) {
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
