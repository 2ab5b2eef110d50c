package wedge

import (
	"bytes"
	"encoding/binary"
	"time"

	"tidings/overlay"
)

// An order is the internal form of an Order, with its key. It is immutable and the same at all
// nodes of a tree.
type order struct {
	key         overlay.ID
	term        Term
	n           uint32
	digitBits   uint8 // bits of a digit, 1 or 4, in a wedge of polling levels; 0: a wedge of ranks
	interval    time.Duration
	payload     []byte
	payloadHash uint64
	hash        uint64
}

// shortKey identifies a key on links: its first eight bytes.
func shortKey(key overlay.ID) uint64 { return binary.BigEndian.Uint64(key[:]) }

// computeHashes computes the hashes of an order whose other fields are set.
func (o *order) computeHashes() {
	o.payloadHash = hashBytes(fnvOffset, o.payload)
	h := hashBytes(fnvOffset, o.key[:])
	for _, v := range []uint64{o.term.Epoch, uint64(o.term.Seq), uint64(o.n) | uint64(o.digitBits)<<32, uint64(o.interval), o.payloadHash} {
		h = hashNumber(h, v)
	}
	o.hash = h
}

func (o *order) equal(p *order) bool {
	return o.hash == p.hash && o.key == p.key && o.term == p.term && o.n == p.n && o.digitBits == p.digitBits &&
		o.interval == p.interval && bytes.Equal(o.payload, p.payload)
}

// Constants of FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func hashBytes(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

func hashNumber(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * fnvPrime
		v >>= 8
	}
	return h
}

// An OrderCache interns orders. All members of a wedge have the same order, and nodes that run on
// one goroutine can share one copy of it.
type OrderCache struct {
	limit         int
	recent, older map[uint64]*order // by hash; recent becomes older when it is full
}

// NewOrderCache returns a cache of at least limit orders, and at most twice as many. An order in
// use stays alive when the cache drops it.
func NewOrderCache(limit int) *OrderCache {
	return &OrderCache{limit: limit, recent: map[uint64]*order{}}
}

// intern returns the cached copy of an order, adding the order if it is new. The payload is cloned
// if copyPayload is set, since it may be a part of a frame. A nil cache caches nothing.
func (s *OrderCache) intern(o order, copyPayload bool) *order {
	var known *order
	if s != nil {
		if known = s.recent[o.hash]; known == nil {
			known = s.older[o.hash]
		}
		if known != nil && !known.equal(&o) {
			known, s = nil, nil // a different order with the same hash
		}
	}
	if known == nil {
		if copyPayload {
			o.payload = bytes.Clone(o.payload)
		}
		known = &o
	}
	if s != nil {
		if len(s.recent) >= s.limit {
			s.recent, s.older = map[uint64]*order{}, s.recent
		}
		s.recent[o.hash] = known
	}
	return known
}
