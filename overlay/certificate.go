package overlay

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// These are the bounds of what authorities sign.
const (
	maxCertificate = 320 // bytes of the whole envelope
	// MaxRevoked bounds the nodes on one authority's list of revocations, so that the list fits into
	// a frame. A node leaves the list when its certificate has expired.
	MaxRevoked     = 1024
	maxRenewers    = 4
	maxRevocations = 40 << 10 // bytes of the whole envelope
)

// ErrCertificate is returned for bytes that are not a certificate or a list of an authority of the
// network.
var ErrCertificate = errors.New("not signed by an authority of the network")

// A Certificate is an authority's permission for a node to be a member under an id that the
// authority drew at random.
type Certificate struct {
	Peer                env.PeerID
	ID                  ID
	NotBefore, NotAfter time.Time
}

// Sign returns the certificate as members pass it on.
func (c Certificate) Sign(authority *wire.Signer) ([]byte, error) {
	key, err := wire.PublicKeyOf(c.Peer)
	if err != nil {
		return nil, fmt.Errorf("certify: %w", err)
	}
	return authority.Sign(wire.DomainCertificate, wire.Encode(&overlaypb.Certificate{
		Node: key, Id: c.ID[:], NotBeforeMs: uint64(c.NotBefore.UnixMilli()), NotAfterMs: uint64(c.NotAfter.UnixMilli()),
	})).Raw, nil
}

// validAt reports whether the certificate is valid at a time. A clock may be behind that of the
// authority by maxAhead.
func (c *Certificate) validAt(now time.Time) bool {
	return !now.Add(maxAhead).Before(c.NotBefore) && now.Before(c.NotAfter)
}

// openCertificate verifies a certificate, but not its dates.
func (in *identities) openCertificate(raw []byte) (*Certificate, error) {
	payload, _, err := in.openAuthority(wire.DomainCertificate, raw, maxCertificate)
	if err != nil {
		return nil, err
	}
	var m overlaypb.Certificate
	if err := proto.Unmarshal(payload, &m); err != nil || len(m.Id) != len(ID{}) || len(m.Node) != ed25519.PublicKeySize ||
		m.NotBeforeMs > wire.MaxMillis || m.NotAfterMs > wire.MaxMillis {
		return nil, fmt.Errorf("%w: not a certificate", ErrCertificate)
	}
	return &Certificate{
		Peer: wire.PeerIDOf(m.Node), ID: ID(m.Id),
		NotBefore: time.UnixMilli(int64(m.NotBeforeMs)).UTC(), NotAfter: time.UnixMilli(int64(m.NotAfterMs)).UTC(),
	}, nil
}

// openAuthority opens an envelope of one of the network's authorities.
func (in *identities) openAuthority(domain wire.Domain, raw []byte, limit int) (payload []byte, authority int, err error) {
	if len(raw) == 0 || len(raw) > limit {
		return nil, 0, fmt.Errorf("%w: %d bytes", ErrCertificate, len(raw))
	}
	signed, err := in.verify.Open(domain, raw)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	authority = slices.IndexFunc(in.authorities, func(k ed25519.PublicKey) bool { return bytes.Equal(k, signed.Key) })
	if authority < 0 {
		return nil, 0, ErrCertificate
	}
	return signed.Payload, authority, nil
}

// Revocations is the list of nodes whose certificates an authority has revoked.
type Revocations struct {
	Number   uint64 // of an authority's lists the one with the highest number counts
	Revoked  []env.PeerID
	Renewers []ID // of members that renew certificates for this authority

	authority int // its position in the network's descriptor
	raw       []byte
}

// Sign returns the list as members pass it on.
func (r Revocations) Sign(authority *wire.Signer) ([]byte, error) {
	m := &overlaypb.Revocations{Number: r.Number}
	if len(r.Revoked) > MaxRevoked || len(r.Renewers) > maxRenewers {
		return nil, fmt.Errorf("list of revocations: %d nodes and %d renewers; at most %d and %d", len(r.Revoked), len(r.Renewers), MaxRevoked, maxRenewers)
	}
	for _, p := range r.Revoked {
		key, err := wire.PublicKeyOf(p)
		if err != nil {
			return nil, fmt.Errorf("list of revocations: %w", err)
		}
		m.Revoked = append(m.Revoked, key)
	}
	for _, id := range r.Renewers {
		m.Renewers = append(m.Renewers, id[:])
	}
	return authority.Sign(wire.DomainRevocations, wire.Encode(m)).Raw, nil
}

// openRevocations verifies a list.
func (in *identities) openRevocations(raw []byte) (*Revocations, error) {
	payload, authority, err := in.openAuthority(wire.DomainRevocations, raw, maxRevocations)
	if err != nil {
		return nil, err
	}
	var m overlaypb.Revocations
	if err := proto.Unmarshal(payload, &m); err != nil || len(m.Revoked) > MaxRevoked || len(m.Renewers) > maxRenewers {
		return nil, fmt.Errorf("%w: not a list of revocations", ErrCertificate)
	}
	r := &Revocations{Number: m.Number, authority: authority, raw: bytes.Clone(raw)}
	for _, k := range m.Revoked {
		if len(k) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%w: not a list of revocations", ErrCertificate)
		}
		r.Revoked = append(r.Revoked, wire.PeerIDOf(k))
	}
	for _, id := range m.Renewers {
		if len(id) != len(ID{}) {
			return nil, fmt.Errorf("%w: not a list of revocations", ErrCertificate)
		}
		r.Renewers = append(r.Renewers, ID(id))
	}
	return r, nil
}
