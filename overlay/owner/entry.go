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

// A Hash is the SHA-256 of a statement, of a body, or of a set of items. The zero Hash stands for no hash.
type Hash [sha256.Size]byte

// HashOf hashes bytes.
func HashOf(b []byte) Hash { return sha256.Sum256(b) }

func (h Hash) String() string { return hex.EncodeToString(h[:4]) }

// short returns the first eight bytes, which digests and lists compare.
func (h Hash) short() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// A Position is an entry's place in a key's log.
type Position struct {
	Branch uint64
	Epoch  uint32
	Seq    uint64 // number of the entry, from 1; continues across epochs and forced reconfigurations
}

func (p Position) String() string {
	return fmt.Sprintf("%08x/%d/%d", uint32(p.Branch), p.Epoch, p.Seq)
}

// Before reports whether p precedes q in the same branch.
func (p Position) Before(q Position) bool {
	return p.Branch == q.Branch && (p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Seq < q.Seq)
}

// Bounds on entries.
const (
	// MaxBody is the largest size of a body in bytes. Writers split larger ones, because an owner keeps a body in
	// memory while it is replicated. The largest signed item fits in, with its envelope and however little it shrinks.
	MaxBody = 1<<20 + 64<<10
	// maxInline is the largest body, in bytes, that is sent in one message with its entry. Larger ones are
	// fetched in chunks of this size.
	maxInline = 48 << 10
	// MaxNote is the largest size of a note in bytes, including the hash before it.
	MaxNote = 6 << 10
	// maxURL is the longest URL in bytes. It keeps epochs small enough to be sent beside a full page of entries.
	maxURL = 2 << 10
)

// An Entry is one signed entry of a key's log. It is immutable.
type Entry struct {
	Key   overlay.ID
	At    Position
	Prev  Hash      // hash of the preceding entry; zero: this is the first
	Time  time.Time // time of the append at the sequencer, to the millisecond
	Body  Hash
	Size  int  // size of the body, in bytes
	Items int  // number of items in the body
	Set   Hash // hash of the set of items after this entry

	Signer env.PeerID
	Hash   Hash       // hash of the statement
	proof  wire.Proof // a node has many entries in memory
}

// Raw returns the signed envelope of the entry, as received.
func (e *Entry) Raw() []byte { return e.proof.Envelope(e.Signer, e.statement) }

// statement encodes what is signed.
func (e *Entry) statement() []byte {
	return wire.Encode(&ownerpb.EntryStatement{
		Key:      e.Key[:],
		Position: positionProto(e.At),
		Prev:     e.Prev.bytes(),
		TimeMs:   uint64(e.Time.UnixMilli()),
		Body:     e.Body[:],
		Size:     uint32(e.Size),
		Items:    uint32(e.Items),
		Set:      e.Set[:],
	})
}

// ErrEntry reports bytes that are not a valid entry, or an argument that would not make one.
var ErrEntry = errors.New("not an entry")

// OpenEntry decodes an entry and verifies its signature. It does not check whether the signer is the
// sequencer.
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
		m.Size > MaxBody || m.Items > m.Size || m.Position.Seq == 0 || m.Position.Epoch == 0 || m.TimeMs > wire.MaxMillis {
		return nil, fmt.Errorf("%w: out of bounds", ErrEntry)
	}
	e := &Entry{
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
	}
	e.proof = signed.Proof(e.statement())
	return e, nil
}

// sign signs an entry, and sets Signer, Hash and what Raw needs.
func (e *Entry) sign(signer *wire.Signer) {
	payload := e.statement()
	e.Signer, e.Hash = signer.PeerID(), HashOf(payload)
	e.proof = signer.Sign(wire.DomainEntry, payload).Proof(payload)
}

// bytes returns the hash as it is encoded: empty for the zero Hash.
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
	return Position{Branch: p.GetBranch(), Epoch: p.GetEpoch(), Seq: p.GetSeq()}
}

func positionProto(p Position) *ownerpb.Position {
	return &ownerpb.Position{Branch: p.Branch, Epoch: p.Epoch, Seq: p.Seq}
}

// marshal encodes a message that this node made.
