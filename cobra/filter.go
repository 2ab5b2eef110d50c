package cobra

import (
	"errors"
	"slices"
	"strings"

	"tidings/cobra/index"
	"tidings/cobra/query"
)

// A FilterConfig bounds a filter.
type FilterConfig struct {
	// General is the share of articles from which on a word selects nothing: a
	// clause all of whose words more articles have is tried on too many of them.
	General float64
	// Generals is how many such clauses a filter takes. Each costs every article
	// that has its rarest word about a nanosecond.
	Generals int
}

// DefaultFilterConfig is for a node of a few million subscriptions.
func DefaultFilterConfig() FilterConfig { return FilterConfig{General: 0.05, Generals: 1 << 16} }

// ErrGeneral is the error of a query whose words nearly all articles have, on a
// filter that has its fill of such.
var ErrGeneral = errors.New("the query is too general: all its words are frequent, and this node has as many such queries as it takes; add a rarer word")

// A Number is a subscription's, from 0 on in the order in which they were made.
type Number uint32

// A Filter has subscriptions, by number, and finds those that articles match
// (section 3.2). Equal clauses of subscriptions are one node of its index.
type Filter struct {
	config FilterConfig
	index  *index.Index
	reader *reader

	// nodes are the subscriptions' nodes, by number: one, or with the bit several
	// an entry of lists, or none.
	nodes []uint32
	lists [][]index.Node
	free  []uint32 // of lists
	alive int

	generals map[index.Node]struct{}
	article  index.Article
	hits     []index.Node
	terms    []index.Term // of the clause that is added or removed
}

const (
	none    = ^uint32(0) // no subscription has the number
	several = 1 << 31
)

// NewFilter returns a filter without subscriptions over an index that is empty.
func NewFilter(c FilterConfig, x *index.Index) *Filter {
	return &Filter{config: c, index: x, reader: newReader(&x.Terms), generals: map[index.Node]struct{}{}}
}

// Subscriptions is how many there are.
func (f *Filter) Subscriptions() int { return f.alive }

// Read finds the terms of an article that anybody subscribed to, and counts its
// words.
func (f *Filter) Read(a *Article, terms *index.Article) { f.reader.read(a, terms) }

// Match returns the nodes that an article matches, until the next call.
func (f *Filter) Match(a *Article) []index.Node {
	f.Read(a, &f.article)
	f.hits = f.index.Match(&f.article, f.hits[:0])
	return f.hits
}

// Add adds a subscription to articles that match one of a query's clauses, with a
// number that is beyond all others, and calls added for each node that is new. The
// error is ErrGeneral, and nothing added.
func (f *Filter) Add(number Number, clauses []query.Clause, added func(index.Node)) error {
	if len(f.generals) >= f.config.Generals && slices.ContainsFunc(clauses, f.general) {
		return ErrGeneral
	}
	for len(f.nodes) < int(number) {
		f.nodes = append(f.nodes, none)
	}
	nodes := make([]index.Node, 0, len(clauses))
	for _, c := range clauses {
		n, isNew := f.index.Add(f.clause(c))
		nodes = append(nodes, n)
		if isNew {
			if f.general(c) {
				f.generals[n] = struct{}{}
			}
			added(n)
		}
	}
	entry := uint32(nodes[0])
	if len(nodes) > 1 {
		entry = f.list(nodes) | several
	}
	f.nodes = append(f.nodes, entry)
	f.alive++
	return nil
}

// list keeps the nodes of a subscription that has several.
func (f *Filter) list(nodes []index.Node) (entry uint32) {
	if last := len(f.free) - 1; last >= 0 {
		entry, f.free = f.free[last], f.free[:last]
		f.lists[entry] = nodes
		return entry
	}
	f.lists = append(f.lists, nodes)
	return uint32(len(f.lists) - 1)
}

// general says whether a clause has frequent words only.
func (f *Filter) general(c query.Clause) bool {
	for _, key := range c.Terms {
		if f.index.Share(key) <= f.config.General {
			return false
		}
	}
	return true
}

// Remove removes a subscription with its query's clauses.
func (f *Filter) Remove(number Number, clauses []query.Clause) {
	entry := f.nodes[number]
	for _, c := range clauses {
		if n, last := f.index.Remove(f.clause(c)); last {
			delete(f.generals, n)
		}
	}
	if entry&several != 0 {
		f.lists[entry&^several] = nil
		f.free = append(f.free, entry&^several)
	}
	f.nodes[number] = none
	f.alive--
}

// Of returns a subscription's nodes, none if nobody has the number.
func (f *Filter) Of(number Number) []index.Node {
	if int(number) >= len(f.nodes) || f.nodes[number] == none {
		return nil
	}
	entry := f.nodes[number]
	if entry&several == 0 {
		return []index.Node{index.Node(entry)}
	}
	return f.lists[entry&^several]
}

// Pack puts together what many Adds made. It is for a filter that was filled at
// once, before anybody keeps anything by its nodes, which get new numbers.
func (f *Filter) Pack() {
	moved := f.index.Pack()
	for i, entry := range f.nodes {
		if entry&several == 0 {
			f.nodes[i] = uint32(moved[entry])
		}
	}
	for _, nodes := range f.lists {
		for i, n := range nodes {
			nodes[i] = moved[n]
		}
	}
	generals := make(map[index.Node]struct{}, len(f.generals))
	for n := range f.generals {
		generals[moved[n]] = struct{}{}
	}
	f.generals = generals
}

// clause gives a clause's keys their terms. It is good until the next call.
func (f *Filter) clause(c query.Clause) index.Clause {
	f.terms = f.terms[:0]
	for _, key := range c.Terms {
		f.terms = append(f.terms, f.term(key))
	}
	ic := index.Clause{Terms: f.terms}
	for _, check := range c.Checks {
		ic.Program = f.program(ic.Program, check)
	}
	if len(c.Checks) > 1 {
		ic.Program = ic.Program.And(len(c.Checks))
	}
	return ic
}

func (f *Filter) term(key string) index.Term {
	if n, ok := f.index.Lookup(key); ok {
		return n
	}
	f.reader.wants.Add(key)
	return f.index.Register(strings.Clone(key)) // which may be a part of a query's text
}

// program appends what a check says.
func (f *Filter) program(p index.Program, c query.Check) index.Program {
	switch c.Op {
	case query.Leaf:
		terms := make([]index.Term, len(c.Keys))
		for i, key := range c.Keys {
			terms[i] = f.term(key)
		}
		if len(terms) == 1 {
			return p.Has(terms[0])
		}
		return p.Phrase(terms)
	case query.Not:
		return f.program(p, c.Args[0]).Not()
	}
	for _, a := range c.Args {
		p = f.program(p, a)
	}
	if c.Op == query.And {
		return p.And(len(c.Args))
	}
	return p.Or(len(c.Args))
}
