package corona

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// grant is a permission to poll a channel with a number of pollers at an interval. It is signed by
// a quorum of the domain's stewards. It is immutable.
type grant struct {
	domain string
	key    overlay.ID // of the channel
	portion
	expiry time.Time
	number uint64     // increases with each grant of the channel; in milliseconds, no later than expiry
	epoch  owner.Hash // the epoch whose owners sign

	statement  []byte // the signed bytes
	signatures []countersignature
}

// countersignature is the signature of one of the epoch's owners.
type countersignature struct {
	owner int
	bytes []byte
}

// permit is a grant in force, as a poller or a sequencer keeps it.
type permit struct {
	portion
	expiry time.Time
	number uint64 // 0: inherited from an earlier sequencer and not verified by this node
}

// permitState is what a node has of the grants of one channel.
type permitState struct {
	permit     *permit // nil: there is none
	unverified *grant  // the last grant whose epoch is not known yet
}

const (
	maxDomain    = 253 // of a name, in bytes
	maxStatement = 384
	maxSigners   = 8 // the largest number of owners of a key
	// maxGrant bounds an encoded grant with the signatures of a quorum of maxSigners, in bytes.
	maxGrant = 800
)

var errGrant = errors.New("not a grant")

// state encodes the values of a new grant as its statement.
func (g *grant) state() *grant {
	g.statement = wire.Encode(&coronapb.GrantStatement{
		Domain: g.domain, Key: g.key[:], Pollers: uint32(g.pollers), IntervalMs: uint64(g.interval.Milliseconds()),
		ExpiryMs: millis(g.expiry), Number: g.number, Epoch: g.epoch[:],
	})
	return g
}

// openStatement decodes a grant's statement, and checks its bounds.
func openStatement(b []byte) (*grant, error) {
	m := new(coronapb.GrantStatement)
	if len(b) > maxStatement {
		return nil, fmt.Errorf("%w: statement of %d bytes", errGrant, len(b))
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errGrant, err)
	}
	switch {
	case len(m.Domain) == 0 || len(m.Domain) > maxDomain || len(m.Key) != len(overlay.ID{}) || len(m.Epoch) != len(owner.Hash{}):
		return nil, fmt.Errorf("%w: names", errGrant)
	case m.Pollers == 0 || m.Pollers > maxPollers || m.IntervalMs == 0 || m.IntervalMs > uint64(maxStretch.Milliseconds()) || m.ExpiryMs > wire.MaxMillis || m.Number > m.ExpiryMs:
		return nil, fmt.Errorf("%w: out of bounds", errGrant)
	}
	return &grant{
		domain: m.Domain, key: overlay.ID(m.Key), number: m.Number, epoch: owner.Hash(m.Epoch),
		portion: portion{int(m.Pollers), time.Duration(m.IntervalMs) * time.Millisecond},
		expiry:  timeOf(m.ExpiryMs), statement: b,
	}, nil
}

// openGrant decodes a grant. It does not verify the signatures, which requires the epoch that the
// grant names (signedBy).
func openGrant(b []byte) (*grant, error) {
	m := new(coronapb.Grant)
	if len(b) > maxGrant {
		return nil, fmt.Errorf("%w: %d bytes", errGrant, len(b))
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errGrant, err)
	}
	g, err := openStatement(m.Statement)
	if err != nil {
		return nil, err
	}
	if len(m.Signatures) > maxSigners {
		return nil, fmt.Errorf("%w: %d signatures", errGrant, len(m.Signatures))
	}
	for _, s := range m.Signatures {
		if s.GetOwner() >= maxSigners || len(s.GetSignature()) != ed25519.SignatureSize {
			return nil, fmt.Errorf("%w: signature", errGrant)
		}
		g.signatures = append(g.signatures, countersignature{int(s.Owner), s.Signature})
	}
	return g, nil
}

// append encodes a grant.
func (g *grant) append() []byte {
	m := &coronapb.Grant{Statement: g.statement}
	for _, s := range g.signatures {
		m.Signatures = append(m.Signatures, &coronapb.Countersignature{Owner: uint32(s.owner), Signature: s.bytes})
	}
	return wire.Encode(m)
}

// sign adds the signature of one of the epoch's owners, if it is valid and new.
func (g *grant) sign(verify wire.Verifier, e *owner.Epoch, by int, signature []byte) bool {
	if by < 0 || slices.ContainsFunc(g.signatures, func(s countersignature) bool { return s.owner == by }) {
		return false
	}
	if s := (countersignature{by, signature}); s.signs(verify, e, g.statement) {
		g.signatures = append(g.signatures, s)
		return true
	}
	return false
}

// signs says whether a signature is valid.
func (s countersignature) signs(verify wire.Verifier, e *owner.Epoch, statement []byte) bool {
	if s.owner >= len(e.Owners) {
		return false
	}
	key, err := wire.PublicKeyOf(e.Owners[s.owner])
	if err != nil {
		return false
	}
	_, err = verify.Open(wire.DomainGrant, wire.Envelope(key, statement, s.bytes))
	return err == nil
}

// signedBy says whether a quorum of an epoch's owners has signed, and whether the epoch is that of
// the grant's domain.
func (g *grant) signedBy(verify wire.Verifier, e *owner.Epoch) bool {
	if domain, ok := overlay.StewardDomain(e.URL); !ok || domain != g.domain || e.Hash != g.epoch {
		return false
	}
	by, n := 0, 0
	for _, s := range g.signatures {
		if by&(1<<s.owner) == 0 && s.signs(verify, e, g.statement) {
			n++
		}
		by |= 1 << s.owner
	}
	return n >= e.Quorum()
}
