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
type peerList struct {
	all      []*peer
	prefixes []uint64 // see headOf
}

// peerHeader is how many bytes the ids of all peers begin with alike.
const peerIDHeader = 6

// headOf is the part of an id by which peers are ordered first.
func peerIDPrefix(id env.PeerID) uint64 {
	if len(id) < peerIDHeader+8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(id[peerIDHeader : peerIDHeader+8]))
}

func (r *peerList) find(id env.PeerID) (int, bool) {
	prefix := peerIDPrefix(id)
	i, _ := slices.BinarySearch(r.prefixes, prefix)
	for ; i < len(r.all) && r.prefixes[i] == prefix; i++ {
		if c := cmp.Compare(r.all[i].id, id); c >= 0 {
			return i, c == 0
		}
	}
	return i, false
}

// get returns a peer, nil if it is not there.
func (r *peerList) get(id env.PeerID) *peer {
	if i, ok := r.find(id); ok {
		return r.all[i]
	}
	return nil
}

// add puts in a peer that is not there.
func (r *peerList) add(p *peer) {
	i, _ := r.find(p.id)
	r.all = slices.Insert(r.all, i, p)
	r.prefixes = slices.Insert(r.prefixes, i, peerIDPrefix(p.id))
}

func (r *peerList) remove(id env.PeerID) {
	if i, ok := r.find(id); ok {
		r.all = slices.Delete(r.all, i, i+1)
		r.prefixes = slices.Delete(r.prefixes, i, i+1)
	}
}
