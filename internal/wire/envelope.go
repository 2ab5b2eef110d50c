package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"tidings/internal/env"
)

// Domain separates signatures by what they are for, so that bytes signed as one
// thing can never be shown as another. No domain is the beginning of another.
type Domain string

const (
	// DomainRecord signs a node's own record: where it listens, and as what.
	DomainRecord Domain = "tidings/record/1"
	// DomainEntry signs an entry of a key's log; only its sequencer does.
	DomainEntry Domain = "tidings/entry/1"
	// DomainEpoch countersigns the hash of an epoch of a key's owners.
	DomainEpoch Domain = "tidings/epoch/1"
	// DomainBeat signs a heartbeat of a key's log.
	DomainBeat Domain = "tidings/beat/1"
	// DomainGrant countersigns what a domain's steward grants to a channel.
	DomainGrant Domain = "tidings/grant/1"
	// DomainAsk signs what a channel's sequencer asks its domain's steward for.
	DomainAsk Domain = "tidings/ask/1"
	// DomainReport signs what a poller says of its polls.
	DomainReport Domain = "tidings/report/1"
	// DomainReading signs a document as one of its channel's pollers has read it.
	DomainReading Domain = "tidings/reading/1"
	// DomainTicket makes what a sequencer tells the pollers of a channel alone, for them to show.
	DomainTicket Domain = "tidings/ticket/1"
	// DomainShard signs what an owner of a shard of the firehose sends to all filters.
	DomainShard Domain = "tidings/shard/1"
	// DomainPublication signs an item of a feed; only the feed's publisher does, and for
	// all networks at once: its signer has the network Anywhere.
	DomainPublication Domain = "tidings/publication/1"
	// DomainWitness signs what an owner of a feed has seen of its publisher at the origin.
	DomainWitness Domain = "tidings/witness/1"
)

// Anywhere stands for the network in what is signed for all of them.
var Anywhere Hash

// ErrSignature says that an envelope was not signed by its key, in the domain
// and network it is read in.
var ErrSignature = errors.New("wrong signature")

// ErrEnvelope says that bytes are no envelope.
var ErrEnvelope = errors.New("not an envelope")

// Signed is an envelope that was verified.
type Signed struct {
	Key     ed25519.PublicKey
	Payload []byte
	// Raw is the whole envelope, to be passed on as it is.
	Raw []byte
}

// A Signer signs for one node in one network.
type Signer struct {
	private ed25519.PrivateKey
	network Hash
	memory  *Memory // of what it has signed; nil: none
}

// NewSigner returns the signer of a private key for a network.
func NewSigner(private ed25519.PrivateKey, network Hash) *Signer {
	return &Signer{private: private, network: network}
}

// Public is the signer's public key.
func (s *Signer) Public() ed25519.PublicKey { return s.private.Public().(ed25519.PublicKey) }

// PeerID is the peer id of the signer's key.
func (s *Signer) PeerID() env.PeerID { return PeerIDOf(s.Public()) }

// Sign puts payload into an envelope.
func (s *Signer) Sign(domain Domain, payload []byte) Signed {
	key := s.Public()
	of := Signed{Key: key, Payload: payload, Raw: Envelope(key, payload, s.Signature(domain, payload))}
	if s.memory != nil {
		s.memory.keep(domain, Signed{Key: key, Payload: bytes.Clone(payload), Raw: of.Raw})
	}
	return of
}

// Signature signs payload without an envelope, for who will find it beside the payload, and
// knows whose it is.
func (s *Signer) Signature(domain Domain, payload []byte) []byte {
	return ed25519.Sign(s.private, signed(domain, s.network, payload))
}

// Envelope puts together what Sign makes, from its parts.
func Envelope(key ed25519.PublicKey, payload, signature []byte) []byte {
	var raw []byte
	for i, field := range [][]byte{key, payload, signature} {
		raw = protowire.AppendTag(raw, protowire.Number(i+1), protowire.BytesType)
		raw = protowire.AppendBytes(raw, field)
	}
	return raw
}

