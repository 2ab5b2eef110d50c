package query

import (
	"slices"
	"strings"

	"tidings/cobra/words"
)

// Clauses is [Parse] and [Expr.Clauses] of a text. Most queries are a few plain words,
// and a start takes apart a million of them: these are not parsed for it.
func Clauses(text string) ([]Clause, error) {
	if terms := plain(text); terms != nil {
		return []Clause{{Terms: terms}}, nil
	}
	e, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return e.Clauses(), nil
}

// Meaning tells queries apart by what they ask for: it is the same of those that differ in case, order or
// repetition alone, also of the same words on both sides of an AND or OR.
func Meaning(text string) (string, error) {
	clauses, err := Clauses(text)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(clauses))
	for i, c := range clauses {
		ids[i] = c.id()
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "\x07"), nil
}

// plain returns the terms of a text of nothing but small letters and digits of ASCII
// with blanks between, which is one clause of these words; nil for any other.
func plain(text string) (terms []string) {
	if len(text) > MaxText {
		return nil
	}
	keys := make([]byte, 0, 64) // of all words, one behind the other
	ends := make([]int, 0, 16)
	for i := 0; i < len(text); {
		start := i
		for i < len(text) && ('a' <= text[i] && text[i] <= 'z' || '0' <= text[i] && text[i] <= '9') {
			i++
		}
		switch n := i - start; {
		case n > words.MaxWord || len(ends) == MaxTerms:
			return nil
		case n > 0:
			keys = append(append(keys, kindWord, '0'+byte(Any)), text[start:i]...)
			ends = append(ends, len(keys))
		}
		if i < len(text) {
			if text[i] != ' ' {
				return nil
			}
			i++
		}
	}
	if len(ends) == 0 {
		return nil
	}
	all, from := string(keys), 0
	terms = make([]string, len(ends))
	for i, end := range ends {
		terms[i], from = all[from:end], end
	}
	slices.SortFunc(terms, strings.Compare)
	return slices.Compact(terms)
}
