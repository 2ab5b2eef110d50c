package sim

import (
	"iter"
	"slices"

	"tidings/overlay"
)

// insertByID adds a peer to the list that is sorted by id.
func (s *Swarm) insertByID(p *Peer) {
	i, _ := slices.BinarySearchFunc(s.sortedByID, p.id, compareID)
	s.sortedByID = slices.Insert(s.sortedByID, i, p)
}

func compareID(p *Peer, id overlay.ID) int { return slices.Compare(p.id[:], id[:]) }

// nearest iterates over all peers, up or down, the nearest to a key first.
func (s *Swarm) nearest(key overlay.ID) iter.Seq[*Peer] {
	return func(yield func(*Peer) bool) { visitNearest(s.sortedByID, key, 0, yield) }
}

// visitNearest visits peers whose ids agree in all bits before bit. It first visits those that
// agree with the key in that bit.
func visitNearest(of []*Peer, key overlay.ID, bit int, yield func(*Peer) bool) bool {
	if len(of) == 0 {
		return true
	}
	if len(of) == 1 {
		return yield(of[0])
	}
	// All ids between the first and the last agree as far as these two do.
	bit = max(bit, of[0].id.Common(of[len(of)-1].id))
	set := func(id overlay.ID) bool { return id[bit/8]>>(7-bit%8)&1 == 1 }
	ones, _ := slices.BinarySearchFunc(of, true, func(p *Peer, _ bool) int {
		if set(p.id) {
			return 0
		}
		return -1
	})
	near, far := of[:ones], of[ones:]
	if set(key) {
		near, far = far, near
	}
	return visitNearest(near, key, bit+1, yield) && visitNearest(far, key, bit+1, yield)
}
