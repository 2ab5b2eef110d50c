package query

import (
	"strings"
)

// An Op is what an expression does with its arguments.
type Op uint8

// The operators. A Leaf has no arguments, Not one, And and Or two at least.
const (
	Leaf Op = iota
	And
	Or
	Not
)

// A Field is where a word is looked for.
type Field uint8

// The fields. The last three are scopes: they are about an article as a whole,
// and their text is one value and not words.
const (
	Any Field = iota // title, text, tags
	Title
	Author
	Tag
	Feed
	Site
	Lang
)

var fieldNames = [...]string{Title: "title", Author: "author", Tag: "tag", Feed: "feed", Site: "site", Lang: "lang"}

// Scope says whether a field is about an article as a whole.
func (f Field) Scope() bool { return f >= Feed }

// An Expr is a query, or a part of one. Those that Parse returns have no And in an
// And, no Or in an Or, and no Not in a Not.
type Expr struct {
	Op   Op
	Args []*Expr

	// Of a Leaf:
	Field  Field
	Text   string // as it was written, without quotes
	Prefix bool   // the last word may go on
	Stem   bool   // by the stems of its words
}

// String returns the expression's text, by which Parse finds it again.
func (e *Expr) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *Expr) write(b *strings.Builder) {
	switch e.Op {
	case And, Or:
		between := " "
		if e.Op == Or {
			between = " OR "
		}
		for i, a := range e.Args {
			if i > 0 {
				b.WriteString(between)
			}
			a.writeWithin(b, e.Op == And && a.Op == Or)
		}
	case Not:
		b.WriteString("NOT ")
		e.Args[0].writeWithin(b, e.Args[0].Op != Leaf)
	case Leaf:
		e.writeLeaf(b)
	}
}

func (e *Expr) writeWithin(b *strings.Builder, parentheses bool) {
	if parentheses {
		b.WriteByte('(')
	}
	e.write(b)
	if parentheses {
		b.WriteByte(')')
	}
}

func (e *Expr) writeLeaf(b *strings.Builder) {
	if e.Field != Any {
		b.WriteString(fieldNames[e.Field])
		b.WriteByte(':')
	}
	if e.Stem {
		b.WriteByte('~')
	}
	quoted := !isBare(e.Text) || strings.HasPrefix(e.Text, "~") || e.Field == Any && isReserved(e.Text)
	if quoted {
		b.WriteByte('"')
	}
	b.WriteString(e.Text)
	if e.Prefix {
		b.WriteByte('*')
	}
	if quoted {
		b.WriteByte('"')
	}
}

// isReserved says whether a bare text would be read as something else than a word.
func isReserved(text string) bool {
	if isOperator(text) || strings.HasPrefix(text, "-") {
		return true
	}
	name, _, ok := strings.Cut(text, ":")
	return ok && fieldOf(name) != Any
}

func isOperator(text string) bool { return text == "AND" || text == "OR" || text == "NOT" }

// fieldOf returns the field of a name, Any for none.
func fieldOf(name string) Field {
	for f, n := range fieldNames {
		if n != "" && strings.EqualFold(n, name) {
			return Field(f)
		}
	}
	return Any
}
