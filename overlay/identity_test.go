package overlay

import (
	"time"

	"tidings/internal/wire"
)

// newRecord signs a record in a network of key ids.
func newRecord(network string, s *wire.Signer, addrs []string, issued time.Time, member bool) *Contact {
	return identitiesOf(network, nil).newRecord(s, addrs, issued, member, place{})
}

// openRecord opens a record in a network of key ids.
func openRecord(network string, v wire.Verifier, raw []byte) (*Contact, error) {
	return identitiesOf(network, v).openRecord(raw)
}

func identitiesOf(network string, v wire.Verifier) *identities {
	in := newIdentities(wire.DefaultNetwork(network), v)
	return &in
}
