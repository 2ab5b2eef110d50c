package index

import (
	"fmt"
	"slices"
)

// A Node is the number of a distinct clause in an index. Numbers of removed nodes are reused.
type Node uint32

// A Clause is a conjunction of at least one term, with an optional program for other
// conditions.
type Clause struct {
	Terms   []Term
	Program Program
}

// MaxTerms is the most terms of a clause.
const MaxTerms = 256

// An Index finds the nodes that an article matches.
type Index struct {
	Terms

	bucketOf    []uint32 // by term: index of its bucket, 0 if there is none
	buckets     []bucket // the first one is not used
	freeBuckets []uint32 // unused entries of buckets

	uses  []uint32 // by node: number of clauses that were added and not removed
	free  []Node   // unused node numbers
	nodes int

	separate bool // see NewSeparate
	programs programs
	present  []uint64 // terms of the article that is being matched, as a bitmap
	row      []uint32 // buffer for locate
	rows     []uint32 // buffer for matchColumn
	stack    []bool   // buffer for Program.run
}

// New returns an empty index.
func New() *Index {
	return &Index{Terms: newTerms(), buckets: make([]bucket, 1), programs: newPrograms()}
}

// NewSeparate returns an index in which each clause is a node of its own, even if it equals
// another. It serves to measure what interning saves.
func NewSeparate() *Index {
	x := New()
	x.separate = true
	return x
}

// Nodes returns the number of distinct clauses.
func (x *Index) Nodes() int { return x.nodes }

// Limit returns a number above those of all nodes.
func (x *Index) Limit() int { return len(x.uses) }

// Uses returns how often a node's clause was added and not removed.
func (x *Index) Uses(n Node) int { return int(x.uses[n]) }

// Add adds a clause and returns its node, and whether the node is new. Terms may be in any
// order and repeated.
func (x *Index) Add(c Clause) (n Node, isNew bool) {
	b, s, at, found := x.locate(c)
	if found && !x.separate {
		n = Node(x.buckets[b].column(s, s.width())[at])
		x.uses[n]++
		return n, false
	}
	if b == 0 {
		b = x.newBucket()
		x.bucketOf[x.row[0]] = uint32(b)
	}
	n = x.newNode()
	x.buckets[b] = x.buckets[b].insert(s, at, x.row[1:], uint32(n))
	x.countUses(c, 1)
	return n, true
}

// newNode assigns a number to a new node.
func (x *Index) newNode() (n Node) {
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

// Remove removes a clause that was added. It returns its node, and whether that was its last
// use; if so, the node no longer exists.
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
		x.bucketOf[x.row[0]] = 0
		x.freeBuckets = append(x.freeBuckets, uint32(b))
	}
	x.nodes--
	x.free = append(x.free, n)
	x.countUses(c, -1)
	return n, true
}

// Pack compacts an index that was filled clause by clause. It then uses a third less memory,
// and nodes that match together are close together in rings. Nodes are renumbered; moved maps
// old numbers to new ones.
func (x *Index) Pack() (moved []Node) {
	terms := make([]Term, 0, len(x.buckets))
	for w, b := range x.bucketOf {
		if b != 0 {
			terms = append(terms, Term(w))
		}
	}
	slices.SortFunc(terms, func(a, b Term) int { return x.compareRarity(b, a) })
	moved = make([]Node, len(x.uses))
	for i, b := range x.buckets {
		x.buckets[i] = slices.Clone(b)
	}
	uses := make([]uint32, 0, x.nodes)
	for _, w := range terms {
		at := x.bucketOf[w]
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

// countUses adds by to the uses of the terms and the program of a new or removed node.
func (x *Index) countUses(c Clause, by int) {
	for _, w := range x.row[:x.termCells(c)] {
		x.countUse(Term(w), by)
	}
	if c.Program != nil {
		x.programs.countUse(x.row[len(x.row)-1], by)
		for w := range c.Program.terms() {
			x.countUse(w, by)
		}
	}
}

// termCells returns the number of cells in the located row that are terms.
func (x *Index) termCells(c Clause) int {
	if c.Program != nil {
		return len(x.row) - 1
	}
	return len(x.row)
}

// locate finds a clause's bucket, 0 if there is none, and its row there, or the place at which
// it would be inserted. It sets x.row to the cells of the clause: its terms by rarity, then its
// program.
func (x *Index) locate(c Clause) (b int, s segment, at int, found bool) {
	if len(c.Terms) == 0 || len(c.Terms) > MaxTerms {
		panic(fmt.Sprintf("index: a clause of %d terms", len(c.Terms)))
	}
	x.row = x.row[:0]
	for _, w := range c.Terms {
		x.row = append(x.row, uint32(w))
	}
	slices.SortFunc(x.row, func(a, b uint32) int { return x.compareRarity(Term(a), Term(b)) })
	x.row = slices.Compact(x.row)
	kind := uint32(len(x.row) - 1)
	if c.Program != nil {
		x.row = append(x.row, x.programs.number(c.Program))
		kind = (kind + 1) | withPrograms
	}
	for len(x.bucketOf) <= int(x.row[0]) {
		x.bucketOf = append(x.bucketOf, 0)
	}
	b = int(x.bucketOf[x.row[0]])
	s, at, found = x.buckets[b].find(kind, x.row[1:])
	return b, s, at, found
}

func (x *Index) newBucket() int {
	if last := len(x.freeBuckets) - 1; last >= 0 {
		b := x.freeBuckets[last]
		x.freeBuckets = x.freeBuckets[:last]
		return int(b)
	}
	x.buckets = append(x.buckets, nil)
	return len(x.buckets) - 1
}
