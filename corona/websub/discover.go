package websub

import (
	"strings"

	"tidings/difference/page"
	"tidings/internal/feed"
)

// MaxURL bounds the address of a hub and of a topic, in bytes.
const MaxURL = 2 << 10

// A Topic is what a hub is asked for.
type Topic struct {
	Hub string // canonical address
	URL string // the document's own address, as the document spells it: the hub compares bytes
}

// A Document is where a document came from, and what it names.
type Document struct {
	URL    string   // from which it came, after redirects
	Header []string // Link header fields
	Base   string   // to which its own links refer, relative to URL; "": to URL
	Links  page.Hubs
}

// documented are feeds whose hub is named in their host's documentation, and not in the feed. The topic is the feed's own
// address by HTTPS, whatever it names as self.
var documented = []struct{ prefix, hub string }{
	{"www.youtube.com/feeds/videos.xml?", "https://pubsubhubbub.appspot.com/subscribe"},
}

// Discover returns the hub and the topic that a document names; ok is false if there is no hub that can be asked. Fields of
// the header come before links of the document. A document that came by HTTPS needs a hub that is asked by HTTPS, because
// the secret goes there.
func Discover(d Document) (t Topic, ok bool) {
	scheme, rest, _ := strings.Cut(d.URL, "://")
	for _, known := range documented {
		if strings.HasPrefix(rest, known.prefix) {
			return Topic{known.hub, "https://" + rest}, true
		}
	}
	base := d.URL
	if resolved, err := feed.Resolve(d.URL, d.Base); err == nil && d.Base != "" {
		base = resolved
	}
	header := page.HubsOfHeader(d.Header)
	for _, from := range []struct {
		base string
		page.Hubs
	}{{d.URL, header}, {base, d.Links}} {
		for _, hub := range from.Hubs.Hubs {
			address, err := feed.Resolve(from.base, hub)
			if err == nil && len(address) <= MaxURL && t.Hub == "" && (scheme != "https" || strings.HasPrefix(address, "https://")) {
				t.Hub = address
			}
		}
		if t.URL == "" && from.Self != "" {
			t.URL = spelled(from.base, from.Self)
		}
	}
	if t.URL == "" {
		t.URL = d.URL
	}
	return t, t.Hub != "" && len(t.URL) <= MaxURL
}

// spelled returns an address as it is written, or resolved if it is relative; "" if it is not an address of the Web.
func spelled(base, ref string) string {
	resolved, err := feed.Resolve(base, ref)
	if err != nil {
		return ""
	}
	if own, err := feed.Canonical(ref); err == nil && own == resolved && strings.Contains(ref, "://") {
		return ref
	}
	return resolved
}

// Valid reports whether a topic is one that a hub may be asked for.
func (t Topic) Valid() bool {
	hub, err := feed.Canonical(t.Hub)
	if err != nil || hub != t.Hub || len(t.Hub) > MaxURL || len(t.URL) > MaxURL {
		return false
	}
	_, err = feed.Canonical(t.URL)
	return err == nil
}
