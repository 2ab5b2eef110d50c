// Package markup reads the tokens of HTML and XML in time and memory that depend on the size of a document alone.
package markup

import (
	"bytes"
	"io"

	"golang.org/x/net/html"
)

// MaxAttributes is how many attributes of a tag are read. The tokenizer of golang.org/x/net keeps the names of all of them
// to find those that are there twice, and clears that memory at each later tag, which then takes as long as the longest.
const MaxAttributes = 256

// A Tokenizer reads the tokens of a document, without the further attributes of tags with more than MaxAttributes.
type Tokenizer struct {
	*html.Tokenizer
	rest  []byte // from the next token on
	cdata bool
}

// NewTokenizer returns the tokenizer of a document in UTF-8. cdata says that it may have CDATA sections, as XML has.
func NewTokenizer(doc []byte, cdata bool) *Tokenizer {
	t := &Tokenizer{rest: doc, cdata: cdata}
	t.begin(bytes.NewReader(doc))
	return t
}

// begin continues with the tokens of r.
func (t *Tokenizer) begin(r io.Reader) {
	t.Tokenizer = html.NewTokenizer(r)
	t.AllowCDATA(t.cdata)
}

// Next reads the next token. The text of a script that begins with such a tag is read as a tag, too.
func (t *Tokenizer) Next() html.TokenType {
	if cut, end := longTag(t.rest); cut < end {
		t.begin(io.MultiReader(bytes.NewReader(t.rest[:cut]), bytes.NewReader(t.rest[end:])))
		t.rest = t.rest[end-cut:] // as long as what the tokenizer reads
	}
	kind := t.Tokenizer.Next()
	t.rest = t.rest[len(t.Raw()):]
	return kind
}

// Kinds of bytes that end a part of a tag.
const (
	tagBlank = 1 << iota
	tagSlash
	tagEnd
	tagEquals
)

var tagBytes = [256]uint8{' ': tagBlank, '\n': tagBlank, '\r': tagBlank, '\t': tagBlank, '\f': tagBlank, '/': tagSlash, '>': tagEnd, '=': tagEquals}

// longTag returns where the attributes of a start tag beyond MaxAttributes begin and end (HTML, 13.2.5.32 to 13.2.5.39).
// They are empty if there are none, or no such tag begins the text.
func longTag(text []byte) (cut, end int) {
	if len(text) < 2 || text[0] != '<' || text[1]|0x20 < 'a' || 'z' < text[1]|0x20 {
		return 0, 0
	}
	until := func(at int, kinds uint8) int { // the first byte of some kinds from at on
		for at < len(text) && tagBytes[text[at]]&kinds == 0 {
			at++
		}
		return at
	}
	skip := func(at int, kinds uint8) int {
		for at < len(text) && tagBytes[text[at]]&kinds != 0 {
			at++
		}
		return at
	}
	at := until(1, tagBlank|tagSlash|tagEnd)
	for n := 0; ; n++ {
		ended := at
		if at = skip(at, tagBlank|tagSlash); at == len(text) || text[at] == '>' {
			if at > ended && text[at-1] == '/' {
				at-- // the element is closed
			}
			break
		}
		if n == MaxAttributes {
			cut = skip(ended, tagBlank)
		}
		at = skip(until(at+1, tagBlank|tagSlash|tagEnd|tagEquals), tagBlank) // a name may begin with =
		if at == len(text) || text[at] != '=' {
			continue
		}
		at = skip(at+1, tagBlank)
		if at == len(text) || text[at] != '"' && text[at] != '\'' {
			at = until(at, tagBlank|tagEnd)
		} else if n := bytes.IndexByte(text[at+1:], text[at]); n >= 0 {
			at += n + 2
		} else {
			at = len(text)
		}
	}
	if cut == 0 {
		return 0, 0
	}
	return cut, at
}
