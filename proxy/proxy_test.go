package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/internal/check/checktest"
	"tidings/internal/feed"
)

// An incomplete address is refused with the part that is missing.
func TestIncompleteReadAddresses(t *testing.T) {
	b := newTestServer(t)
	for target, want := range map[string]string{
		"/f/" + rssURL: "the address lacks its token",
		"/feed":        "write /feed?url=",
	} {
		answer := b.ask("GET", target)
		if got := body(t, answer); answer.StatusCode < 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %q, want %q", target, answer.StatusCode, got, want)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rssURL  = "https://h.example/feed.xml"
	atomURL = "https://h.example/atom?a=1&b=2"
	jsonURL = "https://h.example/feed.json"
	host    = "127.0.0.1:8190"
	secret  = "0123456789abcdef"
)

// A testServer is a server of a node in memory, with a clock that stands still.
type testServer struct {
	*testing.T
	node   *memoryNode
	server *Server
	clock  time.Time
}

func newTestServer(t *testing.T, change ...func(*Config)) *testServer {
	b := &testServer{T: t, clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return b.clock }
	b.node = newMemoryNode(now)
	b.node.publish(t, rssURL, rssDoc(1, 2))
	b.node.publish(t, atomURL, `<feed xmlns="http://www.w3.org/2005/Atom"><title>An Atom</title><id>urn:f</id><updated>2026-01-02T03:04:05Z</updated>`+
		`<entry><title>One</title><id>urn:1</id><updated>2026-01-02T03:04:05Z</updated><x:y xmlns:x="urn:x">kept</x:y></entry></feed>`)
	b.node.publish(t, jsonURL, `{"version":"https://jsonfeed.org/version/1.1","title":"A JSON","items":[{"id":"1","content_text":"one"}]}`)
	config := Config{Secret: []byte(secret), Token: secret, News: memoryNews{}, Now: now, Version: "test"}
	for _, c := range change {
		c(&config)
	}
	b.server = New(b.node, config)
	return b
}

// rssDoc returns a feed with the items from, …, to.
func rssDoc(from, to int) string {
	var b strings.Builder
	b.WriteString(`<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>An RSS</title><link>https://h.example/</link><description>d</description>`)
	for i := to; i >= from; i-- {
		fmt.Fprintf(&b, "<item><title>Item %d</title><link>https://h.example/%d</link><guid>urn:item:%d</guid><media:x>kept  as it is</media:x></item>\n", i, i, i)
	}
	b.WriteString(`</channel></rss>`)
	return b.String()
}

// ask sends a request from this machine, with the node's token unless the headers contain another one. headers
// holds names and values in turn.
func (b *testServer) ask(method, target string, headers ...string) *http.Response {
	b.Helper()
	return b.send(request(method, target, nil, headers...))
}

// request returns a request as it arrives on a connection.
func request(method, target string, body io.Reader, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "/", body)
	r.RequestURI, r.Host, r.RemoteAddr = target, host, "127.0.0.1:40000"
	if u, err := r.URL.Parse(target); err == nil {
		r.URL = u
	}
	if !slices.Contains(headers, accessHeader) {
		r.Header.Set(accessHeader, secret)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func (b *testServer) send(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	return w.Result()
}

func (b *testServer) advance(d time.Duration) { b.clock = b.clock.Add(d) }

func (b *testServer) tokenTarget(url string) string {
	return tokenPath + b.server.tokens.token(url) + "/" + url
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	out, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestEveryFormOfAnAddressReadsItsFeed(t *testing.T) {
	for _, c := range []struct {
		name, target, url string
	}{
		{"bare", "/" + rssURL, rssURL},
		{"query of the origin", "/" + atomURL, atomURL},
		{"collapsed", "/https:/h.example/feed.xml", rssURL},
		{"feed scheme", "/feed:" + rssURL, rssURL},
		{"feed scheme, collapsed", "/feed:https:/h.example/feed.xml", rssURL},
		{"another case", "/HTTPS://H.EXAMPLE/feed.xml", rssURL},
		{"default port", "/https://h.example:443/feed.xml", rssURL},
		{"encoded", "/https%3A%2F%2Fh.example%2Ffeed.xml", rssURL},
		{"encoded with its query", "/https%3A%2F%2Fh.example%2Fatom%3Fa=1&b=2", atomURL},
		{"parameter", "/feed?url=https%3A%2F%2Fh.example%2Ffeed.xml", rssURL},
		{"parameter with a query", "/feed?url=https%3A%2F%2Fh.example%2Fatom%3Fa%3D1%26b%3D2", atomURL},
		{"absolute form, ours", "http://" + host + "/feed?url=" + rssURL, rssURL},
		{"absolute form, bare", "http://" + host + "/" + rssURL, rssURL},
		{"ours within ours", "/http://" + host + "/" + rssURL, rssURL},
		{"ours with a token within ours", "/http://" + host + "/f/0123/" + rssURL, rssURL},
		{"parameter within ours", "/http://" + host + "/feed?url=" + rssURL, rssURL},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTestServer(t)
			r := b.ask("GET", c.target)
			if text := body(t, r); r.StatusCode != 200 || !strings.Contains(text, "kept") {
				t.Fatalf("%d %s", r.StatusCode, text)
			}
			if len(b.node.subscriptions()) != 0 {
				t.Error("reading once subscribed")
			}
			// The address with a token reads the same, and subscribes.
			r = b.ask("GET", b.tokenTarget(c.url))
			if text := body(t, r); r.StatusCode != 200 || !strings.Contains(text, "kept") {
				t.Fatalf("with a token: %d %s", r.StatusCode, text)
			}
			if auto, ok := b.node.subscriptions()[c.url]; !ok || !auto {
				t.Error("reading with a token did not subscribe")
			}
		})
	}
}

func TestCollapsedFeedScheme(t *testing.T) {
	b := newTestServer(t)
	b.node.publish(t, "http://h.example/old", rssDoc(1, 1))
	for _, target := range []string{"/feed://h.example/old", "/feed:/h.example/old"} {
		if r := b.ask("GET", target); r.StatusCode != 200 {
			t.Errorf("%s: %d %s", target, r.StatusCode, body(t, r))
		}
	}
}

func TestMalformedRequestsGetClientErrors(t *testing.T) {
	b := newTestServer(t)
	loop := "/" + strings.Repeat("http://"+host+"/", 10) + rssURL
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/https://", 400},
		{"GET", "/https:", 400},
		{"GET", "/https://user:pw@h.example/f", 400},
		{"GET", "/https://h.example:99999/", 400},
		{"GET", "/feed", 400},
		{"GET", "/feed?url=", 400},
		{"GET", "/feed?url=ftp://h.example/", 400},
		{"GET", "/feed?url=%zz", 400},
		{"GET", "/feed?url=" + rssURL + "&format=xml", 400},
		{"GET", "/feed?url=" + rssURL + "&limit=0", 400},
		{"GET", "/feed?url=" + rssURL + "&limit=ten", 400},
		{"GET", "/f/", 400},
		{"GET", "/f/0123", 400},
		{"GET", "/f/00000000000000000000000000000000/" + rssURL, 404},
		{"GET", "/f/" + b.server.tokens.token(atomURL) + "/" + rssURL, 404},
		{"GET", loop, 400},
		{"GET", "/http://" + host + "/", 400},
		{"POST", "/" + rssURL, 405},
		{"OPTIONS", "/" + rssURL, 405},
		{"OPTIONS", "*", 400},
		{"CONNECT", "h.example:443", 405},
		{"GET", "/nothing", 404},
		{"GET", "/favicon.ico", 404},
		{"GET", "/robots.txt", 404},
		{"GET", "/api/v1/list", 403},
		{"DELETE", "/", 405},
		{"GET", "/subscribe", 405},
		{"GET", "/show?url=https://h.example/other", 404},
	} {
		r := b.ask(c.method, c.target)
		if r.StatusCode != c.status {
			t.Errorf("%s %.80s: %d, want %d", c.method, c.target, r.StatusCode, c.status)
		}
		if text := body(t, r); !strings.HasPrefix(text, "<!DOCTYPE") && strings.Count(text, "\n") != 1 {
			t.Errorf("%s %.80s: %q is not one line", c.method, c.target, text)
		}
		if r.StatusCode == 405 && c.method != "CONNECT" && r.Header.Get("Allow") == "" {
			t.Errorf("%s %.80s: no word of what is allowed", c.method, c.target)
		}
	}
	if b.node.reads != 0 || len(b.node.subscriptions()) != 0 {
		t.Errorf("they made the node read %d times and subscribe to %v", b.node.reads, b.node.subscriptions())
	}
}

