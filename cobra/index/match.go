package index

import (
	"cmp"
	"slices"
)

// An Article is the input of Match.
type Article struct {
	// Terms are the registered terms of the article, without duplicates, in any order.
	Terms []Term
	// Positions are the positions of terms, for phrases, in any order.
	Positions []Position

	sorted bool
}

// A Position is the word number of a term in an article. Parts of an article that no phrase may
// span are separated by a gap in the numbers.
type Position struct {
	Term Term
	At   uint32
}

// Reset empties an article and keeps its memory.
func (a *Article) Reset() { *a = Article{Terms: a.Terms[:0], Positions: a.Positions[:0]} }

// hasPhrase reports whether the article has the terms at consecutive positions.
func (a *Article) hasPhrase(ws []uint32) bool {
	if !a.sorted {
		slices.SortFunc(a.Positions, comparePositions)
		a.sorted = true
	}
	first, _ := slices.BinarySearchFunc(a.Positions, Position{Term(ws[0]), 0}, comparePositions)
	for _, p := range a.Positions[first:] {
		if p.Term != Term(ws[0]) {
			break
		}
		found := true
		for i := 1; i < len(ws) && found; i++ {
			_, found = slices.BinarySearchFunc(a.Positions, Position{Term(ws[i]), p.At + uint32(i)}, comparePositions)
		}
		if found {
			return true
		}
	}
	return false
}

func comparePositions(a, b Position) int {
	if c := cmp.Compare(a.Term, b.Term); c != 0 {
		return c
	}
	return cmp.Compare(a.At, b.At)
}

func (x *Index) isPresent(w uint32) bool { return x.present[w>>6]&(1<<(w&63)) != 0 }

// Match appends the clauses that an article matches to hits, without duplicates.
func (x *Index) Match(a *Article, hits []ClauseID) []ClauseID {
	if need := len(x.keys)>>6 + 1; len(x.present) < need {
		x.present = make([]uint64, need+need/4)
	}
	for _, w := range a.Terms {
		x.present[w>>6] |= 1 << (w & 63)
	}
	for _, w := range a.Terms {
		if int(w) < len(x.bucketOf) {
			hits = x.matchBucket(x.buckets[x.bucketOf[w]], a, hits)
		}
	}
	for _, w := range a.Terms {
		x.present[w>>6] = 0
	}
	return hits
}

// matchBucket appends the matching clauses of a bucket. Matching spends most of its time in these
// loops. They go through the columns and keep the rows whose terms are present so far. The
// inner loops have no branches, because no processor can predict which words a long article
// has.
func (x *Index) matchBucket(b bucket, a *Article, hits []ClauseID) []ClauseID {
	s := b.first()
	for range b.segments() {
		s = b.next(s)
		width := s.width()
		if s.hasPrograms() {
			hits = x.matchPrograms(b, s, a, hits)
			continue
		}
		ids := b.column(s, width)
		if width == 0 {
			for _, n := range ids {
				hits = append(hits, ClauseID(n))
			}
			continue
		}
		rows := x.matchColumn(b.column(s, 0))
		for c := 1; c < width && len(rows) > 0; c++ {
			rows = x.filterRows(rows, b.column(s, c))
		}
		for _, i := range rows {
			hits = append(hits, ClauseID(ids[i]))
		}
	}
	return hits
}

// matchColumn returns the rows of a column whose terms are present. The result is valid until
// the next call.
func (x *Index) matchColumn(column []uint32) (rows []uint32) {
	if len(x.rows) < len(column) {
		x.rows = make([]uint32, 2*len(column))
	}
	bits, kept, n := x.present, x.rows[:len(column)], uint(0)
	for i, w := range column {
		if n >= uint(len(kept)) {
			break // never true; it removes a bounds check from the loop
		}
		kept[n] = uint32(i)
		n += uint(bits[w>>6] >> (w & 63) & 1)
	}
	return kept[:n]
}

// filterRows keeps those of rows whose terms in another column are present.
func (x *Index) filterRows(rows, column []uint32) []uint32 {
	bits, n := x.present, 0
	for _, i := range rows {
		w := column[i]
		rows[n] = i
		n += int(bits[w>>6] >> (w & 63) & 1)
	}
	return rows[:n]
}

// matchPrograms does the same for a segment whose last column has programs.
func (x *Index) matchPrograms(b bucket, s segment, a *Article, hits []ClauseID) []ClauseID {
	width := s.width() - 1
	programs, ids := b.column(s, width), b.column(s, width+1)
	for i := range programs {
		if width > 0 && !(x.isPresent(b[s.at+i]) && x.matchesOtherColumns(b, s, width, i)) {
			continue
		}
		if x.programs.all[programs[i]].run(x, a) {
			hits = append(hits, ClauseID(ids[i]))
		}
	}
	return hits
}

// matchesOtherColumns reports whether the terms of a row after the first column are present.
func (x *Index) matchesOtherColumns(b bucket, s segment, width, i int) bool {
	at := s.at + i
	for range width - 1 {
		at += s.capacity
		if !x.isPresent(b[at]) {
			return false
		}
	}
	return true
}
