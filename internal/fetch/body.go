package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Limits of a body. gzip compresses a thousand to one at best, and feeds ten to one. The ratio of a
// short document says little, so it is checked only from minRatioSize on.
const (
	minRate      = 1 << 10 // bytes a second, after the grace period
	maxRatio     = 100
	minRatioSize = 1 << 20
)

// maxFirstSize is the largest size of the first buffer for a document, in bytes. What an origin announces may be wrong.
const maxFirstSize = 16 << 10

var (
	errTotal     = errors.New("the web server took too long")
	errSlow      = errors.New("the web server sends less than 1 KiB a second")
	errBomb      = fmt.Errorf("the document unpacks to more than %d times its size", maxRatio)
	errTruncated = errors.New("the document ended too early")
)

// errLarge says that a document is larger than this limit in bytes.
type errLarge int

func (e errLarge) Error() string {
	return fmt.Sprintf("the document is larger than %d KiB", int(e)>>10)
}

// A body reads, decompresses and counts the body of a response.
type body struct {
	from   *http.Response
	limit  int
	grace  time.Duration
	cancel context.CancelCauseFunc // cancels the request

	start    time.Time
	timer    *time.Timer // fires when too few bytes have arrived
	received int
}

// read returns the document. If it is larger than the limit, read returns its first part and errLarge.
func (b *body) read() ([]byte, error) {
	b.start = time.Now()
	b.timer = time.AfterFunc(b.grace, func() { b.cancel(errSlow) })
	defer b.timer.Stop()

	unpacked := unpack(b, b.from.Header.Values("Content-Encoding"), b.limit)
	doc := make([]byte, 0, b.firstSize())
	for {
		if len(doc) == cap(doc) {
			doc = append(doc, 0)[:len(doc)]
		}
		n, err := unpacked.Read(doc[len(doc):cap(doc)])
		doc = doc[:len(doc)+n]
		switch {
		case len(doc) > b.limit:
			return doc[:b.limit], errLarge(b.limit)
		case len(doc) > minRatioSize && len(doc)/maxRatio > b.received:
			return nil, errBomb
		case errors.Is(err, io.EOF):
			return doc, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w after %d bytes", errTruncated, b.received)
		case err != nil:
			return nil, err
		}
	}
}

// firstSize returns how many bytes the first buffer has: as many as the origin announces and one for the end, unless these are
// many or compressed.
func (b *body) firstSize() int {
	if n := b.from.ContentLength; n >= 0 && n < maxFirstSize && b.from.Header.Get("Content-Encoding") == "" {
		return int(n) + 1
	}
	return maxFirstSize
}

// Read reads from the origin, within the limits of size and rate.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Body.Read(p)
	b.received += n
	if b.received > b.limit+len(p) { // compressed nothing can be endless
		return n, errLarge(b.limit)
	}
	earned := time.Duration(b.received) * time.Second / minRate
	b.timer.Reset(b.grace + earned - time.Since(b.start))
	return n, err
}
