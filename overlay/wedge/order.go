package wedge

import (
	"bytes"
	"encoding/binary"
	"time"

	"tidings/overlay"
)

// An order is an Order as it stands at all nodes of the tree: immutable, and found again
// by its hash.
type order struct {
	key       overlay.ID
	term      Term
	n         uint32
	digit     uint8 // bits of a digit of polling levels; 0: there are ranks
	interval  time.Duration
	words     []byte
	wordsHash uint64
	hash      uint64
}

// name is how a key is called on the links: its first eight bytes.
func name(key overlay.ID) uint64 { return binary.BigEndian.Uint64(key[:]) }

// seal computes the hashes of an order whose other fields are set.
func (o *order) seal() {
	o.wordsHash = hashBytes(offset, o.words)
	h := hashBytes(offset, o.key[:])
	for _, v := range []uint64{o.term.Epoch, uint64(o.term.Seq), uint64(o.n) | uint64(o.digit)<<32, uint64(o.interval), o.wordsHash} {
		h = hashNumber(h, v)
	}
	o.hash = h
}

func (o *order) equal(p *order) bool {
	return o.hash == p.hash && o.key == p.key && o.term == p.term && o.n == p.n && o.digit == p.digit &&
		o.interval == p.interval && bytes.Equal(o.words, p.words)
}

// FNV-1a.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

func hashBytes(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * prime
	}
	return h
}

func hashNumber(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * prime
		v >>= 8
	}
	return h
}

// Orders remembers orders, so that nodes of one goroutine share one copy of each: all
// members of a wedge have the same.
type Orders struct {
	limit      int
	young, old map[uint64]*order // by hash; old were young when young was full
}

// NewOrders returns an empty memory for at least limit orders, and at most twice as many.
// Orders in force are kept by the nodes that know them.
func NewOrders(limit int) *Orders {
	return &Orders{limit: limit, young: map[uint64]*order{}}
}

// share returns the one copy of an order. Its words are copied if they may be a part of a
// frame (loose). Without a memory the copy is the node's own.
func (s *Orders) share(o order, loose bool) *order {
	var known *order
	if s != nil {
		if known = s.young[o.hash]; known == nil {
			known = s.old[o.hash]
		}
		if known != nil && !known.equal(&o) {
			known, s = nil, nil // another of the same hash
		}
	}
	if known == nil {
		if loose {
			o.words = bytes.Clone(o.words)
		}
		known = &o
	}
	if s != nil {
		if len(s.young) >= s.limit {
			s.young, s.old = map[uint64]*order{}, s.young
		}
		s.young[o.hash] = known
	}
	return known
}
