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
	// MaxPast is how many former keys of a feed are remembered; the first ones go.
	MaxFormer = 16
	// MaxWitnesses is how many owners of a feed are named who have seen a key at its origin.
	MaxWitnesses = 8
	maxWitness   = 3 << 10 // bytes of one, envelope included
)

// ErrPin says that bytes do not say whose a feed is.
var ErrPin = errors.New("not a pin")

// A Pin says whose a feed is, as the sequencer of its log has seen at the origin, and how far its
// publisher has counted. It is never changed: what follows is another one.
type Pin struct {
	Key         ed25519.PublicKey
	Next        feed.Hash     // of the key that may follow; zero: none was named
	Since       time.Time     // of the key
	Beat        time.Duration // the publisher's longest silence; 0: not said
	Certificate string        // its address; may be ""
	Fingerprint feed.Hash     // of the certificate; zero: not said
	Seq         uint64        // of the last publication
	Head        feed.Hash     // its hash
	Former      []FormerKey   // the keys before, the first one first
	// Witnesses are owners who have seen the key at the origin, which took back the one before.
	Witnesses [][]byte
}

// A Tenure is a key that a feed had.
type FormerKey struct {
	Key     ed25519.PublicKey
	Next    feed.Hash
	Revoked bool // the origin took it back; else the next one had been named
}

// Said is what a document says of the publisher, as far as one can.
func (p *Pin) Publisher() *feed.Publisher {
	said := feed.Publisher{Key: p.Key, Next: p.Next, Beat: p.Beat, Certificate: p.Certificate, Fingerprint: p.Fingerprint}
	if said.Check() != nil { // who leads the feed has made it up
		said.Beat, said.Certificate, said.Fingerprint = 0, "", feed.Hash{}
	}
	return &said
}

// Fingerprint is a key as people compare it, and as SSH writes it.
func Fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// KeyHash is how a key is named before it is used.
func KeyHash(key ed25519.PublicKey) feed.Hash {
	return sha256.Sum256(append([]byte("tidings/next-key/1\x00"), key...))
}

// After is a pin when its publisher has said more.
func (p *Pin) Advance(of *Publication) *Pin {
	if p == nil || of == nil || of.Seq <= p.Seq || !p.Valid(of.Key) {
		return p
	}
	next := *p
	next.Seq, next.Head = of.Seq, of.Hash
	return &next
}

// Counted is a pin with the numbers of another one of the feed, if that has got farther: who tells of a key
// need not have heard all that was published.
func (p *Pin) WithNumbersOf(by *Pin) *Pin {
	if by == nil || by.Seq <= p.Seq {
		return p
	}
	next := *p
	next.Seq, next.Head = by.Seq, by.Head
	return &next
}

// between is how many publications are missing between the last that is known and another: at least one if
// that follows on something else.
func (p *Pin) missing(of *Publication) uint64 {
	switch {
	case p == nil || p.Seq == 0 || of.Seq <= p.Seq || !p.Valid(of.Key):
		return 0
	case of.Seq == p.Seq+1 && of.Prev == p.Head:
		return 0
	}
	return max(of.Seq-p.Seq-1, 1)
}

// Good says whether a key may have signed items of the feed: the present one, or one before it
// that nobody took back.
func (p *Pin) Valid(key ed25519.PublicKey) bool {
	if p == nil {
		return false
	}
	return bytes.Equal(p.Key, key) || slices.ContainsFunc(p.Former, func(t FormerKey) bool { return !t.Revoked && bytes.Equal(t.Key, key) })
}

// Revoked says whether the origin has taken a key back.
func (p *Pin) Revoked(key ed25519.PublicKey) bool {
	return p != nil && slices.ContainsFunc(p.Former, func(t FormerKey) bool { return t.Revoked && bytes.Equal(t.Key, key) })
}

// Had says whether a key is one before the present one.
func (p *Pin) IsFormer(key ed25519.PublicKey) bool {
	return p != nil && slices.ContainsFunc(p.Former, func(t FormerKey) bool { return bytes.Equal(t.Key, key) })
}

