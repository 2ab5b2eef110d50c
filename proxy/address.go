package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"tidings/internal/feed"
)

// A target is the feed that a request asks for, with its options.
type target struct {
	url    string // canonical address of the source
	token  bool
	format feed.Format // 0 for the format of the source
	limit  int         // maximum number of items; 0 for no limit
	self   string      // the address at which the reader found the feed
	hub    bool        // self is also the address of the feed's hub
}

const (
	tokenPath = "/f/"
	queryPath = "/feed"
)

// isFeed reports whether a path asks for a feed.
func isFeed(path string) bool {
	return path == queryPath || strings.HasPrefix(path, tokenPath) || strings.HasPrefix(path, privatePath) || isAddress(path[1:])
}

// isAddress reports whether the rest of a path looks like an address.
func isAddress(rest string) bool {
	rest, _ = feed.DocumentURL(rest)
	for _, scheme := range []string{"https:", "http:", "feed:", "https%3a", "http%3a", "feed%3a"} {
		if len(rest) >= len(scheme) && strings.EqualFold(rest[:len(scheme)], scheme) {
			return true
		}
	}
	return false
}

// target parses a path for which isFeed is true.
func (s *Server) target(r *http.Request, path, query string) (t target, err error) {
	switch {
	case path == queryPath:
		return s.queryTarget(r, query)
	case strings.HasPrefix(path, privatePath):
		return s.privateTarget(r, path, query)
	case strings.HasPrefix(path, tokenPath):
		if isAddress(path[len(tokenPath):]) {
			return t, refuse(http.StatusNotFound, "not found: the address lacks its token: tidings list -v shows the whole address")
		}
		token, rest, _ := strings.Cut(path[len(tokenPath):], "/")
		if t.url, err = s.canonicalSource(r, embedded(rest, query)); err != nil {
			return t, err
		}
		if !s.tokens.verify(token, t.url) {
			// The error does not tell whether the token or the address is wrong.
			return t, refuse(http.StatusNotFound, "not found: the address is not one that this node gave to a reader")
		}
		t.token = true
		t.self = s.ReadURL(s.base(r), t.url)
	default:
		if t.url, err = s.canonicalSource(r, embedded(path[1:], query)); err != nil {
			return t, err
		}
		t.self = s.base(r) + "/" + inPath(t.url)
	}
	return t, nil
}

// queryTarget parses /feed?url=…&format=…&limit=….
func (s *Server) queryTarget(r *http.Request, query string) (t target, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return t, refuse(http.StatusBadRequest, "the query of the address is not valid: %v", err)
	}
	if !q.Has("url") {
		return t, refuse(http.StatusBadRequest, "the address of the feed is missing: write /feed?url=…")
	}
	if t.url, err = s.canonicalSource(r, q.Get("url")); err != nil {
		return t, err
	}
	t.self = s.base(r) + queryPath + "?url=" + url.QueryEscape(t.url)
	return t, t.setOptions(q)
}

// setOptions sets the format and the number of items that a query asks for.
func (t *target) setOptions(q url.Values) (err error) {
	if f := q.Get("format"); f != "" {
		if t.format = formats[f]; t.format == 0 {
			return refuse(http.StatusBadRequest, "format must be atom, rss or json")
		}
		t.self += "&format=" + f
	}
	if l := q.Get("limit"); l != "" {
		if t.limit, err = strconv.Atoi(l); err != nil || t.limit < 1 {
			return refuse(http.StatusBadRequest, "limit must be a number, at least 1")
		}
		t.limit = min(t.limit, feed.MaxItems)
		t.self += "&limit=" + strconv.Itoa(t.limit)
	}
	return nil
}

// embedded returns the address within a path, with its query. Some readers, and some servers in front of them,
// collapse slashes, and some encode the whole address. [feed.Canonical] repairs https:/host.
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

// maxWraps bounds how deeply addresses of nodes may be nested.
const maxWraps = 4

