package query

import (
	"strings"
)

// An Op is the operator of an expression.
type Op uint8

// The operators. A Leaf has no arguments, Not has one, And and Or have at least two.
const (
	Leaf Op = iota
	And
	Or
	Not
)

// A Field is the part of an article in which a word must occur.
type Field uint8

// The fields. The last three are scopes: they describe an article as a whole, and their text is
// a single value instead of words.
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

// Scope reports whether a field describes an article as a whole.
func (f Field) Scope() bool { return f >= Feed }

// An Expr is a query or a part of one. In the result of Parse, an And has no And as an
// argument, an Or no Or, and a Not no Not.
type Expr struct {
	Op   Op
	Args []*Expr

	// For a Leaf:
	Field  Field
	Text   string // as it was written, without quotes
	Prefix bool   // the last word is a prefix
	Stem   bool   // the words match by their stems
}

// String returns a text for which Parse returns an equal expression.
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

// isReserved reports whether a text without quotes would not be read as a word.
func isReserved(text string) bool {
	if isOperator(text) || strings.HasPrefix(text, "-") {
		return true
	}
	name, _, ok := strings.Cut(text, ":")
	return ok && fieldOf(name) != Any
}

func isOperator(text string) bool { return text == "AND" || text == "OR" || text == "NOT" }

// fieldOf returns the field with a name, or Any.
func fieldOf(name string) Field {
	for f, n := range fieldNames {
		if n != "" && strings.EqualFold(n, name) {
			return Field(f)
		}
	}
	return Any
}
