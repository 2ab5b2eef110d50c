package fetch

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// What a body may not be. gzip packs a thousand to one at best, and feeds ten to
// one; a ratio says little about a short document, so it counts only later.
const (
	minRate   = 1 << 10 // bytes a second, once the grace is over
	maxRatio  = 100
	ratioFrom = 1 << 20
)

var (
	errTotal     = errors.New("the web server took too long")
	errSlow      = errors.New("the web server sends less than 1 KiB a second")
	errBomb      = fmt.Errorf("the document unpacks to more than %d times its size", maxRatio)
	errUnasked   = errors.New("the document is compressed in a way that was not asked for")
	errTruncated = errors.New("the document ended too early")
)

// errLarge says that a document is larger than the limit it names.
type errLarge int

func (e errLarge) Error() string {
	return fmt.Sprintf("the document is larger than %d KiB", int(e)>>10)
}

// A body is read, unpacked and counted.
type body struct {
	from  *http.Response
	limit int
	grace time.Duration
	slow  context.CancelCauseFunc // breaks the request off

	start    time.Time
	alarm    *time.Timer // rings when too little has come
	received int
}

func (b *body) read() ([]byte, error) {
	if b.from.ContentLength > int64(b.limit) {
		return nil, errLarge(b.limit)
	}
	b.start = time.Now()
	b.alarm = time.AfterFunc(b.grace, func() { b.slow(errSlow) })
	defer b.alarm.Stop()

	var unpacked io.Reader = b
	switch coding := strings.ToLower(strings.Join(b.from.Header.Values("Content-Encoding"), ",")); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(b)
		if errors.Is(err, io.EOF) && b.received == 0 {
			return []byte{}, nil // nothing, not even packed
		} else if err != nil {
			return nil, err
		}
		unpacked = z
	default:
		return nil, fmt.Errorf("%w: %.40q", errUnasked, coding)
	}
	doc := make([]byte, 0, 16<<10)
	for {
		if len(doc) == cap(doc) {
			doc = append(doc, 0)[:len(doc)]
		}
		n, err := unpacked.Read(doc[len(doc):cap(doc)])
		doc = doc[:len(doc)+n]
		switch {
		case len(doc) > b.limit:
			return nil, errLarge(b.limit)
		case len(doc) > ratioFrom && len(doc)/maxRatio > b.received:
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

// Read reads what the origin sends, within the bounds on its size and rate.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Body.Read(p)
	b.received += n
	if b.received > b.limit { // packed or not: a stream of nothing can be endless
		return n, errLarge(b.limit)
	}
	earned := time.Duration(b.received) * time.Second / minRate
	b.alarm.Reset(b.grace + earned - time.Since(b.start))
	return n, err
}
