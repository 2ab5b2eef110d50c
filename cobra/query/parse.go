package query

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tidings/cobra/words"
)

// Limits of a query.
const (
	MaxText  = 4096 // bytes
	MaxTerms = 256  // words in total
	MaxDepth = 32   // nested parentheses and NOTs
)

// An Error describes what is wrong with a query, and where.
type Error struct {
	At   int    // byte offset in the text; its length if something is missing at the end
	What string // what is wrong
	Hint string // what to write instead; may be ""
}

// splitHint is the hint for a query that is too large.
const splitHint = "split it into several searches"

func (e *Error) Error() string {
	s := e.What
	if e.At > 0 {
		s = fmt.Sprintf("at character %d: %s", e.At+1, s)
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Parse parses a query. The error is an *Error.
func Parse(text string) (*Expr, error) {
	p := parser{text: text}
	if err := p.checkText(); err != nil {
		return nil, err
	}
	if p.text = typedAlike.Replace(words.Visible(text)); strings.TrimSpace(p.text) == "" {
		return nil, errEmpty
	}
	p.readToken()
	e, err := p.parseOr(0, Any)
	if err != nil {
		return nil, err
	}
	switch {
	case p.token.kind != endOfText:
		return nil, p.unexpected()
	case len(e.String()) > MaxText: // String repeats the field of a group at each word
		return nil, &Error{0, fmt.Sprintf("with a field at each word the query has %d bytes, and at most %d are allowed", len(e.String()), MaxText), splitHint}
	case e.combinations(false) > maxCombinations:
		return nil, &Error{0, fmt.Sprintf("the query has more than %d combinations of words", maxCombinations), splitHint}
	case !e.requiresTerm(false):
		return nil, &Error{0, "the query, or one side of an OR, only says what to exclude", "add a word to search for, such as: solar NOT advert"}
	}
	return e, nil
}

// errEmpty is the error for a query that shows nothing.
var errEmpty = &Error{0, "the query is empty", "write a word to search for, such as: solar"}

// typedAlike replaces the characters that keyboards and programs write for those of the language: quotation marks
// of several countries, and the wide forms of East Asia.
var typedAlike = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‟", `"`, "«", `"`, "»", `"`, "＂", `"`,
	"（", "(", "）", ")", "：", ":", "＊", "*", "～", "~", "－", "-")

// checkText refuses text that is too long or invalid.
func (p *parser) checkText() error {
	switch {
	case len(p.text) > MaxText:
		return &Error{MaxText, fmt.Sprintf("the query has %d bytes, and at most %d are allowed", len(p.text), MaxText), splitHint}
	case !utf8.ValidString(p.text):
		return &Error{0, "the query is not in UTF-8", ""}
	}
	return nil
}

type parser struct {
	text  string
	at    int // offset after token
	token token
	terms int
}

// parseOr parses operands of OR, each of them operands of AND. field is that of the enclosing
// group.
func (p *parser) parseOr(depth int, field Field) (*Expr, error) {
	return p.parseList(Or, func() (*Expr, error) {
		return p.parseList(And, func() (*Expr, error) { return p.parseUnary(depth, field) })
	})
}

// parseList parses the operands of an operator.
func (p *parser) parseList(op Op, read func() (*Expr, error)) (*Expr, error) {
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
			p.readToken()
		case op == And && p.token.startsOperand():
		case len(args) == 1:
			return args[0], nil
		default:
			return &Expr{Op: op, Args: args}, nil
		}
	}
}

// parseUnary parses a word, a group, or the negation of one.
func (p *parser) parseUnary(depth int, field Field) (*Expr, error) {
	t := p.token
	if depth > MaxDepth {
		return nil, &Error{t.at, fmt.Sprintf("more than %d nested parentheses or NOTs", MaxDepth), splitHint}
	}
	switch t.kind {
	case not:
		p.readToken()
		e, err := p.parseUnary(depth+1, field)
		switch {
		case err != nil:
			return nil, err
		case e.Op == Not:
			return e.Args[0], nil
		}
		return &Expr{Op: Not, Args: []*Expr{e}}, nil
	case openParen:
		if t.field != Any {
			if field != Any {
				return nil, &Error{t.at, fmt.Sprintf("%s: cannot be used inside %s:", fieldNames[t.field], fieldNames[field]), "give each word only one field"}
			}
			if t.field.Scope() {
				return nil, &Error{t.at, fieldNames[t.field] + ": cannot stand before a parenthesis", fmt.Sprintf("write (%[1]s:… OR %[1]s:…)", fieldNames[t.field])}
			}
		}
		if p.readToken(); p.token.kind == closeParen {
			return nil, &Error{p.token.at, "the parentheses are empty", "write a word between ( and )"}
		}
		e, err := p.parseOr(depth+1, cmp.Or(t.field, field))
		if err != nil {
			return nil, err
		}
		if p.token.kind != closeParen {
			if p.token.kind == endOfText {
				return nil, &Error{t.at, "the parenthesis is not closed", "write ) at the end"}
			}
			return nil, p.unexpected()
		}
		p.readToken()
		return e, nil
	case word:
		return p.parseLeaf(field)
	case invalid:
		return nil, t.err
	}
	return nil, p.unexpected()
}

