package query

import (
	"strings"

	"tidings/cobra/words"
)

// A key names something that articles may have: a word, the beginning of one, or
// a stem, in a field; or the value of a scope. Keys are made here for queries
// and for articles alike.
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

// PrefixKey appends the key of how words in a field begin.
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

// Wants are the kinds of keys that queries look for besides words in Any field, so
// that articles are not asked for more.
type Wants struct {
	Fields   [len(fieldNames)]bool
	Prefixes [len(fieldNames)][words.MaxWord + 1]bool // by length in bytes
	Prefixed [len(fieldNames)]bool
	Stems    []StemWants
}

// StemWants are the fields in which stems of a language are looked for.
type StemWants struct {
	Language string
	Fields   [len(fieldNames)]bool
}

// Add adds what a key is of.
func (w *Wants) Add(key string) {
	f := key[1] - '0'
	switch key[0] {
	case kindWord:
		w.Fields[f] = true
	case kindPrefix:
		w.Prefixed[f] = true
		w.Prefixes[f][len(key)-2] = true
	case kindStem:
		language, _, _ := strings.Cut(key[2:], ":")
		for i := range w.Stems {
			if w.Stems[i].Language == language {
				w.Stems[i].Fields[f] = true
				return
			}
		}
		w.Stems = append(w.Stems, StemWants{Language: language})
		w.Stems[len(w.Stems)-1].Fields[f] = true
	}
}

// keys returns the keys that stand one behind the other where a leaf is found.
func (e *Expr) keys(language string) []string {
	if e.Field.Scope() {
		value, _ := e.scopeValue()
		return []string{string(ScopeKey(nil, e.Field, value))}
	}
	ws, pairs := wordsOf(e.Text)
	keys := make([]string, len(ws))
	for i, w := range ws {
		switch {
		case e.Stem:
			keys[i] = string(StemKey(nil, e.Field, language, words.Stem(language, w)))
		case e.Prefix && !pairs && i == len(ws)-1:
			keys[i] = string(PrefixKey(nil, e.Field, []byte(w)))
		default:
			keys[i] = string(WordKey(nil, e.Field, []byte(w)))
		}
	}
	return keys
}

// language is that whose stems a query means: of the only lang: that all its
// articles must have, or English.
func (e *Expr) language() string {
	args := e.Args
	if e.Op != And {
		args = []*Expr{e}
	}
	found := "en"
	for _, a := range args {
		if a.Op == Leaf && a.Field == Lang {
			if l := words.Language(a.Text); words.Stems(l) {
				found = l
			}
		}
	}
	return found
}
