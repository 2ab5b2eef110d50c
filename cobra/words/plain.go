package words

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// StripMarks appends a folded word without diacritics.
func StripMarks(dst, word []byte) []byte {
	base := rune(0)
	for _, r := range string(norm.NFKD.Bytes(word)) {
		switch {
		case unicode.Is(unicode.Mn, r) && unicode.In(base, strippedScripts...):
			continue
		case r >= utf8.RuneSelf && asciiLetters[r] != "":
			base = 'a'
			dst = append(dst, asciiLetters[r]...)
			continue
		case !unicode.IsMark(r):
			base = r
		}
		dst = utf8.AppendRune(dst, r)
	}
	if !norm.NFKC.IsNormal(dst) {
		return norm.NFKC.Bytes(dst) // composes Hangul, and scripts of India, whose marks were kept
	}
	return dst
}

// strippedScripts are the scripts whose marks people leave out when they type. In others, such
// as those of India, marks are vowels.
var strippedScripts = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic}

// asciiLetters maps letters with strokes, and ligatures, which Unicode does not decompose.
var asciiLetters = map[rune]string{
	'æ': "ae", 'ð': "d", 'đ': "d", 'ħ': "h", 'ł': "l", 'ø': "o", 'œ': "oe", 'þ': "th", 'ŧ': "t",
}
