package overlay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// These are the bounds of a record. Each is far above what an honest node needs.
const (
	MaxRecord    = 1 << 10 // bytes of the whole envelope
	maxAddresses = 8       // IPv4 and IPv6, TCP and QUIC, twice
	maxAddress   = 64      // bytes of one multiaddr
)

// ErrRecord is returned for bytes that are not a valid record of a node.
var ErrRecord = errors.New("not a node's record")

// A Contact is a node as its own signed record describes it. A Contact is immutable, and
// everything that refers to the node shares it.
type Contact struct {
	ID     ID
	Peer   env.Peer
	Issued uint64 // Unix time in milliseconds; the later of two records counts
	Member bool   // true: it was dialled back; false: it is a client
	Raw    []byte // the signed envelope, passed on unchanged
}

// newRecord signs a node's statement about itself.
func newRecord(network string, s *wire.Signer, addrs []string, issued time.Time, member bool) *Contact {
	m := &overlaypb.Record{IssuedMs: uint64(issued.UnixMilli()), Member: member}
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return len(a) > maxAddress })
	addrs = addrs[:min(len(addrs), maxAddresses)]
	for _, a := range addrs {
		m.Addresses = append(m.Addresses, []byte(a))
	}
	return &Contact{
		ID:     NodeID(network, s.PeerID()),
		Peer:   env.Peer{ID: s.PeerID(), Addrs: addrs},
		Issued: m.IssuedMs,
		Member: member,
		Raw:    s.Sign(wire.DomainRecord, wire.Encode(m)).Raw,
	}
}

// openRecord verifies and decodes a record.
func openRecord(network string, v wire.Verifier, raw []byte) (*Contact, error) {
	if len(raw) > MaxRecord {
		return nil, fmt.Errorf("%w: %d bytes", ErrRecord, len(raw))
	}
	signed, err := v.Open(wire.DomainRecord, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	var m overlaypb.Record
	if err := proto.Unmarshal(signed.Payload, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if len(m.Addresses) > maxAddresses {
		return nil, fmt.Errorf("%w: %d addresses", ErrRecord, len(m.Addresses))
	}
	id := wire.PeerIDOf(signed.Key)
	c := &Contact{
		ID:     NodeID(network, id),
		Peer:   env.Peer{ID: id},
		Issued: m.IssuedMs,
		Member: m.Member,
		Raw:    signed.Raw,
	}
	for _, a := range m.Addresses {
		if len(a) > maxAddress {
			return nil, fmt.Errorf("%w: address of %d bytes", ErrRecord, len(a))
		}
		c.Peer.Addrs = append(c.Peer.Addrs, string(a))
	}
	return c, nil
}
