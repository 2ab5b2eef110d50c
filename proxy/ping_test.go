package proxy

import (
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
)

// call writes a call of XML-RPC.
func call(method string, params ...string) string {
	b := new(strings.Builder)
	fmt.Fprintf(b, "<?xml version=\"1.0\"?>\n<methodCall>\n <methodName>%s</methodName>\n <params>", method)
	for _, p := range params {
		b.WriteString("<param><value><string>")
		_ = xml.EscapeText(b, []byte(p))
		b.WriteString("</string></value></param>\n")
	}
	return b.String() + "</params></methodCall>\n"
}

const (
	formType = "application/x-www-form-urlencoded"
	thanks   = "<boolean>0</boolean>"
	nothing  = "<boolean>1</boolean>"
)

func TestSitesAnnounceTheirNews(t *testing.T) {
	const site, doc = "http://blog.example/", "http://blog.example/feed/"
	long := strings.Repeat("x", maxPing)
	for name, c := range map[string]struct {
		kind, body string
		status     int
		hint       string // what the node got; "": nothing
		answer     string // part of it
	}{
		"a ping":                      {"text/xml", call("weblogUpdates.ping", "A & B", "http://Blog.example"), 200, site, thanks},
		"with the feed":               {"text/xml", call("weblogUpdates.extendedPing", "A", site, doc), 200, site + " " + doc, thanks},
		"with page, feed and tags":    {"text/xml", call("weblogUpdates.extendedPing", "A", site, site+"new", doc, "a|b"), 200, site + " " + site + "new " + doc, thanks},
		"with an empty address":       {"text/xml", call("weblogUpdates.extendedPing", "A", site, "", doc), 200, site + " " + doc, thanks},
		"values without a type":       {"", "<methodCall><methodName>weblogUpdates.ping</methodName><params><param><value>A</value></param><param><value>" + site + "</value></param></params></methodCall>", 200, site, thanks},
		"Latin 1":                     {"text/xml", `<?xml version="1.0" encoding="iso-8859-1"?>` + call("weblogUpdates.ping", "A", site)[len("<?xml version=\"1.0\"?>"):] + "<!-- \xe9 -->", 200, site, thanks},
		"more addresses than allowed": {"text/xml", call("weblogUpdates.extendedPing", "A", site+"1", site+"2", site+"3", site+"4", site+"5"), 200, site + "1 " + site + "2 " + site + "3 " + site + "4", thanks},
		"a password":                  {"text/xml", call("weblogUpdates.ping", "A", "http://u:p@blog.example/"), 200, "", nothing},
		"a file":                      {"text/xml", call("weblogUpdates.ping", "A", "file:///etc/passwd"), 200, "", nothing},
		"no address":                  {"text/xml", call("weblogUpdates.ping", site), 200, "", nothing},
		"no parameters":               {"text/xml", call("weblogUpdates.ping"), 200, "", nothing},
		"rssCloud by a form":          {formType, "url=" + url.QueryEscape(doc), 200, doc, ""},
		"rssCloud by XML-RPC":         {"text/xml", call("rssCloud.notify", doc), 200, doc, nothing},
		"a ping of rssCloud":          {"text/xml", call("rssCloud.ping", doc), 200, doc, nothing},
		"a form without an address":   {formType, "u=" + url.QueryEscape(doc), 400, "", "url"},
		"another method":              {"text/xml", call("system.listMethods"), 400, "", "weblogUpdates.ping"},
		"no XML":                      {"text/xml", "ping", 400, "", "weblogUpdates.ping"},
		"another document":            {"text/xml", "<rss/>", 400, "", "weblogUpdates.ping"},
		"too long":                    {"text/xml", call("weblogUpdates.ping", "A", site) + long, 413, "", ""},
		"within another document":     {"text/xml", "<x>" + call("weblogUpdates.ping", "A", site)[len("<?xml version=\"1.0\"?>"):] + "</x>", 400, "", ""},
		"deeply nested":               {"text/xml", "<methodCall>" + strings.Repeat("<x>", maxPing/4) + "</methodCall>", 400, "", ""},
	} {
		calls := &hubCalls{}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://node.example/ping", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		NewCallbackServer(calls, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		got := strings.TrimPrefix(strings.Join(calls.got, ", "), "hint ")
		if w.Code != c.status || got != c.hint || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: status %d, the node got %q, answer %s", name, w.Code, got, w.Body)
		}
	}
}

