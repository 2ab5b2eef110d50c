package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"tidings/internal/feed"
)

// A target is the feed that a request asks for, and how.
type target struct {
	url    string // canonical, of the source
	token  bool
	format feed.Format // 0: the source's
	limit  int         // of items; 0: none
	self   string      // where the reader found it, and finds it again
}

const (
	tokenPath = "/f/"
	queryPath = "/feed"
)

// isFeed reports whether a path is one of the forms in which feeds are asked for.
func isFeed(path string) bool {
	return path == queryPath || strings.HasPrefix(path, tokenPath) || isAddress(path[1:])
}

// isAddress reports whether a path's rest is meant as an address.
func isAddress(rest string) bool {
	rest, _ = feed.DocumentURL(rest)
	for _, scheme := range []string{"https:", "http:", "feed:", "https%3a", "http%3a", "feed%3a"} {
		if len(rest) >= len(scheme) && strings.EqualFold(rest[:len(scheme)], scheme) {
			return true
		}
	}
	return false
}

// target reads a path of one of the forms of isFeed.
func (s *Server) target(r *http.Request, path, query string) (t target, err error) {
	switch {
	case path == queryPath:
		return s.queryTarget(r, query)
	case strings.HasPrefix(path, tokenPath):
		if isAddress(path[len(tokenPath):]) {
			return t, refuse(http.StatusNotFound, "not found: the address lacks its token: tidings list -v shows the whole address")
		}
		token, rest, _ := strings.Cut(path[len(tokenPath):], "/")
		if t.url, err = s.source(r, embedded(rest, query)); err != nil {
			return t, err
		}
		if !s.minter.check(token, t.url) {
			// Not said: whether it is the token or the address that is wrong.
			return t, refuse(http.StatusNotFound, "not found: the address is not one that this node gave to a reader")
		}
		t.token = true
		t.self = s.ReadURL(s.base(r), t.url)
	default:
		if t.url, err = s.source(r, embedded(path[1:], query)); err != nil {
			return t, err
		}
		t.self = s.base(r) + "/" + t.url
	}
	return t, nil
}

// queryTarget reads /feed?url=…&format=…&limit=….
func (s *Server) queryTarget(r *http.Request, query string) (t target, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return t, refuse(http.StatusBadRequest, "the query of the address is not valid: %v", err)
	}
	if !q.Has("url") {
		return t, refuse(http.StatusBadRequest, "the address of the feed is missing: write /feed?url=…")
	}
	if t.url, err = s.source(r, q.Get("url")); err != nil {
		return t, err
	}
	t.self = s.base(r) + queryPath + "?url=" + url.QueryEscape(t.url)
	if f := q.Get("format"); f != "" {
		formats := map[string]feed.Format{"atom": feed.Atom, "rss": feed.RSS, "json": feed.JSON}
		if t.format = formats[f]; t.format == 0 {
			return t, refuse(http.StatusBadRequest, "format must be atom, rss or json")
		}
		t.self += "&format=" + f
	}
	if l := q.Get("limit"); l != "" {
		if t.limit, err = strconv.Atoi(l); err != nil || t.limit < 1 {
			return t, refuse(http.StatusBadRequest, "limit must be a number, at least 1")
		}
		t.limit = min(t.limit, feed.MaxItems)
		t.self += "&limit=" + strconv.Itoa(t.limit)
	}
	return t, nil
}

// embedded is the address within a path, with the query that belongs to it. Some
// readers, and the servers in front of them, collapse slashes; some encode the
// whole. [feed.Canonical] mends https:/host.
func embedded(rest, query string) string {
	if i := strings.IndexByte(rest, ':'); i < 0 || strings.Contains(rest[:i], "%") {
		if plain, err := url.PathUnescape(rest); err == nil {
			rest = plain
		}
	}
	if len(rest) > 6 && strings.EqualFold(rest[:6], "feed:/") && rest[6] != '/' {
		rest = "feed://" + rest[6:]
	}
	if query != "" {
		rest += "?" + query
	}
	return rest
}

// maxWrapped is how many times an address of ours may be wrapped in another one.
const maxWrapped = 4

// source is the canonical address of a feed, also if it was given as an address
// of ours: a node that read itself would never end.
func (s *Server) source(r *http.Request, raw string) (string, error) {
	for range maxWrapped {
		address, err := feed.Canonical(raw)
		if err != nil {
			return "", refuse(http.StatusBadRequest, "%v", err)
		}
		rest, ok := s.cutOwn(r, address)
		if !ok {
			return address, nil
		}
		if rest == "/" {
			break
		}
		path, query, _ := strings.Cut(rest, "?")
		switch {
		case path == queryPath:
			q, _ := url.ParseQuery(query) // what is broken is no address
			raw = q.Get("url")
		case strings.HasPrefix(path, tokenPath):
			_, path, _ = strings.Cut(path[len(tokenPath):], "/")
			raw = embedded(path, query)
		default:
			raw = embedded(strings.TrimPrefix(path, "/"), query)
		}
	}
	return "", refuse(http.StatusBadRequest, "the address leads back to this node")
}

