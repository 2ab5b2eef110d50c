package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

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
)

// ErrFrame says that bytes are no frame.
var ErrFrame = errors.New("not a frame")

// AppendFrame appends to dst the frame that carries m for a layer. It panics if
// the frame is over env.MaxFrame: layers bound what they send.
func AppendFrame(dst []byte, layer Layer, m proto.Message) []byte {
	size := proto.Size(m)
	dst = protowire.AppendTag(dst, protowire.Number(layer), protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	start := len(dst)
	dst, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, m)
	if err != nil {
		panic(fmt.Sprintf("wire: encode %T: %v", m, err)) // only invalid UTF-8 gets here
	}
	if len(dst)-start > env.MaxFrame-16 {
		panic(fmt.Sprintf("wire: %T of %d bytes is over a frame", m, len(dst)-start))
	}
	return dst
}

// ParseFrame splits a frame into its layer and that layer's message, which
// aliases the frame. Layers this version does not know are an error of the kind
// ErrFrame; the negotiated version says which may be sent.
func ParseFrame(frame []byte) (Layer, []byte, error) {
	if len(frame) > env.MaxFrame {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrFrame, len(frame))
	}
	num, typ, n := protowire.ConsumeTag(frame)
	if n < 0 || typ != protowire.BytesType || num < 1 || num > 255 {
		return 0, nil, ErrFrame
	}
	body, m := protowire.ConsumeBytes(frame[n:])
	if m < 0 || n+m != len(frame) {
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
// allocates; a message over limit bytes is an error of the kind ErrFrame, after
// which the stream cannot be read further.
func ReadDelimited(r *bufio.Reader, limit int) ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes where %d are allowed", ErrFrame, size, limit)
	}
	msg := make([]byte, size)
	if _, err := io.ReadFull(r, msg); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return msg, nil
}
