package proxy

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidings/internal/feed"
)

// A rendition is a feed as readers get it. It never changes.
type rendition struct {
	version    uint64
	subscribed bool // the version is that of a subscription

	body, zipped   []byte // zipped is nil if it would not be smaller
	tag, zippedTag string // strong: equal tags, equal bytes
	mediaType      string
	modified       time.Time // the first whole second at which the body was what it is
	modifiedText   string

	fetched      time.Time
	stale, state string
}

// minZipped is the size from which a feed is worth compressing.
const minZipped = 512

// render writes a window for a target. If the result is the same as the last one,
// so are its ETag and Last-Modified, whatever changed in the window.
func render(w Window, t target, subscribed bool, last *rendition, clean func(*feed.Meaning), now time.Time) (*rendition, error) {
	doc := w.Document // a copy; its entries are shared, and only read
	doc.URL, doc.Sanitize = t.self, clean
	if t.limit > 0 && t.limit < len(doc.Entries) {
		doc.Entries = doc.Entries[:t.limit]
	}
	format := t.format
	if format == 0 {
		format = doc.Head.Format
	}
	if format == 0 {
		return nil, fmt.Errorf("render %s: %w", t.url, ErrNotFeed)
	}
	body, err := feed.Write(&doc, format)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", t.url, err)
	}
	sum := sha256.Sum256(body)
	name := hex.EncodeToString(sum[:16])
	c := &rendition{
		version: w.Version, subscribed: subscribed,
		tag: `"` + name + `"`, zippedTag: `"` + name + `-gzip"`,
		mediaType: format.MediaType(),
		fetched:   w.Fetched, stale: line(w.Stale), state: w.State,
	}
	if last != nil && last.tag == c.tag {
		c.body, c.zipped = last.body, last.zipped
		c.modified, c.modifiedText = last.modified, last.modifiedText
		return c, nil
	}
	c.body, c.zipped = body, compress(body)
	// Two changes within a second must not share their Last-Modified, nor may
	// a clock that was set back make it go back. It is never sent before it has come
	// (serve), so that what another run of the node sent earlier is earlier, too.
	c.modified = now.UTC().Truncate(time.Second).Add(time.Second)
	if last != nil && !c.modified.After(last.modified) {
		c.modified = last.modified.Add(time.Second)
	}
	c.modifiedText = c.modified.Format(http.TimeFormat)
	return c, nil
}

// compress returns nil if compressing is of no use.
func compress(body []byte) []byte {
	if len(body) < minZipped {
		return nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // into memory
	_ = z.Close()
	if b.Len() >= len(body) {
		return nil
	}
	return bytes.Clone(b.Bytes())
}

// cost is about how much memory a copy takes.
func (c *rendition) cost() int { return len(c.body) + len(c.zipped) + 1<<10 }

// is reports whether the copy, if there is one, is of a version.
func (c *rendition) is(version uint64, subscribed bool) bool {
	return c != nil && c.version == version && c.subscribed == subscribed
}

// outdated is the copy when it could not be replaced, and why.
func (c *rendition) outdated(why string) *rendition {
	old := *c
	old.stale = why
	return &old
}

// unchanged reports whether a reader has what it would get (RFC 9110, section
// 13.2.2): If-None-Match decides; only without it, If-Modified-Since.
func (c *rendition) unchanged(h http.Header, tag string) bool {
	if match := h.Values("If-None-Match"); len(match) > 0 {
		return matches(strings.Join(match, ","), tag)
	}
	since, err := http.ParseTime(h.Get("If-Modified-Since"))
	return err == nil && !c.modified.After(since)
}

// matches compares weakly with the tags of a list. What is behind a mistake in the
// list is not looked at.
func matches(list, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for {
		list = strings.TrimLeft(list, ", \t")
		if strings.HasPrefix(list, "*") {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if !strings.HasPrefix(list, `"`) {
			return false
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == tag {
			return true
		}
		list = list[end+2:]
	}
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func acceptsGzip(h http.Header) bool {
	zipped, other := -1.0, -1.0 // not mentioned
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(part, ";")
		q := 1.0
		if name, value, ok := strings.Cut(params, "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
			var err error
			if q, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				q = 0
			}
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			zipped = max(zipped, q)
		case "*":
			other = q
		}
	}
	return zipped > 0 || zipped < 0 && other > 0
}