// cutOwn takes what leads to us off an address.
func (s *Server) cutOwn(r *http.Request, address string) (rest string, ok bool) {
	for _, base := range []string{"http://" + strings.ToLower(r.Host), s.base(r)} {
		if rest, ok = strings.CutPrefix(address, base); ok && strings.HasPrefix(rest, "/") {
			return rest, true
		}
	}
	return "", false
}

// typed is the address of a feed as a person types it, who may leave out https://. If the address was handed out by
// another node, the result is the feed's own address, unless the node already subscribes to the address as it is.
func (s *Server) typed(r *http.Request, raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", refuse(http.StatusBadRequest, "no address given")
	}
	if !strings.Contains(raw, "://") && !isAddress(raw) && !hasScheme(raw) {
		document, isPage := feed.DocumentURL(raw)
		if document = "https://" + document; isOnThisMachine(document) {
			document = "http" + strings.TrimPrefix(document, "https")
		}
		if address, err := feed.Canonical(document); strings.HasPrefix(raw, ".") || err == nil && !isOnTheWeb(address) {
			return "", refuse(http.StatusBadRequest, "%s: not an address: begin it with https:// or http://", line(raw))
		}
		if raw = document; isPage {
			raw = feed.PageChannel(document)
		}
	}
	address, err := s.source(r, raw)
	for range maxWrapped {
		if err != nil {
			return "", err
		}
		inner, ok := handedOut(address)
		if _, known := s.subs.Version(address); known || !ok {
			return address, nil
		}
		address, err = s.source(r, inner)
	}
	return "", refuse(http.StatusBadRequest, "the address leads through too many nodes")
}

// isOnThisMachine reports whether an address leads to this machine, whose servers seldom speak HTTPS.
func isOnThisMachine(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLocal(strings.ToLower(u.Hostname()))
}

// isOnTheWeb reports whether the host of a canonical address can be one of the public Web, or is an IP address or this
// machine. The name of a file has an ending that is no top-level domain, mostly.
func isOnTheWeb(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	suffix, known := publicsuffix.PublicSuffix(host)
	return known && suffix != host || strings.Contains(suffix, ".") // "github.io" is listed, too, though not by ICANN
}

// handedOut returns the address of the feed within an address that another node gave to a reader. An address with a
// token is recognised on any host. One like /feed?url=… is recognised on this machine only, because other
// services of the Web have such addresses, too.
func handedOut(address string) (inner string, ok bool) {
	u, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	if rest, ok := strings.CutPrefix(address, u.Scheme+"://"+u.Host+tokenPath); ok {
		token, rest, _ := strings.Cut(rest, "/")
		secret, err := hex.DecodeString(token)
		return embedded(rest, ""), err == nil && len(secret) == tokenBytes && isAddress(rest)
	}
	inner = u.Query().Get("url")
	return inner, u.Path == queryPath && isLocal(u.Hostname()) && isAddress(inner)
}

// WithoutPassword returns an address as it may be shown and logged: without a user's name and password.
func WithoutPassword(address string) string {
	rest := address
	if i := strings.Index(address, "//"); i >= 0 {
		rest = address[i+2:]
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		return strings.TrimSuffix(address, rest) + "…@" + rest[at+1:]
	}
	return address
}

// hasScheme reports whether an address without // begins with a scheme all the same,
// as javascript:… does, and not with a host and its port.
func hasScheme(raw string) bool {
	scheme, rest, ok := strings.Cut(raw, ":")
	return ok && !strings.ContainsAny(scheme, "./[?#") && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// base is what our addresses begin with.
func (s *Server) base(r *http.Request) string {
	if s.config.BaseURL != "" {
		return s.config.BaseURL
	}
	return scheme(r) + "://" + r.Host
}

// ReadURL is the address at which a feed reader reads a feed and subscribes to it,
// if the server is found at base, such as "http://127.0.0.1:8190".
func (s *Server) ReadURL(base, address string) string {
	return base + tokenPath + s.minter.token(address) + "/" + address
}

// A minter makes tokens, each good for one address, of a secret.
type minter []byte

const (
	minSecret  = 16
	tokenBytes = 16
	// tokenFor separates tokens from whatever else a node's secret is for.
	tokenFor = "tidings/read/1\x00"
)

func (m minter) token(address string) string {
	h := hmac.New(sha256.New, m)
	h.Write([]byte(tokenFor + address))
	return hex.EncodeToString(h.Sum(nil)[:tokenBytes])
}

// check compares in constant time.
func (m minter) check(token, address string) bool {
	return hmac.Equal([]byte(token), []byte(m.token(address)))
}

// cutScheme takes http:// or https:// off a target.
func cutScheme(target string) (rest string, ok bool) {
	for _, scheme := range []string{"http://", "https://"} {
		if len(target) >= len(scheme) && strings.EqualFold(target[:len(scheme)], scheme) {
			return target[len(scheme):], true
		}
	}
	return target, false
}
