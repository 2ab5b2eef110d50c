package overlay

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestIndexBehavesLikeAMap(t *testing.T) {
	type thing struct {
		id    ID
		value int
	}
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(rapid.Uint64().Draw(t, "seed"), func(t *thing) *ID { return &t.id })
		like, numbers := map[ID]*thing{}, map[ID]uint32{}
		var some [200]ID
		for i := range some {
			some[i] = Key("", string(rune(i)))
		}
		grow := rapid.IntRange(1, 9).Draw(t, "grow") // number of steps in ten that add an item
		for i := range rapid.IntRange(0, 600).Draw(t, "steps") {
			id := some[rapid.IntRange(0, len(some)-1).Draw(t, "id")]
			if rapid.IntRange(0, 9).Draw(t, "add") < grow {
				like[id], numbers[id] = x.Put(thing{id, i})
				if got := *like[id]; got != (thing{id, i}) {
					t.Fatalf("step %d: put %v, got %v", i, thing{id, i}, got)
				}
			} else {
				x.Delete(id)
				delete(like, id)
			}
			if got := x.Get(id); got != like[id] {
				t.Fatalf("step %d: %v instead of %v", i, got, like[id])
			}
		}
		if x.Len() != len(like) {
			t.Fatalf("%d items instead of %d", x.Len(), len(like))
		}
		for _, id := range some {
			if x.Get(id) != like[id] {
				t.Fatalf("%v instead of %v", x.Get(id), like[id])
			}
			if like[id] != nil && x.At(numbers[id]) != like[id] {
				t.Fatalf("%v has the number of %v", like[id], x.At(numbers[id]))
			}
		}
		all := map[ID]*thing{}
		for n := range x.All() {
			all[n.id] = n
		}
		if !maps.Equal(all, like) {
			t.Fatalf("all are %v instead of %v", slices.Collect(maps.Values(all)), slices.Collect(maps.Values(like)))
		}
	})
}

func TestEmptyIndexHasNoItems(t *testing.T) {
	x := NewIndex(1, func(id *ID) *ID { return id })
	x.Delete(ID{1})
	if x.Get(ID{1}) != nil || x.Len() != 0 {
		t.Error("an empty index has an item")
	}
	for range x.All() {
		t.Error("an empty index has an item")
	}
}
