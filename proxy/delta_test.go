package proxy

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/feed"
)

const newsboatAgent = "newsboat/2.21.0 (Linux x86_64)"

// parsed returns the titles of a feed's items.
func parsed(t *testing.T, r *http.Response) (titles string) {
	t.Helper()
	reader := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if reader, err = gzip.NewReader(r.Body); err != nil {
			t.Fatal(err)
		}
	}
	r.Body = reader
	f, err := feed.Parse([]byte(body(t, r)), r.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Items {
		m, err := f.Items[i].Meaning(rssURL)
		if err != nil {
			t.Fatal(err)
		}
		titles += m.Title + " "
	}
	return titles
}

// A reader that is known to merge it gets what is new since the version that it has. Others get the whole feed.
func TestReadersThatMergeGetWhatIsNew(t *testing.T) {
	b := newTestServer(t)
	long := func(doc string) string {
		return strings.Replace(doc, "<description>d", "<description>"+strings.Repeat("d", 2*minGzip), 1)
	}
	b.node.publish(t, rssURL, rssDoc(1, 4))
	target := b.tokenTarget(rssURL)
	tags, zipped := []string{b.ask("GET", target).Header.Get("Etag")}, b.ask("GET", target, "Accept-Encoding", "gzip").Header.Get("Etag")
	b.node.publish(t, rssURL, rssDoc(1, 5))
	tags = append(tags, b.ask("GET", target).Header.Get("Etag"))
	b.node.publish(t, rssURL, strings.Replace(rssDoc(1, 6), "Item 2<", "Edit 2<", 1))
	now := b.ask("GET", target).Header.Get("Etag")
	const whole = "Item 6 Item 5 Item 4 Item 3 Edit 2 Item 1 "
	for _, c := range []struct {
		name    string
		agent   string
		headers []string
		status  int
		titles  string
	}{
		{"newsboat", newsboatAgent, []string{"If-None-Match", tags[1]}, 226, "Item 6 Edit 2 "},
		{"another node", "tidings/0.1 (3 subscribers)", []string{"If-None-Match", tags[0]}, 226, "Item 6 Item 5 Edit 2 "},
		{"compressed", newsboatAgent, []string{"If-None-Match", zipped, "Accept-Encoding", "gzip"}, 226, "Item 6 Item 5 Edit 2 "},
		{"a list of tags", newsboatAgent, []string{"If-None-Match", `"x", ` + tags[0]}, 226, "Item 6 Item 5 Edit 2 "},
		{"also by time", newsboatAgent, []string{"If-None-Match", tags[1], "If-Modified-Since", "Fri, 20 Nov 2026 11:00:00 GMT"}, 226, "Item 6 Edit 2 "},
		{"another reader", "rss2email/3.13.1", []string{"If-None-Match", tags[1]}, 200, whole},
		{"no name", "", []string{"If-None-Match", tags[1]}, 200, whole},
		{"a name within another", "like newsboat/2.21", []string{"If-None-Match", tags[1]}, 200, whole},
		{"no version", newsboatAgent, nil, 200, whole},
		{"an unknown version", newsboatAgent, []string{"If-None-Match", `"x"`}, 200, whole},
		{"by time alone", newsboatAgent, []string{"If-Modified-Since", "Fri, 20 Nov 2026 11:00:00 GMT"}, 200, whole},
		{"the present version", newsboatAgent, []string{"If-None-Match", now}, 304, ""},
		{"any version", newsboatAgent, []string{"If-None-Match", "*"}, 304, ""},
	} {
		for asked, understood := range map[string]bool{"feed": true, "vcdiff;q=0.3, FEED ; q=0.5": true, "feed;q=0": false, "vcdiff": false, "": false} {
			status, titles := c.status, c.titles
			if status == 226 && !understood {
				status, titles = 200, whole
			}
			r := b.ask("GET", target, append([]string{"User-Agent", c.agent, "A-IM", asked}, c.headers...)...)
			h := r.Header
			if r.StatusCode != status || status != 304 && parsed(t, r) != titles {
				t.Errorf("%s, A-IM %q: %d, want %d with %s", c.name, asked, r.StatusCode, status, titles)
			}
			im, vary := "", "Accept-Encoding"
			if status == 226 {
				im, vary = "feed", "A-IM, If-None-Match, Accept-Encoding"
			}
			if h.Get("IM") != im || h.Get("Vary") != vary || status == 226 && !strings.HasPrefix(h.Get("Etag"), now[:20]) || h.Get("X-Tidings-State") != "ok" {
				t.Errorf("%s, A-IM %q: %v", c.name, asked, h)
			}
		}
	}
	// A change of the head alone, or a removal, is a whole feed.
	b.node.publish(t, rssURL, long(strings.Replace(rssDoc(2, 6), "Item 2<", "Edit 2<", 1)))
	if r := b.ask("GET", target, "User-Agent", newsboatAgent, "A-IM", "feed", "If-None-Match", now); r.StatusCode != 200 {
		t.Errorf("without a new entry: %d", r.StatusCode)
	}
	// Versions beyond the bound are forgotten.
	tag := b.ask("GET", target).Header.Get("Etag")
	for i := range maxPastVersions + 1 {
		r := b.ask("GET", target, "User-Agent", newsboatAgent, "A-IM", "feed", "If-None-Match", tag)
		if want := 226; i > 0 && r.StatusCode != want {
			t.Errorf("after %d versions: %d", i, r.StatusCode)
		}
		b.node.publish(t, rssURL, long(rssDoc(2, 7+i)))
	}
	if r := b.ask("GET", target, "User-Agent", newsboatAgent, "A-IM", "feed", "If-None-Match", tag); r.StatusCode != 200 || len(b.server.renderedOf(t, rssURL).past) != maxPastVersions {
		t.Errorf("of a version that is too old: %d", r.StatusCode)
	}
}

