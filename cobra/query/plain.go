package query

import (
	"slices"
	"strings"

	"tidings/cobra/words"
)

// Clauses combines [Parse] and [Expr.Clauses]. Most queries are a few plain words, which are
// not parsed, because a start has to expand a million of them.
func Clauses(text string) ([]Clause, error) {
	if terms := plainTerms(text); terms != nil {
		return []Clause{{Terms: terms}}, nil
	}
	e, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return e.Clauses(), nil
}

// Canonical returns a string that is equal for queries with equal clauses. It ignores
// differences of case, order and repetition alone.
func Canonical(text string) (string, error) {
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

// plainTerms returns the terms of a text that consists of lower-case ASCII letters, digits and
// blanks only, which is one clause of these words; nil for any other text.
func plainTerms(text string) (terms []string) {
	if len(text) > MaxText {
		return nil
	}
	keys := make([]byte, 0, 64) // keys of all words, concatenated
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