// parseLeaf parses a word or phrase.
func (p *parser) parseLeaf(field Field) (*Expr, error) {
	t := p.token
	if t.field != Any && field != Any {
		return nil, &Error{t.at, fmt.Sprintf("%s: cannot be used inside %s:", fieldNames[t.field], fieldNames[field]), "give each word only one field"}
	}
	e := &Expr{Field: cmp.Or(t.field, field), Text: t.text, Prefix: t.prefix, Stem: t.stem}
	n, err := e.validate()
	if err != nil {
		err.At = t.at
		return nil, err
	}
	if p.terms += n; p.terms > MaxTerms {
		return nil, &Error{t.at, fmt.Sprintf("the query has more than %d words", MaxTerms), splitHint}
	}
	p.readToken()
	return e, nil
}

// unexpected returns the error for a token that is not allowed at its position.
func (p *parser) unexpected() *Error {
	t := p.token
	switch t.kind {
	case endOfText:
		return &Error{t.at, "a word is missing at the end", "write a word, or remove the operator before it"}
	case closeParen:
		return &Error{t.at, "there is no ( for this )", "remove it, or write ( before it"}
	case and, or:
		return &Error{t.at, fmt.Sprintf("no word before %s", t.text), fmt.Sprintf("to search for the word itself, write it in lower case: %s", strings.ToLower(t.text))}
	case invalid:
		return t.err
	}
	return &Error{t.at, "not expected here", "remove it"}
}

type tokenKind uint8

const (
	endOfText tokenKind = iota
	word
	and
	or
	not
	openParen
	closeParen
	invalid
)

// A token is a part of a query's text that begins at offset at.
type token struct {
	kind         tokenKind
	at           int
	field        Field // before a word or (
	text         string
	prefix, stem bool
	err          *Error
}

// startsOperand reports whether a token can start an operand of AND.
func (t token) startsOperand() bool {
	return t.kind == word || t.kind == not || t.kind == openParen || t.kind == invalid
}

// readToken reads the next token.
func (p *parser) readToken() {
	for p.at < len(p.text) {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if !isSeparator(r) {
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
		t.kind = openParen
		p.at++
		return
	case rest[0] == ')':
		t.kind = closeParen
		p.at++
		return
	case rest[0] == '-' && len(rest) > 1 && !isBlank(rest[1]):
		t.kind = not
		p.at++
		return
	}
	if w := bareText(rest); isOperator(w) {
		t.kind = map[string]tokenKind{"AND": and, "OR": or, "NOT": not}[w]
		t.text = w
		p.at += len(w)
		return
	}
	p.readValue()
}

// readValue reads a word or phrase with its field and ~.
func (p *parser) readValue() {
	t := &p.token
	t.kind = word
	if name, _, ok := strings.Cut(bareText(p.text[p.at:]), ":"); ok {
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
		t.kind = openParen
		p.at++
		return
	case strings.HasPrefix(rest, `"`):
		quoted, _, ok := strings.Cut(rest[1:], `"`)
		if !ok {
			*t = token{kind: invalid, at: t.at, err: &Error{p.at, "the quotation mark is not closed", `write " at its end`}}
			return
		}
		t.text = quoted
		p.at += len(quoted) + 2
	default:
		t.text = bareText(rest)
		p.at += len(t.text)
	}
	t.text, t.prefix = strings.CutSuffix(t.text, "*")
}

// bareText returns the text before the next blank, quote or parenthesis.
func bareText(s string) string {
	for i, r := range s {
		if !isBareRune(r) {
			return s[:i]
		}
	}
	return s
}

// isBare reports whether a text can be written without quotes.
func isBare(s string) bool { return s != "" && bareText(s) == s && !strings.HasSuffix(s, "*") }

func isBareRune(r rune) bool {
	return r != '(' && r != ')' && r != '"' && !isSeparator(r)
}

// isSeparator reports whether a rune separates words. Runes that show nothing are gone before.
func isSeparator(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }
