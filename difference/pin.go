package difference

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

const (
	// MaxFormer is how many former keys of a feed are remembered; the oldest are dropped.
	MaxFormer = 16
	// MaxWitnesses is how many owners a pin names that saw the key at the origin.
	MaxWitnesses = 8
	maxWitness   = 3 << 10 // bytes of one witness, including the envelope
)

// ErrPin says that the bytes are not a pin.
var ErrPin = errors.New("not a pin")

// A Pin is the publisher's key of a feed, as the sequencer of its log saw it at the origin, and the number of
// the publisher's latest publication. A pin is immutable.
type Pin struct {
	Key         ed25519.PublicKey
	Next        feed.Hash     // hash of the announced next key; zero: none
	Since       time.Time     // when the key came into force
	Beat        time.Duration // longest time without a publication; 0: not stated
	Certificate string        // address of the certificate; may be ""
	Fingerprint feed.Hash     // SHA-256 of the certificate; zero: not stated
	Seq         uint64        // number of the last publication
	Head        feed.Hash     // hash of the last publication
	Former      []FormerKey   // former keys, oldest first
	// Witnesses are statements of owners that saw the key at the origin, which revoked the former key.
	Witnesses [][]byte
}

// A FormerKey is a former key of a feed.
type FormerKey struct {
	Key     ed25519.PublicKey
	Next    feed.Hash
	Revoked bool // the origin revoked the key; otherwise the key had announced its successor
}

// Publisher returns the publisher as a document can name it.
func (p *Pin) Publisher() *feed.Publisher {
	publisher := feed.Publisher{Key: p.Key, Next: p.Next, Beat: p.Beat, Certificate: p.Certificate, Fingerprint: p.Fingerprint}
	if publisher.Check() != nil { // the feed's sequencer invented values
		publisher.Beat, publisher.Certificate, publisher.Fingerprint = 0, "", feed.Hash{}
	}
	return &publisher
}

// Fingerprint formats a key for people to compare, as SSH does.
func Fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// KeyHash returns the hash by which a key is announced.
func KeyHash(key ed25519.PublicKey) feed.Hash {
	return sha256.Sum256(append([]byte("tidings/next-key/1\x00"), key...))
}

// Advance returns the pin after a further publication.
func (p *Pin) Advance(publication *Publication) *Pin {
	if p == nil || publication == nil || publication.Seq <= p.Seq || !p.Valid(publication.Key) {
		return p
	}
	next := *p
	next.Seq, next.Head = publication.Seq, publication.Hash
	return &next
}

// WithNumbersOf returns the pin with the publication numbers of another pin of the feed, if that knows later
// ones. The node that reports a key may not have received all publications.
func (p *Pin) WithNumbersOf(other *Pin) *Pin {
	if other == nil || other.Seq <= p.Seq {
		return p
	}
	next := *p
	next.Seq, next.Head = other.Seq, other.Head
	return &next
}

// missing returns the number of missing publications between the last known one and another. It is at least one
// if the other follows on an unknown publication.
func (p *Pin) missing(publication *Publication) uint64 {
	switch {
	case p == nil || p.Seq == 0 || publication.Seq <= p.Seq || !p.Valid(publication.Key):
		return 0
	case publication.Seq == p.Seq+1 && publication.Prev == p.Head:
		return 0
	}
	return max(publication.Seq-p.Seq-1, 1)
}

// Valid reports whether a key may have signed items of the feed: it is the present key, or a former one that
// was not revoked.
func (p *Pin) Valid(key ed25519.PublicKey) bool {
	if p == nil {
		return false
	}
	return bytes.Equal(p.Key, key) || slices.ContainsFunc(p.Former, func(t FormerKey) bool { return !t.Revoked && bytes.Equal(t.Key, key) })
}

// Revoked reports whether the origin revoked a key.
func (p *Pin) Revoked(key ed25519.PublicKey) bool {
	return p != nil && slices.ContainsFunc(p.Former, func(t FormerKey) bool { return t.Revoked && bytes.Equal(t.Key, key) })
}

// IsFormer reports whether a key is a former one.
func (p *Pin) IsFormer(key ed25519.PublicKey) bool {
	return p != nil && slices.ContainsFunc(p.Former, func(t FormerKey) bool { return bytes.Equal(t.Key, key) })
}

// Rotate returns the pin of the key that follows p's: an announced key, or one that witnesses saw at the
// origin, which thereby revoked p's key.
func (p *Pin) Rotate(key ed25519.PublicKey, next feed.Hash, at time.Time, witnesses [][]byte) *Pin {
	past := append(slices.Clone(p.Former), FormerKey{p.Key, p.Next, len(witnesses) > 0})
	return &Pin{
		Key: key, Next: next, Since: at, Beat: p.Beat, Certificate: p.Certificate, Fingerprint: p.Fingerprint,
		Seq: p.Seq, Head: p.Head, Former: past[max(0, len(past)-MaxFormer):], Witnesses: witnesses,
	}
}

// Follows reports whether p's key is old's key, or the key that old's key announced. A longer chain does not
// count: only the author of p claims that the key in the middle announced the next one.
func (p *Pin) Follows(old *Pin) bool {
	if bytes.Equal(p.Key, old.Key) {
		return !p.Revoked(p.Key)
	}
	last := len(p.Former) - 1
	return old.Next != (feed.Hash{}) && KeyHash(p.Key) == old.Next && last >= 0 && bytes.Equal(p.Former[last].Key, old.Key) && !p.Former[last].Revoked
}

// Rebase returns p as a node accepts it that has believed old. The former keys, and the announced next key,
// come from old and from the chain that begins there, because a sequencer could invent former keys and could
// announce a key of its own. The next key after a new key is therefore not known yet.
func (p *Pin) Rebase(old *Pin) *Pin {
	now := *p
	now.Former = slices.Clone(old.Former)
	if bytes.Equal(p.Key, old.Key) {
		now.Witnesses, now.Next, now.Beat = old.Witnesses, old.Next, old.Beat // the origin may name another beat, but not a sequencer
		if old.Seq > now.Seq {
			now.Seq, now.Head = old.Seq, old.Head
		}
		return &now
	}
	now.Next = feed.Hash{}
	i := slices.IndexFunc(p.Former, func(t FormerKey) bool { return bytes.Equal(t.Key, old.Key) })
	if i < 0 {
		now.Former = append(now.Former, FormerKey{old.Key, old.Next, true})
	} else {
		last, named := FormerKey{old.Key, old.Next, p.Former[i].Revoked}, true
		for j, t := range append(slices.Clone(p.Former[i+1:]), FormerKey{Key: p.Key}) {
			follows := !last.Revoked && last.Next != (feed.Hash{}) && KeyHash(t.Key) == last.Next
			if named || last.Revoked {
				now.Former = append(now.Former, FormerKey{last.Key, last.Next, !follows})
			}
			named, last = j == 0 && follows, t // after the first key, announcements are claims of p's author alone
		}
	}
	now.Former = now.Former[max(0, len(now.Former)-MaxFormer):]
	return &now
}

func (p *Pin) message() *differencepb.Pin {
	if p == nil {
		return nil
	}
	m := &differencepb.Pin{
		Key: p.Key, Next: hashBytes(p.Next), SinceMs: uint64(p.Since.UnixMilli()), BeatMs: uint64(p.Beat.Milliseconds()),
		Certificate: p.Certificate, Fingerprint: hashBytes(p.Fingerprint), Pubseq: p.Seq, Head: hashBytes(p.Head), Witnesses: p.Witnesses,
	}
	for _, t := range p.Former {
		m.Former = append(m.Former, &differencepb.FormerKey{Key: t.Key, Next: hashBytes(t.Next), Revoked: t.Revoked})
	}
	return m
}

