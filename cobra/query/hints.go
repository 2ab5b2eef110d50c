package query

import (
	"fmt"
	"slices"
	"strings"
)

// fieldAliases are names of fields in other search languages.
var fieldAliases = map[string]Field{
	"intitle": Title, "headline": Title, "by": Author, "from": Author, "category": Tag, "label": Tag,
	"domain": Site, "host": Site, "language": Lang,
}

// foreignFields are fields of other search languages without an equivalent here.
var foreignFields = []string{"inurl", "url", "link", "intext", "before", "after", "since", "until", "filetype"}

// suggestField returns the field that an unknown name probably stands for, or Any.
func suggestField(name string) Field {
	name = strings.ToLower(name)
	if f, ok := fieldAliases[name]; ok {
		return f
	}
	for f, n := range fieldNames {
		if n != "" && withinOneEdit(name, n) {
			return Field(f)
		}
	}
	return Any
}

// withinOneEdit reports whether two words differ by at most one inserted, deleted or replaced
// letter, or by two swapped neighbours.
func withinOneEdit(a, b string) bool {
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

// Hints returns remarks on a valid query: parts that are probably mistakes, and how they are
// interpreted.
func (e *Expr) Hints() []string {
	hints := e.hints()
	if !e.canMatch() {
		hints = append(hints, "nothing can match, because the query excludes a word that it also requires: remove one of the two")
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
		hints = append(hints, fmt.Sprintf("%q is searched as a word: for the operator, write %s", e.Text, strings.ToUpper(e.Text)))
	}
	if name, value, ok := strings.Cut(e.Text, ":"); ok && e.Field == Any && value != "" && !strings.HasPrefix(value, "//") {
		if f := suggestField(name); f != Any {
			hints = append(hints, fmt.Sprintf("\"%s:\" is not a field, and is searched as a word: write %s: instead", name, fieldNames[f]))
		} else if slices.Contains(foreignFields, strings.ToLower(name)) {
			hints = append(hints, fmt.Sprintf("\"%s:\" is not a field, and is searched as a word: the fields are title:, author:, tag:, feed:, site: and lang:", name))
		}
	}
	if strings.Contains(e.Text, "*") {
		hints = append(hints, fmt.Sprintf("* works only at the end of a word: it is ignored in %q", e.Text))
	}
	if word, ok := strings.CutPrefix(e.Text, "!"); ok {
		hints = append(hints, fmt.Sprintf("! is ignored in %q: to exclude the word, write NOT %s", e.Text, word))
	}
	return hints
}

// canMatch reports whether any article can match, judged by equal words. A query with very many
// combinations counts as matching.
func (e *Expr) canMatch() bool {
	all := e.combine(false, literals{e.language(), map[*Expr]*literal{}})
	return all == nil || slices.ContainsFunc(all, func(conjunction []*literal) bool { return !isContradictory(conjunction) })
}

// isContradictory reports whether a conjunction both requires and excludes something.
func isContradictory(conjunction []*literal) bool {
	required := map[string]bool{}
	for _, l := range conjunction {
		for _, key := range l.terms {
			required[key] = true
		}
		if l.check != nil && l.check.Op == Leaf {
			required[l.id] = true
		}
	}
	return slices.ContainsFunc(conjunction, func(l *literal) bool {
		return l.check != nil && l.check.Op == Not && required[l.check.Args[0].id()]
	})
}
