package scribe

import (
	"bytes"
	"slices"

	"tidings/overlay"
)

// A roll holds the groups of a node, each with its number.
type roll = overlay.Index[group]

// edges are the groups in which a link is an edge in one direction, by id, and their
// digest, by which both ends compare what they know.
type edges struct {
	of     []uint32 // numbers of the groups
	digest uint64
}

func (e *edges) find(in *roll, id *overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(e.of, id, func(number uint32, id *overlay.ID) int {
		return bytes.Compare(in.At(number).id[:], id[:])
	})
}

func (e *edges) add(in *roll, g *group, weight uint32) {
	i, _ := e.find(in, &g.id)
	e.of = slices.Insert(e.of, i, g.number)
	e.digest ^= edgeHash(&g.id, weight)
}

func (e *edges) remove(in *roll, g *group, weight uint32) {
	if i, ok := e.find(in, &g.id); ok {
		e.of = slices.Delete(e.of, i, i+1)
	}
	if len(e.of) == 0 {
		e.of = nil
	}
	e.digest ^= edgeHash(&g.id, weight)
}

func (e *edges) change(g *group, from, to uint32) {
	e.digest ^= edgeHash(&g.id, from) ^ edgeHash(&g.id, to)
}

// between returns the numbers of the groups from first to last.
func (e *edges) between(in *roll, first, last []byte) []uint32 {
	from, to := overlay.ID(first), overlay.ID(last)
	i, _ := e.find(in, &from)
	j, found := e.find(in, &to)
	if found {
		j++
	}
	return e.of[i:max(i, j)]
}

// edgeHash mixes a group and a weight (FNV-1a over both), so that XOR of several
// makes a digest.
func edgeHash(id *overlay.ID, weight uint32) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range id {
		h = (h ^ uint64(b)) * 1099511628211
	}
	for i := range 4 {
		h = (h ^ uint64(byte(weight>>(8*i)))) * 1099511628211
	}
	return h
}
