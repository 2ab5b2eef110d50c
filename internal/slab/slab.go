// Package slab keeps many small things of one type in few pieces of memory, as in Bonwick's slab
// allocator (USENIX, 1994).
//
// A thing does not move while it is there, and has a number, which takes half the room of a pointer.
// For a collector of garbage, thousands of things are some dozens, and their numbers are nothing at
// all: a node has thousands of things for each of several layers, a simulated network of a thousand
// nodes has millions, and would spend a third of its time on looking which of them are still there.
//
// What becomes of a number when its thing is gone is left to whoever keeps it: it is given to another
// thing later.
package slab

import "reflect"

// A Slab holds things of one type. The zero value is empty.
type Slab[T any] struct {
	blocks [][]T
	free   []uint32 // numbers of things that are gone
	next   uint32   // the first number that was never given
	per    uint32   // things of a block but the first
}

const (
	// first is how many things the first block holds: many slabs have few.
	first = 8
	// blockBytes is the size of the others. It is a size class of Go's allocator, less the word that this
	// puts before what has pointers.
	blockBytes = 8<<10 - 8
)

// Len is how many things there are.
func (s *Slab[T]) Len() int { return int(s.next) - len(s.free) }

// Put keeps a thing, and returns its number.
func (s *Slab[T]) Put(v T) uint32 {
	if last := len(s.free) - 1; last >= 0 {
		n := s.free[last]
		s.free = s.free[:last]
		*s.At(n) = v
		return n
	}
	n := s.next
	s.next++
	switch {
	case n == 0:
		s.per = max(1, uint32(blockBytes/max(1, reflect.TypeFor[T]().Size())))
		s.blocks = append(s.blocks, make([]T, first))
	case n >= first && (n-first)%s.per == 0:
		s.blocks = append(s.blocks, make([]T, s.per))
	}
	*s.At(n) = v
	return n
}

// At is the thing of a number that Put gave: the zero thing if it is gone.
func (s *Slab[T]) At(n uint32) *T {
	if n < first {
		return &s.blocks[0][n]
	}
	n -= first
	return &s.blocks[1+n/s.per][n%s.per]
}

// Take removes a thing and returns it. Its memory is kept for another.
func (s *Slab[T]) Take(n uint32) T {
	var none T
	t := s.At(n)
	v := *t
	*t = none
	s.free = append(s.free, n)
	return v
}
