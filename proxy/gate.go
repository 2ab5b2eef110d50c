package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// A gate decides who may ask at all.
type gate struct {
	name     string // by which others call the node, in lower case, without a port; "" if they do not
	crossing *http.CrossOriginProtection
}

func newGate(baseURL string) gate {
	g := gate{crossing: http.NewCrossOriginProtection()}
	if u, err := url.Parse(baseURL); err == nil {
		g.name, _ = withoutPort(strings.ToLower(u.Host))
	}
	return g
}

// CheckBaseURL tells whether addresses can begin with a text, as [Config] has it.
func CheckBaseURL(s string) error {
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.TrimSuffix(s, "/") == u.Scheme+"://"+u.Host {
		if _, ok := withoutPort(u.Host); ok {
			return nil
		}
	}
	return fmt.Errorf("base URL %q: give http or https, a host, and perhaps a port, as http://nas.example:8190", line(s))
}

// admit checks what every request has to satisfy, and returns the target as it was
// sent.
func (g gate) admit(r *http.Request) (path, query string, err error) {
	if r.Method == http.MethodConnect {
		return "", "", refuse(http.StatusMethodNotAllowed,
			"this is no forward proxy: ask for /https://host/feed.xml, or take the address that subscribing gives")
	}
	host, ok := withoutPort(strings.ToLower(r.Host))
	local := ok && isLocal(host)
	if !local && (!ok || host != g.name) {
		return "", "", refuse(http.StatusMisdirectedRequest, "the node is not called %q here: use localhost, or tell it of that name with --base-url", line(r.Host))
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
	// A web server on this machine that passes requests on seems to be from here,
	// but gives itself away by the name that was asked for.
	if !(local && isFromHere(r.RemoteAddr)) && !strings.HasPrefix(path, tokenPath) && !strings.HasPrefix(path, keywordsPath) {
		return "", "", refuse(http.StatusForbidden, "from other machines only addresses that begin with %s or %s are answered", tokenPath, keywordsPath)
	}
	return path, query, nil
}

// isLocal reports whether a host is this machine by a name that nobody else can
// give to anything. Other names may be made to point here, and that their requests
// are refused is what keeps strangers' pages out.
func isLocal(host string) bool {
	if host == "localhost" {
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
