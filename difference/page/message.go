package page

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/difference/page/pagepb"
)

const (
	// maxPatch is the maximum size of a patch in bytes before compression.
	maxPatch = 16 << 20
	// maxDictionary is how much of the end of the old text is the dictionary of a patch, in bytes.
	maxDictionary = 1 << 20
	// dictionaryID is the id of the dictionary.
	dictionaryID = 1
)

// ErrPatch says that the bytes are not a patch.
var ErrPatch = errors.New("not a patch")

// dictionary returns the dictionary for the patches of a core.
func dictionary(old *Core) []byte {
	text := old.Text()
	return []byte(text[max(0, len(text)-maxDictionary):])
}

// Encode encodes and compresses a patch for readers with the old core. Text that moves within a page, and the
// unchanged part of a changed line, take almost no space.
func (p *Patch) Encode(old *Core) ([]byte, error) {
	m := &pagepb.Patch{Old: p.Old[:], New: p.New[:]}
	at := 0
	for _, h := range p.Hunks {
		m.Hunks = append(m.Hunks, &pagepb.Hunk{Skip: uint32(h.At - at), Omit: uint32(h.Omit), Add: h.Add})
		at = h.At + h.Omit
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	if len(b) > maxPatch {
		return nil, fmt.Errorf("encode patch: %d bytes, more than %d", len(b), maxPatch)
	}
	known := dictionary(old)
	// The window covers the input and the dictionary, because the encoder allocates twice its size.
	window := 1 << bits.Len(uint(max(len(known)+len(b), zstd.MinWindowSize)-1))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(min(window, zstd.MaxWindowSize)), zstd.WithEncoderDictRaw(dictionaryID, known))
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return enc.EncodeAll(b, nil), nil
}

// Decode decompresses and parses a patch for a core. With another core the bytes may be invalid, or a patch
// that does not apply.
func Decode(b []byte, old *Core) (Patch, error) {
	p, err := decode(b, old)
	if err != nil {
		return Patch{}, fmt.Errorf("decode patch: %w", err)
	}
	return p, nil
}

func decode(b []byte, old *Core) (Patch, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPatch), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderDictRaw(dictionaryID, dictionary(old)))
	if err != nil {
		return Patch{}, err
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(b, nil)
	if err != nil {
		return Patch{}, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	var m pagepb.Patch
	if !withinLimits(raw) {
		return Patch{}, fmt.Errorf("%w: more hunks or lines than %d", ErrPatch, maxLines)
	}
	if err := proto.Unmarshal(raw, &m); err != nil {
		return Patch{}, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	var p Patch
	if len(m.Old) != len(p.Old) || len(m.New) != len(p.New) {
		return Patch{}, fmt.Errorf("%w: its hashes", ErrPatch)
	}
	p.Old, p.New = Hash(m.Old), Hash(m.New)
	at := 0
	for _, h := range m.Hunks {
		if h.Skip > math.MaxInt32 || h.Omit > math.MaxInt32 || h.Omit == 0 && len(h.Add) == 0 {
			return Patch{}, fmt.Errorf("%w: a hunk", ErrPatch)
		}
		for _, l := range h.Add {
			if !lineOfCore(l) {
				return Patch{}, fmt.Errorf("%w: a line", ErrPatch)
			}
		}
		p.Hunks = append(p.Hunks, Hunk{At: at + int(h.Skip), Omit: int(h.Omit), Add: h.Add})
		at += int(h.Skip) + int(h.Omit)
	}
	return p, nil
}

// withinLimits reports whether a patch has at most maxLines hunks and added lines. An empty one takes two bytes
// in a message, and a hundred in memory.
func withinLimits(patch []byte) bool {
	const hunksField, addField = 3, 3
	hunks, lines := 0, 0
	return fields(patch, hunksField, func(hunk []byte) bool {
		hunks++
		return hunks <= maxLines && fields(hunk, addField, func([]byte) bool { lines++; return lines <= maxLines })
	})
}

// fields calls each for the fields with a number while it returns true. It reports whether it reached the end
// of the message.
func fields(message []byte, number protowire.Number, each func(value []byte) bool) bool {
	for len(message) > 0 {
		at, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return false
		}
		message = message[size:]
		if at != number || kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(at, kind, message); size < 0 {
				return false
			}
			message = message[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 || !each(value) {
			return false
		}
		message = message[size:]
	}
	return true
}
