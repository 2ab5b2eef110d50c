package query

import (
	"slices"
	"strings"

	"tidings/cobra/words"
)

// A Mark is a place of a text that a query asks for, by byte offsets.
type Mark struct{ Start, End int }

// Marks returns the places of a text in a field that the query asks for, in order and apart from each other, to show why an
// article matches. What the query excludes is not marked.
func (e *Expr) Marks(f Field, text string) []Mark {
	spans := words.Spans(text)
	var all []Mark
	e.eachWanted(false, func(leaf *Expr) {
		if leaf.Field == f || leaf.Field == Any && f <= Title {
			all = leaf.mark(all, spans, e.language())
		}
	})
	slices.SortFunc(all, func(a, b Mark) int { return a.Start - b.Start })
	joined := all[:0]
	for _, m := range all {
		if n := len(joined); n > 0 && m.Start <= joined[n-1].End {
			joined[n-1].End = max(joined[n-1].End, m.End)
			continue
		}
		joined = append(joined, m)
	}
	return joined
}

// eachWanted calls each for the leaves that are not excluded.
func (e *Expr) eachWanted(excluded bool, each func(*Expr)) {
	switch {
	case e.Op == Not:
		e.Args[0].eachWanted(!excluded, each)
	case e.Op != Leaf:
		for _, a := range e.Args {
			a.eachWanted(excluded, each)
		}
	case !excluded && !e.Field.Scope():
		each(e)
	}
}

// mark appends the places of a word or phrase.
func (e *Expr) mark(all []Mark, spans []words.Span, language string) []Mark {
	terms := words.Spans(e.Text)
	if len(terms) == 0 {
		return all
	}
	for i := range len(spans) - len(terms) + 1 {
		found := true
		for j := 0; found && j < len(terms); j++ {
			found = e.isAt(spans[i+j], terms[j], j == len(terms)-1, language)
		}
		if found {
			all = append(all, Mark{spans[i].Start, spans[i+len(terms)-1].End})
		}
	}
	return all
}

// isAt reports whether a word of the query is at a place.
func (e *Expr) isAt(s, term words.Span, last bool, language string) bool {
	if len(term.Forms) == 0 || s.Letter != term.Letter {
		return false
	}
	word := term.Forms[0]
	return slices.ContainsFunc(s.Forms, func(form string) bool {
		switch {
		case e.Stem:
			return words.Stem(language, form) == words.Stem(language, word)
		case e.Prefix && last:
			return strings.HasPrefix(form, word)
		}
		return form == word
	})
}
