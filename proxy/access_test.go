package proxy

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// openPath requests an address that opens the pages, and returns its path.
func (b *testServer) openPath() string {
	b.Helper()
	var e OpenResponse
	r := b.ask("POST", apiPath+"open", "Tidings", "1")
	if err := json.Unmarshal([]byte(body(b.T, r)), &e); err != nil || r.StatusCode != 200 {
		b.Fatalf("%d %v", r.StatusCode, err)
	}
	path, ok := strings.CutPrefix(e.URL, "http://"+host)
	if !ok {
		b.Fatalf("%q is not here", e.URL)
	}
	return path
}

// A program of another user on this machine, which knows the address but not the token, is refused.
func TestAnotherUserOfTheMachineIsRefused(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Metrics = http.NotFoundHandler() })
	b.node.Subscribe(t.Context(), rssURL, false)
	for _, token := range []string{"", "0123456789abcdeg", secret[:15], secret + "0"} {
		for _, path := range []string{"list", "status", "doctor", "opml", "watches"} {
			r := b.ask("GET", apiPath+path, "Tidings", "1", accessHeader, token)
			if said := body(t, r); r.StatusCode != 401 || strings.Contains(said, rssURL) || !strings.Contains(said, accessHeader) {
				t.Errorf("token %q: GET %s: %d %s", token, path, r.StatusCode, said)
			}
		}
		for _, path := range []string{"subscribe", "unsubscribe", "watch", "unwatch", "trust", "opml", "open", "publisher", "notify", "notify/test"} {
			r := request("POST", apiPath+path, strings.NewReader(`{"url":"`+rssURL+`"}`), "Tidings", "1", "Content-Type", "application/json", accessHeader, token)
			if r := b.send(r); r.StatusCode != 401 {
				t.Errorf("token %q: POST %s: %d", token, path, r.StatusCode)
			}
		}
		for _, path := range []string{"/", "/channels", "/network", "/show?url=" + url.QueryEscape(rssURL), "/opml", "/add?url=" + rssURL, "/watch?q=x", "/nothing"} {
			r := b.ask("GET", path, accessHeader, token)
			if said := body(t, r); r.StatusCode != 401 || strings.Contains(said, "An RSS") || path != "/nothing" && !strings.Contains(said, "tidings open --http "+host) {
				t.Errorf("token %q: GET %s: %d %s", token, path, r.StatusCode, said)
			}
		}
		for _, path := range []string{"/subscribe", "/unsubscribe", "/unwatch", "/notify", "/notify/remove", "/notify/test"} {
			r := request("POST", path, strings.NewReader("url="+url.QueryEscape(rssURL)), "Content-Type", "application/x-www-form-urlencoded", accessHeader, token)
			if r := b.send(r); r.StatusCode != 401 {
				t.Errorf("token %q: POST %s: %d", token, path, r.StatusCode)
			}
		}
		// Feed readers and monitoring need these.
		for _, path := range []string{"/healthz", "/readyz", "/style.css", "/" + rssURL, "/feed?url=" + rssURL, b.tokenTarget(rssURL)} {
			if r := b.ask("GET", path, accessHeader, token); r.StatusCode != 200 {
				t.Errorf("token %q: GET %s: %d", token, path, r.StatusCode)
			}
		}
	}
	if n := len(b.node.subscriptions()); n != 1 {
		t.Errorf("there are %d subscriptions", n)
	}
}

// A browser can log in once with the address that tidings open prints.
func TestALoginAddressWorksOnce(t *testing.T) {
	b := newTestServer(t)
	path := b.openPath()
	r := b.ask("GET", path, accessHeader, "", "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	if r.StatusCode != 303 || r.Header.Get("Location") != "/" || len(r.Cookies()) != 1 {
		t.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Name != "tidings-8190" || c.Path != "/" || strings.Contains(c.Value, secret) {
		t.Errorf("the cookie is %v", c)
	}
	cookie := c.Name + "=" + c.Value
	for _, target := range []string{"/", "/channels", path} {
		if r := b.ask("GET", target, accessHeader, "", "Cookie", cookie); r.StatusCode >= 400 {
			t.Errorf("with the cookie: GET %s: %d", target, r.StatusCode)
		}
	}
	// Another browser comes too late. A cookie that was changed, or that another node made, does not help.
	until, mac, _ := strings.Cut(c.Value, ".")
	for _, forged := range []string{"", c.Name + "=" + until, c.Name + "=9" + until + "." + mac, c.Name + "=.", "tidings-8191=" + c.Value, c.Name + "=" + secret} {
		for _, target := range []string{"/", path} {
			if r := b.ask("GET", target, accessHeader, "", "Cookie", forged); r.StatusCode != 401 {
				t.Errorf("cookie %q: GET %s: %d", forged, target, r.StatusCode)
			}
		}
	}
	other := newTestServer(t, func(c *Config) { c.Token = "another token, as long" })
	if r := other.ask("GET", "/", accessHeader, "", "Cookie", cookie); r.StatusCode != 401 {
		t.Errorf("at another node: %d", r.StatusCode)
	}
	if r := newTestServer(t).ask("GET", "/", accessHeader, "", "Cookie", cookie); r.StatusCode != 401 {
		t.Errorf("after a restart of the node: %d", r.StatusCode)
	}
	if c.MaxAge > 12*60*60 {
		t.Errorf("the cookie is good for %d seconds", c.MaxAge)
	}
	// Pages of other sites are refused, whatever cookies the browser adds.
	for name, headers := range foreign {
		for _, target := range []string{"/", "/channels", path} {
			if r := b.ask("GET", target, append([]string{accessHeader, "", "Cookie", cookie}, headers...)...); r.StatusCode != 403 {
				t.Errorf("%s: GET %s: %d", name, target, r.StatusCode)
			}
		}
	}
	b.advance(sessionTime - time.Second)
	if r := b.ask("GET", "/", accessHeader, "", "Cookie", cookie); r.StatusCode != 200 {
		t.Errorf("in its last second: %d", r.StatusCode)
	}
	b.advance(time.Second)
	if r := b.ask("GET", "/", accessHeader, "", "Cookie", cookie); r.StatusCode != 401 {
		t.Errorf("afterwards: %d", r.StatusCode)
	}
}

func TestLoginAddressesExpire(t *testing.T) {
	b := newTestServer(t)
	late := b.openPath()
	b.advance(codeTime)
	if r := b.ask("GET", late, accessHeader, ""); r.StatusCode != 401 {
		t.Errorf("after %v: %d", codeTime, r.StatusCode)
	}
	first := b.openPath()
	for range maxCodes - 1 {
		b.openPath()
	}
	if r := b.ask("GET", first, accessHeader, ""); r.StatusCode != 303 {
		t.Errorf("the oldest of %d: %d", maxCodes, r.StatusCode)
	}
	first = b.openPath()
	for range maxCodes {
		b.openPath()
	}
	if r := b.ask("GET", first, accessHeader, ""); r.StatusCode != 401 {
		t.Errorf("one more than %d: %d", maxCodes, r.StatusCode)
	}
}

// FuzzCookie searches for a valid cookie that this node did not make.
func FuzzCookie(f *testing.F) {
	k := newAuthenticator(secret, time.Now)
	f.Add("1.2")
	f.Add("99999999999." + k.sign("9999999999"))
	f.Add(".")
	f.Fuzz(func(t *testing.T, value string) {
		if until, mac, _ := strings.Cut(value, "."); k.isValidSession(value) && mac != k.sign(until) {
			t.Errorf("%q is good", value)
		}
	})
}
