package query

import (
	"strings"
	"unicode"

	"tidings/cobra/words"
)

// Compose returns the query for words that must all occur, words of which one must occur, words that must not occur, and
// words that must occur in this order; "" if there are none. Quotation marks keep words together. Nothing else has a
// meaning but * at the end of a word.
func Compose(every, one, none, phrase string) string {
	parts := leavesOf(every)
	if text := strings.Join(strings.FieldsFunc(unquoted(phrase), isSeparator), " "); text != "" {
		parts = append(parts, newLeaf(text))
	}
	switch some := leavesOf(one); len(some) {
	case 0:
	case 1:
		parts = append(parts, some[0])
	default:
		parts = append(parts, &Expr{Op: Or, Args: some})
	}
	for _, e := range leavesOf(none) {
		parts = append(parts, &Expr{Op: Not, Args: []*Expr{e}})
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0].String()
	}
	return (&Expr{Op: And, Args: parts}).String()
}

// leavesOf returns the words of a text, and what is between quotation marks as one.
func leavesOf(text string) (leaves []*Expr) {
	quoted := false
	text = typedAlike.Replace(words.Visible(text))
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
			return true
		}
		return !quoted && isSeparator(r)
	}) {
		if w = strings.TrimSpace(w); strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.So, r) }) {
			leaves = append(leaves, newLeaf(w))
		}
	}
	return leaves
}

func unquoted(text string) string {
	return strings.ReplaceAll(typedAlike.Replace(words.Visible(text)), `"`, " ")
}

func newLeaf(text string) *Expr {
	e := &Expr{Text: text}
	e.Text, e.Prefix = strings.CutSuffix(text, "*")
	return e
}
