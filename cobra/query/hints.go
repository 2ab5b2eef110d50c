package query

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
	return append(hints, e.droppedHint()...)
}

// droppedHint returns a remark on signs of a leaf that are no part of a word, and are not searched: C++ finds C. There
// is none about signs that everybody expects to make no difference: those between words, and those after a sentence.
func (e *Expr) droppedHint() []string {
	text := strings.TrimLeft(e.Text, "!")
	isPart := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || unicode.Is(unicode.So, r) || strings.ContainsRune(unremarkable, r)
	}
	var dropped []string
	kept := strings.Map(func(r rune) rune {
		switch {
		case isPart(r) || r == '*' || isSeparator(r): // * has a remark of its own
			return r
		case !slices.Contains(dropped, string(r)):
			dropped = append(dropped, string(r))
		}
		return ' '
	}, text)
	if first, _ := utf8.DecodeRuneInString(text); strings.ContainsRune(beforeWord, first) && !slices.Contains(dropped, string(first)) {
		dropped, kept = append(dropped, string(first)), strings.TrimLeft(kept, beforeWord)
	}
	if len(dropped) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%q is searched as %q, because %s is no part of a word", e.Text, strings.Join(strings.Fields(kept), " "), strings.Join(dropped, " "))}
}

const (
	// unremarkable are signs that stand between words or after them.
	unremarkable = "-‐‑–—/.,;:!?…'\"_·¿¡、。，！？；"
	// beforeWord are those of them that belong to a name if they stand before it, as in .NET.
	beforeWord = "-‐‑–—/.,:"
)

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
