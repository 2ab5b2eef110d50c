package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
)

// Layer names the layer whose message a frame carries. Its value is the field number in wire.proto's
// Frame.
type Layer uint8

const (
	Overlay Layer = 1
	Scribe  Layer = 2
	Owner   Layer = 3
	Feed    Layer = 4
	Wedge   Layer = 5
	Sums    Layer = 6
	Corona  Layer = 7
	Cobra   Layer = 8
	Relay   Layer = 9
	Tiers   Layer = 10
)

// MaxMessage is the maximum size of a layer's message in bytes. With its tag and length the message
// makes a frame of env.MaxFrame bytes at most.
const MaxMessage = env.MaxFrame - 16

// MaxMillis is the end of the year 9999 in Unix time. Layers refuse later times, which cannot be written in
// the usual formats.
const MaxMillis = 253402300799999

// ErrFrame says that the bytes are not a frame.
var ErrFrame = fmt.Errorf("%w: not a frame", env.ErrFrame)

// Encode encodes a message that this node made; equal messages have equal encodings. It panics if a text
// is not valid UTF-8, which makes no encoding: callers check or clip the texts of strangers.
func Encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", m, err))
	}
	return b
}

// AppendFrame appends to dst the frame that carries m for a layer. It panics if m is larger than
// MaxMessage, because layers bound their messages.
func AppendFrame(dst []byte, layer Layer, m proto.Message) []byte {
	size := proto.Size(m)
	dst = slices.Grow(dst, size+8) // the tag and the length take 8 bytes at most
	dst = protowire.AppendTag(dst, protowire.Number(layer), protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	start := len(dst)
	dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", m, err)) // only invalid UTF-8 fails
	}
	if len(dst)-start > MaxMessage {
		panic(fmt.Sprintf("wire: %T of %d bytes is over a frame", m, len(dst)-start))
	}
	return dst
}

// ParseFrame splits a frame into its layer and that layer's message, which aliases the frame. The layer
// may be unknown to this version: the negotiated version decides which layers may be sent. Each message
// has exactly one encoding as a frame. A tag or length that is longer than necessary, like all else
// that AppendFrame does not produce, is an error of the kind ErrFrame.
func ParseFrame(frame []byte) (Layer, []byte, error) {
	if len(frame) > env.MaxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrFrame, len(frame))
	}
	num, typ, n := protowire.ConsumeTag(frame)
	if n < 0 || typ != protowire.BytesType || num < 1 || num > 255 {
		return 0, nil, ErrFrame
	}
	body, m := protowire.ConsumeBytes(frame[n:])
	if m < 0 || protowire.SizeTag(num)+protowire.SizeBytes(len(body)) != len(frame) {
		return 0, nil, fmt.Errorf("%w: wrong length", ErrFrame)
	}
	return Layer(num), body, nil
}

// AppendDelimited appends one message of a stream: its length as a varint, then its bytes.
func AppendDelimited(dst, msg []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(msg)))
	return append(dst, msg...)
}

// ReadDelimited reads one message of a stream. It checks the length before it allocates. A message of
// more than limit bytes, or a length that AppendDelimited does not produce, is an error of the kind
// ErrFrame, after which the stream cannot be read further. The end of the stream between two messages
// is io.EOF, and within one io.ErrUnexpectedEOF.
func ReadDelimited(r *bufio.Reader, limit int) ([]byte, error) {
	size, err := readLength(r)
	if err != nil {
		return nil, err
	}
	if size > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes where %d are allowed", ErrFrame, size, limit)
	}
	msg := make([]byte, size)
	if _, err := io.ReadFull(r, msg); err != nil {
		return nil, unexpected(err)
	}
	return msg, nil
}

// readLength reads a varint of at most 35 bits, which is more than any valid length.
func readLength(r *bufio.Reader) (size uint64, err error) {
	for shift := 0; shift < 35; shift += 7 {
		b, err := r.ReadByte()
		if err != nil {
			if shift > 0 {
				err = unexpected(err)
			}
			return 0, err
		}
		size |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if b == 0 && shift > 0 {
				break // longer than necessary
			}
			return size, nil
		}
	}
	return 0, fmt.Errorf("%w: wrong length", ErrFrame)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