// signed is what a signature covers.
func signed(domain Domain, network Hash, payload []byte) []byte {
	b := make([]byte, 0, len(domain)+1+len(network)+len(payload))
	b = append(b, domain...)
	b = append(b, 0)
	b = append(b, network[:]...)
	return append(b, payload...)
}

// A Verifier opens envelopes. Checking signatures is the largest cost of a
// simulated network; the simulator's verifier remembers.
type Verifier interface {
	// Open returns what an envelope holds if its key signed it in domain,
	// else an error of the kind ErrEnvelope or ErrSignature.
	Open(domain Domain, raw []byte) (Signed, error)
}

// NewVerifier returns the verifier of a network, which checks each signature.
func NewVerifier(network Hash) Verifier { return verifier{network} }

type verifier struct{ network Hash }

func (v verifier) Open(domain Domain, raw []byte) (Signed, error) {
	var field [3][]byte
	for rest := raw; len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		if n < 0 {
			return Signed{}, ErrEnvelope
		}
		if typ == protowire.BytesType && num >= 1 && num <= 3 {
			_, _, t := protowire.ConsumeTag(rest)
			field[num-1], _ = protowire.ConsumeBytes(rest[t:])
		}
		rest = rest[n:]
	}
	key, payload, sig := field[0], field[1], field[2]
	if len(key) != ed25519.PublicKeySize || len(sig) != ed25519.SignatureSize {
		return Signed{}, fmt.Errorf("%w: key of %d bytes, signature of %d", ErrEnvelope, len(key), len(sig))
	}
	if !ed25519.Verify(key, signed(domain, v.network, payload), sig) {
		return Signed{}, ErrSignature
	}
	return Signed{Key: key, Payload: payload, Raw: raw}, nil
}

// A Memory is a verifier that asks another about each envelope once and remembers
// the right ones. Equal envelopes come back as one shared value, which also saves the
// simulator's memory. It is not safe for concurrent use, unless it has a guard.
type Memory struct {
	inner Verifier
	limit int
	known map[memoKey]Signed
	guard Guard // nil: none
}

// A Guard lets one in at a time, as a sync.Mutex does.
type Guard interface {
	Lock()
	Unlock()
}

type memoKey struct {
	domain Domain
	raw    string
}

// Memo returns a memory of up to limit envelopes; then it starts anew.
func Memo(inner Verifier, limit int) *Memory {
	return &Memory{inner: inner, limit: limit, known: map[memoKey]Signed{}}
}

// Guarded returns the memory, to be used by several goroutines from now on.
func (m *Memory) Guarded(by Guard) *Memory {
	m.guard = by
	return m
}

// Signer returns the signer of a private key for a network, that of the verifier asked. The
// memory knows its envelopes to be right, because they were made here.
func (m *Memory) Signer(private ed25519.PrivateKey, network Hash) *Signer {
	return &Signer{private: private, network: network, memory: m}
}

// Open returns what an envelope holds, as Verifier says.
func (m *Memory) Open(domain Domain, raw []byte) (Signed, error) {
	if s, ok := m.find(domain, raw); ok {
		return s, nil
	}
	s, err := m.inner.Open(domain, bytes.Clone(raw))
	if err != nil {
		return s, err
	}
	m.keep(domain, s)
	return s, nil
}

func (m *Memory) find(domain Domain, raw []byte) (s Signed, ok bool) {
	if m.guard != nil {
		m.guard.Lock()
		defer m.guard.Unlock()
	}
	s, ok = m.known[memoKey{domain, string(raw)}]
	return s, ok
}

func (m *Memory) keep(domain Domain, s Signed) {
	if m.guard != nil {
		m.guard.Lock()
		defer m.guard.Unlock()
	}
	if len(m.known) >= m.limit {
		clear(m.known)
	}
	m.known[memoKey{domain, string(s.Raw)}] = s
}
