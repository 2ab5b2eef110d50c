package query

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// MaxClauses is how many conjunctions a query may be taken apart into. One with more
// is checked as a whole, where one of a few of its words is.
const MaxClauses = 64

// maxExpansion is how many conjunctions a query may stand for at all: what is
// beyond was made by a program, and no reader could say what it finds.
const maxExpansion = 1 << 16

// A Clause is a conjunction: an article matches it if it has all Terms and passes
// all Checks. It has one term at least.
type Clause struct {
	Terms  []string // keys, each once
	Checks []Check
}

// A Check is a condition on an article.
type Check struct {
	Op   Op
	Keys []string // of a Leaf: they stand one behind the other
	Args []Check
}

// Clauses takes a query apart that Parse returned: an article matches it if it
// matches one of the clauses. Equal expressions have equal clauses, always: that
// is how what was added to an index is found there again.
func (e *Expr) Clauses() []Clause {
	language := e.language()
	if e.Op == Leaf {
		return []Clause{clauseOf(literals{language: language}.of(e, false))}
	}
	if all := e.combine(false, literals{language, map[*Expr]*literal{}}); all != nil {
		var clauses []Clause
		seen := map[string]bool{}
		for _, conjunction := range all {
			c := clauseOf(conjunction)
			if id := c.id(); !seen[id] {
				seen[id] = true
				clauses = append(clauses, c)
			}
		}
		return clauses
	}
	cover, _ := e.cover(false, language)
	whole := e.check(false, language)
	slices.Sort(cover)
	var clauses []Clause
	for _, key := range slices.Compact(cover) {
		clauses = append(clauses, Clause{Terms: []string{key}, Checks: []Check{whole}})
	}
	return clauses
}

// selects says whether all that matches has a word that the expression names.
func (e *Expr) selects(not bool) bool {
	switch turned(e.Op, not) {
	case Leaf:
		return !not
	case Not:
		return e.Args[0].selects(!not)
	case Or:
		return !slices.ContainsFunc(e.Args, func(a *Expr) bool { return !a.selects(not) })
	}
	return slices.ContainsFunc(e.Args, func(a *Expr) bool { return a.selects(not) })
}

// A literal is a leaf, or the negation of one, as it is in a clause: terms that an
// article must have, and a check, which may be missing.
type literal struct {
	terms []string
	check *Check
	id    string // of the check
}

// literals are those of a query. A leaf that is in many clauses is cut once.
type literals struct {
	language string
	known    map[*Expr]*literal // leaves are under one NOT or none, each time
}

// of returns the conjunction of a leaf alone.
func (ls literals) of(e *Expr, not bool) []*literal {
	if l := ls.known[e]; l != nil {
		return []*literal{l}
	}
	keys, l := e.keys(ls.language), &literal{}
	switch {
	case not:
		l.check = &Check{Op: Not, Args: []Check{{Keys: keys}}}
	case len(keys) > 1:
		l.terms, l.check = keys, &Check{Keys: keys}
	default:
		l.terms = keys
	}
	if l.check != nil {
		l.id = l.check.id()
	}
	if ls.known != nil {
		ls.known[e] = l
	}
	return []*literal{l}
}

// turned returns what an operator is under a negation (De Morgan).
func turned(op Op, not bool) Op {
	switch {
	case !not:
		return op
	case op == And:
		return Or
	case op == Or:
		return And
	}
	return op
}

// combinations is how many conjunctions an expression stands for, or a number beyond
// maxExpansion.
func (e *Expr) combinations(not bool) int {
	switch turned(e.Op, not) {
	case Leaf:
		return 1
	case Not:
		return e.Args[0].combinations(!not)
	case Or:
		n := 0
		for _, a := range e.Args {
			n = min(n+a.combinations(not), maxExpansion+1)
		}
		return n
	}
	n := 1
	for _, a := range e.Args {
		n = min(n*a.combinations(not), maxExpansion+1)
	}
	return n
}

