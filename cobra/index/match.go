package index

import (
	"cmp"
	"slices"
)

// An Article is what Match wants to know of one.
type Article struct {
	// Terms are the registered terms that it has, each once, in any order.
	Terms []Term
	// Places say where it has them, for phrases, in any order.
	Places []Place

	sorted bool
}

// A Place says that a term is the at-th word of an article. What no phrase may
// reach across is set apart by a number that no word has.
type Place struct {
	Term Term
	At   uint32
}

// Reset makes an article empty and keeps its room.
func (a *Article) Reset() { *a = Article{Terms: a.Terms[:0], Places: a.Places[:0]} }

// phrase says whether the article has the terms one behind the other.
func (a *Article) phrase(ws []uint32) bool {
	if !a.sorted {
		slices.SortFunc(a.Places, comparePlaces)
		a.sorted = true
	}
	first, _ := slices.BinarySearchFunc(a.Places, Place{Term(ws[0]), 0}, comparePlaces)
	for _, p := range a.Places[first:] {
		if p.Term != Term(ws[0]) {
			break
		}
		found := true
		for i := 1; i < len(ws) && found; i++ {
			_, found = slices.BinarySearchFunc(a.Places, Place{Term(ws[i]), p.At + uint32(i)}, comparePlaces)
		}
		if found {
			return true
		}
	}
	return false
}

func comparePlaces(a, b Place) int {
	if c := cmp.Compare(a.Term, b.Term); c != 0 {
		return c
	}
	return cmp.Compare(a.At, b.At)
}

func (x *Index) bit(w uint32) bool { return x.bits[w>>6]&(1<<(w&63)) != 0 }

// Match appends to hits the nodes that an article matches, each once.
func (x *Index) Match(a *Article, hits []Node) []Node {
	if need := len(x.keys)>>6 + 1; len(x.bits) < need {
		x.bits = make([]uint64, need+need/4)
	}
	for _, w := range a.Terms {
		x.bits[w>>6] |= 1 << (w & 63)
	}
	for _, w := range a.Terms {
		if int(w) < len(x.places) {
			hits = x.look(x.buckets[x.places[w]], a, hits)
		}
	}
	for _, w := range a.Terms {
		x.bits[w>>6] = 0
	}
	return hits
}

// look appends the nodes of a bucket that match. Its loops are where matching
// spends its time. They go down column after column, and keep the rows whose
// terms are there so far: without a branch, since no processor can guess which
// words a long article has.
func (x *Index) look(b bucket, a *Article, hits []Node) []Node {
	s := b.first()
	for range b.segments() {
		s = b.next(s)
		width := s.width()
		if s.programs() {
			hits = x.lookPrograms(b, s, a, hits)
			continue
		}
		nodes := b.column(s, width)
		if width == 0 {
			for _, n := range nodes {
				hits = append(hits, Node(n))
			}
			continue
		}
		rows := x.have(b.column(s, 0))
		for c := 1; c < width && len(rows) > 0; c++ {
			rows = x.haveToo(rows, b.column(s, c))
		}
		for _, i := range rows {
			hits = append(hits, Node(nodes[i]))
		}
	}
	return hits
}

// have returns the rows of a column whose terms the article has, until the next call.
func (x *Index) have(column []uint32) (rows []uint32) {
	if len(x.rows) < len(column) {
		x.rows = make([]uint32, 2*len(column))
	}
	bits, kept, n := x.bits, x.rows[:len(column)], uint(0)
	for i, w := range column {
		if n >= uint(len(kept)) {
			break // never; it spares the loop a check
		}
		kept[n] = uint32(i)
		n += uint(bits[w>>6] >> (w & 63) & 1)
	}
	return kept[:n]
}

// haveToo keeps those of rows whose terms in another column the article has.
func (x *Index) haveToo(rows, column []uint32) []uint32 {
	bits, n := x.bits, 0
	for _, i := range rows {
		w := column[i]
		rows[n] = i
		n += int(bits[w>>6] >> (w & 63) & 1)
	}
	return rows[:n]
}

// lookPrograms is look at a segment whose last column has programs.
func (x *Index) lookPrograms(b bucket, s segment, a *Article, hits []Node) []Node {
	width := s.width() - 1
	programs, nodes := b.column(s, width), b.column(s, width+1)
	for i := range programs {
		if width > 0 && !(x.bit(b[s.at+i]) && x.rest(b, s, width, i)) {
			continue
		}
		if x.programs.all[programs[i]].run(x, a) {
			hits = append(hits, Node(nodes[i]))
		}
	}
	return hits
}

// rest says whether the article has the terms of a row's columns behind the first.
func (x *Index) rest(b bucket, s segment, width, i int) bool {
	at := s.at + i
	for range width - 1 {
		at += s.room
		if !x.bit(b[at]) {
			return false
		}
	}
	return true
}
