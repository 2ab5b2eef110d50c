package owner

import (
	"bytes"
	"slices"
)

// An EpochCache holds recently decoded epochs. All owners of a key receive the same epoch, so nodes in one
// goroutine can share a cache, and the memory of the epochs.
type EpochCache struct {
	limit  int // capacity of each of the two maps, in epochs
	recent map[Hash]*Epoch
	older  map[Hash]*Epoch // former content of recent, replaced when recent is full
}

// NewEpochCache returns an empty cache for at least limit epochs, and at most twice as many.
func NewEpochCache(limit int) *EpochCache {
	return &EpochCache{limit: limit, recent: map[Hash]*Epoch{}}
}

// find returns the epoch with exactly these signatures; nil if it is not cached.
func (p *EpochCache) find(h Hash, signatures [][]byte) *Epoch {
	if p == nil {
		return nil
	}
	for _, of := range []map[Hash]*Epoch{p.recent, p.older} {
		if e := of[h]; e != nil && slices.EqualFunc(e.signatures, signatures, bytes.Equal) {
			return e
		}
	}
	return nil
}

// add caches an epoch. No signature may be added to it afterwards.
func (p *EpochCache) add(e *Epoch) {
	if p == nil {
		return
	}
	if len(p.recent) >= p.limit {
		p.older, p.recent = p.recent, map[Hash]*Epoch{}
	}
	p.recent[e.Hash] = e
}
