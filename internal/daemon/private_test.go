package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/proxy"
)

// A lockedOrigin serves a feed to those who know its password, or a token in its address, or a header.
type lockedOrigin struct {
	*httptest.Server
	mu    sync.Mutex
	items int
	asked int // requests that were answered with the feed
}

const (
	lockedUser, lockedPassword = "ann", "geheim-4711"
	lockedToken                = "schluessel-0815"
	lockedCookie               = "kekskrume-2342"
)

func newLockedOrigin(t *testing.T) *lockedOrigin {
	o := &lockedOrigin{items: 1}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *lockedOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if r.URL.Path != "/shared.xml" && (user != lockedUser || password != lockedPassword) && r.URL.Query().Get("key") != lockedToken && r.Header.Get("Cookie") != "sid="+lockedCookie {
		w.Header().Set("WWW-Authenticate", `Basic realm="feeds"`)
		http.Error(w, "wrong: "+password, http.StatusUnauthorized)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	tag := fmt.Sprintf(`"%d"`, o.items)
	w.Header().Set("Etag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = fmt.Fprintf(w, `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>Invoices</title><link>https://shop.example/</link><description/><atom:link rel="self" href="http://%s%s"/>`, r.Host, strings.ReplaceAll(r.URL.String(), "&", "&amp;"))
	for i := o.items; i > 0; i-- {
		_, _ = fmt.Fprintf(w, `<item><guid isPermaLink="false">%d</guid><title>Invoice %d</title></item>`, i, i)
	}
	_, _ = io.WriteString(w, `</channel></rss>`)
}

func (o *lockedOrigin) publish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items++
}

// address returns an address of the origin with a user name and a password.
func (o *lockedOrigin) address(user, password string) string {
	return strings.Replace(o.URL, "http://", "http://"+user+":"+password+"@", 1) + "/feed.xml"
}

// api posts a request to a node's API, and returns the status and the answer, whatever it is.
func (m *member) api(t *testing.T, method, what, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.HTTPAddr().String()+what, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tidings", "1")
	r.Header.Set("Tidings-Token", m.dataDir.apiToken)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "url=") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(b)
}

// frames collects the frames that a node gets.
type frames struct {
	mu  sync.Mutex
	all strings.Builder
	n   int
}

// record runs a node as Run does, and collects the frames that it gets from its peers.
func (m *member) record(t *testing.T) *frames {
	t.Helper()
	got := &frames{}
	ctx, end := context.WithCancel(t.Context())
	if err := m.join(ctx); err != nil {
		t.Fatal(err)
	}
	events := m.events()
	receive := events.Receive
	events.Receive = func(from env.PeerID, class env.Class, frame []byte) bool {
		got.mu.Lock()
		got.all.Write(frame)
		got.n++
		got.mu.Unlock()
		return receive(from, class, frame)
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(m.stopped)
		_ = m.loop.Run(ctx, m.node)
	})
	parts.Go(func() { _ = m.host.Run(ctx, events) })
	parts.Go(func() { _ = m.fetch.Run(ctx) })
	m.end = func() { end(); parts.Wait() }
	return got
}