func TestIconsAreNotFetchedAsFeeds(t *testing.T) {
	b := newTestServer(t)
	for _, target := range []string{"/https://h.example/favicon.ico", "/https://h.example/favicon.ico?v=2", "/https:/h.example/robots.txt", "/https://h.example/apple-touch-icon-120x120.png"} {
		if r := b.ask("GET", target); r.StatusCode != 404 {
			t.Errorf("%s: %d", target, r.StatusCode)
		}
	}
	if b.node.reads != 0 {
		t.Errorf("%d reads", b.node.reads)
	}
}

func TestErrorsOfTheNodeHaveTheirStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{ErrNotFeed, 502}, {ErrForbidden, 403}, {ErrNotFound, 404}, {ErrGone, 410}, {ErrUnreachable, 502},
		{ErrTimeout, 504}, {ErrBusy, 503}, {ErrFull, 507}, {ErrNoSubscription, 404}, {io.ErrUnexpectedEOF, 500},
	} {
		b := newTestServer(t)
		b.node.fail(rssURL, fmt.Errorf("poll %s:\r\nit was: %w", rssURL, c.err))
		r := b.ask("GET", b.tokenTarget(rssURL))
		if text := body(t, r); r.StatusCode != c.status || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.err.Error()) {
			t.Errorf("%v: %d %q, want %d", c.err, r.StatusCode, text, c.status)
		}
		if r.Header.Get("Cache-Control") != "no-store" || (c.status == 503) != (r.Header.Get("Retry-After") != "") {
			t.Errorf("%v: %v", c.err, r.Header)
		}
		if len(b.node.subscriptions()) != 0 {
			t.Errorf("%v: subscribed to what is no feed", c.err)
		}
	}
}

