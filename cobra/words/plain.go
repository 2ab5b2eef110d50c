package words

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Plain appends a folded word without diacritics.
func Plain(dst, word []byte) []byte {
	base := rune(0)
	for _, r := range string(norm.NFKD.Bytes(word)) {
		switch {
		case unicode.Is(unicode.Mn, r) && unicode.In(base, marked...):
			continue
		case r >= utf8.RuneSelf && plainLetters[r] != "":
			base = 'a'
			dst = append(dst, plainLetters[r]...)
			continue
		case !unicode.IsMark(r):
			base = r
		}
		dst = utf8.AppendRune(dst, r)
	}
	if !norm.NFKC.IsNormal(dst) {
		return norm.NFKC.Bytes(dst) // Hangul and the scripts of India, whose marks stay
	}
	return dst
}

// marked are the scripts whose marks readers leave out as they type. In others,
// as those of India, marks are vowels.
var marked = []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Hebrew, unicode.Arabic}

// plainLetters are letters with strokes and ligatures, which Unicode does not
// take apart.
var plainLetters = map[rune]string{
	'æ': "ae", 'ð': "d", 'đ': "d", 'ħ': "h", 'ı': "i", 'ł': "l", 'ø': "o", 'œ': "oe", 'þ': "th", 'ŧ': "t",
}
