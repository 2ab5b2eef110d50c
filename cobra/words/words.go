// Package words splits text into words and their variants. The same functions split articles
// and queries, so that the terms of both agree.
//
// Boundaries are those of Unicode (UAX #29). Text is normalised (NFKC) and its case is folded,
// so that width and case make no difference; neither do characters that show nothing. A word may have variants at the same position. One
// is without diacritics, so that "cafe" finds café while "café" does not find cafe. Another is
// the longest part next to an apostrophe, so that "avion" finds l'avion, and "Obama" finds
// Obama's.
//
// Scripts without blanks between words (Han, kana, Thai, Lao, Khmer, Burmese) are split into
// unigrams and overlapping bigrams. A query of several letters is a phrase of its bigrams,
// which matches at any letter. There is no dictionary.
//
// The package leaves to others which words are searched, and where (cobra/query, cobra), and
// the extraction of text from HTML (internal/feed).
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

// MaxWord is the length of the longest word in bytes. Longer ones, such as keys and encoded
// images, occupy a position and cannot be found.
const MaxWord = 128

// A TokenKind is the kind of a token.
type TokenKind uint8

// The kinds of tokens. A position has a Word or a Unigram, possibly followed by a Bigram or
// Variants.
const (
	Word    TokenKind = iota // a word between blanks
	Variant                  // a variant of the word before it
	Unigram                  // a letter of a script without blanks
	Bigram                   // such a letter and the next one
)

// A Tokenizer splits texts. The zero value is ready to use. It is not safe for concurrent use.
type Tokenizer struct {
	folder  cases.Caser
	ready   bool // folder is initialised
	word    []byte
	scratch []byte
	run     []byte // pending letters of a script without blanks, folded
	ends    []int  // end of each letter in run
}

// Tokenize calls each for every token of text, in order, and returns the number of positions. A
// token is valid only during the call.
func (c *Tokenizer) Tokenize(text string, each func(form []byte, at int, f TokenKind)) (length int) {
	if text = Visible(text); !norm.NFKC.IsNormalString(text) {
		text = norm.NFKC.String(text)
	}
	at, runEnd := 0, -1
	for it := words.FromString(text); it.Next(); {
		w := it.Value()
		switch kind := classOf(w); {
		case kind == unspaced:
			if it.Start() != runEnd {
				at = c.flushRun(at, each)
			}
			c.appendRun(w)
			runEnd = it.End()
		case kind == spaced:
			at = c.flushRun(at, each)
			c.tokenizeWord(w, at, each)
			at++
		}
	}
	return c.flushRun(at, each)
}

// A segmentClass determines how a segment of text is split.
type segmentClass uint8

const (
	separator segmentClass = iota // blanks, punctuation
	spaced
	unspaced
)

func classOf(w string) segmentClass {
	if b := w[0]; b < utf8.RuneSelf {
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' {
			return spaced
		}
		if len(w) == 1 {
			return separator
		}
	}
	for _, r := range w {
		switch {
		case unicode.In(r, unspacedScripts...):
			return unspaced
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r) && r != utf8.RuneError:
			return spaced
		}
	}
	return separator
}

var unspacedScripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
	// The mark that lengthens kana belongs to no script.
	{R16: []unicode.Range16{{Lo: 'ー', Hi: 'ー', Stride: 1}}},
}

// tokenizeWord calls each for a word and its variants.
func (c *Tokenizer) tokenizeWord(w string, at int, each func([]byte, int, TokenKind)) {
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
		c.word = c.appendFolded(c.word[:0], w)
	}
	c.word = trimJoiners(c.word)
	if len(c.word) == 0 || len(c.word) > MaxWord {
		return
	}
	each(c.word, at, Word)
	if part := longestPart(c.word); len(part) < len(c.word) {
		each(part, at, Variant)
	}
	if ascii {
		return
	}
	if c.scratch = StripMarks(c.scratch[:0], c.word); len(c.scratch) > 0 && string(c.scratch) != string(c.word) {
		each(c.scratch, at, Variant)
		if part := longestPart(c.scratch); len(part) < len(c.scratch) {
			each(part, at, Variant)
		}
	}
}

// appendFolded appends a word with folded case.
func (c *Tokenizer) appendFolded(dst []byte, w string) []byte {
	if strings.ContainsFunc(w, func(r rune) bool { return unicode.Is(unicode.Cherokee, r) }) {
		w = strings.ToLower(w) // because the library folds Cherokee in the wrong direction
	}
	if !c.ready {
		c.folder, c.ready = cases.Fold(), true
	}
	c.scratch = append(c.scratch[:0], w...)
	room := 3*len(w) + utf8.UTFMax // no rune folds to more than three times its length
	if cap(dst)-len(dst) < room {
		dst = append(make([]byte, 0, len(dst)+room), dst...)
	}
	start := len(dst)
	n, _, err := c.folder.Transform(dst[start:start+room], c.scratch, true)
	if err != nil {
		return dst // a word that cannot be folded is not found
	}
	dst = dst[:start+n]
	if bytes.IndexByte(dst[start:], '"') >= 0 { // in Hebrew words, where it stands for another character
		dst = append(dst[:start], strings.ReplaceAll(string(dst[start:]), `"`, "״")...)
	}
	if bytes.Contains(dst[start:], []byte("i\u0307")) || bytes.Contains(dst[start:], []byte("ı")) {
		dst = appendUndotted(dst[:start], string(dst[start:]))
	}
	if !norm.NFKC.IsNormal(dst[start:]) {
		dst = append(dst[:start], norm.NFKC.Bytes(dst[start:])...)
	}
	return dst
}

// appendUndotted appends a folded word in which all forms of i are the same. Turkish tells them apart, but in capitals
// one language's letter is another one's, and case shall make no difference in any.
func appendUndotted(dst []byte, w string) []byte {
	last := rune(0)
	for _, r := range w {
		switch {
		case r == 'ı':
			r = 'i'
		case r == '\u0307' && last == 'i':
			continue
		}
		dst = utf8.AppendRune(dst, r)
		last = r
	}
	return dst
}

// trimJoiners removes underscores at both ends, as in _emphasis_, and marks at the start that
// have no letter.
func trimJoiners(w []byte) []byte {
	w = bytes.TrimRightFunc(w, func(r rune) bool { return r == '_' })
	return bytes.TrimLeftFunc(w, func(r rune) bool { return r == '_' || unicode.IsMark(r) })
}

// longestPart returns the longest part of a word between apostrophes, or the first of several.
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

// appendRun appends letters of a script without blanks to the run. Marks belong to the letter
// before them.
func (c *Tokenizer) appendRun(w string) {
	for _, r := range w {
		if len(c.ends) > 0 && unicode.IsMark(r) {
			c.ends = c.ends[:len(c.ends)-1]
		}
		c.run = utf8.AppendRune(c.run, r)
		c.ends = append(c.ends, len(c.run))
	}
}

// flushRun calls each for the unigrams and bigrams of the run, and returns the next position.
func (c *Tokenizer) flushRun(at int, each func([]byte, int, TokenKind)) int {
	start := 0
	for i, end := range c.ends {
		if end-start <= MaxWord/2 {
			each(c.run[start:end], at+i, Unigram)
			if i+1 < len(c.ends) && c.ends[i+1]-end <= MaxWord/2 {
				each(c.run[start:c.ends[i+1]], at+i, Bigram)
			}
		}
		start = end
	}
	at += len(c.ends)
	c.run, c.ends = c.run[:0], c.ends[:0]
	return at
}
