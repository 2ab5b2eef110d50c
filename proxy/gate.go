package proxy

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A gate decides who may ask at all.
type gate struct {
	hosts    []string // in lower case, without ports
	crossing *http.CrossOriginProtection
}

func newGate(hosts []string, baseURL string) gate {
	g := gate{crossing: http.NewCrossOriginProtection()}
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		hosts = append(slices.Clone(hosts), u.Host)
	}
	for _, h := range hosts {
		h = strings.ToLower(h)
		if bare, ok := withoutPort(h); ok {
			h = bare
		}
		if h != "" {
			g.hosts = append(g.hosts, h)
		}
	}
	return g
}

// admit checks what every request has to satisfy, and returns the target as it was
// sent.
func (g gate) admit(r *http.Request) (path, query string, err error) {
	if r.Method == http.MethodConnect {
		return "", "", refuse(http.StatusMethodNotAllowed,
			"this is no forward proxy: ask for /https://host/feed.xml, or take the address that subscribing gives")
	}
	if !g.ours(r.Host) {
		return "", "", refuse(http.StatusMisdirectedRequest, "the node is not called %q here: use localhost, or allow that name", line(r.Host))
	}
	target := r.RequestURI
	if target == "" { // made by a program, not read from a connection
		target = r.URL.RequestURI()
	}
	if rest, ok := cutScheme(target); ok { // absolute-form; its host is r.Host
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			target = rest[i:]
		} else {
			target = "/"
		}
	}
	if !strings.HasPrefix(target, "/") {
		return "", "", refuse(http.StatusBadRequest, "the request names no path")
	}
	path, query, _ = strings.Cut(target, "?")
	if !isFromHere(r.RemoteAddr) && !strings.HasPrefix(path, tokenPath) {
		return "", "", refuse(http.StatusForbidden, "from other machines only addresses that begin with %s are answered", tokenPath)
	}
	return path, query, nil
}

// ours reports whether a Host header names this node. Names that strangers can
// point at this machine do not, and that is what keeps their pages out.
func (g gate) ours(hostport string) bool {
	host, ok := withoutPort(strings.ToLower(hostport))
	if !ok {
		return false
	}
	if host == "localhost" || slices.Contains(g.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// withoutPort takes the port off a host, which keeps its brackets; ok is false if
// it is none.
func withoutPort(hostport string) (host string, ok bool) {
	host, port := hostport, ""
	if i := strings.LastIndexByte(hostport, ':'); i > strings.LastIndexByte(hostport, ']') {
		host, port = hostport[:i], hostport[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", false
		}
	}
	if strings.HasPrefix(host, "[") {
		return host, strings.HasSuffix(host, "]")
	}
	return host, host != "" && !strings.ContainsAny(host, "[]:/@ ")
}

// isFromHere reports whether an address of a connection is on this machine.
func isFromHere(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// ownSite refuses what other sites' pages send. They may ask for feeds, as they
// may ask any feed's origin, but do not come here. Only a person who follows
// a bookmarklet is shown the page it leads to, which does nothing by itself.
func (g gate) ownSite(r *http.Request, path string) error {
	if g.crossing.Check(r) != nil {
		return refuse(http.StatusForbidden, "another site's page sent this")
	}
	foreign := false
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "none", "same-origin":
	case "": // no browser, or an old one
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		foreign = origin != "" && (err != nil || u.Host != r.Host)
	default:
		foreign = true
	}
	followed := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if foreign && (path != "/add" || !followed) {
		return refuse(http.StatusForbidden, "another site's page asked for this")
	}
	return nil
}

// isBrowser reports whether a browser sent the request, on somebody's behalf or on
// a page's.
func isBrowser(h http.Header) bool {
	for name := range h {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

// scheme is how a reader reached us.
func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// setGuards writes what every answer tells browsers: run nothing, embed this
// nowhere, tell nobody. Pages allow themselves a little more.
func setGuards(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// pageSecurity is the Content-Security-Policy of pages.
const pageSecurity = "default-src 'none'; img-src https:; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