// Change returns the pin of another key that follows on p: one that was named before, or one
// that witnesses have seen at the origin, which so takes back p's.
func (p *Pin) Rotate(key ed25519.PublicKey, next feed.Hash, at time.Time, witnesses [][]byte) *Pin {
	past := append(slices.Clone(p.Former), FormerKey{p.Key, p.Next, len(witnesses) > 0})
	return &Pin{
		Key: key, Next: next, Since: at, Beat: p.Beat, Certificate: p.Certificate, Fingerprint: p.Fingerprint,
		Seq: p.Seq, Head: p.Head, Former: past[max(0, len(past)-MaxFormer):], Witnesses: witnesses,
	}
}

// Follows says whether p's key is old's, or the one that old's had named. A chain of several names does not
// count: that a key between had named the next one is the word of whoever made p, and of nobody else.
func (p *Pin) Follows(old *Pin) bool {
	if bytes.Equal(p.Key, old.Key) {
		return !p.Revoked(p.Key)
	}
	last := len(p.Former) - 1
	return old.Next != (feed.Hash{}) && KeyHash(p.Key) == old.Next && last >= 0 && bytes.Equal(p.Former[last].Key, old.Key) && !p.Former[last].Revoked
}

// Onto is p as who has believed old takes it. Of the keys before, and of what is still to come, it is
// old that tells, and the chain of names that begins there: a sequencer could say that any key was
// the feed's once. It could as well name a key of its own as the next one: which key may follow is
// known from old alone, and of a new key not yet.
func (p *Pin) Rebase(old *Pin) *Pin {
	now := *p
	now.Former = slices.Clone(old.Former)
	if bytes.Equal(p.Key, old.Key) {
		now.Witnesses, now.Next = old.Witnesses, old.Next
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
			named, last = j == 0 && follows, t // what a key has named that old had named is p's word alone
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

// orNone is a hash as it is written.
func hashBytes(h feed.Hash) []byte {
	if h == (feed.Hash{}) {
		return nil
	}
	return h[:]
}

// Append encodes a pin.
func (p *Pin) Append() []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.message())
	if err != nil {
		panic(fmt.Sprintf("difference: encode pin: %v", err)) // an address was let in that is no UTF-8
	}
	return b
}

// ParsePin reads a pin. It checks no signature.
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
	case m.SinceMs > maxMillis || m.BeatMs > maxMillis/1000:
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
	for of, b := range map[*feed.Hash][]byte{&p.Next: m.Next, &p.Fingerprint: m.Fingerprint, &p.Head: m.Head} {
		var err error
		if *of, err = hashOf(b); err != nil {
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

// A Witness is an owner's word that it has seen a key at a feed's origin.
type Witness struct {
	Owner ed25519.PublicKey // of the owner
	URL   string
	Key   ed25519.PublicKey
	Time  time.Time
	Raw   []byte // the envelope
}

// Attest signs that a key was seen at the origin of a feed.
func Attest(signer *wire.Signer, url string, key ed25519.PublicKey, at time.Time) *Witness {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&differencepb.Witness{Url: url, Key: key, TimeMs: uint64(at.UnixMilli())})
	if err != nil {
		panic(fmt.Sprintf("difference: encode witness: %v", err)) // an address was let in that is no UTF-8
	}
	return &Witness{signer.Public(), url, key, at, signer.Sign(wire.DomainWitness, payload).Raw}
}

// OpenWitness reads an owner's word.
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
	if len(m.Url) > maxFeedURL || len(m.Key) != ed25519.PublicKeySize || m.TimeMs > maxMillis {
		return nil, fmt.Errorf("%w: a witness out of bounds", ErrPin)
	}
	return &Witness{signed.Key, m.Url, m.Key, time.UnixMilli(int64(m.TimeMs)).UTC(), signed.Raw}, nil
}
