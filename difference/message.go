package difference

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

const (
	// MaxDelta is the maximum size of a delta in bytes before compression: a document, and the additional
	// fields of its items.
	MaxDelta = 16 << 20

	// maxPage is the maximum size of the version of a page, as encoded.
	maxPage = 1 << 20

	// maxWindow is how far back the encoder looks for repetitions, in bytes. It needs memory of this order, so
	// small deltas get a smaller window.
	maxWindow = 4 << 20
	minWindow = 4 << 10
)

// ErrDelta says that the bytes are neither a delta nor fingerprints.
var ErrDelta = errors.New("not a delta")

// Encode encodes and compresses a delta.
func (d Delta) Encode() ([]byte, error) {
	m := &differencepb.Delta{Page: d.Page, Pin: d.Pin.message(), Withdrawn: idBytes(d.Withdrawn), Standing: idBytes(d.Standing), Sightings: d.Sightings}
	if d.Head != nil {
		m.Head = headMessage(d.Head)
	}
	for i := range d.Changes {
		m.Changes = append(m.Changes, changeMessage(&d.Changes[i]))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	if len(b) > MaxDelta {
		return nil, fmt.Errorf("encode delta: %d bytes, more than %d", len(b), MaxDelta)
	}
	if len(b) <= minWindow && smallEncoder != nil {
		return smallEncoder.EncodeAll(b, nil), nil
	}
	window := minWindow
	for window < min(len(b), maxWindow) {
		window *= 2
	}
	enc, err := newEncoder(window)
	if err != nil {
		return nil, fmt.Errorf("encode delta: %w", err)
	}
	return enc.EncodeAll(b, nil), nil
}

// smallEncoder compresses small deltas, as most are, because creating an encoder takes longer than using it. It
// is safe for concurrent use.
var smallEncoder, _ = newEncoder(minWindow)

// newEncoder returns an encoder with a window. The fastest level compresses items nearly as well as the others
// and needs a quarter of their memory.
func newEncoder(window int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false)) // the delta is signed
}

// decoder decompresses all deltas, concurrently, because creating a decoder takes longer than using it. Its
// constant options cannot fail.
var decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxDelta), zstd.WithDecoderLowmem(true))

// Decode decompresses and parses a delta from an untrusted source. It parses items and head again, so that
// their identities and hashes fit their bytes.
//
// An unreadable part (the head, the pin or an item) does not hide the others. Decode then returns the delta
// without that part, and the first error of the kind ErrDelta. A caller that is about to sign, or that judges a
// peer, treats the error as a refusal. A caller that follows a log uses the readable part, because the delta will not be
// sent again.
func Decode(b []byte) (Delta, error) { return decodeBy(b, openAll) }

// DecodeOwn decodes a body that the caller has just encoded from own. The publications in own must have been verified: DecodeOwn
// uses those whose bytes are in the body, and verifies all others.
func DecodeOwn(b []byte, own Delta) (Delta, error) {
	return decodeBy(b, func(raws [][]byte) (all []openedPublication) {
		for _, ch := range own.Changes {
			if p := ch.Publication; p != nil && len(all) < len(raws) && bytes.Equal(p.Raw, raws[len(all)]) {
				all = append(all, openedPublication{p, nil})
			}
		}
		return append(all, openAll(raws[len(all):])...)
	})
}

// Reread is Decode for a delta that this node has decoded without an error before. It does not verify the signatures of
// publications again, which takes most of the time of Decode.
func Reread(b []byte) (Delta, error) {
	return decodeBy(b, func(raws [][]byte) []openedPublication {
		opened := make([]wire.Opened, len(raws))
		for i, raw := range raws {
			opened[i].Signed, opened[i].Err = wire.Reopen(raw)
		}
		return parsePublications(opened)
	})
}

// An opener returns the publications in envelopes.
type opener func(raws [][]byte) []openedPublication