func TestFormatsAndLimits(t *testing.T) {
	b := newTestServer(t)
	for _, c := range []struct {
		url, extra, mediaType string
		format                feed.Format
		items                 int
	}{
		{rssURL, "", "application/rss+xml", feed.RSS, 2},
		{rssURL, "&format=atom", "application/atom+xml", feed.Atom, 2},
		{rssURL, "&format=json", "application/feed+json", feed.JSON, 2},
		{rssURL, "&limit=1", "application/rss+xml", feed.RSS, 1},
		{rssURL, "&limit=99999999", "application/rss+xml", feed.RSS, 2},
		{jsonURL, "", "application/feed+json", feed.JSON, 1},
		{jsonURL, "&format=rss", "application/rss+xml", feed.RSS, 1},
	} {
		r := b.ask("GET", "/feed?url="+c.url+c.extra)
		f, err := feed.Parse([]byte(body(t, r)), r.Header.Get("Content-Type"))
		if err != nil || f.Head.Format != c.format || len(f.Items) != c.items || !strings.HasPrefix(r.Header.Get("Content-Type"), c.mediaType) {
			t.Errorf("%s%s: %v, %v", c.url, c.extra, r.Header.Get("Content-Type"), err)
		}
		if want := "http://" + host + "/feed?url="; err == nil && f.Links.Self != "" && !strings.HasPrefix(f.Links.Self, want) {
			t.Errorf("%s%s: it says it is found at %q", c.url, c.extra, f.Links.Self)
		}
	}
}

