package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

// An articleOrigin is an origin of feeds to which the test adds articles.
type articleOrigin struct {
	mu    sync.Mutex
	feeds map[string][]string // texts of their articles by path, the oldest first
}

func (p *articleOrigin) publish(path, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feeds[path] = append(p.feeds[path], text)
}

// ServeHTTP writes Atom feeds, the newest article first. The first words of each text are its title.
func (p *articleOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, `<feed xmlns="http://www.w3.org/2005/Atom"><title>Feed %s</title><id>urn:feed:%s</id><updated>2026-01-02T03:04:05Z</updated>`, r.URL.Path, r.URL.Path)
	for i, text := range slices.Backward(p.feeds[r.URL.Path]) {
		title, _, _ := strings.Cut(text, ":")
		fmt.Fprintf(&b, `<entry><id>urn:article:%s:%d</id><title>%s</title><content type="html">%s</content></entry>`, r.URL.Path, i, title, "&lt;p&gt;"+text)
	}
	b.WriteString("</feed>")
	w.Header().Set("Content-Type", "application/atom+xml")
	_, _ = w.Write([]byte(b.String()))
}

// TestKeywordFeedsBesideTheirSources lets newsboat read feeds, and keyword feeds of one of eight nodes, which is
// killed meanwhile. Each matching article is in each keyword feed once, and also in its own feed. Searches that
// have ended cannot be read.
func TestKeywordFeedsBesideTheirSources(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	newsboat := checktest.Tool(t, "newsboat", "it is the reader of this test")
	sqlite := checktest.Tool(t, "sqlite3", "it reads newsboat's cache")
	o := &articleOrigin{feeds: map[string][]string{"/sun": {"Old news: of a solar battery"}, "/wind": {"Old news: of windmills"}}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)

	nodes := startNetwork(t, 8, "--network", "keywords", "--poll-interval", "1s", "--maintenance-interval", "20s", "--beat-interval", "20s")
	n := nodes[3]
	b := &newsboatHome{newsboat: newsboat, sqlite: sqlite, dir: t.TempDir(), address: map[string]string{}}
	for _, path := range []string{"/sun", "/wind"} {
		b.address[path] = n.subscribe(server.URL + path)
		eventually(t, timeout, "the first article", func() error {
			if c := n.list()[server.URL+path]; c.Items != 1 {
				return fmt.Errorf("%d items", c.Items)
			}
			return nil
		})
	}
	queries := map[string]func(text string) bool{
		"solar battery NOT advert": func(s string) bool {
			return strings.Contains(s, "solar") && strings.Contains(s, "battery") && !strings.Contains(s, "advert")
		},
		`"sea wind" OR title:moon*`: func(s string) bool {
			return strings.Contains(s, "sea wind") || strings.HasPrefix(s, "Moon")
		},
		"news feed:" + server.URL + "/wind": func(s string) bool {
			return strings.Contains(s, "News of the wind") || strings.Contains(s, "windmills")
		},
	}
	for q := range queries {
		out, err := n.runCommand("watch", q)
		if err != nil {
			t.Fatalf("watch %s: %v", q, err)
		}
		if again, err := n.runCommand("watch", q); err != nil || again != out {
			t.Errorf("watched twice, %s is at %s and at %s, %v", q, out, again, err)
		}
		b.address[q] = strings.TrimSpace(out)
	}
	b.configure(t)

	said := []string{"Old news: of a solar battery", "Old news: of windmills"} // articles that exist before are in their feed from the start
	publish := func(path, text string) {
		said = append(said, text)
		o.publish(path, text)
	}
	for round := range 3 {
		publish("/sun", fmt.Sprintf("Sun %d: a solar panel and its battery, bright", round))
		publish("/sun", fmt.Sprintf("Bargain %d: a solar battery, says this advert", round))
		publish("/wind", fmt.Sprintf("News of the wind %d: the sea wind blows", round))
		publish("/wind", fmt.Sprintf("Moonlight %d: nothing but the wind at sea", round))
		for q, matches := range queries {
			want := 0
			for _, text := range said {
				if matches(text) {
					want++
				}
			}
			eventually(t, timeout, "all that match "+q, func() error {
				f, _, err := readFeed(b.address[q])
				if err == nil && len(f.Items) != want {
					err = fmt.Errorf("%d articles, where %d match", len(f.Items), want)
				}
				return err
			})
		}
		for path := range o.feeds { // a matching article may arrive by another way and earlier than its feed
			eventually(t, timeout, "all of "+path, func() error {
				f, _, err := readFeed(b.address[path])
				if err == nil && len(f.Items) != len(o.feeds[path]) {
					err = fmt.Errorf("%d articles of %d", len(f.Items), len(o.feeds[path]))
				}
				return err
			})
		}
		if err := b.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if round == 1 {
			n.kill()
			n.restart()
			waitForMembers(t, nodes)
		}
	}
	for address := range b.address {
		want := []string{}
		for _, text := range slices.Concat(o.feeds["/sun"], o.feeds["/wind"]) {
			title, _, _ := strings.Cut(text, ":")
			matches := queries[address]
			if matches != nil && slices.Contains(said, text) && matches(text) || matches == nil && slices.Contains(o.feeds[address], text) {
				want = append(want, title)
			}
		}
		got, err := b.titles(t, address)
		slices.Sort(want)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s at newsboat: %q, %v, want %q", address, got, err, want)
		}
	}

	q := "solar battery NOT advert"
	r := mustGet(t, b.address[q], "")
	tag := r.Header.Get("Etag")
	if again := mustGet(t, b.address[q], tag); r.StatusCode != http.StatusOK || tag == "" || again.StatusCode != http.StatusNotModified {
		t.Errorf("read with ETag %s: %d, then %d", tag, r.StatusCode, again.StatusCode)
	}
	if out, err := n.runCommand("unwatch", b.address[q]); err != nil || !strings.Contains(out, "solar") {
		t.Errorf("unwatch: %s, %v", out, err)
	}
	if r := mustGet(t, b.address[q], tag); r.StatusCode != http.StatusGone {
		t.Errorf("what nobody watches is read: %d", r.StatusCode)
	}
	if out, err := n.runCommand("watches"); err != nil || strings.Contains(out, "solar") || strings.Count(out, "/k/") != 2 {
		t.Errorf("watches: %s, %v", out, err)
	}
}

// titles returns the titles of a feed's items in newsboat's cache.
func (b *newsboatHome) titles(t *testing.T, url string) ([]string, error) {
	c := exec.CommandContext(t.Context(), b.sqlite, "cache.db", "select title from rss_item where feedurl = '"+b.address[url]+"'")
	c.Dir = b.dir
	out, err := c.CombinedOutput()
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), err
}

// mustGet sends a GET request, and reads the answer.
func mustGet(t *testing.T, address, tag string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tag != "" {
		q.Header.Set("If-None-Match", tag)
	}
	a, err := (&http.Client{Timeout: 10 * time.Second}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a
}
