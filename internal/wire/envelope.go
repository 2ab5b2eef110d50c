package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"tidings/internal/env"
	"tidings/internal/signature"
)

// Domain separates signatures by purpose, so that a signature for one purpose is never valid for
// another. No domain is a prefix of another.
type Domain string

const (
	// DomainRecord signs a node's own record: its addresses and its role.
	DomainRecord Domain = "tidings/record/1"
	// DomainEntry signs an entry of a key's log. Only the key's sequencer signs entries.
	DomainEntry Domain = "tidings/entry/1"
	// DomainEpoch countersigns the hash of an epoch of a key's owners.
	DomainEpoch Domain = "tidings/epoch/1"
	// DomainHeartbeat signs a heartbeat of a key's log.
	DomainHeartbeat Domain = "tidings/beat/1"
	// DomainGrant countersigns what a domain's steward grants to a channel.
	DomainGrant Domain = "tidings/grant/1"
	// DomainRequest signs what a channel's sequencer requests from its domain's steward.
	DomainRequest Domain = "tidings/ask/1"
	// DomainReport signs a poller's report about its polls.
	DomainReport Domain = "tidings/report/1"
	// DomainObservation signs a document as one of its channel's pollers read it.
	DomainObservation Domain = "tidings/reading/1"
	// DomainTicket derives the secret that a sequencer gives to the pollers of a channel, and that
	// they show to prove their part.
	DomainTicket Domain = "tidings/ticket/1"
	// DomainShard signs what an owner of a shard of the firehose sends to all filters.
	DomainShard Domain = "tidings/shard/1"
	// DomainPublication signs an item of a feed. Only the feed's publisher signs items, for all
	// networks at once: its signer has the network Anywhere.
	DomainPublication Domain = "tidings/publication/1"
	// DomainWitness signs a publisher's key as an owner of the feed saw it at the origin.
	DomainWitness Domain = "tidings/witness/1"
	// DomainCertificate signs a member's certificate. Only an authority of the network signs certificates.
	DomainCertificate Domain = "tidings/certificate/1"
	// DomainRevocations signs the list of certificates that an authority has revoked.
	DomainRevocations Domain = "tidings/revocations/1"
	// DomainSighting signs items as an owner or a follower of the feed saw them at the origin, or looked for them in vain.
	DomainSighting Domain = "tidings/sighting/1"
	// DomainRelay signs a key that a member has made for one circuit that ends at it.
	DomainRelay Domain = "tidings/relay/1"
	// DomainGuest signs which member speaks for a guest.
	DomainGuest Domain = "tidings/guest/1"
	// DomainReceipt signs that a node has taken a routed message, as the root of its key.
	DomainReceipt Domain = "tidings/receipt/1"
	// DomainAudit makes the secret by which a node chooses the items that it compares with their origin. It is never sent.
	DomainAudit Domain = "tidings/audit/1"
)

// Anywhere takes the place of the network in signatures that are valid in all networks.
var Anywhere Hash

// ErrSignature says that an envelope was not signed by its key for the domain and network in which
// it is read.
var ErrSignature = errors.New("wrong signature")

// ErrEnvelope says that the bytes are not an envelope.
var ErrEnvelope = errors.New("not an envelope")

// Signed is a verified envelope.
type Signed struct {
	Key     ed25519.PublicKey
	Payload []byte
	// Raw is the whole envelope, for forwarding it unchanged.
	Raw []byte
}

// Signature returns the signature in the envelope.
func (s Signed) Signature() []byte {
	field, _ := fieldsOf(s.Raw)
	return field[2]
}

// A Proof is what a node keeps of an envelope whose content it has as the fields of a struct: the signature. If the fields do not
// encode to the signed payload, for example because a later release has signed more fields, it is the whole envelope.
type Proof string

// Proof returns the proof of an envelope. payload is what the fields encode to.
func (s Signed) Proof(payload []byte) Proof {
	signature := s.Signature()
	if !bytes.Equal(Envelope(s.Key, payload, signature), s.Raw) {
		return Proof(s.Raw)
	}
	return Proof(signature)
}

// Envelope returns the envelope that signer has signed. payload encodes the fields.
func (p Proof) Envelope(signer env.PeerID, payload func() []byte) []byte {
	key, err := PublicKeyOf(signer)
	if len(p) != ed25519.SignatureSize || err != nil {
		return []byte(p)
	}
	return Envelope(key, payload(), []byte(p))
}

// A Signer signs for one node in one network.
type Signer struct {
	private ed25519.PrivateKey
	id      env.PeerID
	network Hash
	cache   *CachingVerifier // receives the signed envelopes; nil: none
}