// An openedPublication is a publication in a delta, or why there is none.
type openedPublication struct {
	*Publication
	err error
}

// openAll is the opener that verifies all signatures.
func openAll(raws [][]byte) []openedPublication {
	return parsePublications(publicationVerifier.OpenAll(wire.DomainPublication, raws))
}

func parsePublications(opened []wire.Opened) []openedPublication {
	all := make([]openedPublication, len(opened))
	for i, o := range opened {
		if all[i].err = o.Err; o.Err == nil {
			all[i].Publication, all[i].err = parsePublication(o.Signed)
		}
	}
	return all
}

func decodeBy(b []byte, open opener) (Delta, error) {
	d, err := decode(b, open)
	if err != nil {
		return d, fmt.Errorf("decode delta: %w", err)
	}
	return d, nil
}

func decode(b []byte, open opener) (d Delta, first error) {
	raw, err := decoder.DecodeAll(b, nil)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrDelta, err)
	}
	if err := countChanges(raw); err != nil {
		return d, err
	}
	var m differencepb.Delta
	if err := proto.Unmarshal(raw, &m); err != nil {
		return d, fmt.Errorf("%w: %w", ErrDelta, err)
	}
	unreadable := func(err error) {
		if first == nil {
			first = err
		}
	}
	if d.Page = m.Page; len(m.Page) > maxPage {
		d.Page = nil
		unreadable(fmt.Errorf("%w: a version of %d bytes", ErrDelta, len(m.Page)))
	}
	if d.Head, err = headFrom(m.Head); err != nil {
		unreadable(err)
	}
	if d.Pin, err = pinFrom(m.Pin); err != nil {
		d.Pin = nil
		unreadable(fmt.Errorf("%w: %w", ErrDelta, err))
	}
	for _, ids := range []struct {
		to   *[]feed.ID
		from [][]byte
	}{{&d.Withdrawn, m.Withdrawn}, {&d.Standing, m.Standing}} {
		if *ids.to, err = idsFrom(ids.from); err != nil {
			unreadable(err)
		}
	}
	if d.Sightings = m.Sightings; len(m.Sightings) > MaxSightings || slices.ContainsFunc(m.Sightings, func(raw []byte) bool { return len(raw) > MaxSighting }) {
		d.Sightings = nil
		unreadable(fmt.Errorf("%w: a certificate out of bounds", ErrDelta))
	}
	seen := make(map[feed.ID]bool, len(m.Changes))
	var raws [][]byte
	for _, c := range m.Changes {
		if len(c.Publication) > 0 {
			raws = append(raws, c.Publication)
		}
	}
	opened := open(raws)
	for _, c := range m.Changes {
		var of openedPublication
		if len(c.Publication) > 0 {
			of, opened = opened[0], opened[1:]
		}
		change, err := changeOf(c, of)
		if err == nil && seen[change.Item.ID] {
			err = fmt.Errorf("%w: an item twice", ErrDelta)
		}
		if err != nil {
			unreadable(err)
			continue
		}
		seen[change.Item.ID] = true
		d.Changes = append(d.Changes, change)
	}
	return d, first
}

func idBytes(ids []feed.ID) (all [][]byte) {
	for _, id := range ids {
		all = append(all, id[:])
	}
	return all
}

// idsFrom parses identities. If one is unreadable, it returns none.
func idsFrom(all [][]byte) (ids []feed.ID, err error) {
	for _, b := range all {
		if len(b) != len(feed.ID{}) {
			return nil, fmt.Errorf("%w: an identity of %d bytes", ErrDelta, len(b))
		}
		ids = append(ids, feed.ID(b))
	}
	return ids, nil
}

// countChanges refuses too many changes, identities and bindings before they cost memory: an empty one takes two bytes on
// the wire, and a hundred when it is parsed.
func countChanges(raw []byte) error {
	var counts [8]int // of the fields up to sightings
	return eachField(raw, func(num protowire.Number, value []byte) error {
		if num != 2 && (num < 5 || num > 7) {
			return nil
		}
		if counts[num]++; counts[num] > feed.MaxItems {
			return fmt.Errorf("%w: more than %d changes", ErrDelta, feed.MaxItems)
		}
		if num != 2 {
			return nil
		}
		return countBindings(value, 3)
	})
}

