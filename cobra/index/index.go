package index

import (
	"fmt"
	"slices"
)

// A ClauseID is the number of a distinct clause in an index. Numbers of removed clauses are
// reused.
type ClauseID uint32

// A Clause is a conjunction of at least one term, with an optional program for other
// conditions.
type Clause struct {
	Terms   []Term
	Program Program
}

// MaxTerms is the most terms of a clause.
const MaxTerms = 256

// An Index finds the clauses that an article matches.
type Index struct {
	Terms

	bucketOf    []uint32 // by term: index of its bucket, 0 if there is none
	buckets     []bucket // the first one is not used
	freeBuckets []uint32 // unused entries of buckets

	uses    []uint32   // by clause: how often it was added and not removed
	free    []ClauseID // unused clause numbers
	clauses int

	separate bool // see NewSeparate
	programs programs
	present  []uint64 // terms of the article that is being matched, as a bitmap
	row      []uint32 // buffer for locate
	rows     []uint32 // buffer for matchFirst
	sorted   []uint32 // terms of the article that is being matched, in order; empty until they are needed
	stack    []bool   // buffer for Program.run
}

// New returns an empty index.
func New() *Index {
	return &Index{Terms: newTerms(), buckets: make([]bucket, 1), programs: newPrograms()}
}

// NewSeparate returns an index in which each added clause has an id of its own, even if it equals
// another. It serves to measure what interning saves.
func NewSeparate() *Index {
	x := New()
	x.separate = true
	return x
}

// Clauses returns the number of distinct clauses.
func (x *Index) Clauses() int { return x.clauses }

// Limit returns a number above those of all clauses.
func (x *Index) Limit() int { return len(x.uses) }

// Uses returns how often a clause was added and not removed.
func (x *Index) Uses(n ClauseID) int { return int(x.uses[n]) }

// Add adds a clause and returns its id, and whether the clause is new. Terms may be in any
// order and repeated.
func (x *Index) Add(c Clause) (n ClauseID, isNew bool) {
	b, s, at, found := x.locate(c)
	if found && !x.separate {
		n = ClauseID(x.buckets[b].column(s, s.width())[at])
		x.uses[n]++
		return n, false
	}
	if b == 0 {
		b = x.newBucket()
		x.bucketOf[x.row[0]] = uint32(b)
	}
	n = x.newID()
	x.buckets[b] = x.buckets[b].insert(s, at, x.row[1:], uint32(n))
	x.countUses(c, 1)
	return n, true
}

// newID assigns a number to a new clause.
func (x *Index) newID() (n ClauseID) {
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
		x.uses[n] = 1
	} else {
		n = ClauseID(len(x.uses))
		x.uses = append(x.uses, 1)
	}
	x.clauses++
	return n
}

// Remove removes a clause that was added. It returns its id, and whether that was its last use;
// if so, the id is no longer valid.
func (x *Index) Remove(c Clause) (n ClauseID, last bool) {
	b, s, at, found := x.locate(c)
	if !found {
		panic("index: removing a clause that is not there")
	}
	n = ClauseID(x.buckets[b].column(s, s.width())[at])
	if x.uses[n]--; x.uses[n] > 0 {
		return n, false
	}
	if x.buckets[b] = x.buckets[b].remove(s, at); x.buckets[b] == nil {
		x.bucketOf[x.row[0]] = 0
		x.freeBuckets = append(x.freeBuckets, uint32(b))
	}
	x.clauses--
	x.free = append(x.free, n)
	x.countUses(c, -1)
	return n, true
}

// Pack compacts an index that was filled clause by clause. It then uses a third less memory,
// and clauses that match together are close together in rings. Clauses are renumbered; moved maps
// old numbers to new ones.
func (x *Index) Pack() (moved []ClauseID) {
	terms := make([]Term, 0, len(x.buckets))
	for w, b := range x.bucketOf {
		if b != 0 {
			terms = append(terms, Term(w))
		}
	}
	slices.SortFunc(terms, func(a, b Term) int { return x.compareRarity(b, a) })
	moved = make([]ClauseID, len(x.uses))
	for i, b := range x.buckets {
		x.buckets[i] = slices.Clone(b)
	}
	uses := make([]uint32, 0, x.clauses)
	for _, w := range terms {
		at := x.bucketOf[w]
		b := x.buckets[at]
		for s := range b.each() {
			ids := b.column(s, s.width())
			for i, n := range ids {
				moved[n] = ClauseID(len(uses))
				ids[i] = uint32(len(uses))
				uses = append(uses, x.uses[n])
			}
		}
	}
	x.uses, x.free = uses, nil
	return moved
}

// countUses adds by to the uses of the terms and the program of a new or removed clause.
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
