package fetch

import (
	"net/url"
	"strings"
)

// A target is an address that has its canonical form, taken apart.
type target struct {
	url    string
	scheme string
	host   string // with its port, if that is not the scheme's own
	rest   string // path and query
	queue  string // the name of its queue
}

// newTarget takes a canonical address apart. http and https of a host share a
// queue; other ports are other origins, as on a machine that has many.
func newTarget(canonical string) target {
	scheme, rest, _ := strings.Cut(canonical, "://")
	end := strings.IndexByte(rest, '/')
	t := target{url: canonical, scheme: scheme, host: rest[:end], rest: rest[end:]}
	t.queue = queueOf(t.host)
	return t
}

// queueOf is the name of a host's queue.
func queueOf(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80") }

// httpURL is the address as net/http wants it. The path goes out byte for byte:
// left to itself, net/url refuses some and writes others its own way.
func (t target) httpURL() *url.URL {
	path, query, asked := strings.Cut(t.rest, "?")
	u := &url.URL{Scheme: t.scheme, Host: t.host, RawQuery: query, ForceQuery: asked && query == ""}
	if !strings.HasPrefix(path, "//") {
		u.Opaque = path
		return u
	}
	// As Opaque it would be taken for a host.
	u.Path, u.RawPath = path, path
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path = plain
	}
	return u
}
