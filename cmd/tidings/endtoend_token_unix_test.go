//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"tidings/internal/longtest"
	"tidings/proxy"
)

// A publicFace is a web server on the Internet that passes the paths of searches on to a node, and a browser that visits it.
type publicFace struct {
	server *httptest.Server
	node   string // URL at which the node serves readers
	http   *http.Client
}

func newPublicFace(t *testing.T) *publicFace {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &publicFace{http: &http.Client{Jar: jar}}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(p.node)
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/k/") && !strings.HasPrefix(r.URL.Path, "/s/") {
			http.NotFound(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// visit sends a form, or asks for a page if there is none, and returns the status and the page.
func (p *publicFace) visit(t *testing.T, path string, form url.Values) (status int, page string) {
	t.Helper()
	method, kind := http.MethodGet, ""
	if form != nil {
		method, kind = http.MethodPost, "application/x-www-form-urlencoded"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	answer, err := p.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}

// search enters a token, makes a search, and returns the address of its feed.
func (p *publicFace) search(t *testing.T, token, query string) (address string) {
	t.Helper()
	if status, page := p.visit(t, "/s/enter", url.Values{"token": {token}}); status != http.StatusOK || !strings.Contains(page, `name="q"`) {
		t.Fatalf("enter the token: %d %s", status, page)
	}
	status, page := p.visit(t, "/s/watch", url.Values{"q": {query}})
	_, address, _ = strings.Cut(page, `<code class="address">`)
	address, _, ok := strings.Cut(address, "<")
	if status != http.StatusOK || !ok {
		t.Fatalf("make the search: %d %s", status, page)
	}
	return address
}

// runTokens runs a command of tokens at a node.
func runTokens(n *nodeProcess, name string, args ...string) (string, error) {
	var out strings.Builder
	err := command(context.Background(), append([]string{"token", name, "--http", n.http, "--data", n.dir}, args...), strings.NewReader(""), &out, io.Discard)
	return out.String(), err
}

// The operator creates a token. Somebody makes a search with it on the page that a reverse proxy shows to the Internet, and
// gets an article that comes later, also after the node was killed. When the operator has revoked the token, the address
// answers 410.
func TestTokensFromCommandToFeed(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := &articleOrigin{feeds: map[string][]string{"/sun": {"Old: nothing"}}}
	origin := httptest.NewServer(o)
	t.Cleanup(origin.Close)
	face := newPublicFace(t)
	flags := []string{"--allow-private-origins", "--base-url", face.server.URL, "--trusted-proxy", "127.0.0.1"}
	n := startNode(t, append([]string{"--network", "tokens", "--poll-interval", "1s", "--maintenance-interval", "20s", "--beat-interval", "20s"}, flags...)...)
	again := func() {
		n.kill()
		listen, _, _ := strings.Cut(n.peer, "/p2p/")
		n.flags = flags
		n.start(n.cmd.Path, n.http, listen)
		face.node = "http://" + n.http
	}
	face.node = "http://" + n.http
	n.subscribe(origin.URL + "/sun")
	out, err := runTokens(n, "create", "--name", "reading group", "--searches", "1", "--expires", "90d")
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(out)
	address := face.search(t, token, "solar battery")
	if !strings.HasPrefix(address, face.server.URL+"/k/") {
		t.Fatalf("the address is %s", address)
	}
	if status, page := face.visit(t, "/s/watch", url.Values{"q": {"wind"}}); status != http.StatusForbidden || !strings.Contains(page, "1 of 1") {
		t.Errorf("over quota: %d %s", status, page)
	}
	if out, err := runTokens(n, "change", "--searches", "2", "reading group"); err != nil || !strings.Contains(out, "The token reading group has 1 of 2 searches, and expires in") {
		t.Errorf("token change: %s, %v", out, err)
	}
	if out, err := runTokens(n, "change", "reading group"); err == nil {
		t.Errorf("token change without a limit: %s", out)
	}
	o.publish("/sun", "First: a solar panel and its battery")
	comes := func(title string) {
		t.Helper()
		eventually(t, timeout, title, func() error {
			f, _, err := readFeed(address)
			if err == nil && !strings.Contains(strings.Join(titles(f), "\n"), title) {
				err = fmt.Errorf("it has %q", titles(f))
			}
			return err
		})
	}
	comes("First")
	again()
	o.publish("/sun", "Second: a solar panel and its battery")
	comes("Second")
	if out, err := runTokens(n, "list"); err != nil || !strings.Contains(out, "reading group") || !strings.Contains(out, "1 of 2") || strings.Contains(out, token) {
		t.Errorf("token list: %s, %v", out, err)
	}
	if out, err := n.runCommand("watches"); err != nil || !strings.Contains(out, "made with the token") {
		t.Errorf("watches: %s, %v", out, err)
	}
	if out, err := n.runCommand("unwatch", "solar battery"); err == nil {
		t.Errorf("the operator ends the search of somebody else by its query: %s", out)
	}
	if out, err := runTokens(n, "revoke", "reading group"); err != nil || !strings.Contains(out, "1 search has ended") {
		t.Errorf("token revoke: %s, %v", out, err)
	}
	if r := mustGet(t, address, ""); r.StatusCode != http.StatusGone {
		t.Errorf("the address of a revoked token: %d", r.StatusCode)
	}
	again()
	if r := mustGet(t, address, ""); r.StatusCode != http.StatusGone {
		t.Errorf("the same after the node was killed: %d", r.StatusCode)
	}
	if out, err := runTokens(n, "revoke", "reading group"); err == nil {
		t.Errorf("a token is revoked twice: %s", out)
	}
}

// The searches of a token at a reflector are placed at its filter, and a revoked token leaves nothing there.
func TestTokensOfAReflector(t *testing.T) {
	longtest.Only(t, "seven processes")
	c := startCentre(t, "wait")
	queries := func(name string, want int) {
		t.Helper()
		eventually(t, timeout, fmt.Sprintf("%d queries at %s", want, name), func() error {
			s, err := askJSON[proxy.Status](c.nodes[name], "status")
			if err == nil && s.Hosting.Queries != want {
				err = fmt.Errorf("%d", s.Hosting.Queries)
			}
			return err
		})
	}
	reflector := c.nodes["reflector-1"]
	face := newPublicFace(t)
	reflector.stop()
	reflector.flags = append(reflector.flags, "--base-url", face.server.URL, "--trusted-proxy", "127.0.0.1")
	c.again(reflector)
	face.node = "http://" + reflector.http
	out, err := runTokens(reflector, "create")
	if err != nil {
		t.Fatal(err)
	}
	queries("filter-1-1", 2)
	address := face.search(t, strings.TrimSpace(out), centreWords[0]+" nothing")
	same := face.search(t, strings.TrimSpace(out), centreWords[0])
	queries("filter-1-1", 3)
	c.publish(3, 1000)
	for _, at := range []string{address, same} {
		eventually(t, timeout, "the article", func() error {
			f, _, err := readFeed(at)
			if err == nil && len(f.Items) != 1 {
				err = fmt.Errorf("%d articles", len(f.Items))
			}
			return err
		})
	}
	list, err := runTokens(reflector, "list")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := runTokens(reflector, "revoke", strings.Fields(strings.SplitN(list, "\n", 3)[1])[0]); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	queries("filter-1-1", 2)
	for _, at := range []string{address, same} {
		if r := mustGet(t, at, ""); r.StatusCode != http.StatusGone {
			t.Errorf("the address of a revoked token: %d", r.StatusCode)
		}
	}
	if missing := c.missing(t, "reflector-1"); len(missing) > 0 {
		t.Errorf("the searches of the operator lack %q", missing)
	}
}
