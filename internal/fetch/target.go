package fetch

import (
	"net/url"
	"strings"
)

// A target is a canonical address, split into parts.
type target struct {
	url    string
	scheme string
	host   string // with a port that is not the scheme's default
	rest   string // path and query
	queue  string // name of the host's queue
}

// newTarget splits a canonical address. http and https of a host share a queue. Other ports count as
// other hosts, as on a machine that has many.
func newTarget(canonical string) target {
	scheme, rest, _ := strings.Cut(canonical, "://")
	end := strings.IndexByte(rest, '/')
	t := target{url: canonical, scheme: scheme, host: rest[:end], rest: rest[end:]}
	t.queue = queueOf(t.host)
	return t
}

// queueOf returns the name of a host's queue.
func queueOf(host string) string { return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80") }

// httpURL returns the address for net/http. The path is sent byte for byte: net/url alone would refuse
// some paths and rewrite others.
func (t target) httpURL() *url.URL {
	path, query, hasQuery := strings.Cut(t.rest, "?")
	u := &url.URL{Scheme: t.scheme, Host: t.host, RawQuery: query, ForceQuery: hasQuery && query == ""}
	if !strings.HasPrefix(path, "//") {
		u.Opaque = path
		return u
	}
	// As Opaque, net/http would take this path for a host.
	u.Path, u.RawPath = path, path
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path = plain
	}
	return u
}
