package index

import (
	"iter"
	"slices"
)

// A bucket has the clauses whose rarest term is one, in segments: sorted tables of
// rows of one kind. All lie in one piece of memory, as most have a few rows only,
// and an article that looks at one looks at all:
//
//	[0]        segments
//	per segment, ordered by kind:
//	           kind: its columns, and whether the last has programs
//	           rows
//	           room: how many rows would fit
//	per segment: its columns, each with its room, and one of nodes
type bucket []uint32

const (
	bucketHead  = 1
	segmentHead = 3
	programmed  = 1 << 31 // in a kind: the last column has programs
)

// A segment is a bucket's i-th, and where it lies.
type segment struct {
	i, at      int
	kind       uint32
	rows, room int
}

func (s segment) width() int     { return int(s.kind &^ programmed) }
func (s segment) programs() bool { return s.kind&programmed != 0 }
func (s segment) cells() int     { return s.room * (s.width() + 1) }

// column returns a segment's column; that behind its last has the nodes.
func (b bucket) column(s segment, c int) []uint32 {
	at := s.at + c*s.room
	return b[at : at+s.rows]
}

func (b bucket) segments() int {
	if len(b) == 0 {
		return 0
	}
	return int(b[0])
}

// first returns where a bucket's segments begin, next the i-th, if s is the one before.
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

// find returns where a row of a kind is, or where it would be: in which segment,
// or before which.
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

// insert returns the bucket with a row more, where find said.
func (b bucket) insert(s segment, at int, row []uint32, node uint32) bucket {
	if s.rows == s.room {
		b, s = b.grow(s)
	}
	b[bucketHead+segmentHead*s.i+1]++
	for c := range len(row) + 1 {
		column := b[s.at+c*s.room:][:s.rows+1]
		copy(column[at+1:], column[at:])
		if c < len(row) {
			column[at] = row[c]
		} else {
			column[at] = node
		}
	}
	return b
}

// grow returns the bucket with more room in a segment, which may be new.
func (b bucket) grow(s segment) (bucket, segment) {
	more := s
	more.room = s.rows + 1 + s.rows/8 + len(b)/2048 // all of the bucket is moved for it
	var olds, news []segment
	isNew := s.rows == 0
	for old := range b.each() {
		switch {
		case old.i == s.i && isNew:
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
	b = b.rebuilt(olds, news)
	return b, news[s.i]
}

// shrink returns the bucket without room that nothing is in, nil if nothing is in it.
func (b bucket) shrink() bucket {
	var olds, news []segment
	for s := range b.each() {
		if s.rows > 0 {
			olds = append(olds, s)
			s.room = s.rows
			news = append(news, s)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return b.rebuilt(olds, news)
}

// rebuilt returns a bucket of new segments, whose rows are those of old ones, and
// tells the new ones where they are.
func (b bucket) rebuilt(olds, news []segment) bucket {
	size := bucketHead + segmentHead*len(news)
	for i := range news {
		news[i].i, news[i].at = i, size
		size += news[i].cells()
	}
	built := make(bucket, size)
	built[0] = uint32(len(news))
	for i, s := range news {
		copy(built[bucketHead+segmentHead*i:], []uint32{s.kind, uint32(s.rows), uint32(s.room)})
		if s.rows > 0 {
			for c := range s.width() + 1 {
				copy(built.column(s, c), b.column(olds[i], c))
			}
		}
	}
	return built
}

// remove returns the bucket without a row, nil without its last.
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
	empty := (s.room - s.rows + 1) * (s.width() + 1)
	if rows > 0 && empty <= len(b)/4 {
		return b
	}
	return b.shrink()
}
