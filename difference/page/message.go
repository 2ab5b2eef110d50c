package page

import (
	"errors"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"tidings/difference/page/pagepb"
)

const (
	// maxPatch is the size of the largest patch in bytes before it is packed.
	maxPatch = 16 << 20
	// maxBase is how much of the old text's end a patch is packed with.
	maxBase = 1 << 20
	// baseID names it as the dictionary.
	baseID = 1
)

// ErrPatch says that bytes are no patch.
var ErrPatch = errors.New("not a patch")

// base is the dictionary with which patches of a core are packed.
func base(old *Core) []byte {
	text := old.Text()
	return []byte(text[max(0, len(text)-maxBase):])
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
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), zstd.WithEncoderDictRaw(baseID, base(old)))
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
		zstd.WithDecoderDictRaw(baseID, base(old)))
	if err != nil {
		return Patch{}, err
	}
	defer dec.Close()
	raw, err := dec.DecodeAll(b, nil)
	if err != nil {
		return Patch{}, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	var m pagepb.Patch
	if err := proto.Unmarshal(raw, &m); err != nil {
		return Patch{}, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	var p Patch
	if len(m.Old) != len(p.Old) || len(m.New) != len(p.New) || len(m.Hunks) > maxLines {
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