// eachField calls each for the fields of a message that are messages or bytes.
func eachField(b []byte, each func(num protowire.Number, value []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrDelta, protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return fmt.Errorf("%w: %w", ErrDelta, protowire.ParseError(m))
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b[n:])
			if err := each(num, value); err != nil {
				return err
			}
		}
		b = b[n+m:]
	}
	return nil
}

func headMessage(h *feed.Head) *differencepb.Head {
	return &differencepb.Head{Format: uint32(h.Format), Raw: h.Raw}
}

// headFrom parses a head. An empty head counts as none: sequencers of older releases signed such heads,
// together with items.
func headFrom(m *differencepb.Head) (*feed.Head, error) {
	if len(m.GetRaw()) == 0 {
		return nil, nil
	}
	format, err := formatOf(m.Format)
	if err != nil {
		return nil, err
	}
	head, err := feed.ReadHead(format, m.Raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDelta, err)
	}
	return &head, nil
}

func changeMessage(c *Change) *differencepb.Change {
	m := &differencepb.Change{Edited: c.Edited}
	if p := c.Publication; p != nil {
		m.Publication = p.Raw // which contains the item
	} else {
		m.Format, m.Raw, m.Qualifiers = uint32(c.Item.Format), c.Item.Raw, uint32(c.Item.Qualifiers)
		m.Scope = bindings(c.Item.Scope)
	}
	if c.After != (feed.ID{}) {
		m.After = c.After[:]
	}
	return m
}

// changeOf parses a change. opened is its publication, if it has one.
func changeOf(m *differencepb.Change, opened openedPublication) (Change, error) {
	c := Change{Edited: m.Edited}
	if m.Qualifiers > 255 {
		return c, fmt.Errorf("%w: %d facts beyond an id", ErrDelta, m.Qualifiers)
	}
	switch len(m.After) {
	case 0:
	case len(c.After):
		c.After = feed.ID(m.After)
	default:
		return c, fmt.Errorf("%w: an identity of %d bytes", ErrDelta, len(m.After))
	}
	if len(m.Publication) > 0 {
		p := opened.Publication
		switch {
		case opened.err != nil:
			return c, fmt.Errorf("%w: %w", ErrDelta, opened.err)
		case p.Item == nil || m.Format != 0 || len(m.Raw)+len(m.Scope) > 0 || m.Qualifiers != 0:
			return c, fmt.Errorf("%w: a publication that is not the item's", ErrDelta)
		}
		c.Publication, c.Item = p, *p.Item
		return c, nil
	}
	format, err := formatOf(m.Format)
	if err != nil {
		return c, err
	}
	if c.Item, err = feed.ReadItem(format, m.Raw, scopeOf(m.Scope), uint8(m.Qualifiers)); err != nil {
		return c, fmt.Errorf("%w: %w", ErrDelta, err)
	}
	return c, nil
}

func formatOf(n uint32) (feed.Format, error) {
	if n > 255 {
		return 0, fmt.Errorf("%w: format %d", ErrDelta, n)
	}
	return feed.Format(n), nil
}

// headSize and changeSize return the size of a head and of a change in a delta.
func headSize(h *feed.Head) int { return fieldSize(proto.Size(headMessage(h))) }

func changeSize(c *Change) int { return fieldSize(proto.Size(changeMessage(c))) }

func fieldSize(n int) int { return protowire.SizeTag(1) + protowire.SizeBytes(n) }

// titleHash returns the hash of a title, ignoring white space.
func titleHash(title string) feed.Hash {
	return sha256.Sum256([]byte(strings.Join(strings.Fields(title), " ")))
}
