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

// Layer says whose message a frame carries. Its value is the field number in
// wire.proto's Frame.
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
)

// MaxMessage is the size of the largest message of a layer, in bytes: with its
// tag and length it makes a frame of at most env.MaxFrame.
const MaxMessage = env.MaxFrame - 16

// ErrFrame says that bytes are no frame.
var ErrFrame = fmt.Errorf("%w: not a frame", env.ErrFrame)

// AppendFrame appends to dst the frame that carries m for a layer. It panics if
// m is over MaxMessage: layers bound what they send.
func AppendFrame(dst []byte, layer Layer, m proto.Message) []byte {
	size := proto.Size(m)
	dst = slices.Grow(dst, size+8) // the tag and the length beside it
	dst = protowire.AppendTag(dst, protowire.Number(layer), protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	start := len(dst)
	dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", m, err)) // only invalid UTF-8 gets here
	}
	if len(dst)-start > MaxMessage {
		panic(fmt.Sprintf("wire: %T of %d bytes is over a frame", m, len(dst)-start))
	}
	return dst
}

// ParseFrame splits a frame into its layer and that layer's message, which
// aliases the frame. The layer may be one that this version does not know; the
// negotiated version says which may be sent. A message has one frame: a tag or
// length longer than it need be is an error of the kind ErrFrame, like all else
// that AppendFrame does not make.
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

// AppendDelimited appends one message of a stream: its length as a varint, then
// its bytes.
func AppendDelimited(dst, msg []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(msg)))
	return append(dst, msg...)
}

// ReadDelimited reads one message of a stream. It looks at the length before it
// allocates; a message over limit bytes, or a length that AppendDelimited does
// not make, is an error of the kind ErrFrame, after which the stream cannot be
// read further. Between two messages the end of the stream is io.EOF, within one
// io.ErrUnexpectedEOF.
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

// readLength reads a varint of at most 35 bits, which is more than any length.
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
				break // one byte too many
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
