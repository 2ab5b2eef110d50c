package owner

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A Hash is the SHA-256 of a statement, of a body, or of a set of items. The zero
// Hash names nothing.
type Hash [sha256.Size]byte

// HashOf hashes bytes.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

func (h Hash) String() string { return hex.EncodeToString(h[:4]) }

// short is what digests and lists compare.
func (h Hash) short() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// A Position is a place in a key's log.
type Position struct {
	Lineage uint64
	Epoch   uint32
	Seq     uint64 // goes on through epochs and jumps
}

func (p Position) String() string {
	return fmt.Sprintf("%08x/%d/%d", uint32(p.Lineage), p.Epoch, p.Seq)
}

// Before says whether p stands before q in the same lineage.
func (p Position) Before(q Position) bool {
	return p.Lineage == q.Lineage && (p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Seq < q.Seq)
}

// Bounds of entries.
const (
	// maxMillis is the end of the year 9999, beyond which times cannot be written
	// down for people.
	maxMillis = 253402300799999
	// MaxBody is the size of the largest body in bytes. Writers split what is
	// larger: an owner holds a body in memory while it moves.
	MaxBody = 1 << 20
	// maxInline is the largest body that travels beside its entry; larger ones
	// are asked for piece by piece.
	maxInline = 48 << 10
	// MaxNote is the size of the largest replicated record in bytes, with the hash
	// before it.
	MaxNote = 6 << 10
	// maxURL: reliability of lists and pages over what some site might use.
	maxURL = 2 << 10
)

// An Entry is one statement of a sequencer about a key's log. It is immutable.
type Entry struct {
	Key   overlay.ID
	At    Position
	Prev  Hash      // hash of the entry before; zero: it is the first
	Time  time.Time // when the sequencer made it, in milliseconds
	Body  Hash
	Size  int  // of the body, in bytes
	Items int  // how many the body holds
	Set   Hash // of the set of items that results

	Signer env.PeerID
	Hash   Hash   // of the statement
	Raw    []byte // the envelope
}

// ErrEntry says that bytes are no entry.
var ErrEntry = errors.New("not an entry")

// OpenEntry verifies an entry's signature and reads it. Whether its signer may
// sign it is another question.
func OpenEntry(verify wire.Verifier, raw []byte) (*Entry, error) {
	signed, err := verify.Open(wire.DomainEntry, raw)
	if err != nil {
		return nil, err
	}
	m := new(ownerpb.EntryStatement)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	prev, ok := hashFrom(m.Prev)
	if !isHash(m.Key) || m.Position == nil || !ok || !isHash(m.Body) || !isHash(m.Set) ||
		m.Size > MaxBody || m.Items > m.Size || m.Position.Seq == 0 || m.Position.Epoch == 0 || m.TimeMs > maxMillis {
		return nil, fmt.Errorf("%w: out of bounds", ErrEntry)
	}
	return &Entry{
		Key:    overlay.ID(m.Key),
		At:     position(m.Position),
		Prev:   prev,
		Time:   time.UnixMilli(int64(m.TimeMs)).UTC(),
		Body:   Hash(m.Body),
		Size:   int(m.Size),
		Items:  int(m.Items),
		Set:    Hash(m.Set),
		Signer: wire.PeerIDOf(signed.Key),
		Hash:   HashOf(signed.Payload),
		Raw:    signed.Raw,
	}, nil
}

// sign makes an entry; e has everything but signer, hash and raw.
func (e *Entry) sign(signer *wire.Signer) {
	payload := marshal(&ownerpb.EntryStatement{
		Key:      e.Key[:],
		Position: positionPB(e.At),
		Prev:     e.Prev.bytes(),
		TimeMs:   uint64(e.Time.UnixMilli()),
		Body:     e.Body[:],
		Size:     uint32(e.Size),
		Items:    uint32(e.Items),
		Set:      e.Set[:],
	})
	signed := signer.Sign(wire.DomainEntry, payload)
	e.Signer, e.Hash, e.Raw = signer.PeerID(), HashOf(payload), signed.Raw
}

// bytes is a hash on the wire: empty if it names nothing.
func (h Hash) bytes() []byte {
	if h == (Hash{}) {
		return nil
	}
	return h[:]
}

func hashFrom(b []byte) (Hash, bool) {
	if len(b) == 0 {
		return Hash{}, true
	}
	if !isHash(b) {
		return Hash{}, false
	}
	return Hash(b), true
}

func isHash(b []byte) bool { return len(b) == sha256.Size }

func position(p *ownerpb.Position) Position {
	return Position{Lineage: p.GetLineage(), Epoch: p.GetEpoch(), Seq: p.GetSeq()}
}

func positionPB(p Position) *ownerpb.Position {
	return &ownerpb.Position{Lineage: p.Lineage, Epoch: p.Epoch, Seq: p.Seq}
}

// marshal encodes a message made here.
func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("owner: encode %T: %v", m, err)) // a URL was let in that is no UTF-8
	}
	return b
}
