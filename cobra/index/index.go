package index

import (
	"fmt"
	"slices"
)

// A Node is the number of a clause that is in an index: equal clauses are one
// node. Numbers of removed nodes are given again.
type Node uint32

// A Clause is a conjunction of terms, and a program where they are not all. It
// has one term at least: that is how it is found.
type Clause struct {
	Terms   []Term
	Program Program
}

// MaxTerms is how many terms a clause may have.
const MaxTerms = 256

// An Index finds the nodes that an article matches.
type Index struct {
	Terms

	places  []uint32 // by term: its bucket, 0 for none
	buckets []bucket // the first is nobody's
	vacant  []uint32 // buckets

	uses  []uint32 // by node: clauses that were added and not removed
	free  []Node
	nodes int

	separate bool
	programs programs
	bits     []uint64 // of the article that is matched, by term
	row      []uint32
	rows     []uint32
	stack    []bool
}

// New returns an index of nothing.
func New() *Index {
	return &Index{Terms: newTerms(), buckets: make([]bucket, 1), programs: newPrograms()}
}

// NewSeparate returns an index in which each clause is a node of its own, equal or
// not. It shows what interning saves.
func NewSeparate() *Index {
	x := New()
	x.separate = true
	return x
}

// Nodes is how many different clauses there are.
func (x *Index) Nodes() int { return x.nodes }

// Limit is more than any node's number, or as much.
func (x *Index) Limit() int { return len(x.uses) }

// Uses is how often a node's clause was added and not removed.
func (x *Index) Uses(n Node) int { return int(x.uses[n]) }

// Add adds a clause and returns its node, and whether it is new. From then on
// articles match it. Terms may come in any order, and more than once.
func (x *Index) Add(c Clause) (n Node, isNew bool) {
	b, s, at, found := x.locate(c)
	if found && !x.separate {
		n = Node(x.buckets[b].column(s, s.width())[at])
		x.uses[n]++
		return n, false
	}
	if b == 0 {
		b = x.newBucket()
		x.places[x.row[0]] = uint32(b)
	}
	n = x.take()
	x.buckets[b] = x.buckets[b].insert(s, at, x.row[1:], uint32(n))
	x.count(c, 1)
	return n, true
}

// take gives a new node its number.
func (x *Index) take() (n Node) {
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
		x.uses[n] = 1
	} else {
		n = Node(len(x.uses))
		x.uses = append(x.uses, 1)
	}
	x.nodes++
	return n
}

// Remove removes a clause that was added. It returns its node, and whether
// that was the last clause of it; then the node is no more.
func (x *Index) Remove(c Clause) (n Node, last bool) {
	b, s, at, found := x.locate(c)
	if !found {
		panic("index: removing a clause that is not there")
	}
	n = Node(x.buckets[b].column(s, s.width())[at])
	if x.uses[n]--; x.uses[n] > 0 {
		return n, false
	}
	if x.buckets[b] = x.buckets[b].remove(s, at); x.buckets[b] == nil {
		x.places[x.row[0]] = 0
		x.vacant = append(x.vacant, uint32(b))
	}
	x.nodes--
	x.free = append(x.free, n)
	x.count(c, -1)
	return n, true
}

// Pack puts together what was added one by one, for an index that was filled at
// once: it takes a third less memory then, and nodes that articles hit together
// lie together in rings. Nodes get new numbers; moved has each one's, by its old one.
func (x *Index) Pack() (moved []Node) {
	terms := make([]Term, 0, len(x.buckets))
	for w, b := range x.places {
		if b != 0 {
			terms = append(terms, Term(w))
		}
	}
	slices.SortFunc(terms, func(a, b Term) int { return x.rarer(b, a) })
	moved = make([]Node, len(x.uses))
	for i, b := range x.buckets {
		x.buckets[i] = slices.Clone(b)
	}
	uses := make([]uint32, 0, x.nodes)
	for _, w := range terms {
		at := x.places[w]
		b := x.buckets[at]
		for s := range b.each() {
			nodes := b.column(s, s.width())
			for i, n := range nodes {
				moved[n] = Node(len(uses))
				nodes[i] = uint32(len(uses))
				uses = append(uses, x.uses[n])
			}
		}
	}
	x.uses, x.free = uses, nil
	return moved
}

// count counts a node's terms and program.
func (x *Index) count(c Clause, by int) {
	for _, w := range x.row[:x.terms(c)] {
		x.use(Term(w), by)
	}
	if c.Program != nil {
		x.programs.use(x.row[len(x.row)-1], by)
		for w := range c.Program.terms() {
			x.use(w, by)
		}
	}
}

// terms is how many cells of the located row are terms.
func (x *Index) terms(c Clause) int {
	if c.Program != nil {
		return len(x.row) - 1
	}
	return len(x.row)
}

// locate finds a clause's bucket, 0 if there is none, and its row there, or where
// it would be. It leaves the clause's cells in x.row: its terms, the rarest first,
// then its program.
func (x *Index) locate(c Clause) (b int, s segment, at int, found bool) {
	if len(c.Terms) == 0 || len(c.Terms) > MaxTerms {
		panic(fmt.Sprintf("index: a clause of %d terms", len(c.Terms)))
	}
	x.row = x.row[:0]
	for _, w := range c.Terms {
		x.row = append(x.row, uint32(w))
	}
	slices.SortFunc(x.row, func(a, b uint32) int { return x.rarer(Term(a), Term(b)) })
	x.row = slices.Compact(x.row)
	kind := uint32(len(x.row) - 1)
	if c.Program != nil {
		x.row = append(x.row, x.programs.number(c.Program))
		kind = (kind + 1) | programmed
	}
	for len(x.places) <= int(x.row[0]) {
		x.places = append(x.places, 0)
	}
	b = int(x.places[x.row[0]])
	s, at, found = x.buckets[b].find(kind, x.row[1:])
	return b, s, at, found
}

func (x *Index) newBucket() int {
	if last := len(x.vacant) - 1; last >= 0 {
		b := x.vacant[last]
		x.vacant = x.vacant[:last]
		return int(b)
	}
	x.buckets = append(x.buckets, nil)
	return len(x.buckets) - 1
}
