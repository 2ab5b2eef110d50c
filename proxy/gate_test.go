package proxy

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestOnlyTheNodesOwnNamesAreAnswered(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.BaseURL = "https://Feeds.example.org:8443" })
	token := b.tokenTarget(rssURL)
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8190": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "127.0.0.1:8190": 200, "127.9.9.9:8190": 200,
		"[::1]": 200, "[::1]:8190": 200, "[::ffff:127.0.0.1]:8190": 200,
		"feeds.example.org": 403, "FEEDS.example.org:99": 403, // except for addresses with a token
		"": 421, "evil.example": 421, "evil.example:8190": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
		"localhost:": 421, "localhost:0": 421, "localhost:99999": 421, "localhost:x": 421, "localhost:8190:8190": 421, "::1": 421,
		"[::1": 421, "[::1]x": 421, "[::1%25lo]": 421, "[::2]": 421, "0.0.0.0": 421, "10.0.0.1": 421, "192.168.1.50": 421, "127.1": 421,
		"user@localhost": 421, "localhost/": 421, "[localhost]": 421, "feeds.example.org.evil.example": 421,
	} {
		for _, target := range []string{"/", "/" + rssURL, "/api/v1/list", token} {
			want := want
			if want == 403 && target == token {
				want = 200
			}
			if r := b.ask("GET", target, "Host", host, "Tidings", "1"); r.StatusCode != want {
				t.Errorf("Host %q, %s: %d, want %d", host, target, r.StatusCode, want)
			}
		}
	}
}

func TestBaseURLs(t *testing.T) {
	for s, right := range map[string]bool{
		"http://nas:8190": true, "http://nas:8190/": true, "https://feeds.example.org": true, "http://[fd00::1]:8190": true, "http://192.168.1.5:8190": true,
		"": false, "nas:8190": false, "ftp://nas": false, "http://": false, "http://:8190": false, "http://nas:0": false, "http://nas/feeds": false,
		"http://user@nas": false, "http://nas?x": false, "http://nas#x": false, "http://na s": false, "http://nas//": false,
	} {
		if err := CheckBaseURL(s); (err == nil) != right {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// The test forwards requests as web servers do that run in front of a node and connect to localhost.
func TestRequestsOfProxiesAreRefusedUnlessTrusted(t *testing.T) {
	for _, header := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "x-real-ip", "CF-Connecting-IP", "X-Original-URL"} {
		stranger := newTestServer(t)
		trusting := newTestServer(t, func(c *Config) {
			for _, s := range []string{"127.0.0.1", "172.17.0.0/16"} {
				p, err := ParseProxy(s)
				if err != nil {
					t.Fatal(err)
				}
				c.TrustedProxies = append(c.TrustedProxies, p)
			}
		})
		for _, target := range []string{"/", "/" + rssURL, "/api/v1/list", "/metrics", stranger.tokenTarget(rssURL)} {
			r := stranger.ask("GET", target, header, "203.0.113.7", "Tidings", "1")
			if said := body(t, r); r.StatusCode != 403 || !strings.Contains(said, "--trusted-proxy") || !strings.Contains(said, http.CanonicalHeaderKey(header)) {
				t.Errorf("%s: GET %s: %d %s", header, target, r.StatusCode, said)
			}
			// A request of a trusted proxy counts as one of another machine.
			want := map[bool]int{true: 200, false: 403}[strings.HasPrefix(target, tokenPath)]
			for from, want := range map[string]int{"127.0.0.1:40000": want, "172.17.3.4:5": want, "127.0.0.2:1": 403} {
				r := request("GET", target, nil, header, "203.0.113.7", "Tidings", "1")
				r.RemoteAddr = from
				if r := trusting.send(r); r.StatusCode != want {
					t.Errorf("%s from %s: GET %s: %d, want %d", header, from, target, r.StatusCode, want)
				}
			}
		}
	}
}

// The test forwards requests as nginx does with proxy_pass alone.
func TestATrustedProxyThatAddsNoHeader(t *testing.T) {
	b := newTestServer(t, func(c *Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		c.Metrics = http.NotFoundHandler()
	})
	entrance := b.openPath()
	for _, target := range []string{"/", "/" + rssURL, "/feed?url=" + rssURL, "/metrics", "/healthz", "/readyz", "/style.css"} {
		r := b.ask("GET", target, accessHeader, "")
		if said := body(t, r); r.StatusCode != 403 || !strings.Contains(said, "--trusted-proxy") {
			t.Errorf("GET %s: %d %s", target, r.StatusCode, said)
		}
		if r := b.ask("GET", target); r.StatusCode == 403 {
			t.Errorf("with the token: GET %s: %d", target, r.StatusCode)
		}
		r2 := request("GET", target, nil, accessHeader, "")
		if r := b.send(r2.WithContext(context.WithValue(t.Context(), connOwnerKey{}, connOwner{func() bool { return true }}))); r.StatusCode == 403 {
			t.Errorf("of the own user: GET %s: %d", target, r.StatusCode)
		}
		r2 = request("GET", target, nil, accessHeader, "")
		r2.RemoteAddr = "127.0.0.2:40000"
		if r := b.send(r2); r.StatusCode == 403 {
			t.Errorf("from an address of no proxy: GET %s: %d", target, r.StatusCode)
		}
	}
	for token, want := range map[string]int{"": 401, "x": 401, secret: 200} {
		if r := b.ask("GET", "/api/v1/list", accessHeader, token, "Tidings", "1"); r.StatusCode != want {
			t.Errorf("a program with the token %q: %d", token, r.StatusCode)
		}
	}
	if r := b.ask("GET", b.tokenTarget(rssURL), accessHeader, ""); r.StatusCode != 200 {
		t.Errorf("with a token in the path: %d", r.StatusCode)
	}
	// A browser can get its cookie, and is recognised by it.
	if r := b.ask("GET", loginPath+"?code=x", accessHeader, ""); r.StatusCode != 401 {
		t.Errorf("with a wrong code: %d", r.StatusCode)
	}
	r := b.ask("GET", entrance, accessHeader, "")
	if r.StatusCode != 303 || len(r.Cookies()) != 1 {
		t.Fatalf("with a code: %d %v", r.StatusCode, r.Header)
	}
	if r := b.ask("GET", "/", accessHeader, "", "Cookie", r.Cookies()[0].String()); r.StatusCode != 200 {
		t.Errorf("with the cookie: %d", r.StatusCode)
	}
}

func FuzzProxy(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "::1", "172.17.0.0/16", "fe80::1%lo", "::ffff:1.2.3.4/100", "1.2.3.4/33", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseProxy(s)
		if err == nil && (!p.IsValid() || p.Addr().Is4In6() || !(gate{proxies: []netip.Prefix{p}}).isProxy(netip.AddrPortFrom(p.Addr(), 1).String())) {
			t.Errorf("%q is read as %v", s, p)
		}
	})
}