// hashBytes returns the encoded form of a hash; the zero hash is empty.
func hashBytes(h feed.Hash) []byte {
	if h == (feed.Hash{}) {
		return nil
	}
	return h[:]
}

// Append encodes a pin.
func (p *Pin) Append() []byte { return wire.Encode(p.message()) }

// ParsePin parses a pin. It verifies no signature.
func ParsePin(b []byte) (*Pin, error) {
	m := new(differencepb.Pin)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPin, err)
	}
	return pinFrom(m)
}

func pinFrom(m *differencepb.Pin) (*Pin, error) {
	switch {
	case m == nil:
		return nil, nil
	case len(m.Key) != ed25519.PublicKeySize:
		return nil, fmt.Errorf("%w: a key of %d bytes", ErrPin, len(m.Key))
	case m.SinceMs > wire.MaxMillis || m.BeatMs > wire.MaxMillis/1000:
		return nil, fmt.Errorf("%w: a time that cannot be", ErrPin)
	case len(m.Certificate) > maxFeedURL:
		return nil, fmt.Errorf("%w: an address of %d bytes", ErrPin, len(m.Certificate))
	case len(m.Former) > MaxFormer || len(m.Witnesses) > MaxWitnesses:
		return nil, fmt.Errorf("%w: %d former keys, %d witnesses", ErrPin, len(m.Former), len(m.Witnesses))
	}
	p := &Pin{
		Key: m.Key, Since: time.UnixMilli(int64(m.SinceMs)).UTC(), Beat: time.Duration(m.BeatMs) * time.Millisecond,
		Certificate: m.Certificate, Seq: m.Pubseq, Witnesses: m.Witnesses,
	}
	for hash, b := range map[*feed.Hash][]byte{&p.Next: m.Next, &p.Fingerprint: m.Fingerprint, &p.Head: m.Head} {
		var err error
		if *hash, err = hashOf(b); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPin, err)
		}
	}
	for _, t := range m.Former {
		next, err := hashOf(t.GetNext())
		if err != nil || len(t.GetKey()) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%w: a former key of %d bytes", ErrPin, len(t.GetKey()))
		}
		p.Former = append(p.Former, FormerKey{t.Key, next, t.Revoked})
	}
	for _, w := range m.Witnesses {
		if len(w) > maxWitness {
			return nil, fmt.Errorf("%w: a witness of %d bytes", ErrPin, len(w))
		}
	}
	return p, nil
}

// A Witness is an owner's statement that it saw a key at a feed's origin.
type Witness struct {
	Owner ed25519.PublicKey // public key of the owner
	URL   string
	Key   ed25519.PublicKey
	Time  time.Time
	Raw   []byte // the envelope
}

// Attest signs the statement that a key was seen at the origin of a feed.
func Attest(signer *wire.Signer, url string, key ed25519.PublicKey, at time.Time) *Witness {
	payload := wire.Encode(&differencepb.Witness{Url: url, Key: key, TimeMs: uint64(at.UnixMilli())})
	return &Witness{signer.Public(), url, key, at, signer.Sign(wire.DomainWitness, payload).Raw}
}

// OpenWitness verifies and parses a statement.
func OpenWitness(verify wire.Verifier, raw []byte) (*Witness, error) {
	if len(raw) > maxWitness {
		return nil, fmt.Errorf("%w: a witness of %d bytes", ErrPin, len(raw))
	}
	signed, err := verify.Open(wire.DomainWitness, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPin, err)
	}
	m := new(differencepb.Witness)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPin, err)
	}
	if len(m.Url) > maxFeedURL || len(m.Key) != ed25519.PublicKeySize || m.TimeMs > wire.MaxMillis {
		return nil, fmt.Errorf("%w: a witness out of bounds", ErrPin)
	}
	return &Witness{signed.Key, m.Url, m.Key, time.UnixMilli(int64(m.TimeMs)).UTC(), signed.Raw}, nil
}
