package overlay

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"tidings/internal/slab"
)

// An Index holds items by an id that is stored in them. It does the same as a map of ids to
// pointers in a third of the memory: a node has thousands of items for each of several layers,
// a simulated network of a thousand nodes has millions, and a map would store each id a second
// time. The items lie in a slab. Each has a number there, which is reused after the item is
// deleted.
//
// It is an open-addressed hash table with linear probing (Knuth, TAOCP 3, 6.4, algorithms L
// and R).
type Index[T any] struct {
	id    func(*T) *ID
	seed  uint64
	items slab.Slab[T]
	slots []uint32 // numbers of items
	tags  []uint8  // for each slot a nonzero byte of its id's hash; 0: the slot is empty
}

const minSlots = 8 // a power of two

// NewIndex returns an index of items whose id the function id returns. The id must not change
// while the item is in the index; id is not called for deleted items. The seed must be secret,
// so that nobody can choose ids that collide.
func NewIndex[T any](seed uint64, id func(*T) *ID) *Index[T] { return &Index[T]{id: id, seed: seed} }

// Len returns the number of items.
func (x *Index[T]) Len() int { return x.items.Len() }

// Get returns the item with an id, or nil.
func (x *Index[T]) Get(id ID) *T {
	if x.Len() == 0 {
		return nil
	}
	if i, found := x.find(&id); found {
		return x.At(x.slots[i])
	}
	return nil
}

// At returns the item with a number that Put returned, or the zero item if it was deleted.
func (x *Index[T]) At(number uint32) *T { return x.items.At(number) }

// Put adds an item, replacing one with the same id. It returns a pointer to the item, valid
// until the item is deleted, and its number.
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

// Delete removes the item with an id, if there is one. A pointer kept to it then refers to the
// zero item, and later to another item.
func (x *Index[T]) Delete(id ID) {
	if x.Len() == 0 {
		return
	}
	i, found := x.find(&id)
	if !found {
		return
	}
	gone := x.slots[i]
	// Items that follow move up if that brings them closer to where their search begins.
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

// All iterates over all items in no particular order. Items must not be added or deleted
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

// find returns the slot of an id, or the empty slot where the id belongs.
func (x *Index[T]) find(id *ID) (slot int, found bool) {
	i, tag := x.hash(id)
	for ; x.tags[i] != 0; i = (i + 1) & (len(x.slots) - 1) {
		if x.tags[i] == tag && *x.id(x.At(x.slots[i])) == *id {
			return i, true
		}
	}
	return i, false
}

// hash returns the slot at which the search for an id begins, and its tag.
func (x *Index[T]) hash(id *ID) (slot int, tag uint8) {
	h := x.seed
	for i := 0; i < len(id); i += 8 {
		high, low := bits.Mul64(h^binary.LittleEndian.Uint64(id[i:]), 0x9e3779b97f4a7c15)
		h = high ^ low
	}
	return int(h>>8) & (len(x.slots) - 1), uint8(h) | 1
}

// rehash moves all items to a table with the given number of slots.
func (x *Index[T]) rehash(slots int) {
	oldSlots, oldTags := x.slots, x.tags
	x.slots, x.tags = make([]uint32, slots), make([]uint8, slots)
	for j, number := range oldSlots {
		if oldTags[j] != 0 {
			i, tag := x.hash(x.id(x.At(number)))
			for x.tags[i] != 0 {
				i = (i + 1) & (slots - 1)
			}
			x.slots[i], x.tags[i] = number, tag
		}
	}
}
