package overlay

import (
	"cmp"
	"encoding/binary"
	"slices"

	"tidings/internal/env"
)

// A roster is the peers a node knows, by id. It is a slice because a map of a hundred takes
// several times the space, and has no order. Beside it lies what of their ids mostly tells
// them apart, so that to find one of a thousand is not to look at ten others.
type roster struct {
	of    []*peer
	heads []uint64 // see headOf
}

// peerHeader is how many bytes the ids of all peers begin with alike.
const peerHeader = 6

// headOf is the part of an id by which peers are ordered first.
func headOf(id env.PeerID) uint64 {
	if len(id) < peerHeader+8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(id[peerHeader : peerHeader+8]))
}

func (r *roster) find(id env.PeerID) (int, bool) {
	head := headOf(id)
	i, _ := slices.BinarySearch(r.heads, head)
	for ; i < len(r.of) && r.heads[i] == head; i++ {
		if c := cmp.Compare(r.of[i].id, id); c >= 0 {
			return i, c == 0
		}
	}
	return i, false
}

// get returns a peer, nil if it is not there.
func (r *roster) get(id env.PeerID) *peer {
	if i, ok := r.find(id); ok {
		return r.of[i]
	}
	return nil
}

// add puts in a peer that is not there.
func (r *roster) add(p *peer) {
	i, _ := r.find(p.id)
	r.of = slices.Insert(r.of, i, p)
	r.heads = slices.Insert(r.heads, i, headOf(p.id))
}

func (r *roster) remove(id env.PeerID) {
	if i, ok := r.find(id); ok {
		r.of = slices.Delete(r.of, i, i+1)
		r.heads = slices.Delete(r.heads, i, i+1)
	}
}
