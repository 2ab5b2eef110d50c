package overlay

import (
	"encoding/binary"
	"iter"
	"math/bits"
)

// An Index finds things by an id that stands in them. It does what a map of ids to pointers does, in
// a third of the memory: a node has thousands of things for each of several layers, a simulated
// network of a thousand nodes has millions, and a map would hold each id once more.
//
// It is an open-addressed hash table with linear probing (Knuth, TAOCP 3, 6.4, algorithms L and R).
type Index[T any] struct {
	id    func(*T) *ID
	seed  uint64
	slots []*T
	marks []uint8 // of each slot, a byte of its id's hash that is not 0; 0: it is empty
	n     int
}

const leastSlots = 8 // a power of two

// NewIndex makes an index of things with the id that id returns, which does not change while they
// are in it. Who does not know the seed cannot choose ids that fall together.
func NewIndex[T any](seed uint64, id func(*T) *ID) *Index[T] { return &Index[T]{id: id, seed: seed} }

// Len is how many things there are.
func (x *Index[T]) Len() int { return x.n }

// Get returns what has an id, or nil.
func (x *Index[T]) Get(id ID) *T {
	if x.n == 0 {
		return nil
	}
	if i, found := x.find(&id); found {
		return x.slots[i]
	}
	return nil
}

// Put adds a thing, in place of one that has its id.
func (x *Index[T]) Put(t *T) {
	if 4*(x.n+1) > 3*len(x.slots) {
		x.lay(max(leastSlots, 2*len(x.slots)))
	}
	i, found := x.find(x.id(t))
	if !found {
		x.n++
		_, x.marks[i] = x.place(x.id(t))
	}
	x.slots[i] = t
}

// Delete removes what has an id, if there is anything.
func (x *Index[T]) Delete(id ID) {
	if x.n == 0 {
		return
	}
	i, found := x.find(&id)
	if !found {
		return
	}
	x.n--
	// What comes after, and would be nearer its place here, moves up.
	last := len(x.slots) - 1
	for j := (i + 1) & last; x.marks[j] != 0; j = (j + 1) & last {
		if home, _ := x.place(x.id(x.slots[j])); (j-home)&last >= (j-i)&last {
			x.slots[i], x.marks[i] = x.slots[j], x.marks[j]
			i = j
		}
	}
	x.slots[i], x.marks[i] = nil, 0
	if len(x.slots) > leastSlots && 8*x.n < len(x.slots) {
		x.lay(len(x.slots) / 2)
	}
}

// All are the things there are, in no order that means anything. None may be added or removed
// meanwhile.
func (x *Index[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, t := range x.slots {
			if t != nil && !yield(t) {
				return
			}
		}
	}
}

// find returns the slot of an id, or the empty one where it belongs.
func (x *Index[T]) find(id *ID) (slot int, found bool) {
	i, mark := x.place(id)
	for ; x.marks[i] != 0; i = (i + 1) & (len(x.slots) - 1) {
		if x.marks[i] == mark && *x.id(x.slots[i]) == *id {
			return i, true
		}
	}
	return i, false
}

// place is where the search for an id begins, and its mark.
func (x *Index[T]) place(id *ID) (slot int, mark uint8) {
	h := x.seed
	for i := 0; i < len(id); i += 8 {
		high, low := bits.Mul64(h^binary.LittleEndian.Uint64(id[i:]), 0x9e3779b97f4a7c15)
		h = high ^ low
	}
	return int(h>>8) & (len(x.slots) - 1), uint8(h) | 1
}

// lay moves everything to so many slots.
func (x *Index[T]) lay(slots int) {
	of := x.slots
	x.slots, x.marks = make([]*T, slots), make([]uint8, slots)
	for _, t := range of {
		if t != nil {
			i, mark := x.place(x.id(t))
			for x.marks[i] != 0 {
				i = (i + 1) & (slots - 1)
			}
			x.slots[i], x.marks[i] = t, mark
		}
	}
}