// A browser is told how to announce news.
func TestAPingIsSentByPOST(t *testing.T) {
	w := httptest.NewRecorder()
	NewCallbackServer(&hubCalls{}, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://node.example/ping", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost || !strings.Contains(w.Body.String(), "weblogUpdates.ping") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestAnAnswerToAPingIsXMLRPC(t *testing.T) {
	p := ping{method: "weblogupdates.ping", addresses: []string{"http://a.example/"}}
	var m struct {
		Members []struct {
			Name  string `xml:"name"`
			Value string `xml:"value>boolean"`
		} `xml:"params>param>value>struct>member"`
	}
	if err := xml.Unmarshal([]byte(p.answer()), &m); err != nil || len(m.Members) != 2 || m.Members[0].Name != "flerror" || m.Members[0].Value != "0" || m.Members[1].Name != "message" {
		t.Errorf("%v, %+v", err, m)
	}
}

func TestPingsAreLimited(t *testing.T) {
	var l pingLimiter
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	took := func(n int, format string) (passed int) {
		for i := range n {
			if l.take(netip.MustParseAddr(fmt.Sprintf(format, i)), now) {
				passed++
			}
		}
		return passed
	}
	for _, c := range []struct {
		n      int
		format string
		passed int
	}{
		{2 * maxPingsPerBlock, "192.0.2.%d", maxPingsPerBlock},
		{2 * maxPingsPerBlock, "::ffff:192.0.2.%d", 0},
		{2 * maxPingsPerBlock, "2001:db8:1:%x::1", maxPingsPerBlock},
		{200, "198.51.%d.1", 200},
		{200, "203.0.%d.1", maxPings - 200 - 2*maxPingsPerBlock},
	} {
		if got := took(c.n, c.format); got != c.passed {
			t.Errorf("%s: %d requests passed", c.format, got)
		}
	}
	if len(l.byBlock) > maxPings {
		t.Errorf("%d blocks are remembered", len(l.byBlock))
	}
	if now = now.Add(pingWindow); took(1, "192.0.2.%d") != 1 {
		t.Error("refused in the next minute")
	}
}

// The limit of a caller holds over HTTP, and behind a reverse proxy on this machine for the caller that it names.
func TestACallerOfTooManyPingsIsRefused(t *testing.T) {
	calls := &hubCalls{}
	server := httptest.NewServer(NewCallbackServer(calls, slog.New(slog.DiscardHandler)))
	defer server.Close()
	post := func(forwarded string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+PingPath, strings.NewReader("url=http://a.example/"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", formType)
		r.Header.Set("X-Forwarded-For", forwarded)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for range maxPingsPerBlock {
		if got := post("192.0.2.1"); got != 200 {
			t.Fatalf("answered %d", got)
		}
	}
	if one, other := post("198.51.100.1, 192.0.2.2"), post("192.0.2.1, 198.51.100.1"); one != 429 || other != 200 || len(calls.got) != maxPingsPerBlock+1 {
		t.Errorf("answered %d and %d; %d hints", one, other, len(calls.got))
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.RemoteAddr = "198.51.100.7:1"
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	if got := pingCaller(r).String(); got != "198.51.100.7" {
		t.Errorf("another machine pretends to be %s", got)
	}
}

// FuzzPing checks that any announcement yields few canonical addresses, or none.
func FuzzPing(f *testing.F) {
	f.Add("text/xml", []byte(call("weblogUpdates.extendedPing", "A", "http://a.example/", "http://a.example/feed")))
	f.Add("text/xml", []byte(`<?xml version="1.0" encoding="utf-16"?><methodCall><methodName>rssCloud.ping</methodName>`))
	f.Add(formType, []byte("url=http://a.example/&url=page%2Bhttp://a.example/"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		p, err := parsePing(kind, body)
		if err != nil && len(p.addresses) > 0 || len(p.addresses) > maxPingAddresses {
			t.Errorf("%v, %v", p, err)
		}
		for _, address := range p.addresses {
			if again, err := feed.Canonical(address); err != nil || again != address {
				t.Errorf("%q: %q, %v", address, again, err)
			}
		}
	})
}
