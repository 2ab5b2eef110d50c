package query

import (
	"strings"

	"tidings/cobra/words"
)

// A key names a property of articles: a word, a prefix or a stem in a field, or the value of a
// scope. The same functions make keys for queries and for articles.
//
//	kind, field, text          'w' '1' "solar"
//	kind, field, language : text
const (
	kindWord   = 'w'
	kindPrefix = 'p'
	kindStem   = 's'
	kindScope  = 'c'
)

// WordKey appends the key of a word in a field.
func WordKey(dst []byte, f Field, word []byte) []byte {
	return append(append(dst, kindWord, '0'+byte(f)), word...)
}

// PrefixKey appends the key of a prefix of words in a field.
func PrefixKey(dst []byte, f Field, prefix []byte) []byte {
	return append(append(dst, kindPrefix, '0'+byte(f)), prefix...)
}

// StemKey appends the key of a stem in a field.
func StemKey(dst []byte, f Field, language, stem string) []byte {
	dst = append(append(dst, kindStem, '0'+byte(f)), language...)
	return append(append(dst, ':'), stem...)
}

// ScopeKey appends the key of a scope's value.
func ScopeKey(dst []byte, f Field, value string) []byte {
	return append(append(dst, kindScope, '0'+byte(f)), value...)
}

// KeyKinds records which kinds of keys queries contain, besides words in the field Any, so that
// no other keys are made of articles.
type KeyKinds struct {
	Fields        [len(fieldNames)]bool
	PrefixLengths [len(fieldNames)][words.MaxWord + 1]bool // by length of the prefix in bytes
	HasPrefixes   [len(fieldNames)]bool
	Stems         []StemFields
}

// StemFields records the fields in which stems of a language are searched.
type StemFields struct {
	Language string
	Fields   [len(fieldNames)]bool
}

// Add records the kind of a key.
func (w *KeyKinds) Add(key string) {
	f := key[1] - '0'
	switch key[0] {
	case kindWord:
		w.Fields[f] = true
	case kindPrefix:
		w.HasPrefixes[f] = true
		w.PrefixLengths[f][len(key)-2] = true
	case kindStem:
		language, _, _ := strings.Cut(key[2:], ":")
		for i := range w.Stems {
			if w.Stems[i].Language == language {
				w.Stems[i].Fields[f] = true
				return
			}
		}
		w.Stems = append(w.Stems, StemFields{Language: language})
		w.Stems[len(w.Stems)-1].Fields[f] = true
	}
}

// keys returns the keys of a leaf, which an article must have at consecutive positions.
func (e *Expr) keys(language string) []string {
	if e.Field.Scope() {
		value, _ := e.scopeValue()
		return []string{string(ScopeKey(nil, e.Field, value))}
	}
	terms, bigrams := queryTerms(e.Text)
	keys := make([]string, len(terms))
	for i, w := range terms {
		switch {
		case e.Stem:
			keys[i] = string(StemKey(nil, e.Field, language, words.Stem(language, w)))
		case e.Prefix && !bigrams && i == len(terms)-1:
			keys[i] = string(PrefixKey(nil, e.Field, []byte(w)))
		default:
			keys[i] = string(WordKey(nil, e.Field, []byte(w)))
		}
	}
	return keys
}

// language returns the language of a query's stems: that of the only lang: that all matches
// must have, or English.
func (e *Expr) language() string {
	args := e.Args
	if e.Op != And {
		args = []*Expr{e}
	}
	found := "en"
	for _, a := range args {
		if a.Op == Leaf && a.Field == Lang {
			if l := words.Language(a.Text); words.HasStemmer(l) {
				found = l
			}
		}
	}
	return found
}
