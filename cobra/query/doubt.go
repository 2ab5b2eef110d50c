package query

import (
	"fmt"
	"slices"
	"strings"
)

// otherNames are what fields are called elsewhere.
var otherNames = map[string]Field{
	"intitle": Title, "headline": Title, "by": Author, "from": Author, "category": Tag, "label": Tag,
	"domain": Site, "host": Site, "url": Feed, "language": Lang,
}

// meant returns the field that was probably meant by a name that is none's, Any if that is no
// name at all, such as the beginning of https://.
func meant(name string) Field {
	name = strings.ToLower(name)
	if f, ok := otherNames[name]; ok {
		return f
	}
	best, least := Any, 3
	for f, n := range fieldNames {
		if n == "" {
			continue
		}
		// A short name is near too many words.
		if d := distance(name, n); d < least && (d <= 1 || len(n) >= 5) {
			best, least = Field(f), d
		}
	}
	return best
}

// distance is how many letters must be changed, left out or added to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// doubt says what is wrong with a bare text behind a field's name, or Any, that could be read, but hardly as
// it was meant.
func doubt(field Field, text string) *Error {
	if name, value, ok := strings.Cut(text, ":"); ok && field == Any {
		if f := meant(name); f != Any {
			return &Error{What: fmt.Sprintf("there is no field %s:", name), Hint: fmt.Sprintf("write %s:%s, or \"%s\" to look for the words", fieldNames[f], value, text)}
		}
	}
	if i := strings.IndexByte(text, '*'); i >= 0 && i < len(text)-1 && !field.Scope() {
		hint := `leave it out: words are looked for from their beginning`
		if before, _, _ := strings.Cut(text, "*"); before != "" {
			hint = fmt.Sprintf("write %s*", before)
		}
		return &Error{What: "* stands at the end of a word", Hint: hint}
	}
	return nil
}

// Hints says of a query that is right what was perhaps not meant so.
func (e *Expr) Hints() (hints []string) {
	for _, a := range e.Args {
		hints = append(hints, a.Hints()...)
	}
	if e.Op == Leaf && e.Field == Any && slices.Contains([]string{"and", "or", "not"}, e.Text) {
		hints = append(hints, fmt.Sprintf("%s is a word that articles have to have: the operator is %s", e.Text, strings.ToUpper(e.Text)))
	}
	slices.Sort(hints)
	return slices.Compact(hints)
}

// possible says whether anything can match, as far as that is seen from equal words. One with very many
// combinations is taken to be.
func (e *Expr) possible() bool {
	all := e.combine(false, literals{e.language(), map[*Expr]*literal{}})
	return all == nil || slices.ContainsFunc(all, func(conjunction []*literal) bool { return !contradicts(conjunction) })
}

// contradicts says whether a conjunction wants something and does not.
func contradicts(conjunction []*literal) bool {
	has := map[string]bool{}
	for _, l := range conjunction {
		for _, key := range l.terms {
			has[key] = true
		}
		if l.check != nil && l.check.Op == Leaf {
			has[l.id] = true
		}
	}
	return slices.ContainsFunc(conjunction, func(l *literal) bool {
		return l.check != nil && l.check.Op == Not && has[l.check.Args[0].id()]
	})
}
