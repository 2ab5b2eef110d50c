package owner

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	maxOwners = 8
	// maxConcurrent bounds the epochs named in Epoch.Concurrent. If there would be more, the candidate waits
	// until answers from owners rule some out.
	maxConcurrent = 2
	maxSignatures = (2 + maxConcurrent) * maxOwners
	// maxUndecided bounds the undecided epochs of a replica. At the bound the owner signs no further epoch of
	// the branch; a forced reconfiguration resolves that.
	maxUndecided = 8
)

// An Epoch states who owns a key and who numbers its entries, with the signatures of the owners. It is
// immutable once it is certified.
type Epoch struct {
	Key        overlay.ID
	URL        string
	Branch     uint64
	Number     uint32
	Sequencer  env.PeerID
	Owners     []env.PeerID // owners, nearest to the key first, including the sequencer; 1 to maxOwners
	After      Position     // position of the last entry before this epoch; zero: none
	AfterHash  Hash
	Prior      Hash   // hash of the preceding epoch; zero: this is the first of its branch
	Concurrent []Hash // epochs after Prior that may have been certified too; at most maxConcurrent
	Time       time.Time

	Hash Hash // of the statement
	// foreign is the received statement if encode would give other bytes, for example because a later release has more fields; nil:
	// statement encodes the fields again, because a node keeps an epoch of each of its feeds.
	foreign []byte
	// signers are the peers whose signatures were verified; signatures are theirs, in the same order.
	signers    []env.PeerID
	signatures [][ed25519.SignatureSize]byte
}

// ErrEpoch reports bytes that are not a valid epoch.
var ErrEpoch = errors.New("not an epoch")

// quorum returns how many of n owners are more than half. Two quorums of the same owners share at least one.
func quorum(n int) int { return n/2 + 1 }

// majority reports whether a quorum of some peers has a property.
func majority(of []env.PeerID, has func(env.PeerID) bool) bool {
	n := 0
	for _, p := range of {
		if has(p) {
			n++
		}
	}
	return n >= quorum(len(of))
}

// in returns the property to be among some peers.
func in(set []env.PeerID) func(env.PeerID) bool {
	return func(p env.PeerID) bool { return slices.Contains(set, p) }
}

// statement returns what the owners sign, whose hash is Hash.
func (e *Epoch) statement() []byte {
	if e.foreign != nil {
		return e.foreign
	}
	return e.encode()
}

// setHash sets the hash of a new epoch.
func (e *Epoch) setHash() { e.Hash = HashOf(e.statement()) }

// encode encodes the fields as a statement.
func (e *Epoch) encode() []byte {
	m := &ownerpb.EpochStatement{
		Key:       e.Key[:],
		Url:       e.URL,
		Branch:    e.Branch,
		Number:    e.Number,
		Sequencer: publicKey(e.Sequencer),
		AfterHash: e.AfterHash.bytes(),
		Prior:     e.Prior.bytes(),
		TimeMs:    uint64(e.Time.UnixMilli()),
	}
	if e.AfterHash != (Hash{}) {
		m.After = positionProto(e.After)
	}
	for _, o := range e.Owners {
		m.Owners = append(m.Owners, publicKey(o))
	}
	for _, h := range e.Concurrent {
		m.Concurrent = append(m.Concurrent, h[:])
	}
	return wire.Encode(m)
}

// openStatement decodes an epoch's statement and checks its bounds. The result has no signatures.
func openStatement(b []byte) (*Epoch, error) {
	m := new(ownerpb.EpochStatement)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEpoch, err)
	}
	afterHash, ok := hashFrom(m.AfterHash)
	prior, ok2 := hashFrom(m.Prior)
	if !ok || !ok2 || !isHash(m.Key) || m.Number == 0 || m.Number > maxNumber || (m.After == nil) != (afterHash == Hash{}) ||
		len(m.Url) > maxURL || !utf8.ValidString(m.Url) || m.TimeMs > wire.MaxMillis ||
		len(m.Owners) == 0 || len(m.Owners) > maxOwners || len(m.Concurrent) > maxConcurrent {
		return nil, fmt.Errorf("%w: out of bounds", ErrEpoch)
	}
	e := &Epoch{
		Key:       overlay.ID(m.Key),
		URL:       m.Url,
		Branch:    m.Branch,
		Number:    m.Number,
		After:     position(m.After),
		AfterHash: afterHash,
		Prior:     prior,
		Time:      time.UnixMilli(int64(m.TimeMs)).UTC(),
		Hash:      HashOf(b),
	}
	for _, o := range m.Owners {
		if len(o) != 32 {
			return nil, fmt.Errorf("%w: owner", ErrEpoch)
		}
		id := wire.PeerIDOf(o)
		if slices.Contains(e.Owners, id) {
			return nil, fmt.Errorf("%w: owner named twice", ErrEpoch)
		}
		e.Owners = append(e.Owners, id)
	}
	for _, h := range m.Concurrent {
		if !isHash(h) {
			return nil, fmt.Errorf("%w: concurrent epoch", ErrEpoch)
		}
		e.Concurrent = append(e.Concurrent, Hash(h))
	}
	if len(m.Sequencer) != 32 {
		return nil, fmt.Errorf("%w: sequencer", ErrEpoch)
	}
	i := slices.Index(e.Owners, wire.PeerIDOf(m.Sequencer))
	if i < 0 {
		return nil, fmt.Errorf("%w: the sequencer is not an owner", ErrEpoch)
	}
	e.Sequencer = e.Owners[i] // the same string: a node has an epoch of each feed
	if !bytes.Equal(e.encode(), b) {
		e.foreign = b
	}
	return e, nil
}