// combine returns the conjunctions that an expression stands for, nil for more
// than MaxClauses.
func (e *Expr) combine(not bool, ls literals) [][]*literal {
	if e.combinations(not) > MaxClauses {
		return nil
	}
	switch turned(e.Op, not) {
	case Leaf:
		return [][]*literal{ls.of(e, not)}
	case Not:
		return e.Args[0].combine(!not, ls)
	case Or:
		var all [][]*literal
		for _, a := range e.Args {
			all = append(all, a.combine(not, ls)...)
		}
		return all
	}
	all := [][]*literal{nil}
	for _, a := range e.Args {
		more := a.combine(not, ls)
		if len(more) == 1 {
			for i := range all {
				all[i] = append(all[i], more[0]...)
			}
			continue
		}
		longer := make([][]*literal, 0, len(all)*len(more))
		for _, before := range all {
			for _, m := range more {
				longer = append(longer, slices.Concat(before, m))
			}
		}
		all = longer
	}
	return all
}

// clauseOf makes a clause of a conjunction.
func clauseOf(conjunction []*literal) Clause {
	var c Clause
	var checks []*literal
	for _, l := range conjunction {
		c.Terms = append(c.Terms, l.terms...)
		if l.check != nil {
			checks = append(checks, l)
		}
	}
	slices.Sort(c.Terms)
	c.Terms = slices.Compact(c.Terms)
	slices.SortFunc(checks, func(a, b *literal) int { return cmp.Compare(a.id, b.id) })
	for _, l := range slices.CompactFunc(checks, func(a, b *literal) bool { return a.id == b.id }) {
		c.Checks = append(c.Checks, *l.check)
	}
	return c
}

// id tells clauses apart.
func (c Clause) id() string {
	var id strings.Builder
	id.WriteString(strings.Join(c.Terms, "\x00"))
	for _, k := range c.Checks {
		id.WriteString("\x01" + k.id())
	}
	return id.String()
}

// id tells checks apart.
func (c Check) id() string {
	switch c.Op {
	case Leaf:
		return strings.Join(c.Keys, "\x00")
	case Not:
		return "\x02" + c.Args[0].id()
	}
	id := "\x03"
	if c.Op == Or {
		id = "\x04"
	}
	for _, a := range c.Args {
		id += a.id() + "\x05"
	}
	return id + "\x06"
}

// check returns an expression as a condition.
func (e *Expr) check(not bool, language string) Check {
	switch op := turned(e.Op, not); op {
	case Leaf:
		c := Check{Keys: e.keys(language)}
		if not {
			return Check{Op: Not, Args: []Check{c}}
		}
		return c
	case Not:
		return e.Args[0].check(!not, language)
	default:
		c := Check{Op: op}
		for _, a := range e.Args {
			c.Args = append(c.Args, a.check(not, language))
		}
		return c
	}
}

// cover returns keys of which an article that matches has one at least, and a
// guess at the share of articles that have one; nil if there are none. Of a
// conjunction it is the argument that the fewest articles match, by the guess
// that long words are rare.
func (e *Expr) cover(not bool, language string) (keys []string, expected float64) {
	switch turned(e.Op, not) {
	case Leaf:
		if not {
			return nil, 1
		}
		longest := slices.MaxFunc(e.keys(language), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		return []string{longest}, math.Pow(0.45, float64(len(longest)))
	case Not:
		return e.Args[0].cover(!not, language)
	case Or:
		for _, a := range e.Args {
			more, s := a.cover(not, language)
			if more == nil {
				return nil, 1
			}
			keys, expected = append(keys, more...), expected+s
		}
		return keys, expected
	}
	expected = math.Inf(1)
	for _, a := range e.Args {
		if more, s := a.cover(not, language); more != nil && s < expected {
			keys, expected = more, s
		}
	}
	return keys, expected
}
