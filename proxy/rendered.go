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

// A rendered feed is a feed as readers get it. It is immutable.
type rendered struct {
	version    uint64
	subscribed bool // the version belongs to a subscription

	links         string // the header Link; "": none
	body, gzipped []byte // gzipped is nil if it would not be smaller
	tag, gzipTag  string // strong: equal tags mean equal bytes
	mediaType     string
	modified      time.Time // the first whole second at which the body was current
	modifiedText  string

	fetched      time.Time
	stale, state string
}

// minGzip is the size in bytes from which compressing a feed pays.
const minGzip = 512

// render renders a window for a target. If the bytes are the same as those of the last rendering, so are ETag and
// Last-Modified.
func render(w Window, t target, subscribed bool, last *rendered, clean func(*feed.Meaning), now time.Time) (*rendered, error) {
	doc := w.Document // a copy, whose shared entries are only read
	doc.URL, doc.Sanitise = t.self, clean
	if t.hub {
		doc.Hub = t.self
	}
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
	r := &rendered{
		version: w.Version, subscribed: subscribed,
		tag: `"` + name + `"`, gzipTag: `"` + name + `-gzip"`,
		mediaType: format.MediaType(),
		fetched:   w.Fetched, stale: oneLine(w.Stale), state: w.State,
	}
	if t.hub {
		r.links = ownLinks(t.self)
	}
	if last != nil && last.tag == r.tag {
		r.body, r.gzipped = last.body, last.gzipped
		r.modified, r.modifiedText = last.modified, last.modifiedText
		return r, nil
	}
	r.body, r.gzipped = body, compress(body)
	// Two changes within one second must not share a Last-Modified, and a clock that was set back must not move it
	// back. The time is in the future and is not sent before it has come (serve), so it is later than anything that
	// an earlier run of the node has sent.
	r.modified = now.UTC().Truncate(time.Second).Add(time.Second)
	if last != nil && !r.modified.After(last.modified) {
		r.modified = last.modified.Add(time.Second)
	}
	r.modifiedText = r.modified.Format(http.TimeFormat)
	return r, nil
}

// compress returns nil if compressing does not make the body smaller.
func compress(body []byte) []byte {
	if len(body) < minGzip {
		return nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // writes to memory do not fail
	_ = z.Close()
	if b.Len() >= len(body) {
		return nil
	}
	return bytes.Clone(b.Bytes())
}

// cost returns the approximate memory of a rendered feed in bytes.
func (f *rendered) cost() int { return len(f.body) + len(f.gzipped) + 1<<10 }

// isVersion reports whether f is not nil and was rendered from a version.
func (f *rendered) isVersion(version uint64, subscribed bool) bool {
	return f != nil && f.version == version && f.subscribed == subscribed
}

// asStale returns a copy of f marked as stale, with the reason why it could not be replaced.
func (f *rendered) asStale(why string) *rendered {
	old := *f
	old.stale = why
	return &old
}

// unchanged reports whether the reader already has this version (RFC 9110, section 13.2.2). If-None-Match decides,
// and If-Modified-Since only if that is missing.
func (f *rendered) unchanged(h http.Header, tag string) bool {
	if match := h.Values("If-None-Match"); len(match) > 0 {
		return matches(strings.Join(match, ","), tag)
	}
	since, err := http.ParseTime(h.Get("If-Modified-Since"))
	return err == nil && !f.modified.After(since)
}

// matches reports whether a list of tags contains a tag, by weak comparison. Parsing ends at a syntax error.
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

// acceptsGzip parses Accept-Encoding (RFC 9110, section 12.5.3).
func acceptsGzip(h http.Header) bool {
	zipped, other := -1.0, -1.0 // -1 if not mentioned
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
