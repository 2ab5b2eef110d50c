package words

import (
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// A Span is a place of a text that has a position of its own.
type Span struct {
	Start, End int      // byte offsets
	Forms      []string // the word and its variants, or a letter of a script without blanks
	Letter     bool     // it is such a letter
}

// Spans returns the positions of a text with their places, to show a reader what was found. Tokenize normalises the text as
// a whole, and has no places. The two agree except where normalisation joins words.
func Spans(text string) (spans []Span) {
	var c Tokenizer
	for it := words.FromString(text); it.Next(); {
		w, start := it.Value(), it.Start()
		switch classOf(w) {
		case unspaced:
			for i, r := range w {
				if visible(r) < 0 {
					continue
				}
				_, size := utf8.DecodeRuneInString(w[i:]) // one byte of what is not UTF-8
				end := start + i + size
				if last := len(spans) - 1; last >= 0 && unicode.IsMark(r) && spans[last].End == start+i && spans[last].Letter {
					spans[last].End = end
					spans[last].Forms[0] += string(r)
					continue
				}
				spans = append(spans, Span{start + i, end, []string{norm.NFKC.String(string(r))}, true})
			}
		case spaced:
			s := Span{Start: start, End: it.End()}
			c.tokenizeWord(norm.NFKC.String(Visible(w)), 0, func(form []byte, _ int, _ TokenKind) { s.Forms = append(s.Forms, string(form)) })
			spans = append(spans, s)
		}
	}
	return spans
}
