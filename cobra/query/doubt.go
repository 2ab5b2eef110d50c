package query

import (
	"fmt"
	"slices"
	"strings"
)

// otherNames are what fields are called elsewhere.
var otherNames = map[string]Field{
	"intitle": Title, "headline": Title, "by": Author, "from": Author, "category": Tag, "label": Tag,
	"domain": Site, "host": Site, "language": Lang,
}

// meant returns the field that was perhaps meant by a name that is none's, Any if none is near.
func meant(name string) Field {
	name = strings.ToLower(name)
	if f, ok := otherNames[name]; ok {
		return f
	}
	for f, n := range fieldNames {
		if n != "" && near(name, n) {
			return Field(f)
		}
	}
	return Any
}

// near says whether one letter more, less or other, or two that changed places, are all that two words
// differ by.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	restA, restB := a[i:], b[i:]
	switch len(b) - len(a) {
	case 0:
		return restA == "" || restA[1:] == restB[1:] ||
			len(restA) > 1 && restA[0] == restB[1] && restA[1] == restB[0] && restA[2:] == restB[2:]
	case 1:
		return restA == restB[1:]
	}
	return false
}

// Hints says of a query that is right what was perhaps not meant so, and how it is read.
func (e *Expr) Hints() []string {
	hints := e.hints()
	if !e.possible() {
		hints = append(hints, "nothing can match, because the query requires what it also excludes")
	}
	slices.Sort(hints)
	return slices.Compact(hints)
}

func (e *Expr) hints() (hints []string) {
	for _, a := range e.Args {
		hints = append(hints, a.hints()...)
	}
	if e.Op != Leaf || e.Field.Scope() {
		return hints
	}
	if e.Field == Any && slices.Contains([]string{"and", "or", "not"}, e.Text) {
		hints = append(hints, fmt.Sprintf("\"%s\" is searched for as a word; the operator is written %s", e.Text, strings.ToUpper(e.Text)))
	}
	if name, value, ok := strings.Cut(e.Text, ":"); ok && e.Field == Any && value != "" && !strings.HasPrefix(value, "//") {
		if f := meant(name); f != Any {
			hints = append(hints, fmt.Sprintf("\"%s:\" is not a field and is searched for as a word; the field is %s:", name, fieldNames[f]))
		}
	}
	if strings.Contains(e.Text, "*") {
		hints = append(hints, fmt.Sprintf("* works only at the end of a word, and not in %q", e.Text))
	}
	return hints
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