// Output in the source's format is unchanged; converted output is sanitised.
func TestConvertedItemsAreSanitised(t *testing.T) {
	b := newTestServer(t)
	const acts = `a&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src="https://h.example/x.png" onerror="alert(2)"&gt;&lt;a href="javascript:alert(3)"&gt;b&lt;/a&gt; &lt;b&gt;c&lt;/b&gt;`
	b.node.publish(t, rssURL, `<rss version="2.0"><channel><title>T</title><link>https://h.example/</link><description/><item><guid>1</guid>`+
		`<title>One &lt;script&gt;alert(4)&lt;/script&gt;</title><link>javascript:alert(5)</link><description>`+acts+`</description>`+
		`<enclosure url="javascript:alert(6)" type="audio/mpeg" length="1"/></item></channel></rss>`)
	if text := body(t, b.ask("GET", "/"+rssURL)); !strings.Contains(text, acts) {
		t.Errorf("the source's bytes went out as %s", text)
	}
	for _, format := range []string{"atom", "json"} {
		text := body(t, b.ask("GET", "/feed?url="+rssURL+"&format="+format))
		for _, bad := range []string{"script", "alert", "onerror"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %s in %s", format, bad, text)
			}
		}
		f, err := feed.Parse([]byte(text), "")
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		m, err := f.Items[0].Meaning(rssURL)
		if said := m.Summary + m.Content; err != nil || m.Title != "One" || !strings.Contains(said, `x.png"`) || !strings.Contains(said, "<b>c</b>") {
			t.Errorf("%s: %v, %+v", format, err, m)
		}
	}
}

func TestOutputInTheSourcesFormatIsUnchanged(t *testing.T) {
	b := newTestServer(t)
	text := body(t, b.ask("GET", "/"+rssURL))
	for i := 1; i <= 2; i++ {
		if want := fmt.Sprintf("<guid>urn:item:%d</guid><media:x>kept  as it is</media:x></item>", i); !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Index(text, "Item 2") > strings.Index(text, "Item 1") {
		t.Error("the order changed")
	}
}

func TestHeadersDescribeFreshness(t *testing.T) {
	b := newTestServer(t)
	r := b.ask("GET", b.tokenTarget(rssURL), "Accept-Encoding", "gzip", "A-IM", "feed")
	h := r.Header
	for name, want := range map[string]string{
		"X-Tidings-Age": "0", "X-Tidings-State": "ok", "X-Tidings-Source": "subscription", "X-Tidings-Stale": "",
		"Cache-Control": "private, max-age=0", "Vary": "Accept-Encoding", "Content-Encoding": "gzip",
		"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
	}
	zipped, err := gzip.NewReader(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zipped)
	if err != nil || !bytes.Contains(text, []byte("Item 2")) {
		t.Errorf("%v: %s", err, text)
	}
	b.advance(90 * time.Second)
	b.node.makeStale(rssURL, "h.example does not\nanswer")
	r = b.ask("GET", "/"+rssURL)
	if h := r.Header; r.StatusCode != 200 || h.Get("X-Tidings-Age") != "90" || h.Get("X-Tidings-Stale") != "h.example does not answer" || h.Get("X-Tidings-State") != "unreachable" {
		t.Errorf("%d %v", r.StatusCode, h)
	}
}

func TestTheLastCopyIsServedWhenTheNodeFails(t *testing.T) {
	b := newTestServer(t)
	b.ask("GET", b.tokenTarget(rssURL))
	b.advance(time.Hour)
	b.node.fail(rssURL, ErrUnreachable)
	r := b.ask("GET", b.tokenTarget(rssURL))
	if r.StatusCode != 200 || r.Header.Get("X-Tidings-Stale") != ErrUnreachable.Error() || r.Header.Get("X-Tidings-Age") != "3600" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	b.node.fail(rssURL, ErrGone)
	if r := b.ask("GET", b.tokenTarget(rssURL)); r.StatusCode != 410 {
		t.Errorf("gone: %d", r.StatusCode)
	}
}

func TestHeadIsGetWithoutItsBody(t *testing.T) {
	b := newTestServer(t)
	for _, target := range []string{"/" + rssURL, "/", "/style.css"} {
		get, head := b.ask("GET", target), b.ask("HEAD", target)
		text := body(t, get)
		if head.StatusCode != 200 || body(t, head) != "" || head.Header.Get("Content-Length") != fmt.Sprint(len(text)) {
			t.Errorf("%s: %d %v", target, head.StatusCode, head.Header)
		}
		for name := range get.Header {
			if head.Header.Get(name) != get.Header.Get(name) {
				t.Errorf("%s: %s differs", target, name)
			}
		}
	}
}

func TestAFeedIsRenderedOncePerVersion(t *testing.T) {
	b := newTestServer(t)
	b.ask("GET", b.tokenTarget(rssURL))
	b.ask("GET", b.tokenTarget(rssURL)) // from now on a subscription
	reads := b.node.reads
	for range 5 {
		b.ask("GET", b.tokenTarget(rssURL))
	}
	if b.node.reads != reads {
		t.Errorf("%d reads of an unchanged feed", b.node.reads-reads)
	}
	b.node.publish(t, rssURL, rssDoc(1, 3))
	if text := body(t, b.ask("GET", b.tokenTarget(rssURL))); !strings.Contains(text, "Item 3") {
		t.Error("a new version is not seen")
	}
}

func TestManyReadersSeeWholeFeedsWhileTheyChange(t *testing.T) {
	b := newTestServer(t)
	target := b.tokenTarget(rssURL)
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for last := 0; last < 20; {
				w := httptest.NewRecorder()
				b.server.ServeHTTP(w, request("GET", target, nil))
				f, err := feed.Parse(w.Body.Bytes(), w.Header().Get("Content-Type"))
				if err != nil || len(f.Items) < last {
					t.Errorf("%v, %d items after %d", err, len(f.Items), last)
					return
				}
				last = len(f.Items)
			}
		})
	}
	for n := 3; n <= 20; n++ { // the first version had two
		b.node.publish(t, rssURL, rssDoc(1, n))
	}
	readers.Wait()
}

