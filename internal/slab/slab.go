// Package slab keeps many small values of one type in few blocks of memory, as in Bonwick's slab
// allocator (USENIX, 1994).
//
// A value does not move while it exists, and has a number, which takes half the memory of a
// pointer. The garbage collector sees some dozens of blocks in place of thousands of values, and
// ignores their numbers. A node has thousands of values in each of several layers. A simulated
// network of a thousand nodes has millions, and would spend a third of its time in the garbage
// collector.
//
// The number of a removed value is given to another value later. The caller must drop such numbers.
package slab

import "reflect"

// A Slab holds values of one type. The zero value is empty.
type Slab[T any] struct {
	blocks   [][]T
	free     []uint32 // numbers of removed values
	next     uint32   // lowest number that was never given
	perBlock uint32   // values of a block, except the first
}

const (
	// firstBlock is the number of values in the first block. It is small because many slabs hold
	// few values.
	firstBlock = 8
	// blockBytes is the size of the other blocks: a size class of Go's allocator, less the word
	// that the allocator puts before memory with pointers.
	blockBytes = 8<<10 - 8
)

// Len returns the number of values.
func (s *Slab[T]) Len() int { return int(s.next) - len(s.free) }

// Put stores a value and returns its number.
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
		s.perBlock = max(1, uint32(blockBytes/max(1, reflect.TypeFor[T]().Size())))
		s.blocks = append(s.blocks, make([]T, firstBlock))
	case n >= firstBlock && (n-firstBlock)%s.perBlock == 0:
		s.blocks = append(s.blocks, make([]T, s.perBlock))
	}
	*s.At(n) = v
	return n
}

// At returns the value of a number that Put returned, or the zero value if it was removed.
func (s *Slab[T]) At(n uint32) *T {
	if n < firstBlock {
		return &s.blocks[0][n]
	}
	n -= firstBlock
	return &s.blocks[1+n/s.perBlock][n%s.perBlock]
}

// Take removes a value and returns it. Its memory is kept for another value.
func (s *Slab[T]) Take(n uint32) T {
	var none T
	t := s.At(n)
	v := *t
	*t = none
	s.free = append(s.free, n)
	return v
}
