package proxy

import (
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The reverse proxies of the guide pass on the feeds of searches and the page of searches, and nothing else. Whatever one passes
// on, the node answers it only for public paths.
func TestWhatReverseProxiesPassOn(t *testing.T) {
	raw, err := os.ReadFile("../docs/guide/tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	block := func(begin, end string) string {
		t.Helper()
		_, rest, ok := strings.Cut(guide, begin)
		text, _, found := strings.Cut(rest, end)
		if !ok || !found {
			t.Fatalf("the guide has no %q", begin)
		}
		return text
	}
	if n := strings.Count(guide, "proxy_pass") + strings.Count(guide, "reverse_proxy "); n != 2 {
		t.Errorf("the guide passes on requests at %d places", n)
	}
	nginx := regexp.MustCompile(block("location ~ ", " {"))
	var caddy []string
	for _, pattern := range strings.Fields(block("@searches path", "\n")) {
		caddy = append(caddy, strings.TrimSuffix(pattern, "*"))
	}

	b := newTestServer(t, func(c *Config) {
		c.BaseURL, c.TrustedProxies = "https://feeds.example.org", []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		c.Keywords, c.Tokens = &memoryKeywords{}, &memoryTokens{token: &SearchToken{}}
	})
	paths := []string{"/k/00.atom", "/f/00/https://h.example/feed.xml", privatePath + "00", "/feed?url=x", "/https://h.example/feed.xml", "/nowhere", "/s", "/k", "/sx/", "//s/", "/S/"}
	for path := range pageRoutes {
		paths = append(paths, path)
	}
	for name := range apiRoutes {
		paths = append(paths, apiPath+name)
	}
	for path := range searchesRoutes {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		public := strings.HasPrefix(path, keywordsPath) || strings.HasPrefix(path, searchesPath)
		if passes := nginx.MatchString(path); passes != public {
			t.Errorf("nginx passes on %s: %t", path, passes)
		}
		if passes := slices.ContainsFunc(caddy, func(p string) bool { return strings.HasPrefix(path, p) }); passes != public {
			t.Errorf("Caddy passes on %s: %t", path, passes)
		}
		for _, header := range [][]string{{apiHeader, "1", "X-Forwarded-For", "192.0.2.9"}, {accessHeader, "", apiHeader, "1", "X-Forwarded-For", "192.0.2.9"}} {
			r := request(http.MethodGet, path, nil, header...)
			r.Host = "feeds.example.org"
			answer := b.send(r)
			if refused := answer.StatusCode == http.StatusForbidden; refused == isForOthers(path) {
				t.Errorf("the node answers %s with %d", path, answer.StatusCode)
			}
		}
	}
}

// Without https a cookie works, and with it the browser sends it nowhere else.
func TestTheCookieOfATokenIsSecureWithHTTPS(t *testing.T) {
	for _, c := range []struct {
		base   string
		header []string
		secure bool
	}{
		{"http://nas.example:8190", nil, false},
		{"https://feeds.example.org", nil, false}, // at the node itself
		{"https://feeds.example.org", []string{"X-Forwarded-For", "192.0.2.9"}, true},
		{"http://feeds.example.org", []string{"X-Forwarded-For", "192.0.2.9"}, false},
		{"http://feeds.example.org", []string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Proto", "https"}, true},
		{"https://feeds.example.org", []string{"X-Forwarded-For", "192.0.2.9", "X-Forwarded-Proto", "http"}, false},
	} {
		b := newTestServer(t, func(s *Config) {
			s.BaseURL, s.TrustedProxies = c.base, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			s.Tokens = &memoryTokens{token: &SearchToken{}}
		})
		r := b.send(request(http.MethodPost, searchesPath+"enter", strings.NewReader("token="+memoryToken), append(c.header, "Content-Type", "application/x-www-form-urlencoded")...))
		cookies := r.Cookies()
		if r.StatusCode != http.StatusSeeOther || len(cookies) != 1 || cookies[0].Secure != c.secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
			t.Errorf("%s, %q: %d %v", c.base, c.header, r.StatusCode, cookies)
		}
	}
}