func TestConfigsAreChecked(t *testing.T) {
	valid := Config{Secret: []byte(secret), Token: secret, BaseURL: "http://nas.example:8190", SubscribeOnRead: "never"}
	checktest.Refuses(t, valid, map[string]func(*Config){
		"proxy: Secret has 15 bytes; it must have at least 16":                       func(c *Config) { c.Secret = c.Secret[:15] },
		"proxy: Token has 0 bytes; it must have at least 16":                         func(c *Config) { c.Token = "" },
		`proxy: BaseURL: base URL "nas.example": give http or https`:                 func(c *Config) { c.BaseURL = "nas.example" },
		"proxy: TrustedProxies has the prefix invalid Prefix; each must be valid":    func(c *Config) { c.TrustedProxies = make([]netip.Prefix, 1) },
		`proxy: SubscribeOnRead is "always"; it must be one of never, second, first`: func(c *Config) { c.SubscribeOnRead = "always" },
		"proxy: MaxArticles is -1; it must be at least 1":                            func(c *Config) { c.MaxArticles = -1 },
	})
}

func TestInvalidConfigPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a configuration without a secret passed")
		}
	}()
	New(newMemoryNode(time.Now), Config{})
}

func TestLRUForgetsByCostAndAge(t *testing.T) {
	c := newLRU[string, int](10)
	c.put("a", 1, 4)
	c.put("b", 2, 4)
	c.get("a")
	c.put("c", 3, 4) // b was unused for longest
	c.put("d", 4, 11)
	c.put("c", 5, 4)
	for key, want := range map[string]int{"a": 1, "b": 0, "c": 5, "d": 0} {
		if got, ok := c.get(key); got != want || ok != (want != 0) {
			t.Errorf("%s: %d, %v", key, got, ok)
		}
	}
}
