package owner

import (
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
	// maxBeside bounds the epochs beside the last one that may be in force; with
	// more a candidate waits until owners who answer rule some out.
	maxBeside     = 2
	maxSignatures = (2 + maxBeside) * maxOwners
	// maxOpen bounds the epochs an owner has signed without knowing what became
	// of them. At the bound it signs no other of the lineage; a jump ends that.
	maxOpen = 8
)

// An Epoch says who owns a key and who numbers its entries. It is immutable.
type Epoch struct {
	Key       overlay.ID
	URL       string
	Lineage   uint64
	Number    uint32
	Sequencer env.PeerID
	Owners    []env.PeerID // nearest first, the sequencer among them
	After     Position     // the last entry before it; zero: none
	AfterHash Hash
	Prior     Hash   // of the epoch before; zero: it is the first
	Beside    []Hash // of epochs that may be in force too
	Time      time.Time

	Hash      Hash
	statement []byte
	// signers are those whose signatures were verified, beside them.
	signers    []env.PeerID
	signatures [][]byte
}

// ErrEpoch says that bytes are no epoch.
var ErrEpoch = errors.New("not an epoch")

// quorum of n owners: more than half, so that two quorums share one.
func quorum(n int) int { return n/2 + 1 }

// state turns a new epoch's values into its statement.
func (e *Epoch) state() *Epoch {
	m := &ownerpb.EpochStatement{
		Key:       e.Key[:],
		Url:       e.URL,
		Lineage:   e.Lineage,
		Number:    e.Number,
		Sequencer: publicKey(e.Sequencer),
		AfterHash: e.AfterHash.bytes(),
		Prior:     e.Prior.bytes(),
		TimeMs:    uint64(e.Time.UnixMilli()),
	}
	if e.AfterHash != (Hash{}) {
		m.After = positionPB(e.After)
	}
	for _, o := range e.Owners {
		m.Owners = append(m.Owners, publicKey(o))
	}
	for _, h := range e.Beside {
		m.Beside = append(m.Beside, h[:])
	}
	e.statement = marshal(m)
	e.Hash = HashOf(e.statement)
	return e
}

// openStatement reads a statement and checks its bounds. It has no signatures.
func openStatement(b []byte) (*Epoch, error) {
	m := new(ownerpb.EpochStatement)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEpoch, err)
	}
	afterHash, ok := hashFrom(m.AfterHash)
	prior, ok2 := hashFrom(m.Prior)
	if !ok || !ok2 || !isHash(m.Key) || m.Number == 0 || m.Number > maxNumber || (m.After == nil) != (afterHash == Hash{}) ||
		len(m.Url) > maxURL || !utf8.ValidString(m.Url) || m.TimeMs > maxMillis ||
		len(m.Owners) == 0 || len(m.Owners) > maxOwners || len(m.Beside) > maxBeside {
		return nil, fmt.Errorf("%w: out of bounds", ErrEpoch)
	}
	e := &Epoch{
		Key:       overlay.ID(m.Key),
		URL:       m.Url,
		Lineage:   m.Lineage,
		Number:    m.Number,
		After:     position(m.After),
		AfterHash: afterHash,
		Prior:     prior,
		Time:      time.UnixMilli(int64(m.TimeMs)).UTC(),
		Hash:      HashOf(b),
		statement: b,
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
	for _, h := range m.Beside {
		if !isHash(h) {
			return nil, fmt.Errorf("%w: beside", ErrEpoch)
		}
		e.Beside = append(e.Beside, Hash(h))
	}
	if len(m.Sequencer) != 32 {
		return nil, fmt.Errorf("%w: sequencer", ErrEpoch)
	}
	if e.Sequencer = wire.PeerIDOf(m.Sequencer); !slices.Contains(e.Owners, e.Sequencer) {
		return nil, fmt.Errorf("%w: the sequencer is no owner", ErrEpoch)
	}
	return e, nil
}

// openEpoch reads an epoch and verifies its signatures. Those that are wrong are
// left out.
func openEpoch(verify wire.Verifier, m *ownerpb.Epoch) (*Epoch, error) {
	e, err := openStatement(m.GetStatement())
	if err != nil {
		return nil, err
	}
	e.signAll(verify, m)
	return e, nil
}

