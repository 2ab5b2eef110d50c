package slab

import (
	"testing"

	"pgregory.net/rapid"
)

// A value keeps its place and its content while others are added and removed. A number that is
// given again belongs to no other value.
func TestValuesStay(t *testing.T) {
	type thing struct {
		value int
		_     [1000]byte
	}
	rapid.Check(t, func(t *rapid.T) {
		var s Slab[thing]
		type kept struct {
			at    *thing
			value int
		}
		like := map[uint32]kept{}
		var numbers []uint32
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(numbers) > 0 && rapid.IntRange(0, 2).Draw(t, "take") == 0 {
				at := rapid.IntRange(0, len(numbers)-1).Draw(t, "which")
				n := numbers[at]
				numbers[at] = numbers[len(numbers)-1]
				numbers = numbers[:len(numbers)-1]
				if got := s.Take(n); got.value != like[n].value {
					t.Fatalf("thing %d was %d, not %d", n, got.value, like[n].value)
				}
				if s.At(n).value != 0 {
					t.Fatalf("thing %d is not gone", n)
				}
				delete(like, n)
				continue
			}
			n := s.Put(thing{value: i + 1})
			if _, taken := like[n]; taken {
				t.Fatalf("number %d is given twice", n)
			}
			like[n] = kept{s.At(n), i + 1}
			numbers = append(numbers, n)
		}
		if s.Len() != len(like) {
			t.Fatalf("%d things instead of %d", s.Len(), len(like))
		}
		for n, k := range like {
			if s.At(n) != k.at || k.at.value != k.value {
				t.Fatalf("thing %d has moved, or is another one", n)
			}
		}
	})
}

// A block nearly fills its size class; the allocator wastes the rest.
func TestABlockFillsItsSizeClass(t *testing.T) {
	var s Slab[[112]byte]
	for range firstBlock + 1 {
		s.Put([112]byte{})
	}
	if bytes := 112 * len(s.blocks[1]); bytes > blockBytes || bytes < blockBytes-112 {
		t.Errorf("a block holds %d bytes of %d", bytes, blockBytes)
	}
}

func TestLargeValuesHaveBlocksOfTheirOwn(t *testing.T) {
	var s Slab[[3 * blockBytes]byte]
	for i := range 3 * firstBlock {
		if n := s.Put([3 * blockBytes]byte{byte(i)}); int(n) != i || s.At(n)[0] != byte(i) {
			t.Fatalf("thing %d has number %d", i, n)
		}
	}
	if s.At(firstBlock)[0] != firstBlock {
		t.Error("another one is there")
	}
}

// Values without a size have numbers, too.
func TestValuesWithoutASize(t *testing.T) {
	var s Slab[struct{}]
	for i := range 3 * firstBlock {
		if n := s.Put(struct{}{}); int(n) != i {
			t.Fatalf("thing %d has number %d", i, n)
		}
	}
}
