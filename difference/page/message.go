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
	// maxPatch is the size of the largest patch in bytes before it is packed.
	maxPatch = 16 << 20
	// maxBase is how much of the old text's end a patch is packed with.
	maxDictionary = 1 << 20
	// baseID names it as the dictionary.
	dictionaryID = 1
)

// ErrPatch says that bytes are no patch.
var ErrPatch = errors.New("not a patch")

// base is the dictionary with which patches of a core are packed.
func dictionary(old *Core) []byte {
	text := old.Text()
	return []byte(text[max(0, len(text)-maxDictionary):])
}

// Encode packs a patch for those who have the old core. What moves within a page, and what
// of a line stays when it changes, takes next to no room.
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
	// The window is no larger than what there is to look back at: the encoder takes memory for twice as much.
	window := 1 << bits.Len(uint(max(len(known)+len(b), zstd.MinWindowSize)-1))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(min(window, zstd.MaxWindowSize)), zstd.WithEncoderDictRaw(dictionaryID, known))
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return enc.EncodeAll(b, nil), nil
}

// Decode unpacks a patch by the core that it is for. Of another core's it may be that the
// bytes make no sense, or that they are a patch which does not apply.
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

// modest says whether a patch has no more hunks, and lines that come, than a core can have lines: one
// of nothing takes two bytes in a message, and a hundred in memory.
func withinLimits(patch []byte) bool {
	const hunksField, addField = 3, 3
	hunks, lines := 0, 0
	return fields(patch, hunksField, func(hunk []byte) bool {
		hunks++
		return hunks <= maxLines && fields(hunk, addField, func([]byte) bool { lines++; return lines <= maxLines })
	})
}

// fields calls each with those of one number, as long as it says to go on, and says whether it did
// until the message's end.
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