// canonicalSource returns the canonical address of a feed. It unwraps addresses of this node, because a node that
// read itself would never finish.
func (s *Server) canonicalSource(r *http.Request, raw string) (string, error) {
	for range maxWraps {
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
			q, _ := url.ParseQuery(query) // a broken query yields no address
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

// cutOwn removes this node's base URL from an address.
func (s *Server) cutOwn(r *http.Request, address string) (rest string, ok bool) {
	for _, base := range []string{"http://" + strings.ToLower(r.Host), s.base(r)} {
		if rest, ok = strings.CutPrefix(address, base); ok && strings.HasPrefix(rest, "/") {
			return rest, true
		}
	}
	return "", false
}

// resolveAddress returns the address of a feed as a person types it, perhaps without https://. If the address was
// handed out by another node, the result is the feed's own address, unless the node already subscribes to the
// address as it is. For a private feed the result is its name.
func (s *Server) resolveAddress(r *http.Request, raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", refuse(http.StatusBadRequest, "no address given")
	}
	if name, ok := s.findPrivate(raw); ok {
		return name, nil
	}
	if err := s.checkPrivateName(r, raw); err != nil {
		return "", err
	}
	if !strings.Contains(raw, "://") && !isAddress(raw) && !hasScheme(raw) {
		document, isPage := feed.DocumentURL(raw)
		if document = "https://" + document; isLocalAddress(document) {
			document = "http" + strings.TrimPrefix(document, "https")
		}
		if address, err := feed.Canonical(document); strings.HasPrefix(raw, ".") || err == nil && !hasWebHost(address) {
			return "", refuse(http.StatusBadRequest, "%s: not an address: begin it with https:// or http://", oneLine(WithoutPassword(raw)))
		}
		if raw = document; isPage {
			raw = feed.WithWhatCounts(document, raw)
		}
	}
	address, err := s.canonicalSource(r, raw)
	for range maxWraps {
		if err != nil {
			return "", err
		}
		inner, ok := unwrapNodeAddress(address)
		if _, known := s.subs.Version(address); known || !ok {
			return address, nil
		}
		address, err = s.canonicalSource(r, inner)
	}
	return "", refuse(http.StatusBadRequest, "the address leads through too many nodes")
}

// isLocalAddress reports whether an address leads to this machine, whose servers rarely speak HTTPS.
func isLocalAddress(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLocal(strings.ToLower(u.Hostname()))
}

// hasWebHost reports whether the host of a canonical address can be on the public Web, or is an IP address or this
// machine. It recognises most file names, because their extensions are rarely top-level domains.
func hasWebHost(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	suffix, known := publicsuffix.PublicSuffix(host)
	return known && suffix != host || strings.Contains(suffix, ".") // "github.io" is in the list, too, although not from ICANN
}

// unwrapNodeAddress returns the address of the feed within an address that another node handed out. An address with
// a token is recognised on any host. An address like /feed?url=… is recognised only on this machine, because
// other services of the Web have such addresses, too.
func unwrapNodeAddress(address string) (inner string, ok bool) {
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

// WithoutPassword returns an address as it may be shown and logged: without users' names and passwords. The address
// may be none that can be read, and may have another address within.
func WithoutPassword(address string) string {
	var b strings.Builder
	for rest, begun := address, false; ; begun = true {
		// A password with a slash ends what looks like the host, and then the port is no number.
		end := len(rest)
		if i := hostEnd.FindStringIndex(rest); i != nil {
			end = i[0]
		}
		if host := rest[:end]; begun && !strings.Contains(host, "@") && oddPort.MatchString(host) {
			end = len(rest)
		}
		if at := atSign.FindAllStringIndex(rest[:end], -1); at != nil {
			b.WriteString("…@")
			rest = rest[at[len(at)-1][1]:]
		}
		next := hostStart.FindStringIndex(rest)
		if next == nil {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(rest[:next[1]])
		rest = rest[next[1]:]
	}
}

var (
	hostStart = regexp.MustCompile(`(?i)(?:^|:|%3a)(?:[/\\]|%2f|%5c)+`)
	hostEnd   = regexp.MustCompile(`(?i)[/\\?#\s]|%2f|%5c|%3f|%23`)
	oddPort   = regexp.MustCompile(`(?i)^[^:\[\]]+:[^:/]*[^0-9:/]`)
	atSign    = regexp.MustCompile(`@|%40`)
)

// hasScheme reports whether an address without // begins with a scheme, as javascript:… does, and not with a host
// and a port.
func hasScheme(raw string) bool {
	scheme, rest, ok := strings.Cut(raw, ":")
	return ok && !strings.ContainsAny(scheme, "./[?#") && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// base returns the start of this node's addresses.
func (s *Server) base(r *http.Request) string {
	if s.config.BaseURL != "" {
		return s.config.BaseURL
	}
	return scheme(r) + "://" + r.Host
}

// ReadURL returns the address at which a feed reader reads a feed and subscribes to it, if the server is reached at
// base, such as "http://127.0.0.1:8190".
func (s *Server) ReadURL(base, address string) string {
	return base + tokenPath + s.tokens.token(address) + "/" + inPath(address)
}

// inPath returns an address as a part of a path. One that says what counts on a page is encoded as a whole, because
// clients send no fragment; see embedded.
func inPath(address string) string {
	if !strings.Contains(address, "#") {
		return address
	}
	return strings.Replace(url.QueryEscape(address), "page%2B", "page+", 1)
}

// A tokenMaker derives tokens from a secret, each for one address.
type tokenMaker []byte

const (
	minSecret  = 16
	tokenBytes = 16
	// tokenDomain separates tokens from other uses of the node's secret.
	tokenDomain = "tidings/read/1\x00"
)

func (m tokenMaker) token(address string) string {
	h := hmac.New(sha256.New, m)
	h.Write([]byte(tokenDomain + address))
	return hex.EncodeToString(h.Sum(nil)[:tokenBytes])
}

// verify compares in constant time.
func (m tokenMaker) verify(token, address string) bool {
	return hmac.Equal([]byte(token), []byte(m.token(address)))
}

// cutScheme removes http:// or https:// from a target.
func cutScheme(target string) (rest string, ok bool) {
	for _, scheme := range []string{"http://", "https://"} {
		if len(target) >= len(scheme) && strings.EqualFold(target[:len(scheme)], scheme) {
			return target[len(scheme):], true
		}
	}
	return target, false
}
