package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns a text as the eye sees it: without the characters that show nothing, such as soft hyphens and
// joiners, and with one form of each character that has several, such as apostrophes. Publishers insert the former
// to break lines, and keyboards choose between the latter, so neither makes a difference to a reader.
func Visible(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(visible, text)
		}
	}
	return text // ASCII is visible
}

// visible returns the form in which a character is searched, or -1 for one that shows nothing.
func visible(r rune) rune {
	switch {
	case r < 0xad: // most texts
		return r
	case unicode.In(r, blanks):
		return ' '
	case unicode.In(r, apostrophes):
		return '\''
	case r == utf8.RuneError, !unicode.In(r, invisible...):
		return r
	}
	return -1
}

// invisible are the characters that Unicode calls ignorable by default, those that set the direction of text, and the
// Arabic stroke that only lengthens a word.
var invisible = []*unicode.RangeTable{
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf,
	{R16: []unicode.Range16{{Lo: 'ـ', Hi: 'ـ', Stride: 1}}},
}

// blanks are characters that look like a blank, although Unicode takes them for letters and symbols.
var blanks = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 'ᅟ', Hi: 'ᅠ', Stride: 1}, {Lo: '⠀', Hi: '⠀', Stride: 1}, {Lo: 'ㅤ', Hi: 'ㅤ', Stride: 1}, {Lo: 'ﾠ', Hi: 'ﾠ', Stride: 1},
}}

// apostrophes are the characters that keyboards and programs write for an apostrophe within a word.
var apostrophes = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: '´', Hi: '´', Stride: 1}, {Lo: 'ʹ', Hi: 'ʹ', Stride: 1}, {Lo: 'ʻ', Hi: 'ʽ', Stride: 1}, {Lo: '‘', Hi: '’', Stride: 1},
	{Lo: '‛', Hi: '‛', Stride: 1}, {Lo: '′', Hi: '′', Stride: 1}, {Lo: '＇', Hi: '＇', Stride: 1},
}, LatinOffset: 1}
