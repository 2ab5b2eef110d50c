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
	pairs  []uint64 // bits of the pairs of terms at consecutive positions, by pairBit; valid if sorted
}

// A Position is the word number of a term in an article. Parts of an article that no phrase may
// span are separated by a gap in the numbers.
type Position struct {
	Term Term
	At   uint32
}

// Reset empties an article and keeps its memory.
func (a *Article) Reset() {
	*a = Article{Terms: a.Terms[:0], Positions: a.Positions[:0], pairs: a.pairs}
}

// pairBits is the number of bits of Article.pairs. An article of 2,000 words sets 3 % of them.
const pairBits = 1 << 16

func pairBit(a, b uint32) uint32 { return (a*2_654_435_761 + b*2_246_822_519) >> 16 }

// sortPositions prepares an article for hasPhrase.
func (a *Article) sortPositions() {
	if a.pairs == nil {
		a.pairs = make([]uint64, pairBits/64)
	}
	clear(a.pairs)
	slices.SortFunc(a.Positions, func(p, q Position) int { return cmp.Compare(p.At, q.At) })
	next := 0
	for i, p := range a.Positions {
		for next = max(next, i+1); next < len(a.Positions) && a.Positions[next].At <= p.At; {
			next++
		}
		for _, q := range a.Positions[next:] {
			if q.At != p.At+1 {
				break
			}
			bit := pairBit(uint32(p.Term), uint32(q.Term))
			a.pairs[bit>>6] |= 1 << (bit & 63)
		}
	}
	slices.SortFunc(a.Positions, comparePositions)
	a.sorted = true
}

// hasPhrase reports whether the article has the terms at consecutive positions. An article has the words of many phrases of
// frequent words, but few of their pairs, so the pairs are checked first.
func (a *Article) hasPhrase(ws []uint32) bool {
	if !a.sorted {
		a.sortPositions()
	}
	for i := range ws[1:] {
		if bit := pairBit(ws[i], ws[i+1]); a.pairs[bit>>6]&(1<<(bit&63)) == 0 {
			return false
		}
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
	x.sorted = x.sorted[:0]
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
		ids, columns := b.column(s, s.width()), s.width()
		var programs []uint32
		if s.hasPrograms() {
			columns--
			programs = b.column(s, columns)
		}
		if columns == 0 {
			for i, n := range ids {
				if programs == nil || x.programs.all[programs[i]].run(x, a) {
					hits = append(hits, ClauseID(n))
				}
			}
			continue
		}
		rows := x.matchFirst(b.column(s, 0), a)
		for c := 1; c < columns && len(rows) > 0; c++ {
			rows = x.filterRows(rows, b.column(s, c))
		}
		for _, i := range rows {
			if programs == nil || x.programs.all[programs[i]].run(x, a) {
				hits = append(hits, ClauseID(ids[i]))
			}
		}
	}
	return hits
}

// searchFactor is how many times more rows than the article has terms a segment must have to be
// searched instead of scanned. A search for one term costs as much as scanning that many rows.
const searchFactor = 24

// matchFirst returns the rows of a segment whose terms in the first column are present. The
// column is sorted. In a large segment, which is that of a frequent word, the terms of the
// article are therefore searched, as in a second index by pairs of words: the costs then depend
// on the rows that match so far, and no longer on the number of rows. The result is valid until
// the next call.
func (x *Index) matchFirst(column []uint32, a *Article) (rows []uint32) {
	if len(column) <= searchFactor*len(a.Terms) {
		return x.matchColumn(column)
	}
	if len(x.sorted) == 0 {
		for _, w := range a.Terms {
			x.sorted = append(x.sorted, uint32(w))
		}
		slices.Sort(x.sorted)
	}
	rows = x.rows[:0]
	for at, i := 0, 0; i < len(x.sorted) && at < len(column); {
		w := x.sorted[i]
		if column[at] < w {
			at = skipBelow(column, at, w)
			continue
		}
		if column[at] > w {
			i = skipBelow(x.sorted, i, column[at])
			continue
		}
		for ; at < len(column) && column[at] == w; at++ {
			rows = append(rows, uint32(at))
		}
		i++
	}
	x.rows = rows[:cap(rows)]
	return rows
}

// skipBelow returns the first place from at on whose value is not below v, in steps that double.
func skipBelow(sorted []uint32, at int, v uint32) int {
	step := 1
	for at+step < len(sorted) && sorted[at+step] < v {
		at += step
		step *= 2
	}
	found, _ := slices.BinarySearch(sorted[at:min(at+step+1, len(sorted))], v)
	return at + found
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
