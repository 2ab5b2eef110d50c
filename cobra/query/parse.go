package query

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a query.
const (
	MaxText  = 4096 // bytes
	MaxTerms = 256  // words, all together
	MaxDepth = 32   // parentheses and NOTs within each other
)

// An Error says what is wrong with a query, and where.
type Error struct {
	At   int    // a byte of the text, from 0; its length if something is missing at the end
	What string // what is wrong
	Hint string // what to write instead; may be ""
}

func (e *Error) Error() string {
	s := fmt.Sprintf("at character %d: %s", e.At+1, e.What)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Parse reads a query. The error is an *Error.
func Parse(text string) (*Expr, error) {
	p := parser{text: text}
	if err := p.check(); err != nil {
		return nil, err
	}
	p.next()
	e, err := p.or(0, Any)
	if err != nil {
		return nil, err
	}
	switch {
	case p.token.kind != end:
		return nil, p.unexpected()
	case len(e.String()) > MaxText: // with a field at each word, as it is kept
		return nil, &Error{0, fmt.Sprintf("with a field at each word, the query has %d bytes, and %d are allowed", len(e.String()), MaxText), "split it into several queries"}
	case e.combinations(false) > maxExpansion:
		return nil, &Error{0, fmt.Sprintf("the query stands for more than %d combinations of words", maxExpansion), "split it into several queries"}
	case !e.selects(false):
		return nil, &Error{0, "the query, or a part of it, only excludes words", "add a word to search for, as in: solar NOT advert"}
	}
	return e, nil
}

// check refuses what is no text, or too much of it.
func (p *parser) check() error {
	switch {
	case len(p.text) > MaxText:
		return &Error{MaxText, fmt.Sprintf("the query has %d bytes, and %d are allowed", len(p.text), MaxText),
			"split it into several queries"}
	case !utf8.ValidString(p.text):
		return &Error{0, "the query is not in UTF-8", ""}
	case strings.TrimSpace(p.text) == "":
		return &Error{0, "the query is empty", "write a word, as in: solar"}
	}
	return nil
}

type parser struct {
	text  string
	at    int // behind token
	token token
	terms int
}

// or reads alternatives: what AND joins, with OR between. field is that of the group.
func (p *parser) or(depth int, field Field) (*Expr, error) {
	return p.list(Or, depth, func() (*Expr, error) {
		return p.list(And, depth, func() (*Expr, error) { return p.unary(depth, field) })
	})
}

// list reads what an operator joins.
func (p *parser) list(op Op, depth int, read func() (*Expr, error)) (*Expr, error) {
	var args []*Expr
	for {
		e, err := read()
		if err != nil {
			return nil, err
		}
		if e.Op == op {
			args = append(args, e.Args...)
		} else {
			args = append(args, e)
		}
		switch {
		case op == Or && p.token.kind == or, op == And && p.token.kind == and:
			p.next()
		case op == And && p.token.begins():
		case len(args) == 1:
			return args[0], nil
		default:
			return &Expr{Op: op, Args: args}, nil
		}
	}
}

// unary reads a word, a group, or the negation of one.
func (p *parser) unary(depth int, field Field) (*Expr, error) {
	t := p.token
	if depth > MaxDepth {
		return nil, &Error{t.at, fmt.Sprintf("parentheses or NOTs are nested more than %d deep", MaxDepth), ""}
	}
	switch t.kind {
	case not:
		p.next()
		e, err := p.unary(depth+1, field)
		switch {
		case err != nil:
			return nil, err
		case e.Op == Not:
			return e.Args[0], nil
		}
		return &Expr{Op: Not, Args: []*Expr{e}}, nil
	case open:
		if t.field != Any {
			if field != Any {
				return nil, &Error{t.at, fmt.Sprintf("%s: inside %s:", fieldNames[t.field], fieldNames[field]), "a word can have only one field"}
			}
			if t.field.Scope() {
				return nil, &Error{t.at, fieldNames[t.field] + ": takes one value", fmt.Sprintf("write (%[1]s:… OR %[1]s:…)", fieldNames[t.field])}
			}
		}
		if p.next(); p.token.kind == shut {
			return nil, &Error{p.token.at, "these parentheses are empty", "write a word between ( and )"}
		}
		e, err := p.or(depth+1, cmp.Or(t.field, field))
		if err != nil {
			return nil, err
		}
		if p.token.kind != shut {
			if p.token.kind == end {
				return nil, &Error{t.at, "this parenthesis is not closed", "write ) at the end"}
			}
			return nil, p.unexpected()
		}
		p.next()
		return e, nil
	case word:
		return p.leaf(field)
	case broken:
		return nil, t.err
	}
	return nil, p.unexpected()
}

// leaf reads a word or phrase.
func (p *parser) leaf(field Field) (*Expr, error) {
	t := p.token
	if t.field != Any && field != Any {
		return nil, &Error{t.at, fmt.Sprintf("%s: inside %s:", fieldNames[t.field], fieldNames[field]), "a word can have only one field"}
	}
	e := &Expr{Field: cmp.Or(t.field, field), Text: t.text, Prefix: t.prefix, Stem: t.stem}
	n, err := e.inspect()
	if err != nil {
		err.At = t.at
		return nil, err
	}
	if p.terms += n; p.terms > MaxTerms {
		return nil, &Error{t.at, fmt.Sprintf("the query has more than %d words", MaxTerms), "split it into several queries"}
	}
	p.next()
	return e, nil
}

// unexpected says what is wrong with a token at which something else was to come.
func (p *parser) unexpected() *Error {
	t := p.token
	switch t.kind {
	case end:
		return &Error{t.at, "the query ends where a word is expected", "write a word, or remove the operator at the end"}
	case shut:
		return &Error{t.at, "this ) has no matching (", "remove it, or write ( before it"}
	case and, or:
		return &Error{t.at, fmt.Sprintf("there is no word before %s", t.text), fmt.Sprintf("to search for the word, write it in lower case: %s", strings.ToLower(t.text))}
	case broken:
		return t.err
	}
	return &Error{t.at, "this is not expected here", ""}
}

type tokenKind uint8

const (
	end tokenKind = iota
	word
	and
	or
	not
	open
	shut
	broken
)

// A token is a piece of a query's text, from at.
type token struct {
	kind         tokenKind
	at           int
	field        Field // before a word or (
	text         string
	prefix, stem bool
	err          *Error
}

// begins says whether a token can begin what AND joins.
func (t token) begins() bool {
	return t.kind == word || t.kind == not || t.kind == open || t.kind == broken
}

// next reads a token.
func (p *parser) next() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !isGap(r) {
			break
		}
		p.at += n
	}
	p.token = token{at: p.at}
	t := &p.token
	rest := p.text[p.at:]
	switch {
	case rest == "":
		return
	case rest[0] == '(':
		t.kind = open
		p.at++
		return
	case rest[0] == ')':
		t.kind = shut
		p.at++
		return
	case rest[0] == '-' && len(rest) > 1 && !isBlank(rest[1]):
		t.kind = not
		p.at++
		return
	}
	if w := bareOf(rest); isOperator(w) {
		t.kind = map[string]tokenKind{"AND": and, "OR": or, "NOT": not}[w]
		t.text = w
		p.at += len(w)
		return
	}
	p.value()
}