// openEpoch reads an epoch that a peer has sent. Mostly it is the one in force here: its
// signatures were verified when it came, and what they cost is not paid for each message
// that names it.
func (o *Owners) openEpoch(m *ownerpb.Epoch) (*Epoch, error) {
	e, err := openStatement(m.GetStatement())
	if err != nil {
		return nil, err
	}
	if s := o.seats[e.Key]; s != nil && s.epoch != nil && s.epoch.Hash == e.Hash {
		return s.epoch, nil
	}
	if known := o.cfg.Epochs.find(e.Hash, m.Signatures); known != nil {
		return known, nil
	}
	e.signAll(o.verify, m)
	o.cfg.Epochs.keep(e)
	return e, nil
}

func (e *Epoch) signAll(verify wire.Verifier, m *ownerpb.Epoch) {
	for _, raw := range m.Signatures {
		e.sign(verify, raw)
	}
}

// Bytes is an epoch as it travels beside an entry.
func (e *Epoch) Bytes() []byte { return marshal(e.wire()) }

func (o *Owners) readEpoch(b []byte) (*Epoch, error) {
	m := new(ownerpb.Epoch)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEpoch, err)
	}
	if !isEpoch(m) {
		return nil, fmt.Errorf("%w: out of bounds", ErrEpoch)
	}
	return o.openEpoch(m)
}

// sign adds a signature to an epoch that is still in the making, if it is right
// and new.
func (e *Epoch) sign(verify wire.Verifier, raw []byte) (env.PeerID, bool) {
	signed, err := verify.Open(wire.DomainEpoch, raw)
	if err != nil || string(signed.Payload) != string(e.Hash[:]) {
		return "", false
	}
	id := wire.PeerIDOf(signed.Key)
	if slices.Contains(e.signers, id) || len(e.signers) >= maxSignatures {
		return id, false
	}
	e.signers = append(e.signers, id)
	e.signatures = append(e.signatures, signed.Raw)
	return id, true
}

// certifiedBy says whether a quorum of some owners has signed.
func (e *Epoch) certifiedBy(owners []env.PeerID) bool {
	n := 0
	for _, o := range owners {
		if slices.Contains(e.signers, o) {
			n++
		}
	}
	return n >= quorum(len(owners))
}

// Succeeds says whether e goes on from the epoch before by the word of both
// quorums.
func (e *Epoch) Succeeds(before *Epoch) bool {
	return e.Lineage == before.Lineage && e.Number > before.Number &&
		e.certifiedBy(before.Owners) && e.certifiedBy(e.Owners)
}

func (e *Epoch) wire() *ownerpb.Epoch {
	if e == nil {
		return nil
	}
	return &ownerpb.Epoch{Statement: e.statement, Signatures: e.signatures}
}

func epochsPB(of []*Epoch) (m []*ownerpb.Epoch) {
	for _, e := range of {
		m = append(m, e.wire())
	}
	return m
}

// Quorum is how many of an epoch's owners are more than half.
func (e *Epoch) Quorum() int { return quorum(len(e.Owners)) }

// admits says whether an entry, if it is one of the epoch, stands after what that goes on from.
func (e *Epoch) admits(n *Entry) bool {
	if n.At.Lineage != e.Lineage || n.At.Epoch != e.Number {
		return true
	}
	return n.At.Seq > e.After.Seq && (n.At.Seq > e.After.Seq+1 || n.Prev == e.AfterHash)
}

func (e *Epoch) owns(id env.PeerID) bool { return slices.Contains(e.Owners, id) }

// lineageOf names a lineage by the distance of its founding sequencer from the
// key, then by the time it was founded. Of two lineages of a key the smaller one
// goes on: that of the nearer owners, or the older.
func lineageOf(key, founder overlay.ID, at time.Time) uint64 {
	distance := binary.BigEndian.Uint32(key[:4]) ^ binary.BigEndian.Uint32(founder[:4])
	return uint64(distance)<<32 | uint64(uint32(at.Unix()))
}

func publicKey(id env.PeerID) []byte {
	key, err := wire.PublicKeyOf(id)
	if err != nil {
		panic(fmt.Sprintf("owner: %q is no peer id", id)) // it was made from a key, or its link was vouched for
	}
	return key
}