// renderedOf returns the rendering of a feed that a reader has just read.
func (s *Server) renderedOf(t *testing.T, url string) *rendered {
	t.Helper()
	f, ok := s.rendered.get("http://" + host + tokenPath + s.tokens.token(url) + "/" + url)
	if !ok {
		t.Fatal("nothing is rendered")
	}
	return f
}

// The real newsboat reads a feed that changes each time. It has all items and edits in the end, and has got parts.
func TestNewsboatMergesWhatIsNew(t *testing.T) {
	newsboat, err := exec.LookPath("newsboat")
	if err != nil {
		checktest.Lacks(t, "newsboat is not installed, the reader of this test: %v", err)
	}
	sqlite, err := exec.LookPath("sqlite3")
	if err != nil {
		checktest.Lacks(t, "sqlite3 is not installed, which reads newsboat's cache: %v", err)
	}
	b := newTestServer(t)
	var mu sync.Mutex // guards the server and statuses
	var statuses []int
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		mu.Lock()
		b.server.ServeHTTP(recorder, r)
		statuses = append(statuses, recorder.Code)
		mu.Unlock()
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	}))
	defer served.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"urls": served.URL + b.tokenTarget(rssURL), "config": "max-items 0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const rounds = 6
	for i := range rounds {
		doc := rssDoc(1, 2+i)
		if i > 0 {
			doc = strings.Replace(doc, "Item 2<", "Edit 2<", 1)
		}
		mu.Lock()
		b.node.publish(t, rssURL, doc)
		b.advance(time.Minute)
		mu.Unlock()
		c := exec.CommandContext(t.Context(), newsboat, "-u", "urls", "-c", "cache.db", "-C", "config", "-x", "reload")
		c.Dir, c.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("newsboat: %v: %s", err, out)
		}
	}
	c := exec.CommandContext(t.Context(), sqlite, filepath.Join(dir, "cache.db"), "select title from rss_item order by guid")
	out, err := c.CombinedOutput()
	if want := "Item 1\nEdit 2\nItem 3\nItem 4\nItem 5\nItem 6\nItem 7\n"; err != nil || string(out) != want {
		t.Errorf("newsboat has %q, %v", out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(statuses, http.StatusIMUsed) {
		t.Errorf("newsboat got the statuses %v", statuses)
	}
}