// A feed behind a password is read, gets a new item, and survives a restart. Its secrets are in its own file, which
// only its owner can read, and nowhere else: not in logs, lists, pages, metrics, other files, or frames to peers.
func TestPrivateFeedStaysPrivate(t *testing.T) {
	t.Parallel()
	o := newLockedOrigin(t)
	network := laboratory("private")
	network.PollInterval = time.Second
	config := Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true}
	config.SubscribeOnRead = "first"
	a := running(t, config)
	first := a.awaitMembers(t, 1)
	b := opened(t, Config{Dir: t.TempDir(), Bootstrap: first.Addrs, AllowPrivateOrigins: true})
	peer := b.record(t)
	a.awaitMembers(t, 2)
	// A shared feed shows that frames about feeds would be seen.
	a.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, o.URL+"/shared.xml"), new(proxy.SubscribeMessage))

	secrets := []string{lockedPassword, lockedToken, lockedCookie, "YW5uOmdlaGVpbS00NzEx"}
	var pages strings.Builder // all that the node shows, except where it is asked for the feed itself
	ask := func(m *member, method, path, body string) (int, string) {
		status, answer := m.api(t, method, path, body)
		pages.WriteString(answer)
		return status, answer
	}

	status, answer := ask(a, "POST", "/api/v1/subscribe", fmt.Sprintf(`{"url":%q}`, o.address(lockedUser, "falsch-0000")))
	if status != http.StatusNotFound || !strings.Contains(answer, "does not accept the user name and the password (401)") || strings.Contains(answer, "falsch") {
		t.Errorf("a wrong password is told as %d %s", status, answer)
	}
	var feeds []proxy.SubscribeMessage
	for _, request := range []string{
		fmt.Sprintf(`{"url":%q,"tags":["shop"]}`, o.address(lockedUser, lockedPassword)),
		fmt.Sprintf(`{"url":%q,"private":true}`, o.URL+"/token.xml?key="+lockedToken),
		fmt.Sprintf(`{"url":%q,"headers":{"cookie":"sid=%s"}}`, o.URL+"/cookie.xml", lockedCookie),
	} {
		var done proxy.SubscribeMessage
		status, answer := ask(a, "POST", "/api/v1/subscribe", request)
		if err := json.Unmarshal([]byte(answer), &done); err != nil || status != http.StatusOK || !done.Private || done.Already || done.Warning != "" {
			t.Fatalf("%d %s", status, answer)
		}
		feeds = append(feeds, done)
	}
	read := func(m *member, f proxy.SubscribeMessage) string {
		path := f.ReadURL[strings.Index(f.ReadURL, "/private/"):]
		return m.get(t, path)
	}
	shows := func(m *member, n int) {
		t.Helper()
		for _, f := range feeds {
			within(t, awaitTimeout, "invoice", func() error {
				got := read(m, f)
				for _, s := range secrets {
					if strings.Contains(got, s) {
						t.Fatalf("%s is in the feed %s", s, got)
					}
				}
				if !strings.Contains(got, fmt.Sprintf("Invoice %d<", n)) {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			})
		}
	}
	shows(a, 1)
	o.publish()
	shows(a, 2)
	if got := a.get(t, feeds[0].ReadURL[strings.Index(feeds[0].ReadURL, "/private/"):]+"?format=json&limit=1"); !strings.HasPrefix(got, "{") || strings.Contains(got, "Invoice 1") {
		t.Errorf("as JSON it is %s", got)
	}

	// A reader that asks for the secret address itself gets the feed, and the node does not begin to share it.
	if got := a.get(t, "/"+o.URL+"/token.xml?key="+lockedToken); !strings.Contains(got, "Invoice 2") {
		t.Errorf("by its own address it is %s", got)
	}
	if got := a.subscribedURLs(t); strings.Contains(got, "/token.xml") {
		t.Errorf("reading subscribed: %s", got)
	}

	// A list that has the secret address only describes the feed.
	if err := a.SubscribeAs(t.Context(), o.URL+"/token.xml?key="+lockedToken, proxy.Description{Title: "Bills"}); err != nil {
		t.Error(err)
	}
	if channels, err := a.List(t.Context()); err != nil || !slices.ContainsFunc(channels, func(c proxy.Channel) bool { return c.URL == feeds[1].URL && c.Title == "Bills" }) {
		t.Errorf("described by a list: %+v %v", channels, err)
	}
	if got := a.subscribedURLs(t); strings.Contains(got, "/token.xml") {
		t.Errorf("importing subscribed: %s", got)
	}

	check := func(m *member) {
		t.Helper()
		status, list := ask(m, "GET", "/api/v1/list", "")
		if n := strings.Count(list, `"private":true`); status != http.StatusOK || n != len(feeds) {
			t.Errorf("%d private feeds are listed: %s", n, list)
		}
		for _, path := range []string{"/", "/channels", "/network", "/metrics", "/api/v1/status", "/api/v1/doctor", "/opml", "/opml?rewrite=0", "/opml?private=1", "/show?url=" + feeds[0].URL} {
			if status, answer := ask(m, "GET", path, ""); status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, answer)
			}
		}
	}
	check(a)
	if _, list := ask(a, "GET", "/opml", ""); strings.Contains(list, "/private/") {
		t.Errorf("an exported list has private feeds without being asked: %s", list)
	}
	if _, list := ask(a, "GET", "/opml?private=1", ""); strings.Count(list, "/private/") != len(feeds) {
		t.Errorf("an exported list lacks private feeds: %s", list)
	}

	// A wrong password that comes later changes nothing, and neither does one in a list.
	if status, answer := ask(a, "POST", "/api/v1/subscribe", fmt.Sprintf(`{"url":%q}`, o.address(lockedUser, "falsch-1111"))); status != http.StatusNotFound || !strings.Contains(answer, "nothing is changed") {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := ask(a, "POST", "/api/v1/subscribe", fmt.Sprintf(`{"url":%q}`, o.address(lockedUser, lockedPassword))); status != http.StatusOK || !strings.Contains(answer, feeds[0].ReadURL) || !strings.Contains(answer, `"already":true`) {
		t.Errorf("subscribed again: %d %s", status, answer)
	}

	err := filepath.WalkDir(config.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		private := strings.HasPrefix(path, filepath.Join(config.Dir, privateFolder))
		info, err := e.Info()
		if private && err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		for _, s := range secrets {
			if !private && strings.Contains(string(text), s) {
				t.Errorf("%s is in %s", s, path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	a.stop(t)
	config.Found = nil
	again := running(t, config)
	shows(again, 2)
	o.publish()
	shows(again, 3)
	check(again)
	for _, address := range []string{feeds[0].URL, strings.Replace(feeds[1].ReadURL, a.HTTPAddr().String(), again.HTTPAddr().String(), 1), o.URL + "/cookie.xml"} {
		if status, answer := ask(again, "POST", "/api/v1/unsubscribe", fmt.Sprintf(`{"url":%q}`, address)); status != http.StatusOK {
			t.Errorf("unsubscribe from %s: %d %s", address, status, answer)
		}
	}
	if left, err := os.ReadDir(filepath.Join(config.Dir, privateFolder)); err != nil || len(left) != 0 {
		t.Errorf("after unsubscribing there are %v, %v", left, err)
	}

	peer.mu.Lock()
	defer peer.mu.Unlock()
	if peer.n == 0 || !strings.Contains(peer.all.String(), "/shared.xml") {
		t.Errorf("%d frames, none about the shared feed", peer.n)
	}
	for what, text := range map[string]string{"the log": a.log.String() + again.log.String(), "a page or an answer": pages.String(), "a frame": peer.all.String(), "the peer's log": b.log.String()} {
		for _, s := range append(secrets, "falsch", "/token.xml", "/cookie.xml") {
			if i := strings.Index(text, s); i >= 0 && !(what == "a page or an answer" && s == "/cookie.xml") {
				t.Errorf("%s is in %s: …%q…", s, what, text[max(0, i-100):min(len(text), i+100)])
			}
		}
	}
	for _, path := range []string{"/token.xml?key=" + lockedToken, "/cookie.xml", "/feed.xml"} {
		key := overlay.Key(network.Name, o.URL+path)
		if err := b.do(t.Context(), func() {
			if v, ok := b.node.Owners.View(key); ok {
				t.Errorf("the peer keeps a log of %s: %+v", path, v)
			}
		}); err != nil {
			t.Error(err)
		}
	}
}