// NewSigner returns the signer of a private key for a network.
func NewSigner(private ed25519.PrivateKey, network Hash) *Signer {
	return &Signer{private: private, id: PeerIDOf(private.Public().(ed25519.PublicKey)), network: network}
}

// With returns the signer of another private key for the same network.
func (s *Signer) With(private ed25519.PrivateKey) *Signer { return NewSigner(private, s.network) }

// Public returns the signer's public key.
func (s *Signer) Public() ed25519.PublicKey { return s.private.Public().(ed25519.PublicKey) }

// PeerID returns the peer id of the signer's key.
func (s *Signer) PeerID() env.PeerID { return s.id }

// Sign puts payload into an envelope.
func (s *Signer) Sign(domain Domain, payload []byte) Signed {
	key := s.Public()
	envelope := Signed{Key: key, Payload: payload, Raw: Envelope(key, payload, s.Signature(domain, payload))}
	if s.cache != nil {
		s.cache.add(domain, Signed{Key: key, Payload: bytes.Clone(payload), Raw: envelope.Raw})
	}
	return envelope
}

// Signature signs payload without an envelope, for a reader that has the payload and knows the key.
func (s *Signer) Signature(domain Domain, payload []byte) []byte {
	return ed25519.Sign(s.private, signedBytes(domain, s.network, payload))
}

// Envelope encodes an envelope from the parts that Sign puts together.
func Envelope(key ed25519.PublicKey, payload, signature []byte) []byte {
	fields, size := [][]byte{key, payload, signature}, 0
	for i, field := range fields {
		size += protowire.SizeTag(protowire.Number(i+1)) + protowire.SizeBytes(len(field))
	}
	raw := make([]byte, 0, size)
	for i, field := range fields {
		raw = protowire.AppendTag(raw, protowire.Number(i+1), protowire.BytesType)
		raw = protowire.AppendBytes(raw, field)
	}
	return raw
}

// Bare encodes a payload as an envelope without key and signature, for a reader who knows its author from elsewhere: from the
// signature of what the payload is a part of. No signed envelope looks like it.
func Bare(payload []byte) []byte { return Envelope(nil, payload, nil) }

// OpenBare returns the payload of a bare envelope.
func OpenBare(raw []byte) ([]byte, error) {
	field, err := fieldsOf(raw)
	if err != nil || len(field[0])+len(field[2]) > 0 {
		return nil, fmt.Errorf("%w without key and signature", ErrEnvelope)
	}
	return field[1], nil
}

// signedBytes returns the bytes that a signature covers.
func signedBytes(domain Domain, network Hash, payload []byte) []byte {
	b := make([]byte, 0, len(domain)+1+len(network)+len(payload))
	b = append(b, domain...)
	b = append(b, 0)
	b = append(b, network[:]...)
	return append(b, payload...)
}

// A Verifier opens envelopes. Verifying signatures is the largest cost of a simulated network,
// whose verifier is therefore a CachingVerifier.
type Verifier interface {
	// Open returns the content of an envelope if its key signed it for domain. Otherwise it returns
	// an error of the kind ErrEnvelope or ErrSignature.
	Open(domain Domain, raw []byte) (Signed, error)
	// OpenAll opens envelopes for one domain. It gives the same results as Open, in less time.
	OpenAll(domain Domain, raws [][]byte) []Opened
}

// Opened is what Open returns.
type Opened struct {
	Signed
	Err error
}

// NewVerifier returns the verifier of a network, which verifies every signature.
func NewVerifier(network Hash) Verifier { return verifier{network} }

type verifier struct{ network Hash }

func (v verifier) Open(domain Domain, raw []byte) (Signed, error) {
	opened := v.OpenAll(domain, [][]byte{raw})[0]
	return opened.Signed, opened.Err
}

func (v verifier) OpenAll(domain Domain, raws [][]byte) []Opened {
	all := make([]Opened, len(raws))
	var of []int // the numbers of those that are envelopes
	var statements []signature.Statement
	for i, raw := range raws {
		signed, sig, err := parseEnvelope(raw)
		if all[i] = (Opened{signed, err}); err == nil {
			of = append(of, i)
			statements = append(statements, signature.Statement{Key: signed.Key, Message: signedBytes(domain, v.network, signed.Payload), Signature: sig})
		}
	}
	for i, valid := range signature.Verify(statements...) {
		if !valid {
			all[of[i]] = Opened{Err: ErrSignature}
		}
	}
	return all
}

