package proxy

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/text/encoding/charmap"

	"tidings/internal/feed"
	"tidings/overlay"
)

// PingPath is where sites announce at the public address of a node that they have news: by the XML-RPC methods
// weblogUpdates.ping and weblogUpdates.extendedPing, as blog programs do, or as rssCloud does, by a form or by XML-RPC.
const PingPath = "/ping"

const (
	// maxPing bounds a request in bytes. It names a site and a few addresses.
	maxPing = 16 << 10
	// maxPingAddresses bounds the addresses of a request that are passed on.
	maxPingAddresses = 4
	// maxPings and maxPingsPerBlock bound the requests in pingWindow, in all and from one block of addresses (IPv4 /24, IPv6
	// /48). A service that hosts many blogs announces one at a time.
	maxPings         = 300
	maxPingsPerBlock = 30
	pingWindow       = time.Minute
)

// errPing says what a request to PingPath must be.
var errPing = errors.New("this is no announcement: call weblogUpdates.ping or weblogUpdates.extendedPing by XML-RPC, or send a form with the field url")

// A ping is the announcement of a site.
type ping struct {
	method    string   // in lower case; "": a form
	addresses []string // canonical, of documents that may have changed
}

// parsePing reads a request. What is no address, or holds a user name or a password, is left out.
func parsePing(contentType string, body []byte) (p ping, err error) {
	var named []string
	if kind, _, _ := mime.ParseMediaType(contentType); kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(body))
		if err != nil || !form.Has("url") {
			return ping{}, errPing
		}
		named = form["url"]
	} else {
		call, err := decodeCall(body)
		if err != nil {
			return ping{}, errPing
		}
		for _, param := range call.Params {
			named = append(named, cmp.Or(param.Text, param.Untyped))
		}
		switch p.method = strings.ToLower(strings.TrimSpace(call.Name)); p.method {
		case "weblogupdates.ping", "weblogupdates.extendedping":
			named = named[min(1, len(named)):] // the first one is the name of the site, others may be tags
		case "rsscloud.ping", "rsscloud.notify":
		default:
			return ping{}, errPing
		}
	}
	for _, raw := range named {
		address, err := feed.Canonical(strings.TrimSpace(raw))
		if _, isPage := feed.DocumentURL(address); err != nil || isPage {
			continue
		}
		if len(p.addresses) < maxPingAddresses && !slices.Contains(p.addresses, address) {
			p.addresses = append(p.addresses, address)
		}
	}
	return p, nil
}

// A methodCall is a call of XML-RPC whose parameters are text.
type methodCall struct {
	XMLName xml.Name `xml:"methodCall"`
	Name    string   `xml:"methodName"`
	Params  []struct {
		Text    string `xml:"string"`
		Untyped string `xml:",chardata"`
	} `xml:"params>param>value"`
}

// decodeCall reads a call of XML-RPC.
func decodeCall(body []byte) (call methodCall, err error) {
	d := xml.NewDecoder(bytes.NewReader(body))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { // addresses are the same in all of them, and names do not count
		return charmap.ISO8859_1.NewDecoder().Reader(r), nil
	}
	err = d.Decode(&call)
	return call, err
}

// servePing answers an announcement. The answer depends on the request alone, so it does not say whether anybody follows
// the site.
func (s *CallbackServer) servePing(w http.ResponseWriter, r *http.Request) {
	if !s.pings.take(pingCaller(r), time.Now()) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPing))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	p, err := parsePing(r.Header.Get("Content-Type"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(p.addresses) > 0 && s.callbacks.Hint(r.Context(), p.addresses) != nil { // the node does not know its network yet, or stops
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if p.method == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	_, _ = io.WriteString(w, p.answer()) // a site that has gone needs no answer
}

// answer is the response to a call: a struct for weblogUpdates, true for rssCloud.
func (p ping) answer() string {
	value := "<boolean>1</boolean>"
	if strings.HasPrefix(p.method, "weblogupdates.") {
		failed, message := "0", "Thanks for the ping."
		if len(p.addresses) == 0 {
			failed, message = "1", "The ping names no address of a site or a feed."
		}
		value = "<struct><member><name>flerror</name><value><boolean>" + failed + "</boolean></value></member>" +
			"<member><name>message</name><value><string>" + message + "</string></value></member></struct>"
	}
	return xml.Header + "<methodResponse><params><param><value>" + value + "</value></param></params></methodResponse>\n"
}

// pingCaller returns the address of the caller. A reverse proxy on this machine adds it to a header as the last one.
func pingCaller(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	if forwarded := r.Header.Values("X-Forwarded-For"); at.Addr().Unmap().IsLoopback() && len(forwarded) > 0 {
		last := forwarded[len(forwarded)-1]
		if ip, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); err == nil {
			return ip
		}
	}
	return at.Addr()
}

// A pingLimiter counts the announcements of a window of time. It remembers no more blocks than it lets pass requests.
type pingLimiter struct {
	mu      sync.Mutex
	began   time.Time
	total   int
	byBlock map[netip.Prefix]int
}

// take counts a request, and reports whether it may be answered.
func (l *pingLimiter) take(ip netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byBlock == nil || now.Sub(l.began) >= pingWindow {
		l.began, l.total, l.byBlock = now, 0, map[netip.Prefix]int{}
	}
	block := overlay.BlockOf(ip)
	if l.total >= maxPings || l.byBlock[block] >= maxPingsPerBlock {
		return false
	}
	l.total++
	l.byBlock[block]++
	return true
}
