package overlay

import (
	"tidings/internal/wire"
)

// Records opens the records of a network's nodes, and remembers the contacts it has made of
// them: a member comes across the same record again and again. Nodes of one goroutine can
// share one, and with it their contacts.
type Records struct {
	network string
	verify  wire.Verifier
	limit   int
	young   map[string]*Contact // by record
	old     map[string]*Contact // those that were young when young was full
}

// ownRecords is how many records a node remembers by itself: several times as many as it
// has peers.
const ownRecords = 512

// NewRecords returns an empty memory for at least limit records, and at most twice as many.
func NewRecords(network string, verify wire.Verifier, limit int) *Records {
	return &Records{network: network, verify: verify, limit: limit, young: map[string]*Contact{}}
}

// open verifies a record and reads it. The contact does not keep raw.
func (r *Records) open(raw []byte) (*Contact, error) {
	if c := r.young[string(raw)]; c != nil {
		return c, nil
	}
	c := r.old[string(raw)]
	if c == nil {
		var err error
		if c, err = openRecord(r.network, r.verify, raw); err != nil {
			return nil, err
		}
	}
	if len(r.young) >= r.limit {
		r.old, r.young = r.young, map[string]*Contact{}
	}
	r.young[string(c.Raw)] = c
	return c, nil
}