// parseEnvelope parses an envelope, and does not verify its signature.
func parseEnvelope(raw []byte) (s Signed, sig []byte, err error) {
	field, err := fieldsOf(raw)
	if err != nil {
		return s, nil, err
	}
	key, payload, sig := field[0], field[1], field[2]
	if len(key) != ed25519.PublicKeySize || len(sig) != ed25519.SignatureSize {
		return s, nil, fmt.Errorf("%w: key of %d bytes, signature of %d", ErrEnvelope, len(key), len(sig))
	}
	return Signed{Key: key, Payload: payload, Raw: raw}, sig, nil
}

// fieldsOf returns the key, the payload and the signature of an envelope.
func fieldsOf(raw []byte) (field [3][]byte, err error) {
	for rest := raw; len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		if n < 0 {
			return field, ErrEnvelope
		}
		if typ == protowire.BytesType && num >= 1 && num <= 3 {
			_, _, t := protowire.ConsumeTag(rest)
			field[num-1], _ = protowire.ConsumeBytes(rest[t:])
		}
		rest = rest[n:]
	}
	return field, nil
}

// Reopen returns the content of an envelope whose signature the caller has verified before.
func Reopen(raw []byte) (Signed, error) {
	s, _, err := parseEnvelope(raw)
	return s, err
}

// Reopener is a Verifier that verifies nothing. It is for envelopes that this node has stored itself after it had verified
// them, because a store notices damage, and a hundred thousand signatures take seconds.
var Reopener Verifier = reopener{}

type reopener struct{}

func (reopener) Open(_ Domain, raw []byte) (Signed, error) { return Reopen(raw) }

func (reopener) OpenAll(_ Domain, raws [][]byte) []Opened {
	all := make([]Opened, len(raws))
	for i, raw := range raws {
		all[i].Signed, all[i].Err = Reopen(raw)
	}
	return all
}

// A CachingVerifier asks another verifier about each envelope once and remembers the valid ones.
// Equal envelopes share one value, which also saves memory in the simulator. A CachingVerifier is
// not safe for concurrent use unless it has a lock.
type CachingVerifier struct {
	inner Verifier
	limit int
	cache map[cacheKey]Signed
	lock  Locker // nil: none
}

// A Locker is a mutex. The simulator passes one in, because this package must not import sync.
type Locker interface {
	Lock()
	Unlock()
}

type cacheKey struct {
	domain Domain
	raw    string
}

// NewCachingVerifier returns a verifier that remembers up to limit envelopes. A full cache is
// emptied.
func NewCachingVerifier(inner Verifier, limit int) *CachingVerifier {
	return &CachingVerifier{inner: inner, limit: limit, cache: map[cacheKey]Signed{}}
}

// WithLock makes the verifier safe for concurrent use from now on, and returns it.
func (m *CachingVerifier) WithLock(by Locker) *CachingVerifier {
	m.lock = by
	return m
}

// Signer returns the signer of a private key for a network, which must be that of the inner
// verifier. The envelopes of this signer enter the cache without being verified.
func (m *CachingVerifier) Signer(private ed25519.PrivateKey, network Hash) *Signer {
	s := NewSigner(private, network)
	s.cache = m
	return s
}

// Open returns the content of an envelope; see Verifier.
func (m *CachingVerifier) Open(domain Domain, raw []byte) (Signed, error) {
	if s, ok := m.find(domain, raw); ok {
		return s, nil
	}
	s, err := m.inner.Open(domain, bytes.Clone(raw))
	if err != nil {
		return s, err
	}
	m.add(domain, s)
	return s, nil
}

// OpenAll opens envelopes; see Verifier. Those that are not remembered are verified together.
func (m *CachingVerifier) OpenAll(domain Domain, raws [][]byte) []Opened {
	all := make([]Opened, len(raws))
	var of []int // the numbers of those that are not remembered
	var unknown [][]byte
	for i, raw := range raws {
		s, ok := m.find(domain, raw)
		if all[i].Signed = s; !ok {
			of, unknown = append(of, i), append(unknown, bytes.Clone(raw))
		}
	}
	for j, opened := range m.inner.OpenAll(domain, unknown) {
		if all[of[j]] = opened; opened.Err == nil {
			m.add(domain, opened.Signed)
		}
	}
	return all
}

func (m *CachingVerifier) find(domain Domain, raw []byte) (s Signed, ok bool) {
	if m.lock != nil {
		m.lock.Lock()
		defer m.lock.Unlock()
	}
	s, ok = m.cache[cacheKey{domain, string(raw)}]
	return s, ok
}

func (m *CachingVerifier) add(domain Domain, s Signed) {
	if m.lock != nil {
		m.lock.Lock()
		defer m.lock.Unlock()
	}
	if len(m.cache) >= m.limit {
		clear(m.cache)
	}
	m.cache[cacheKey{domain, string(s.Raw)}] = s
}
