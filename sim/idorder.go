package sim

import (
	"iter"
	"slices"

	"tidings/overlay"
)

// place puts a peer where it stands among all ids.
func (s *Swarm) place(p *Peer) {
	i, _ := slices.BinarySearchFunc(s.order, p.id, compareID)
	s.order = slices.Insert(s.order, i, p)
}

func compareID(p *Peer, id overlay.ID) int { return slices.Compare(p.id[:], id[:]) }

// nearest are all peers, up or down, the nearest to a key first.
func (s *Swarm) nearest(key overlay.ID) iter.Seq[*Peer] {
	return func(yield func(*Peer) bool) { walk(s.order, key, 0, yield) }
}

// walk visits peers that agree in the bits before one: those first that agree with the
// key in that bit too.
func walk(of []*Peer, key overlay.ID, bit int, yield func(*Peer) bool) bool {
	if len(of) == 0 {
		return true
	}
	if len(of) == 1 {
		return yield(of[0])
	}
	// All agree as far as the first and the last do.
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
	return walk(near, key, bit+1, yield) && walk(far, key, bit+1, yield)
}
