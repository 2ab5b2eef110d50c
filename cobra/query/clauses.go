package query

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// MaxClauses bounds the conjunctions that a query is expanded into. A query with more is
// checked as a whole against articles that contain certain of its words.
const MaxClauses = 64

// maxCombinations bounds the conjunctions that a query may stand for. A larger query was made
// by a program, and no reader could tell what it finds.
const maxCombinations = 1 << 16

// A Clause is a conjunction: an article matches it if it has all Terms and passes all Checks.
// It has at least one term.
type Clause struct {
	Terms  []string // keys, sorted, without duplicates
	Checks []Check
}

// A Check is a condition on an article.
type Check struct {
	Op   Op
	Keys []string // of a Leaf: keys at consecutive positions
	Args []Check
}

// Clauses expands a query that Parse returned: an article matches it if it matches one of the
// clauses. Equal expressions always have equal clauses, so that clauses that were added to an
// index are found again for removal.
func (e *Expr) Clauses() []Clause {
	language := e.language()
	if e.Op == Leaf {
		return []Clause{clauseOf(literals{language: language}.literal(e, false))}
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
	check := e.check(false, language)
	slices.Sort(cover)
	var clauses []Clause
	for _, key := range slices.Compact(cover) {
		clauses = append(clauses, Clause{Terms: []string{key}, Checks: []Check{check}})
	}
	return clauses
}

// requiresTerm reports whether every match contains a term of the expression.
func (e *Expr) requiresTerm(negated bool) bool {
	switch effectiveOp(e.Op, negated) {
	case Leaf:
		return !negated
	case Not:
		return e.Args[0].requiresTerm(!negated)
	case Or:
		return !slices.ContainsFunc(e.Args, func(a *Expr) bool { return !a.requiresTerm(negated) })
	}
	return slices.ContainsFunc(e.Args, func(a *Expr) bool { return a.requiresTerm(negated) })
}

// A literal is a leaf or its negation within a conjunction: terms that an article must have,
// and a check, which may be nil.
type literal struct {
	terms []string
	check *Check
	id    string // id of the check
}

// literals builds the literals of a query. It caches them, because a leaf may be in many
// conjunctions.
type literals struct {
	language string
	cache    map[*Expr]*literal // a leaf is always negated, or never
}

// literal returns the conjunction that consists of a leaf alone.
func (ls literals) literal(e *Expr, negated bool) []*literal {
	if l := ls.cache[e]; l != nil {
		return []*literal{l}
	}
	keys, l := e.keys(ls.language), &literal{}
	switch {
	case negated:
		l.check = &Check{Op: Not, Args: []Check{{Keys: keys}}}
	case len(keys) > 1:
		l.terms, l.check = keys, &Check{Keys: keys}
	default:
		l.terms = keys
	}
	if l.check != nil {
		l.id = l.check.id()
	}
	if ls.cache != nil {
		ls.cache[e] = l
	}
	return []*literal{l}
}

// effectiveOp returns the operator that results under a negation (De Morgan).
func effectiveOp(op Op, negated bool) Op {
	switch {
	case !negated:
		return op
	case op == And:
		return Or
	case op == Or:
		return And
	}
	return op
}

// combinations returns the number of conjunctions that an expression stands for, or
// maxCombinations+1 if there are more.
func (e *Expr) combinations(negated bool) int {
	switch effectiveOp(e.Op, negated) {
	case Leaf:
		return 1
	case Not:
		return e.Args[0].combinations(!negated)
	case Or:
		n := 0
		for _, a := range e.Args {
			n = min(n+a.combinations(negated), maxCombinations+1)
		}
		return n
	}
	n := 1
	for _, a := range e.Args {
		n = min(n*a.combinations(negated), maxCombinations+1)
	}
	return n
}

// combine returns the conjunctions that an expression stands for, or nil if there are more than
// MaxClauses.
func (e *Expr) combine(negated bool, ls literals) [][]*literal {
	if e.combinations(negated) > MaxClauses {
		return nil
	}
	switch effectiveOp(e.Op, negated) {
	case Leaf:
		return [][]*literal{ls.literal(e, negated)}
	case Not:
		return e.Args[0].combine(!negated, ls)
	case Or:
		var all [][]*literal
		for _, a := range e.Args {
			all = append(all, a.combine(negated, ls)...)
		}
		return all
	}
	all := [][]*literal{nil}
	for _, a := range e.Args {
		more := a.combine(negated, ls)
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

// id returns a string that is equal for equal clauses only.
func (c Clause) id() string {
	var id strings.Builder
	id.WriteString(strings.Join(c.Terms, "\x00"))
	for _, k := range c.Checks {
		id.WriteString("\x01" + k.id())
	}
	return id.String()
}

// id returns a string that is equal for equal checks only.
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

// check converts an expression to a condition.
func (e *Expr) check(negated bool, language string) Check {
	switch op := effectiveOp(e.Op, negated); op {
	case Leaf:
		c := Check{Keys: e.keys(language)}
		if negated {
			return Check{Op: Not, Args: []Check{c}}
		}
		return c
	case Not:
		return e.Args[0].check(!negated, language)
	default:
		c := Check{Op: op}
		for _, a := range e.Args {
			c.Args = append(c.Args, a.check(negated, language))
		}
		return c
	}
}

// cover returns keys of which every match has at least one, and an estimate of the share of
// articles that have one of them; nil if there are no such keys. For a conjunction the argument
// with the smallest estimate is used. The estimate assumes that long words are rare.
func (e *Expr) cover(negated bool, language string) (keys []string, share float64) {
	switch effectiveOp(e.Op, negated) {
	case Leaf:
		if negated {
			return nil, 1
		}
		longest := slices.MaxFunc(e.keys(language), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		return []string{longest}, math.Pow(0.45, float64(len(longest)))
	case Not:
		return e.Args[0].cover(!negated, language)
	case Or:
		for _, a := range e.Args {
			more, s := a.cover(negated, language)
			if more == nil {
				return nil, 1
			}
			keys, share = append(keys, more...), share+s
		}
		return keys, share
	}
	share = math.Inf(1)
	for _, a := range e.Args {
		if more, s := a.cover(negated, language); more != nil && s < share {
			keys, share = more, s
		}
	}
	return keys, share
}