func TestARequestForAnotherHostIsRefused(t *testing.T) {
	b := newTestServer(t)
	// net/http uses the host of the target as Host.
	r := b.ask("GET", "http://h.example/feed.xml", "Host", "h.example")
	if r.StatusCode != 421 {
		t.Errorf("%d", r.StatusCode)
	}
}

func TestRequestsFromOtherMachinesNeedAToken(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.BaseURL = "http://nas.example:8190" })
	for target, want := range map[string]int{
		b.tokenTarget(rssURL): 200, "/": 403, "/" + rssURL: 403, "/feed?url=" + rssURL: 403, "/api/v1/list": 403, "/opml": 403,
		"/f/00000000000000000000000000000000/" + rssURL: 404,
	} {
		for _, from := range []string{"192.168.1.7:1234", "[fd00::7]:1234", "8.8.8.8:53", ""} {
			r := request("GET", target, nil, "Host", "nas.example", "Tidings", "1")
			r.RemoteAddr = from
			if r := b.send(r); r.StatusCode != want {
				t.Errorf("%s from %q: %d, want %d", target, from, r.StatusCode, want)
			}
		}
	}
}

// Headers that a browser sends for pages of other sites.
var foreign = map[string][]string{
	"image of another site":      {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
	"fetch of another site":      {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"},
	"link of another site":       {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	"frame of another site":      {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	"another port":               {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "http://127.0.0.1:3000"},
	"old browser":                {"Origin", "https://evil.example"},
	"old browser, hidden origin": {"Origin", "null"},
	"old browser's image":        {"Referer", "https://evil.example/page"},
}

// own holds headers that a browser sends for the node's pages, and that programs send.
var own = map[string][]string{
	"typed":       {"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	"our page":    {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "null"},
	"old browser": {"Origin", "http://" + host},
	"old link":    {"Referer", "http://" + host + "/"},
	"program":     nil,
}

func TestRequestsOfOtherSitesHaveNoEffect(t *testing.T) {
	for name, headers := range foreign {
		b := newTestServer(t, func(c *Config) { c.SubscribeOnRead = "first" })
		b.node.Subscribe(t.Context(), atomURL, false)
		before := b.node.subscriptions()
		for _, path := range []string{"/", "/show?url=" + url.QueryEscape(atomURL), "/opml", "/style.css"} {
			if r := b.ask("GET", path, headers...); r.StatusCode != 403 {
				t.Errorf("%s: GET %s: %d", name, path, r.StatusCode)
			}
		}
		for _, path := range []string{"/api/v1/list", "/api/v1/status", "/api/v1/opml"} {
			if r := b.ask("GET", path, append([]string{"Tidings", "1"}, headers...)...); r.StatusCode != 403 {
				t.Errorf("%s: GET %s: %d", name, path, r.StatusCode)
			}
		}
		for path, kind := range map[string]string{
			"/subscribe": "application/x-www-form-urlencoded", "/unsubscribe": "application/x-www-form-urlencoded", "/opml": "multipart/form-data; boundary=x",
			"/api/v1/subscribe": "application/json", "/api/v1/unsubscribe": "application/json", "/api/v1/opml": "text/x-opml",
		} {
			text := "url=" + url.QueryEscape(rssURL)
			if strings.HasPrefix(path, "/api") {
				text = `{"url":"` + atomURL + `"}`
			}
			for _, more := range [][]string{nil, {"Tidings", "1"}} {
				r := request("POST", path, strings.NewReader(text), append(append([]string{"Content-Type", kind}, more...), headers...)...)
				if r := b.send(r); r.StatusCode != 403 {
					t.Errorf("%s: POST %s: %d", name, path, r.StatusCode)
				}
			}
		}
		wantAdd := 403
		if name == "link of another site" {
			wantAdd = 200 // a bookmarklet leads to this page, which only asks
		}
		if r := b.ask("GET", "/add?url="+url.QueryEscape(rssURL), headers...); r.StatusCode != wantAdd {
			t.Errorf("%s: GET /add: %d", name, r.StatusCode)
		}
		// The node is not asked for the feed, so that the response time reveals nothing. A link to an address with
		// a token is followed.
		reads := b.node.reads
		for range 3 {
			for _, target := range []string{"/" + rssURL, "/feed?url=" + rssURL, b.tokenTarget(atomURL), "/k/0123.atom"} {
				want := 403
				if name == "link of another site" && strings.HasPrefix(target, tokenPath) {
					want = 200
				} else if name == "link of another site" && strings.HasPrefix(target, keywordsPath) {
					want = 404
				}
				r := b.ask("GET", target, headers...)
				if r.StatusCode != want || r.Header.Get("Access-Control-Allow-Origin") != "" || r.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
					!strings.Contains(r.Header.Get("Content-Security-Policy"), "sandbox") {
					t.Errorf("%s: GET %s: %d %v", name, target, r.StatusCode, r.Header)
				}
			}
			b.advance(2 * time.Minute)
		}
		if n := b.node.reads - reads; n > 0 && name != "link of another site" {
			t.Errorf("%s: the node was asked for feeds %d times", name, n)
		}
		if got := b.node.subscriptions(); !maps.Equal(got, before) {
			t.Errorf("%s: subscriptions are %v", name, got)
		}
	}
}

func TestRequestsOfOwnPagesAreAccepted(t *testing.T) {
	for name, headers := range own {
		b := newTestServer(t)
		for _, path := range []string{"/", "/opml", "/opml?rewrite=0", "/style.css", "/add?url=" + url.QueryEscape(rssURL), "/" + rssURL} {
			if r := b.ask("GET", path, headers...); r.StatusCode != 200 {
				t.Errorf("%s: GET %s: %d", name, path, r.StatusCode)
			}
		}
		r := request("POST", "/subscribe", strings.NewReader("url="+url.QueryEscape(rssURL)),
			append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
		if r := b.send(r); r.StatusCode != 303 || len(b.node.subscriptions()) != 1 {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
}

func TestAGetChangesNothingWithoutAToken(t *testing.T) {
	b := newTestServer(t)
	for _, path := range []string{
		"/subscribe?url=" + rssURL, "/unsubscribe?url=" + rssURL, "/add?url=" + rssURL, "/show?url=" + rssURL + "&new=1",
		"/api/v1/subscribe?url=" + rssURL, "/api/v1/unsubscribe?url=" + rssURL, "/opml?url=" + rssURL, "/f//" + rssURL,
	} {
		b.ask("GET", path, "Tidings", "1")
	}
	if got := b.node.subscriptions(); len(got) != 0 {
		t.Errorf("subscribed to %v", got)
	}
}

// A reading is a read in a sequence, of which the last may subscribe.
type reading struct {
	after   time.Duration
	agent   string
	from    string
	headers []string
	form    string
}

func TestARegularReaderIsSubscribed(t *testing.T) {
	again := reading{after: time.Minute}
	for _, c := range []struct {
		name, mode string
		readings   []reading
		want       bool
	}{
		{"once", "", []reading{{}}, false},
		{"twice", "", []reading{{}, again}, true},
		{"twice, said so", "second", []reading{{}, again}, true},
		{"twice within a minute", "", []reading{{}, {after: 59 * time.Second}}, false},
		{"thrice, a minute in all", "", []reading{{}, {after: 30 * time.Second}, {after: 30 * time.Second}}, true},
		{"never", "never", []reading{{}, again, again}, false},
		{"at first", "first", []reading{{}}, true},
		{"a day later", "", []reading{{}, {after: 25 * time.Hour}}, true},
		{"weeks later", "", []reading{{}, {after: 20 * 24 * time.Hour}}, false},
		{"by another reader", "", []reading{{}, {after: time.Minute, agent: "other/1"}}, false},
		{"from another address", "", []reading{{}, {after: time.Minute, from: "127.0.0.2:40000"}}, false},
		{"from another port", "", []reading{{}, {after: time.Minute, from: "127.0.0.1:50000"}}, true},
		{"in another form", "", []reading{{}, {after: time.Minute, form: "/feed?url="}}, true},
		{"by a browser", "", []reading{{headers: own["typed"]}, {after: time.Minute, headers: own["typed"]}}, false},
		{"by a browser at first", "first", []reading{{headers: own["typed"]}}, false},
		{"by a browser, then a reader", "", []reading{{headers: own["typed"]}, again}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestServer(t, func(k *Config) { k.SubscribeOnRead = c.mode })
			for i, r := range c.readings {
				b.advance(r.after)
				form := r.form
				if form == "" {
					form = "/"
				}
				req := request("GET", form+rssURL, nil, r.headers...)
				req.Header.Set("User-Agent", "reader/1 "+r.agent)
				if r.from != "" {
					req.RemoteAddr = r.from
				}
				if got := b.send(req); got.StatusCode != 200 {
					t.Fatalf("%d", got.StatusCode)
				}
				auto, subscribed := b.node.subscriptions()[rssURL]
				if want := c.want && i == len(c.readings)-1; subscribed != want || subscribed && !auto {
					t.Fatalf("after reading %d: subscribed %v, auto %v", i+1, subscribed, auto)
				}
			}
		})
	}
}

func TestAReaderGetsItsFeedIfSubscribingFails(t *testing.T) {
	b := newTestServer(t)
	b.node.room = 0
	r := b.ask("GET", b.tokenTarget(rssURL))
	if r.StatusCode != 200 || r.Header.Get("X-Tidings-Source") != "cache" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
}

func TestTokensDependOnTheSecretAndTheAddress(t *testing.T) {
	a, b := tokenMaker("0123456789abcdef"), tokenMaker("fedcba9876543210")
	if a.token(rssURL) == b.token(rssURL) || a.token(rssURL) == a.token(atomURL) || len(a.token(rssURL)) != 32 {
		t.Error("tokens repeat")
	}
	if !a.verify(a.token(rssURL), rssURL) || a.verify(a.token(rssURL)[:31], rssURL) || a.verify("", rssURL) || a.verify(b.token(rssURL), rssURL) {
		t.Error("tokens are not checked")
	}
}

func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	b := newTestServer(t)
	for _, target := range []string{"/", "/" + rssURL, "/nothing", "/add?url=" + rssURL, "/style.css", "/opml", "/f/x/" + rssURL, "/show?url=x"} {
		h := b.ask("GET", target).Header
		csp := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", target, h)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", target, name)
			}
		}
	}
}
