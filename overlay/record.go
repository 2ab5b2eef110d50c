package overlay

import (
	"errors"
	"fmt"
	"net/netip"
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

	Callbacks bool // of a member: the hubs of feeds can call it at a public address

	// Block is the block of addresses that the id of a member is made of, in a network of address ids;
	// otherwise the zero value.
	Block netip.Prefix
	// certificate is the certificate of a member in a network of certificates; otherwise nil.
	certificate *Certificate
}

// A place is what the id of a node is made of, besides its key, and what else its record says of it as a member.
type place struct {
	callbacks   bool         // hubs can call the node
	block       netip.Prefix // network of address ids
	slot        int
	certificate []byte // network of certificates
}

// newRecord signs a node's statement about itself. A member that has no id in its network becomes a
// client.
func (in *identities) newRecord(s *wire.Signer, addrs []string, issued time.Time, member bool, of place) *Contact {
	m := &overlaypb.Record{IssuedMs: uint64(issued.UnixMilli()), Member: member}
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return len(a) > maxAddress })
	addrs = addrs[:min(len(addrs), maxAddresses)]
	for _, a := range addrs {
		m.Addresses = append(m.Addresses, []byte(a))
	}
	if member {
		m.Slot, m.Certificate, m.Callbacks = uint32(of.slot), of.certificate, of.callbacks
	}
	c := &Contact{Peer: env.Peer{ID: s.PeerID(), Addrs: addrs}, Issued: m.IssuedMs, Member: member, Callbacks: m.Callbacks}
	if err := in.identify(c, m); err != nil {
		return in.newRecord(s, addrs, issued, false, place{})
	}
	c.Raw = s.Sign(wire.DomainRecord, wire.Encode(m)).Raw
	return c
}

// identify sets the id of a node and what it is made of.
func (in *identities) identify(c *Contact, m *overlaypb.Record) error {
	c.ID = NodeID(in.network, c.Peer.ID)
	switch {
	case !m.Member || in.ids == wire.KeyIDs:
		if m.Slot != 0 || len(m.Certificate) > 0 {
			return errors.New("a node whose id is the hash of its key claims another")
		}
	case in.ids == wire.CertificateIDs:
		cert, err := in.openCertificate(m.Certificate)
		if err != nil {
			return err
		}
		if cert.Peer != c.Peer.ID || m.Slot != 0 {
			return errors.New("the certificate of another node")
		}
		c.ID, c.certificate = cert.ID, cert
	case in.ids == wire.AddressIDs:
		if m.Slot >= slots || len(c.Peer.Addrs) == 0 || len(m.Certificate) > 0 {
			return errors.New("no block of addresses, or not one of its slots")
		}
		c.Block = BlockOf(addressOf(c.Peer.Addrs[0]))
		for _, a := range c.Peer.Addrs {
			if b := BlockOf(addressOf(a)); !b.IsValid() || b != c.Block {
				return errors.New("addresses of several blocks")
			}
		}
		c.ID = AddressID(in.network, c.Block, int(m.Slot), c.Peer.ID)
	}
	return nil
}

// memberID returns the id that a node has as a member.
func (in *identities) memberID(peer env.PeerID, of place, addrs []string) ID {
	c := &Contact{Peer: env.Peer{ID: peer, Addrs: addrs}}
	_ = in.identify(c, &overlaypb.Record{Member: true, Slot: uint32(of.slot), Certificate: of.certificate}) // without a right, the id of a client
	return c.ID
}

// openRecord verifies and decodes a record.
func (in *identities) openRecord(raw []byte) (*Contact, error) {
	if len(raw) > MaxRecord {
		return nil, fmt.Errorf("%w: %d bytes", ErrRecord, len(raw))
	}
	signed, err := in.verify.Open(wire.DomainRecord, raw)
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
		Peer:   env.Peer{ID: id},
		Issued: m.IssuedMs,
		Member: m.Member,
		Raw:    signed.Raw,

		Callbacks: m.Member && m.Callbacks,
	}
	for _, a := range m.Addresses {
		if len(a) > maxAddress {
			return nil, fmt.Errorf("%w: address of %d bytes", ErrRecord, len(a))
		}
		c.Peer.Addrs = append(c.Peer.Addrs, string(a))
	}
	if err := in.identify(c, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return c, nil
}
