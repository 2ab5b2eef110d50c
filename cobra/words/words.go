// Package words cuts text into words, in the forms under which articles are
// found: what an article is looked up by, and what a query looks for, are cut
// alike.
//
// Boundaries are those of Unicode (UAX #29). Text is normalised (NFKC) and its
// case folded, so that neither width nor case tells words apart. A word may
// have second forms at its place: without diacritics, so that "cafe" finds
// café while "café" does not find cafe; and its longest part beside an
// apostrophe, so that "avion" finds l'avion, and "Obama" Obama's.
//
// Scripts that put no blanks between words (Han, kana, Thai, Lao, Khmer,
// Burmese) are cut into letters and pairs of letters that overlap. A text of
// several letters is looked for as a phrase of its pairs, wherever words may
// begin. There is no dictionary.
//
// The package leaves to others what is looked up, and where (cobra/query,
// cobra), and the text in HTML (internal/feed).
package words

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxWord is the length of the longest word in bytes. Longer ones, which are
// keys and pictures in letters, take a place and are not found.
const MaxWord = 128

// A Form says what is at a place.
type Form uint8

// The forms. Word, Letter and Pair may be at one place, with Seconds behind them.
const (
	Word   Form = iota // a word between blanks
	Second             // another form of the word before
	Letter             // a letter of a script without blanks
	Pair               // a letter and that behind it
)

// A Cutter cuts texts, one at a time. The zero value is ready; it is for one
// goroutine at a time.
type Cutter struct {
	fold    cases.Caser
	ready   bool
	word    []byte
	scratch []byte
	run     []byte // letters of a script without blanks, folded
	ends    []int  // where in run each letter ends
}

// Cut calls each for every form of every word in text, in order, and returns
// how many places there are. A form is valid during the call.
func (c *Cutter) Cut(text string, each func(form []byte, at int, f Form)) (places int) {
	if !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text)
	}
	at, runEnd := 0, -1
	for it := words.FromString(text); it.Next(); {
		w := it.Value()
		switch kind := kindOf(w); {
		case kind == unspaced:
			if it.Start() != runEnd {
				at = c.flush(at, each)
			}
			c.extend(w)
			runEnd = it.End()
		case kind == spaced:
			at = c.flush(at, each)
			c.cutWord(w, at, each)
			at++
		}
	}
	return c.flush(at, each)
}

// A kind is how a piece of text is to be treated.
type kind uint8

const (
	nothing kind = iota // blanks, punctuation
	spaced
	unspaced
)

func kindOf(w string) kind {
	if b := w[0]; b < utf8.RuneSelf {
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' {
			return spaced
		}
		if len(w) == 1 {
			return nothing
		}
	}
	for _, r := range w {
		switch {
		case unicode.In(r, withoutBlanks...):
			return unspaced
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r) && r != utf8.RuneError:
			return spaced
		}
	}
	return nothing
}

var withoutBlanks = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
	// The mark that lengthens kana is of no script.
	{R16: []unicode.Range16{{Lo: 'ー', Hi: 'ー', Stride: 1}}},
}

// cutWord calls each for the forms of a word.
func (c *Cutter) cutWord(w string, at int, each func([]byte, int, Form)) {
	ascii := true
	c.word = c.word[:0]
	for i := range len(w) {
		b := w[i]
		if b >= utf8.RuneSelf {
			ascii = false
			break
		}
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		c.word = append(c.word, b)
	}
	if !ascii {
		c.word = c.folded(c.word[:0], w)
	}
	c.word = trim(c.word)
	if len(c.word) == 0 || len(c.word) > MaxWord {
		return
	}
	each(c.word, at, Word)
	if part := longestPart(c.word); len(part) < len(c.word) {
		each(part, at, Second)
	}
	if ascii {
		return
	}
	if c.scratch = Plain(c.scratch[:0], c.word); len(c.scratch) > 0 && string(c.scratch) != string(c.word) {
		each(c.scratch, at, Second)
		if part := longestPart(c.scratch); len(part) < len(c.scratch) {
			each(part, at, Second)
		}
	}
}

// folded appends a word whose case is folded.
func (c *Cutter) folded(dst []byte, w string) []byte {
	if strings.ContainsFunc(w, func(r rune) bool { return unicode.Is(unicode.Cherokee, r) }) {
		w = strings.ToLower(w) // whose capitals the library folds into small letters, and the other way round
	}
	if !c.ready {
		c.fold, c.ready = cases.Fold(), true
	}
	c.scratch = append(c.scratch[:0], w...)
	room := 3*len(w) + utf8.UTFMax // no rune folds to more than three times its length
	if cap(dst)-len(dst) < room {
		dst = append(make([]byte, 0, len(dst)+room), dst...)
	}
	start := len(dst)
	n, _, err := c.fold.Transform(dst[start:start+room], c.scratch, true)
	if err != nil {
		return dst // a word that cannot be folded is not found
	}
	dst = dst[:start+n]
	if !norm.NFKC.IsNormal(dst[start:]) {
		dst = append(dst[:start], norm.NFKC.Bytes(dst[start:])...)
	}
	// A typographic apostrophe is one.
	if strings.Contains(w, "’") {
		dst = append(dst[:start], strings.ReplaceAll(string(dst[start:]), "’", "'")...)
	}
	return dst
}

// trim cuts off what joins words on one side only, as around _emphasis_, and
// marks that have lost their letter so.
func trim(w []byte) []byte {
	w = bytes.TrimRightFunc(w, func(r rune) bool { return r == '_' })
	return bytes.TrimLeftFunc(w, func(r rune) bool { return r == '_' || unicode.IsMark(r) })
}

// longestPart returns the longest part of a word between apostrophes, the
// first of several.
func longestPart(w []byte) (longest []byte) {
	start := 0
	for i := 0; i <= len(w); i++ {
		if i == len(w) || w[i] == '\'' {
			if i-start > len(longest) {
				longest = w[start:i]
			}
			start = i + 1
		}
	}
	return longest
}

// extend appends letters of a script without blanks. Marks belong to the
// letter before them.
func (c *Cutter) extend(w string) {
	for _, r := range w {
		if len(c.ends) > 0 && unicode.IsMark(r) {
			c.ends = c.ends[:len(c.ends)-1]
		}
		c.run = utf8.AppendRune(c.run, r)
		c.ends = append(c.ends, len(c.run))
	}
}

// flush calls each for the letters and pairs that wait, and returns the place behind them.
func (c *Cutter) flush(at int, each func([]byte, int, Form)) int {
	start := 0
	for i, end := range c.ends {
		if end-start <= MaxWord/2 {
			each(c.run[start:end], at+i, Letter)
			if i+1 < len(c.ends) && c.ends[i+1]-end <= MaxWord/2 {
				each(c.run[start:c.ends[i+1]], at+i, Pair)
			}
		}
		start = end
	}
	at += len(c.ends)
	c.run, c.ends = c.run[:0], c.ends[:0]
	return at
}
