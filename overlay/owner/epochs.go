package owner

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

// An epochs decodes and verifies what other nodes have signed.
type epochs struct {
	base
	verify wire.Verifier
	cache  *EpochCache
}

// open decodes an epoch from a peer. Most messages name the epoch in force or one that is cached, so their signatures are
// not verified again.
func (r *epochs) open(m *ownerpb.Epoch) (*Epoch, error) {
	e, err := openStatement(m.GetStatement())
	if err != nil {
		return nil, err
	}
	if s := r.replicas.byKey[e.Key]; s != nil && s.epoch != nil && s.epoch.Hash == e.Hash {
		return s.epoch, nil
	}
	if known := r.cache.find(e.Hash, m.Signatures); known != nil {
		return known, nil
	}
	e.addSignatures(r.verify, m)
	r.cache.add(e)
	return e, nil
}

// read is open for encoded bytes.
func (r *epochs) read(b []byte) (*Epoch, error) {
	m := new(ownerpb.Epoch)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEpoch, err)
	}
	if !isEpoch(m) {
		return nil, fmt.Errorf("%w: out of bounds", ErrEpoch)
	}
	return r.open(m)
}

// OpenEpoch decodes an epoch made by Epoch.Bytes, of any key. It verifies that the key is that of the URL, that a
// quorum of the owners has signed, and that they are as near to the key as owners in a network of this size are. It does
// not verify that they are members: VerifyOwners does.
func (r *epochs) OpenEpoch(b []byte) (*Epoch, error) {
	e, err := r.read(b)
	if err != nil {
		return nil, err
	}
	return e, r.check(e)
}

func (r *epochs) check(e *Epoch) error {
	switch {
	case r.keyOf(e.URL) != e.Key:
		return errKey
	case !e.certifiedBy(e.Owners):
		return fmt.Errorf("%w: no quorum has signed", ErrEpoch)
	case !r.ownersNearKey(e):
		return fmt.Errorf("%w: its owners are too far from the key", ErrEpoch)
	}
	return nil
}

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
		if e := of[h]; e != nil && slices.EqualFunc(e.envelopes(), signatures, bytes.Equal) {
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
