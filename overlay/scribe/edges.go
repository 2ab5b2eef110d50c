package scribe

import (
	"bytes"
	"slices"

	"tidings/overlay"
)

// edges are the groups in which a link is an edge in one direction, by id, and their
// digest, by which both ends compare what they know.
type edges struct {
	of     []*group
	digest uint64
}

func (e *edges) find(id *overlay.ID) (int, bool) {
	return slices.BinarySearchFunc(e.of, id, func(g *group, id *overlay.ID) int { return bytes.Compare(g.id[:], id[:]) })
}

func (e *edges) add(g *group, weight uint32) {
	i, _ := e.find(&g.id)
	e.of = slices.Insert(e.of, i, g)
	e.digest ^= edgeHash(&g.id, weight)
}

func (e *edges) remove(g *group, weight uint32) {
	if i, ok := e.find(&g.id); ok {
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

// between returns the groups from first to last.
func (e *edges) between(first, last []byte) []*group {
	from, to := overlay.ID(first), overlay.ID(last)
	i, _ := e.find(&from)
	j, found := e.find(&to)
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
