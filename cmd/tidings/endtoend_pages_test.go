package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
)

const (
	pageInterval = 2 * time.Second
	pageHold     = pageInterval + 400*time.Millisecond
)

// pageEvery says that every n-th snapshot of a real page is replayed, besides those with a change.
func pageEvery() int { return longtest.Pick(40, 5) }

// watchedPages lists pages of the traces on which the engine makes no error: it reports exactly the labelled
// changes (go -C lab run . eval difference).
var watchedPages = []string{"ota-dating-bumble-terms-of-service", "ota-dating-bumble-community-guidelines", "ota-dating-happn-terms-of-service"}

// A watchedPage is a page as the origin serves it, with the number of its changes.
type watchedPage struct {
	name      string
	snapshots []script.Snapshot
	changes   int
	url       string
}

// TestPagesAreFollowedByRealReaders lets nodes follow pages of real origins, full of scripts and nonces. Readers
// see each labelled change as an entry, once, and nothing else. A page with a feed leads to its feed, and one
// without a feed can be followed itself. It runs beside no other test of the package, because its pages change by the clock.
func TestPagesAreFollowedByRealReaders(t *testing.T) {
	skipIfShort(t)
	newsboat := checktest.Tool(t, "newsboat", "it is the reader of this test")
	sqlite := checktest.Tool(t, "sqlite3", "it reads newsboat's cache")
	pages := pagesToWatch(t)

	nodes := startNetwork(t, longtest.Pick(5, 8), "--network", "pages",
		"--poll-interval", pageInterval.String(), "--maintenance-interval", "20s", "--beat-interval", "20s")
	first := nodes[0]
	o := newTestOrigin(t)
	most := 0
	for i, p := range pages {
		path := fmt.Sprintf("/%d/%s", i, p.name)
		o.Play(path, script.NewReplay(p.snapshots))
		p.url = o.url + path
		most = max(most, len(p.snapshots))
	}

	// Subscribing to a page without a feed says how to follow it.
	if out, err := first.runCommand("subscribe", pages[0].url); err == nil || !strings.Contains(err.Error(), "tidings subscribe page+"+pages[0].url) {
		t.Errorf("subscribed to a page: %s, %v", out, err)
	}
	// Subscribing to a page with a feed subscribes to the feed.
	o.Play("/blog/", script.NewReplay([]script.Snapshot{{ContentType: "text/html", Body: []byte(
		`<title>A blog</title><link rel="alternate" type="application/rss+xml" href="feed.xml"><p>Hello`)}}))
	o.Play("/blog/feed.xml", script.NewLively(script.Config{Every: time.Hour}))
	if out, err := first.runCommand("subscribe", o.url+"/blog/"); err != nil || !strings.HasSuffix(strings.TrimSpace(out), "/"+o.url+"/blog/feed.xml") {
		t.Errorf("subscribed to a page with a feed: %s, %v", out, err)
	}
	if out, err := first.runCommand("unsubscribe", o.url+"/blog/feed.xml"); err != nil {
		t.Errorf("unsubscribed from it: %s, %v", out, err)
	}
	var boats []*newsboatHome
	for i, n := range nodes {
		b := &newsboatHome{newsboat: newsboat, sqlite: sqlite, dir: t.TempDir(), address: map[string]string{}}
		for _, p := range pages {
			b.address[p.url] = n.subscribe("page+" + p.url)
		}
		if i < 2 {
			b.configure(t)
			boats = append(boats, b)
		}
	}
	if out, err := first.runCommand("unsubscribe", pages[0].url); err == nil || !strings.Contains(err.Error(), "but to page+"+pages[0].url) {
		t.Errorf("unsubscribed from a page as if it were a feed: %s, %v", out, err)
	}
	for _, n := range nodes {
		eventually(t, 2*timeout, "the first version", func() error {
			for _, c := range n.list() {
				if c.State != "ok" || c.Kind != "page" || c.Items != 0 || c.Title == "" {
					return fmt.Errorf("%s: %s %s %q, %d items %s", c.URL, c.Kind, c.State, c.Title, c.Items, c.Error)
				}
			}
			return nil
		})
	}

	end := o.cue().Add(time.Duration(most) * pageHold)
	for again := time.Tick(5 * pageInterval); time.Now().Before(end); <-again {
		for i, b := range boats {
			if err := b.reload(t.Context()); err != nil {
				t.Fatalf("reader %d: %v", i, err)
			}
		}
	}
	for _, p := range pages {
		for i, b := range boats {
			eventually(t, timeout, "all changes", func() error {
				f, _, err := readFeed(b.address[p.url])
				if err == nil && len(f.Items) != p.changes {
					err = fmt.Errorf("%s at reader %d: %d entries of %d changes", p.name, i, len(f.Items), p.changes)
				}
				if err == nil {
					var m feed.Meaning
					if m, err = f.Items[0].Meaning(""); err == nil && !strings.Contains(m.Content+m.Summary, "<ins>") {
						err = fmt.Errorf("%s: the entry does not show what came", p.name)
					}
				}
				return err
			})
		}
	}
	for i, b := range boats {
		if err := b.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, p := range pages {
			rows, err := b.itemGUIDs(t.Context(), p.url)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Sort(rows); len(rows) != p.changes || len(slices.Compact(rows)) != p.changes {
				t.Errorf("reader %d, %s: newsboat has %d entries of %d changes: %q", i, p.name, len(rows), p.changes, rows)
			}
		}
	}
	for _, p := range pages {
		t.Logf("%-40s %3d snapshots, %d changes, %d entries", p.name, len(p.snapshots), p.changes, p.changes)
	}
}

