package overlay

import (
	"cmp"
	"slices"

	"tidings/internal/env"
)

// A roster is the peers a node knows, by id. It is a slice because a map of a hundred takes
// several times the space, and has no order.
type roster []*peer

func (r roster) find(id env.PeerID) (int, bool) {
	return slices.BinarySearchFunc(r, id, func(p *peer, id env.PeerID) int { return cmp.Compare(p.id, id) })
}

// get returns a peer, nil if it is not there.
func (r roster) get(id env.PeerID) *peer {
	if i, ok := r.find(id); ok {
		return r[i]
	}
	return nil
}

// add puts in a peer that is not there.
func (r *roster) add(p *peer) {
	i, _ := r.find(p.id)
	*r = slices.Insert(*r, i, p)
}

func (r *roster) remove(id env.PeerID) {
	if i, ok := r.find(id); ok {
		*r = slices.Delete(*r, i, i+1)
	}
}
