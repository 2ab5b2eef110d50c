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

// A gate decides which requests are answered at all.
type gate struct {
	name        string         // name in Config.BaseURL, in lower case and without a port; may be ""
	proxies     []netip.Prefix // addresses of proxies that may forward requests
	crossOrigin *http.CrossOriginProtection
}

func newGate(baseURL string, proxies []netip.Prefix) gate {
	g := gate{proxies: proxies, crossOrigin: http.NewCrossOriginProtection()}
	if u, err := url.Parse(baseURL); err == nil {
		g.name, _ = withoutPort(strings.ToLower(u.Host))
	}
	return g
}

// CheckBaseURL returns an error if a text is not a valid [Config.BaseURL].
func CheckBaseURL(s string) error {
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.TrimSuffix(s, "/") == u.Scheme+"://"+u.Host {
		if _, ok := withoutPort(u.Host); ok {
			return nil
		}
	}
	return fmt.Errorf("base URL %q: give http or https, a host and, if needed, a port, such as http://nas.example:8190", oneLine(s))
}

// check applies the rules for all requests, and returns the target as it was sent. isUser reports whether a request
// comes from the node's own user ([authenticator.isAuthorized]).
func (g gate) check(r *http.Request, isUser func(*http.Request) bool) (path, query string, err error) {
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
	if target == "" { // the request was made by a program in this process
		target = r.URL.RequestURI()
	}
	if rest, ok := cutScheme(target); ok { // absolute form, whose host is r.Host
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
	header := forwardingHeader(r.Header)
	if header != "" && !g.isProxy(r.RemoteAddr) {
		return "", "", refuse(http.StatusForbidden, "the header %s shows that a proxy passed this request on, and the node does not trust the proxy: connect to the node directly, or run it with --trusted-proxy", oneLine(header))
	}
	if isForOthers(path) {
		return path, query, nil
	}
	// A forwarding web server on this machine connects from here, but its headers, or the name that was requested,
	// give it away.
	if !local || header != "" || !isLoopback(r.RemoteAddr) {
		return "", "", refuse(http.StatusForbidden, "requests from other machines are answered only for addresses that begin with one of %s", strings.Join(publicPaths, ", "))
	}
	// Some web servers show neither, such as nginx with proxy_pass alone. If a trusted proxy connects from this
	// address, the request may come from anybody, unless it shows that it is the user's own. Two paths check that
	// themselves: browsers send a code to loginPath before they have a cookie, and commands with a wrong token
	// below apiPath should get the status 401.
	if g.isProxy(r.RemoteAddr) && path != loginPath && !strings.HasPrefix(path, apiPath) && !isUser(r) {
		return "", "", refuse(http.StatusForbidden, "this request comes from the address of a --trusted-proxy and counts as one of another machine, which is answered only for addresses that begin with one of %s: for other pages, send the token in the header %s, or open the address that \"tidings open\" prints", strings.Join(publicPaths, ", "), accessHeader)
	}
	return path, query, nil
}

// isLocal reports whether a host is a name of this machine that cannot be assigned to another one. Other names may
// be made to point here. Refusing them keeps out pages of strangers.
func isLocal(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// withoutPort removes the port of a host, but keeps brackets. ok is false if the host is invalid.
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

// isLoopback reports whether a connection comes from a loopback address.
func isLoopback(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// forwardingHeaders lists headers that proxies add, besides all that begin with X-Forwarded. They carry the
// client's address or the original target.
var forwardingHeaders = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"Fastly-Client-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Original-Host", "X-Original-Url", "X-Rewrite-Url",
}

// forwardingHeader returns a header that shows that a proxy forwarded the request, or "". Such a request may come
// from anybody, although its connection begins on this machine.
func forwardingHeader(h http.Header) (header string) {
	for name := range h {
		if slices.Contains(forwardingHeaders, name) || strings.HasPrefix(name, "X-Forwarded") {
			header = max(header, name) // deterministic
		}
	}
	return header
}

// isProxy reports whether a connection comes from a trusted proxy.
func (g gate) isProxy(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(g.proxies, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap().WithZone(""))
	})
}

// ParseProxy parses the address of a proxy, or a network of proxies, such as 127.0.0.1 or 172.17.0.0/16.
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

// checkOrigin refuses requests that pages of other sites send. The only exception is the page to which a
// bookmarklet leads, which does nothing by itself.
func (g gate) checkOrigin(r *http.Request, path string) error {
	if g.crossOrigin.Check(r) != nil {
		return refuse(http.StatusForbidden, "refused, because a page of another site sent this request")
	}
	if isCrossSite(r) && (path != "/add" || !isNavigation(r)) {
		return refuse(http.StatusForbidden, "refused, because a page of another site sent this request")
	}
	return nil
}

// isBrowser reports whether a browser sent the request, for a person or for a page.
func isBrowser(h http.Header) bool {
	for name := range h {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

// scheme returns the scheme by which a reader reached the node.
func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// setSecurityHeaders tells browsers to run nothing, to embed the answer nowhere and to send no referrer. Pages
// relax this a little.
func setSecurityHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// pagePolicy is the Content-Security-Policy of pages. They run one script, which comes from the node itself and sends
// requests only to the node. Nothing is loaded from elsewhere, because publishers would see who reads.
const pagePolicy = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
