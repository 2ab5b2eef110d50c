package scribe

import (
	"bytes"
	"slices"

	"tidings/overlay"
)

// A groupIndex holds the groups of a node, each with its number.
type groupIndex = overlay.Index[group]

// An edgeSet holds the groups for which a link is an edge in one direction, sorted by id, and their
// digest, so that both ends can compare what they know.
type edgeSet struct {
	groups []uint32 // numbers of the groups
	digest uint64
}

func (e *edgeSet) find(in *groupIndex, id *overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(e.groups, id, func(number uint32, id *overlay.ID) int {
		return bytes.Compare(in.At(number).id[:], id[:])
	})
}

func (e *edgeSet) add(in *groupIndex, g *group, weight uint32) {
	i, _ := e.find(in, &g.id)
	e.groups = slices.Insert(e.groups, i, g.number)
	e.digest ^= edgeHash(&g.id, weight)
}

func (e *edgeSet) remove(in *groupIndex, g *group, weight uint32) {
	if i, ok := e.find(in, &g.id); ok {
		e.groups = slices.Delete(e.groups, i, i+1)
	}
	if len(e.groups) == 0 {
		e.groups = nil
	}
	e.digest ^= edgeHash(&g.id, weight)
}

func (e *edgeSet) change(g *group, from, to uint32) {
	e.digest ^= edgeHash(&g.id, from) ^ edgeHash(&g.id, to)
}

// between returns the numbers of the groups from first to last, both included.
func (e *edgeSet) between(in *groupIndex, first, last []byte) []uint32 {
	from, to := overlay.ID(first), overlay.ID(last)
	i, _ := e.find(in, &from)
	j, found := e.find(in, &to)
	if found {
		j++
	}
	return e.groups[i:max(i, j)]
}

// edgeHash hashes a group and a weight (FNV-1a). The XOR of several hashes is a digest.
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