// pagesToWatch returns the pages of the traces, or synthetic ones if these are not available.
func pagesToWatch(t *testing.T) (pages []*watchedPage) {
	t.Helper()
	data := filepath.Join("..", "..", "..", "shared", "data")
	file, err := os.Open(filepath.Join(data, "ota_labels.csv"))
	switch {
	case os.Getenv("TIDINGS_NO_DATA") != "" || errors.Is(err, fs.ErrNotExist):
		t.Log("no real pages are at hand: made-up ones are played")
		for i := range watchedPages {
			pages = append(pages, syntheticPage(i))
		}
		return pages
	case err != nil:
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range watchedPages {
		p := &watchedPage{name: name}
		labelled := map[string]bool{}
		for _, row := range rows[1:] {
			if row[0] == name && row[2] == "text" {
				labelled[row[1]] = true
				p.changes++
			}
		}
		n := 0
		snapshots, err := origin.Trace(filepath.Join(data, "traces", name+".tar.zst"), func(f string) bool {
			if !strings.HasSuffix(f, ".html") {
				return false
			}
			n++
			return labelled[f] || n%pageEvery() == 1
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range snapshots {
			p.snapshots = append(p.snapshots, script.Snapshot{Body: s.Body, ContentType: s.ContentType, Hold: pageHold})
		}
		pages = append(pages, p)
	}
	return pages
}

// syntheticPage returns a page that changes its wording now and then, and its nonce always.
func syntheticPage(seed int) *watchedPage {
	p := &watchedPage{name: fmt.Sprintf("made-up-%d", seed)}
	for i := range longtest.Pick(11, 32) {
		if i > 0 && i%10 == 0 {
			p.changes++
		}
		var b strings.Builder
		fmt.Fprintf(&b, `<!doctype html><html><head><title>Page %d</title><script nonce="%d">var t = %d</script></head><body><nav><a href="/%d">Menu</a></nav><main>`, seed, i*7919, i, i)
		for j := range 10 {
			fmt.Fprintf(&b, "<p>Paragraph %s of page %d says what it says%s.</p>\n", strings.Repeat("i", j+1), seed, strings.Repeat(", and more", map[bool]int{true: p.changes}[j < p.changes]))
		}
		b.WriteString("</main></body></html>")
		p.snapshots = append(p.snapshots, script.Snapshot{Body: []byte(b.String()), ContentType: "text/html; charset=utf-8", Hold: pageHold})
	}
	return p
}
