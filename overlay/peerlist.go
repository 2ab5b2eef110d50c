package overlay

import (
	"cmp"
	"encoding/binary"
	"slices"

	"tidings/internal/env"
)

// A peerList holds the peers that a node knows, sorted by id. It is a slice because a map of a
// hundred peers takes several times the space and has no order. A parallel slice of id
// prefixes speeds up the search: finding one of a thousand peers does not have to dereference
// ten others.
type peerList struct {
	all      []*peer
	prefixes []uint64 // see peerIDPrefix
}

// peerIDHeader is the number of bytes at the start of every peer id that are the same for all
// peers.
const peerIDHeader = 6

// peerIDPrefix returns the part of an id by which peers are sorted first.
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

// get returns the peer with an id, or nil.
func (r *peerList) get(id env.PeerID) *peer {
	if i, ok := r.find(id); ok {
		return r.all[i]
	}
	return nil
}

// add inserts a peer whose id is not in the list.
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
