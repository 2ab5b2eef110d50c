package index

import (
	"iter"
	"slices"
)

// A bucket holds the clauses with the same rarest term, in segments: sorted tables of rows of
// one kind. A bucket is a single slice, because most have few rows, and matching reads all of
// it:
//
//	[0]        number of segments
//	per segment, ordered by kind:
//	           kind: number of columns, and whether the last column has programs
//	           rows
//	           capacity in rows
//	per segment: its columns, each with space for capacity rows, and a column of clause numbers
type bucket []uint32

const (
	bucketHead   = 1
	segmentHead  = 3
	withPrograms = 1 << 31 // bit of a kind: the last column has programs
)

// A segment is the i-th segment of a bucket, whose cells begin at index at.
type segment struct {
	i, at          int
	kind           uint32
	rows, capacity int
}

func (s segment) width() int        { return int(s.kind &^ withPrograms) }
func (s segment) hasPrograms() bool { return s.kind&withPrograms != 0 }
func (s segment) cells() int        { return s.capacity * (s.width() + 1) }

// column returns a column of a segment; the column after the last one holds the clause numbers.
func (b bucket) column(s segment, c int) []uint32 {
	at := s.at + c*s.capacity
	return b[at : at+s.rows]
}

func (b bucket) segments() int {
	if len(b) == 0 {
		return 0
	}
	return int(b[0])
}

// first returns a position before the first segment, and next the segment after s.
func (b bucket) first() segment {
	return segment{i: -1, at: bucketHead + segmentHead*b.segments()}
}

func (b bucket) next(s segment) segment {
	at := s.at + s.cells()
	head := b[bucketHead+segmentHead*(s.i+1):]
	return segment{s.i + 1, at, head[0], int(head[1]), int(head[2])}
}

// each yields the segments.
func (b bucket) each() iter.Seq[segment] {
	return func(yield func(segment) bool) {
		s := b.first()
		for range b.segments() {
			if s = b.next(s); !yield(s) {
				return
			}
		}
	}
}

// find returns the place of a row of a kind, or the place at which it would have to be
// inserted, possibly in a new segment before s.
func (b bucket) find(kind uint32, row []uint32) (s segment, at int, found bool) {
	s = b.first()
	for range b.segments() {
		s = b.next(s)
		if s.kind == kind {
			at, found = b.findRow(s, row)
			return s, at, found
		} else if s.kind > kind {
			return segment{i: s.i, at: s.at, kind: kind}, 0, false
		}
	}
	return segment{i: s.i + 1, at: s.at + s.cells(), kind: kind}, 0, false
}

func (b bucket) findRow(s segment, row []uint32) (at int, found bool) {
	lo, hi := 0, s.rows
	for c, v := range row {
		column := b.column(s, c)[lo:hi]
		first, ok := slices.BinarySearch(column, v)
		if !ok {
			return lo + first, false
		}
		equal, _ := slices.BinarySearch(column[first:], v+1)
		lo, hi = lo+first, lo+first+equal
	}
	return lo, lo < hi
}

// insert returns the bucket with an additional row at a place that find returned.
func (b bucket) insert(s segment, at int, row []uint32, id uint32) bucket {
	if s.rows == s.capacity {
		b, s = b.grow(s)
	}
	b[bucketHead+segmentHead*s.i+1]++
	for c := range len(row) + 1 {
		column := b[s.at+c*s.capacity:][:s.rows+1]
		copy(column[at+1:], column[at:])
		if c < len(row) {
			column[at] = row[c]
		} else {
			column[at] = id
		}
	}
	return b
}

// grow returns the bucket with more capacity in a segment, which may be new.
func (b bucket) grow(s segment) (bucket, segment) {
	more := s
	more.capacity = s.rows + 1 + s.rows/8 + len(b)/2048 // extra capacity, because growing copies the whole bucket
	var olds, news []segment
	added := s.rows == 0
	for old := range b.each() {
		switch {
		case old.i == s.i && added:
			olds, news = append(olds, segment{}, old), append(news, more, old)
		case old.i == s.i:
			olds, news = append(olds, old), append(news, more)
		default:
			olds, news = append(olds, old), append(news, old)
		}
	}
	if s.i == b.segments() {
		olds, news = append(olds, segment{}), append(news, more)
	}
	b = b.rebuild(olds, news)
	return b, news[s.i]
}

// shrink returns the bucket without unused capacity, or nil if it has no rows.
func (b bucket) shrink() bucket {
	var olds, news []segment
	for s := range b.each() {
		if s.rows > 0 {
			olds = append(olds, s)
			s.capacity = s.rows
			news = append(news, s)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return b.rebuild(olds, news)
}

// rebuild returns a bucket that consists of the segments news, with the rows of olds, and sets
// the places of news.
func (b bucket) rebuild(olds, news []segment) bucket {
	size := bucketHead + segmentHead*len(news)
	for i := range news {
		news[i].i, news[i].at = i, size
		size += news[i].cells()
	}
	built := make(bucket, size)
	built[0] = uint32(len(news))
	for i, s := range news {
		copy(built[bucketHead+segmentHead*i:], []uint32{s.kind, uint32(s.rows), uint32(s.capacity)})
		if s.rows > 0 {
			for c := range s.width() + 1 {
				copy(built.column(s, c), b.column(olds[i], c))
			}
		}
	}
	return built
}

// remove returns the bucket without a row, or nil if there is no other.
func (b bucket) remove(s segment, at int) bucket {
	for c := range s.width() + 1 {
		column := b.column(s, c)
		copy(column[at:], column[at+1:])
	}
	b[bucketHead+segmentHead*s.i+1]--
	rows := 0
	for s := range b.each() {
		rows += s.rows
	}
	empty := (s.capacity - s.rows + 1) * (s.width() + 1)
	if rows > 0 && empty <= len(b)/4 {
		return b
	}
	return b.shrink()
}
