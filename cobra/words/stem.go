package words

import (
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/arabic"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/hungarian"
	"github.com/blevesearch/snowballstem/irish"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/romanian"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
	"github.com/blevesearch/snowballstem/tamil"
	"github.com/blevesearch/snowballstem/turkish"
)

// stemmers are the Snowball stemmers by language (ISO 639-1).
var stemmers = map[string]func(*snowballstem.Env) bool{
	"ar": arabic.Stem, "da": danish.Stem, "de": german.Stem, "en": english.Stem, "es": spanish.Stem,
	"fi": finnish.Stem, "fr": french.Stem, "ga": irish.Stem, "hu": hungarian.Stem, "it": italian.Stem,
	"nl": dutch.Stem, "nb": norwegian.Stem, "nn": norwegian.Stem, "no": norwegian.Stem, "pt": portuguese.Stem,
	"ro": romanian.Stem, "ru": russian.Stem, "sv": swedish.Stem, "ta": tamil.Stem, "tr": turkish.Stem,
}

// HasStemmer reports whether there is a stemmer for a language: the primary part of a language
// tag, in lower case.
func HasStemmer(language string) bool { return stemmers[language] != nil }

// Stem returns the stem of a folded word in a language that has a stemmer.
func Stem(language, word string) string {
	env := snowballstem.NewEnv(word)
	stemmers[language](env)
	return env.Current()
}

// Language returns the primary part of a language tag (RFC 5646) in lower case: "pt" for
// "pt-BR".
func Language(tag string) string {
	primary, _, _ := strings.Cut(strings.ReplaceAll(tag, "_", "-"), "-")
	return strings.ToLower(strings.TrimSpace(primary))
}
