// Package charset converts documents to UTF-8 whose charset is named in several places, some of which
// may be wrong.
//
// The byte order mark counts first, and then the names in the order in which the caller gives them, but
// none of them counts against the evidence of the bytes. A header or a mark may differ between the
// replicas of an origin, and the bytes do not. Therefore a document reads the same however it is
// labelled, as far as its bytes can tell.
//
// The caller knows where its documents name a charset, and what to do if the charset is unknown.
package charset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
)

var (
	// ErrUnknown says that the bytes contradict all names. Decoding them anyway would produce nonsense
	// that looks like a change of the whole document.
	ErrUnknown = errors.New("its charset cannot be told: it is neither UTF-8 nor what the origin says, if it says any")
	// ErrLarge says that the document is larger than the limit in UTF-8.
	ErrLarge = errors.New("too large in UTF-8")
)

// UTF8 returns a document in UTF-8. Bytes that are invalid in its charset stay as they are. names are
// the charsets that others claim, the most reliable first; empty and unknown names are ignored. wrong
// reports that a name was wrong, or that the charset was guessed without a name. A result of more than
// limit bytes is the error ErrLarge.
func UTF8(doc []byte, limit int, names ...string) (out []byte, wrong bool, err error) {
	enc, mark := byteOrderMark(doc)
	doc = doc[mark:]
	if enc == nil {
		if mark > 0 {
			names = append([]string{"utf-8"}, names...)
		}
		if enc, wrong, err = chooseEncoding(doc, names); err != nil {
			return nil, wrong, err
		}
	}
	if enc == nil {
		if len(doc) > limit {
			return nil, wrong, fmt.Errorf("%w: more than %d bytes", ErrLarge, limit)
		}
		return doc, wrong, nil
	}
	r := io.LimitReader(transform.NewReader(bytes.NewReader(doc), enc.NewDecoder()), int64(limit)+1)
	decoded := bytes.NewBuffer(make([]byte, 0, min(len(doc)+len(doc)/4+512, limit)))
	if _, err := decoded.ReadFrom(r); err != nil {
		return nil, wrong, fmt.Errorf("its charset: %w", err)
	}
	if decoded.Len() > limit {
		return nil, wrong, fmt.Errorf("%w: more than %d bytes", ErrLarge, limit)
	}
	return decoded.Bytes(), wrong, nil
}

// byteOrderMark returns the encoding that a byte order mark names, and the length of the mark. A nil
// encoding is UTF-8.
func byteOrderMark(doc []byte) (encoding.Encoding, int) {
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
		// These are not marks, but no other document begins with them.
		{"<\x00?\x00", 0, utf16(unicode.LittleEndian)},
		{"\x00<\x00?", 0, utf16(unicode.BigEndian)},
		{"<\x00\x00\x00", 0, utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM)},
		{"\x00\x00\x00<", 0, utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM)},
	} {
		if bytes.HasPrefix(doc, []byte(m.mark)) {
			return m.enc, m.size
		}
	}
	return nil, 0
}

// chooseEncoding returns the encoding of a document without a byte order mark. A nil encoding is UTF-8.
func chooseEncoding(doc []byte, names []string) (enc encoding.Encoding, wrong bool, err error) {
	stats := analyse(doc)
	contradicted := false // a name was wrong
	for _, name := range names {
		enc, err := htmlindex.Get(name)
		if name == "" || err != nil {
			continue
		}
		if canonical, _ := htmlindex.Name(enc); stats.fits(canonical, enc) {
			if canonical == "utf-8" {
				enc = nil
			}
			return enc, contradicted, nil
		}
		contradicted = true
	}
	switch {
	case stats.utf8():
		return nil, contradicted, nil
	case stats.western():
		return charmap.Windows1252, true, nil
	}
	return nil, false, ErrUnknown
}

// byteStats counts bytes that give evidence of a document's charset.
type byteStats struct {
	good, bad int // valid UTF-8 characters beyond ASCII, and invalid bytes
	isolated  int // bytes beyond ASCII in short runs or runs of few letters
	clustered int // bytes beyond ASCII in long runs of letters
}

const (
	// clusterLength is a run of letters beyond ASCII that no Western language has. In other languages
	// whole words consist of such letters.
	clusterLength = 4
	// manyChars is a number of characters that a two-byte charset hardly has in valid UTF-8 by chance:
	// one character in seven is valid by chance.
	manyChars = 8
)

func analyse(doc []byte) byteStats {
	var l byteStats
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
		if i-from >= clusterLength && 2*letters >= i-from {
			l.clustered += i - from
		} else {
			l.isolated += i - from
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

// utf8 reports whether most characters beyond ASCII are valid UTF-8. One broken character, as in a text
// that was cut at a byte, does not make it another charset.
func (l byteStats) utf8() bool { return l.good > l.bad || l.good+l.bad == 0 }

// western reports whether the bytes may be Windows-1252, in which letters beyond ASCII stand among
// others.
func (l byteStats) western() bool { return l.isolated >= l.clustered }

// fits reports whether a name agrees with the bytes. The bytes distinguish UTF-8 from charsets with one
// byte a character, in which hardly a word, and no text, is valid UTF-8 by chance. Windows-1252, which
// is also named ISO 8859-1 and ASCII, is the default of servers that nobody configured.
func (l byteStats) fits(name string, enc encoding.Encoding) bool {
	_, oneByte := enc.(*charmap.Charmap)
	switch {
	case name == "utf-8":
		return l.utf8()
	case name == "utf-16le", name == "utf-16be", name == "replacement":
		return false // the document was read as ASCII
	case l.bad == 0 && (oneByte && l.good > 0 || l.good >= manyChars):
		return false
	case name == "windows-1252":
		return l.western()
	}
	return true
}
