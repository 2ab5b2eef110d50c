// Package charset makes UTF-8 of documents whose charset is said by many, not all of whom
// are right.
//
// What says it counts in the order in which callers give it, after the byte order mark; but nobody's word
// against what the bytes show. A header or a mark comes and goes with the replica that
// answers, the bytes do not: so a document means the same however it is labelled, as far as
// bytes can tell.
//
// The package leaves to its callers where in a document of theirs a charset is named, and
// what to do about one that cannot be told.
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
	// ErrUnknown says that bytes show only that all who spoke are wrong: nonsense would look
	// like a change of everything.
	ErrUnknown = errors.New("its charset cannot be told: it is neither UTF-8 nor what the origin says, if it says any")
	// ErrLarge says that a document in UTF-8 is larger than it may be.
	ErrLarge = errors.New("too large in UTF-8")
)

// UTF8 returns a document in UTF-8, as far as its charset is able to say: what is not, stays as it
// was. The names are what others call its charset, who speaks first is believed
// first; empty and unknown ones say nothing. Wrong tells that they misled, or that none of them
// said what had to be guessed. The document has at most limit bytes then, or the error is ErrLarge.
func UTF8(doc []byte, limit int, names ...string) (out []byte, wrong bool, err error) {
	enc, mark := marked(doc)
	doc = doc[mark:]
	if enc == nil {
		if mark > 0 {
			names = append([]string{"utf-8"}, names...)
		}
		if enc, wrong, err = declared(doc, names); err != nil {
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
		if bytes.HasPrefix(doc, []byte(m.mark)) {
			return m.enc, m.size
		}
	}
	return nil, 0
}

// declared returns the encoding of a document without a mark of its own; none is UTF-8.
func declared(doc []byte, names []string) (enc encoding.Encoding, wrong bool, err error) {
	look := lookAt(doc)
	said := false // that it is something else
	for _, name := range names {
		enc, err := htmlindex.Get(name)
		if name == "" || err != nil {
			continue
		}
		if canonical, _ := htmlindex.Name(enc); look.fits(canonical, enc) {
			if canonical == "utf-8" {
				enc = nil
			}
			return enc, said, nil
		}
		said = true
	}
	switch {
	case look.utf8():
		return nil, said, nil
	case look.western():
		return charmap.Windows1252, true, nil
	}
	return nil, false, ErrUnknown
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
