package overlay

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"tidings/internal/slab"
)

// An Index holds things by an id that stands in them. It does what a map of ids to pointers does, in
// a third of the memory: a node has thousands of things for each of several layers, a simulated
// network of a thousand nodes has millions, and a map would hold each id once more. The things lie in a
// slab: each has a number there, which is given to another one when it is gone.
//
// It is an open-addressed hash table with linear probing (Knuth, TAOCP 3, 6.4, algorithms L and R).
type Index[T any] struct {
	id    func(*T) *ID
	seed  uint64
	items slab.Slab[T]
	slots []uint32 // numbers of things
	tags  []uint8  // of each slot, a byte of its id's hash that is not 0; 0: it is empty
}

const minSlots = 8 // a power of two

// NewIndex makes an index of things with the id that id returns, which does not change while they
// are in it, and is not asked for when they are gone. Who does not know the seed cannot choose ids that fall together.
func NewIndex[T any](seed uint64, id func(*T) *ID) *Index[T] { return &Index[T]{id: id, seed: seed} }

// Len is how many things there are.
func (x *Index[T]) Len() int { return x.items.Len() }

// Get returns what has an id, or nil.
func (x *Index[T]) Get(id ID) *T {
	if x.Len() == 0 {
		return nil
	}
	if i, found := x.find(&id); found {
		return x.At(x.slots[i])
	}
	return nil
}

// At returns what has a number that Put gave: the zero thing if it is gone.
func (x *Index[T]) At(number uint32) *T { return x.items.At(number) }

// Put adds a thing, in place of one that has its id, and returns where it is, as long as it is there,
// and its number.
func (x *Index[T]) Put(t T) (*T, uint32) {
	if 4*(x.Len()+1) > 3*len(x.slots) {
		x.rehash(max(minSlots, 2*len(x.slots)))
	}
	i, found := x.find(x.id(&t))
	if found {
		at := x.At(x.slots[i])
		*at = t
		return at, x.slots[i]
	}
	_, x.tags[i] = x.hash(x.id(&t))
	x.slots[i] = x.items.Put(t)
	return x.At(x.slots[i]), x.slots[i]
}

// Delete removes what has an id, if there is anything. What is kept of it is the zero thing then, and
// another one later.
func (x *Index[T]) Delete(id ID) {
	if x.Len() == 0 {
		return
	}
	i, found := x.find(&id)
	if !found {
		return
	}
	gone := x.slots[i]
	// What comes after, and would be nearer its place here, moves up.
	last := len(x.slots) - 1
	for j := (i + 1) & last; x.tags[j] != 0; j = (j + 1) & last {
		if home, _ := x.hash(x.id(x.At(x.slots[j]))); (j-home)&last >= (j-i)&last {
			x.slots[i], x.tags[i] = x.slots[j], x.tags[j]
			i = j
		}
	}
	x.slots[i], x.tags[i] = 0, 0
	x.items.Take(gone)
	if len(x.slots) > minSlots && 8*x.Len() < len(x.slots) {
		x.rehash(len(x.slots) / 2)
	}
}

// All are the things there are, in no order that means anything. None may be added or removed
// meanwhile.
func (x *Index[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i, number := range x.slots {
			if x.tags[i] != 0 && !yield(x.At(number)) {
				return
			}
		}
	}
}

// find returns the slot of an id, or the empty one where it belongs.
func (x *Index[T]) find(id *ID) (slot int, found bool) {
	i, tag := x.hash(id)
	for ; x.tags[i] != 0; i = (i + 1) & (len(x.slots) - 1) {
		if x.tags[i] == tag && *x.id(x.At(x.slots[i])) == *id {
			return i, true
		}
	}
	return i, false
}

// place is where the search for an id begins, and its mark.
func (x *Index[T]) hash(id *ID) (slot int, tag uint8) {
	h := x.seed
	for i := 0; i < len(id); i += 8 {
		high, low := bits.Mul64(h^binary.LittleEndian.Uint64(id[i:]), 0x9e3779b97f4a7c15)
		h = high ^ low
	}
	return int(h>>8) & (len(x.slots) - 1), uint8(h) | 1
}

// lay moves everything to so many slots.
func (x *Index[T]) rehash(slots int) {
	of, full := x.slots, x.tags
	x.slots, x.tags = make([]uint32, slots), make([]uint8, slots)
	for j, number := range of {
		if full[j] != 0 {
			i, tag := x.hash(x.id(x.At(number)))
			for x.tags[i] != 0 {
				i = (i + 1) & (slots - 1)
			}
			x.slots[i], x.tags[i] = number, tag
		}
	}
}