// value reads a word or phrase with what stands before it.
func (p *parser) value() {
	t := &p.token
	t.kind = word
	if name, _, ok := strings.Cut(bareOf(p.text[p.at:]), ":"); ok {
		if t.field = fieldOf(name); t.field != Any {
			p.at += len(name) + 1
		}
	}
	if strings.HasPrefix(p.text[p.at:], "~") {
		t.stem = true
		p.at++
	}
	rest := p.text[p.at:]
	switch {
	case strings.HasPrefix(rest, "(") && t.field != Any && !t.stem:
		t.kind = open
		p.at++
		return
	case strings.HasPrefix(rest, `"`):
		quoted, _, ok := strings.Cut(rest[1:], `"`)
		if !ok {
			*t = token{kind: broken, at: t.at, err: &Error{p.at, "this quotation is not closed", `write " at its end`}}
			return
		}
		t.text = quoted
		p.at += len(quoted) + 2
	default:
		t.text = bareOf(rest)
		p.at += len(t.text)
	}
	t.text, t.prefix = strings.CutSuffix(t.text, "*")
}

// bareOf returns what stands before the next blank, quote or parenthesis.
func bareOf(s string) string {
	for i, r := range s {
		if !isBareRune(r) {
			return s[:i]
		}
	}
	return s
}

// isBare says whether a text can stand without quotes.
func isBare(s string) bool { return s != "" && bareOf(s) == s && !strings.HasSuffix(s, "*") }

func isBareRune(r rune) bool {
	return r != '(' && r != ')' && r != '"' && !isGap(r)
}

// isGap says whether a rune stands between words. What turns the direction of text does, and blanks of no
// width, so that a query is what it looks like.
func isGap(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\ufeff' || r == '\u200b' || unicode.Is(unicode.Bidi_Control, r)
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }
