package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A gate decides who may ask at all.
type gate struct {
	name        string         // by which others call the node, in lower case, without a port; "" if they do not
	proxies     []netip.Prefix // of the proxies that may pass requests on
	crossOrigin *http.CrossOriginProtection
}

func newGate(baseURL string, proxies []netip.Prefix) gate {
	g := gate{proxies: proxies, crossOrigin: http.NewCrossOriginProtection()}
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
	return fmt.Errorf("base URL %q: give http or https, a host and, if needed, a port, such as http://nas.example:8190", oneLine(s))
}

// admit checks what every request has to satisfy, and returns the target as it was
// sent. knows reports whether a request is one of the node's own user ([keeper.admits]).
func (g gate) check(r *http.Request, knows func(*http.Request) bool) (path, query string, err error) {
	if r.Method == http.MethodConnect {
		return "", "", refuse(http.StatusMethodNotAllowed,
			"a node is not a forward proxy: ask for /https://host/feed.xml, or for the address that \"tidings subscribe\" prints")
	}
	host, ok := withoutPort(strings.ToLower(r.Host))
	local := ok && isLocal(host)
	if !local && (!ok || host != g.name) {
		return "", "", refuse(http.StatusMisdirectedRequest, "the node does not know the name %q as its own: use localhost, or run it with --base-url", oneLine(r.Host))
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
		return "", "", refuse(http.StatusBadRequest, "the request has no path")
	}
	path, query, _ = strings.Cut(target, "?")
	by := forwardingHeader(r.Header)
	if by != "" && !g.isProxy(r.RemoteAddr) {
		return "", "", refuse(http.StatusForbidden, "the header %s shows that a proxy passed this request on, and the node does not trust the proxy: connect to the node directly, or run it with --trusted-proxy", oneLine(by))
	}
	if strings.HasPrefix(path, tokenPath) || strings.HasPrefix(path, keywordsPath) {
		return path, query, nil
	}
	// A web server on this machine that passes requests on seems to be from here,
	// but gives itself away by its headers, or by the name that was asked for.
	if !local || by != "" || !isLoopback(r.RemoteAddr) {
		return "", "", refuse(http.StatusForbidden, "requests from other machines are answered only for addresses that begin with %s or %s", tokenPath, keywordsPath)
	}
	// Some web servers do neither, as nginx with proxy_pass alone. If a trusted proxy connects from
	// this address, the request may be anybody's, unless it shows that it is the own user's. Two paths
	// check that themselves: browsers show a code at enterPath before they have a cookie, and commands
	// that show a wrong token below apiPath learn it from the status 401.
	if g.isProxy(r.RemoteAddr) && path != loginPath && !strings.HasPrefix(path, apiPath) && !knows(r) {
		return "", "", refuse(http.StatusForbidden, "this request comes from the address of a --trusted-proxy and counts as one of another machine, which is answered only for addresses that begin with %s or %s: for other pages, send the token in the header %s, or open the address that \"tidings open\" prints", tokenPath, keywordsPath, accessHeader)
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
func isLoopback(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// forwardingHeaders are those that proxies add besides Forwarded (RFC 7239), Via (RFC 9110)
// and all that begin with X-Forwarded: the client's address, or the target before it was
// rewritten.
var forwardingHeaders = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"Fastly-Client-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Original-Host", "X-Original-Url", "X-Rewrite-Url",
}

// forwarded returns a header by which a request says that a proxy has passed it on; "" if there is
// none. Such a request may be anybody's, though its connection begins on this machine.
func forwardingHeader(h http.Header) (by string) {
	for name := range h {
		if slices.Contains(forwardingHeaders, name) || strings.HasPrefix(name, "X-Forwarded") {
			by = max(by, name) // the same one each time
		}
	}
	return by
}

// isProxy reports whether a connection comes from a proxy that the settings name.
func (g gate) isProxy(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(g.proxies, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap().WithZone(""))
	})
}

// ParseProxy reads the address of a proxy, or a network of them, such as 127.0.0.1 or 172.17.0.0/16.
func ParseProxy(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("trusted proxy %q: give the IP address from which it connects, such as 127.0.0.1, or a network, such as 172.17.0.0/16", oneLine(s))
	}
	return p, nil
}

// ownSite refuses what other sites' pages send. Only a person who follows
// a bookmarklet is shown the page it leads to, which does nothing by itself.
func (g gate) checkOrigin(r *http.Request, path string) error {
	if g.crossOrigin.Check(r) != nil {
		return refuse(http.StatusForbidden, "refused, because a page of another site sent this request")
	}
	if isCrossSite(r) && (path != "/add" || !isNavigation(r)) {
		return refuse(http.StatusForbidden, "refused, because a page of another site sent this request")
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
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// pageSecurity is the Content-Security-Policy of pages.
const pagePolicy = "default-src 'none'; img-src https:; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