// openEpoch decodes an epoch and verifies its signatures. Wrong signatures are left out.
func openEpoch(verify wire.Verifier, m *ownerpb.Epoch) (*Epoch, error) {
	e, err := openStatement(m.GetStatement())
	if err != nil {
		return nil, err
	}
	e.addSignatures(verify, m)
	return e, nil
}

func openEpochs(verify wire.Verifier, of []*ownerpb.Epoch) (es []*Epoch, err error) {
	for _, m := range of {
		e, err := openEpoch(verify, m)
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	return es, nil
}

func (e *Epoch) addSignatures(verify wire.Verifier, m *ownerpb.Epoch) {
	for _, raw := range m.Signatures {
		e.addSignature(verify, raw)
	}
}

// Bytes returns the encoded epoch with its signatures.
func (e *Epoch) Bytes() []byte { return wire.Encode(e.proto()) }

// addSignature adds a signature to an epoch if it is valid and new. It returns the signer and whether the
// signature was added.
func (e *Epoch) addSignature(verify wire.Verifier, raw []byte) (env.PeerID, bool) {
	signed, err := verify.Open(wire.DomainEpoch, raw)
	if err != nil || string(signed.Payload) != string(e.Hash[:]) {
		return "", false
	}
	id := wire.PeerIDOf(signed.Key)
	if slices.Contains(e.signers, id) || len(e.signers) >= maxSignatures {
		return id, false
	}
	if i := slices.Index(e.Owners, id); i >= 0 {
		id = e.Owners[i]
	}
	e.signers = append(e.signers, id)
	e.signatures = append(e.signatures, [ed25519.SignatureSize]byte(signed.Signature()))
	return id, true
}

// certifiedBy reports whether a quorum of the given owners has signed.
func (e *Epoch) certifiedBy(owners []env.PeerID) bool {
	return majority(owners, in(e.signers))
}

// Succeeds reports whether e is a later epoch of the same branch, signed by quorums of the owners of both.
func (e *Epoch) Succeeds(before *Epoch) bool {
	return e.Branch == before.Branch && e.Number > before.Number &&
		e.certifiedBy(before.Owners) && e.certifiedBy(e.Owners)
}

func (e *Epoch) proto() *ownerpb.Epoch {
	if e == nil {
		return nil
	}
	return &ownerpb.Epoch{Statement: e.statement(), Signatures: e.envelopes()}
}

// envelopes returns the signatures as they are sent.
func (e *Epoch) envelopes() [][]byte {
	of := make([][]byte, len(e.signers))
	for i, p := range e.signers {
		of[i] = wire.Envelope(publicKey(p), e.Hash[:], e.signatures[i][:])
	}
	return of
}

func epochsProto(of []*Epoch) (m []*ownerpb.Epoch) {
	for _, e := range of {
		m = append(m, e.proto())
	}
	return m
}

// Quorum returns how many of the epoch's owners are more than half.
func (e *Epoch) Quorum() int { return quorum(len(e.Owners)) }

// admits reports whether an entry may be in a log with this epoch. An entry of the epoch itself must come after
// the entry that the epoch continues from.
func (e *Epoch) admits(n *Entry) bool {
	return !e.has(n) || n.At.Seq > e.After.Seq && (n.At.Seq > e.After.Seq+1 || n.Prev == e.AfterHash)
}

// has reports whether an entry's position is in the epoch.
func (e *Epoch) has(n *Entry) bool { return n.At.Branch == e.Branch && n.At.Epoch == e.Number }

// endsWith reports whether an entry may be the last one of a log with this epoch: one of the epoch itself, or the one that
// it continues from.
func (e *Epoch) endsWith(n *Entry) bool {
	return n.Signer == e.Sequencer && e.has(n) || n.Hash == e.AfterHash
}

func (e *Epoch) owns(id env.PeerID) bool { return slices.Contains(e.Owners, id) }

// inOrder returns the owners, the sequencer first.
func (e *Epoch) inOrder() []env.PeerID {
	of := []env.PeerID{e.Sequencer}
	for _, p := range e.Owners {
		if p != e.Sequencer {
			of = append(of, p)
		}
	}
	return of
}

// newBranch returns the name of a branch: the distance of its founding sequencer from the key, then the time of
// its founding. The smaller of two branches continues when they meet: the one founded nearer to the key, or
// the older one.
func newBranch(key, founder overlay.ID, at time.Time) uint64 {
	distance := binary.BigEndian.Uint32(key[:4]) ^ binary.BigEndian.Uint32(founder[:4])
	return uint64(distance)<<32 | uint64(uint32(at.Unix()))
}

func publicKey(id env.PeerID) []byte {
	key, err := wire.PublicKeyOf(id)
	if err != nil {
		panic(fmt.Sprintf("owner: %q is no peer id", id)) // peer ids are made from keys, or verified by their connection
	}
	return key
}
