package fetch

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxCodings bounds the compressions of one document. Two happen where a cache compresses what a web
	// server has compressed.
	maxCodings = 3
	// maxWindow bounds the memory of a zstd stream, in bytes. RFC 9659 allows no larger windows in HTTP.
	maxWindow = 8 << 20
)

// headSize is how many bytes tell whether a document is compressed. The shorter it is, the more often a
// compressed document begins like a text.
const headSize = 16

var errDamaged = errors.New("the document's compression is damaged")

// unpack returns a reader of a document without its compressions, which encodings name. Web servers, and
// caches before them, compress although nobody asked for it, compress twice, or name a compression that
// is not there. A coding that nobody knows, such as "utf-8", is none. One compression need not be named.
func unpack(from io.Reader, encodings []string, limit int) io.Reader {
	names := strings.FieldsFunc(strings.ToLower(strings.Join(encodings, ",")), func(r rune) bool { return r == ',' })
	names = append([]string{""}, names[max(0, len(names)-maxCodings):]...) // without a name: a compressed file
	for _, name := range slices.Backward(names) {
		of := &source{Reader: from}
		from = &unpacker{coding: strings.TrimSpace(name), from: of, in: bufio.NewReader(of), limit: limit}
	}
	return from
}

// An unpacker undoes one compression of a document, if there is one.
type unpacker struct {
	coding string
	from   *source
	in     *bufio.Reader // reads from
	limit  int           // of the bytes that it returns, with which the next one works

	out   io.Reader // nil: nothing has been read yet
	plain bool      // there is no compression
	n     int
}

func (u *unpacker) Read(p []byte) (int, error) {
	if u.out == nil {
		if err := u.begin(); err != nil {
			return 0, u.explain(err)
		}
	}
	n, err := u.out.Read(p)
	if u.n += n; u.n > u.limit+len(p) { // compressed nothing can be endless
		return n, errLarge(u.limit)
	}
	return n, u.explain(err)
}

// begin finds out which compression there is. The first bytes tell more than the header.
func (u *unpacker) begin() (err error) {
	head, err := u.in.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		u.out, err = gzip.NewReader(u.in)
		return err
	case len(head) == 0:
	case u.coding == "br" && !isText(head):
		u.out = brotli.NewReader(u.in)
		return nil
	case u.coding == "zstd" && bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		u.out, err = zstd.NewReader(u.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		return err
	case u.coding == "deflate" && isZlib(head):
		u.out, err = zlib.NewReader(u.in)
		return err
	case u.coding == "deflate" && !isText(head): // some servers leave the header of zlib out
		u.out = flate.NewReader(u.in)
		return nil
	}
	u.out, u.plain = u.in, true
	return nil
}

// isZlib reports whether bytes are a header of zlib (RFC 1950).
func isZlib(head []byte) bool {
	return len(head) >= 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0
}

// isText reports whether a document begins as plain XML, HTML or JSON does.
func isText(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	return len(head) > 0 && strings.IndexByte("<{[ \t\r\n", head[0]) >= 0 &&
		!slices.ContainsFunc(head, func(c byte) bool { return (c < ' ' || c > '~') && c != '\t' && c != '\r' && c != '\n' })
}

// explain distinguishes a damaged compression from an error of what is read.
func (u *unpacker) explain(err error) error {
	switch {
	case u.from.err != nil && err != nil && !errors.Is(err, io.EOF):
		return u.from.err
	case err == nil, u.plain, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// A source remembers the error with which it ended.
type source struct {
	io.Reader
	err error // nil: none but io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
