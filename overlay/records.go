package overlay

import (
	"tidings/internal/wire"
)

// Records opens the records of a network's nodes and caches the contacts made from them,
// because a member receives the same record again and again. Nodes that run in one goroutine
// can share one Records, and with it their contacts.
type Records struct {
	identities
	limit int
	young map[string]*Contact // by record
	old   map[string]*Contact // the previous content of young, from when it was full
}

// ownRecords is the size of the cache of a single node: several times the number of its peers.
const ownRecords = 512

// NewRecords returns an empty cache that keeps at least the last limit records, and at most
// twice as many.
func NewRecords(network wire.Network, verify wire.Verifier, limit int) *Records {
	return &Records{identities: newIdentities(network, verify), limit: limit, young: map[string]*Contact{}}
}

// open verifies and decodes a record. The contact does not keep raw.
func (r *Records) open(raw []byte) (*Contact, error) {
	if c := r.young[string(raw)]; c != nil {
		return c, nil
	}
	c := r.old[string(raw)]
	if c == nil {
		var err error
		if c, err = r.openRecord(raw); err != nil {
			return nil, err
		}
	}
	if len(r.young) >= r.limit {
		r.old, r.young = r.young, map[string]*Contact{}
	}
	r.young[string(c.Raw)] = c
	return c, nil
}
