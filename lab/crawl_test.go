package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tidings/lab/crawl"
)

// writeTrace writes a trace of two documents an hour apart.
func writeTrace(t *testing.T, dir, name, ext, first, second string) {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(z)
	for _, f := range [][2]string{
		{"times.csv", "file,time\n0001" + ext + ",2026-01-01T10:00:00Z\n0002" + ext + ",2026-01-01T11:00:00Z\n"},
		{"0001" + ext, first}, {"0002" + ext, second},
	} {
		if err := archive.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".tar.zst"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCrawl(t *testing.T) {
	dir := t.TempDir()
	if code, _, err := lab(t, "bench", "crawl", "--data", dir); code != exitFailed || !strings.Contains(err, "has no traces") {
		t.Errorf("an empty folder: exit %d, %q", code, err)
	}
	if code, _, err := lab(t, "bench", "crawl", "--every", "0s"); code != exitUsage || !strings.Contains(err, "must be more than zero") {
		t.Errorf("no time between polls: exit %d, %q", code, err)
	}
	rss := func(items string) string {
		return `<rss version="2.0"><channel><title>A</title><link>http://a/</link><description/>` + items + `</channel></rss>`
	}
	one := "<item><guid>1</guid><title>One</title></item>"
	writeTrace(t, dir, "feed", ".xml", rss(one), rss(one+"<item><guid>2</guid><title>Two</title></item>"))
	writeTrace(t, dir, "page", ".html", "<html>a</html>", "<html>b</html>")
	figures := filepath.Join(t.TempDir(), "figures")
	code, out, err := lab(t, "bench", "crawl", "--data", dir, "--every", "1m", "--json", "--out", figures)
	var got struct {
		Runs   []crawl.Run      `json:"runs"`
		Traces []crawl.Trace    `json:"traces"`
		Feeds  crawl.Properties `json:"properties"`
		Files  []string         `json:"files"`
	}
	if code != exitDone || err != "" || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("exit %d, %q, %s", code, err, out)
	}
	if len(got.Traces) != 1 || got.Traces[0].Items != 2 || len(got.Runs) != 4 || got.Runs[0].Mode != crawl.Full || got.Runs[3].Passed >= got.Runs[1].Passed {
		t.Errorf("found %s", out)
	}
	if got.Feeds.Feeds != 1 || got.Feeds.FeedItems.Median != 2 || len(got.Files) != 2 {
		t.Errorf("%+v, files %v", got.Feeds, got.Files)
	}
	for i, label := range []string{"milliseconds", "full: 100 %"} {
		if b, err := os.ReadFile(got.Files[i]); err != nil || !bytes.Contains(b, []byte("of Cobra")) || !bytes.Contains(b, []byte(label)) {
			t.Errorf("%s: %v, %s", got.Files[i], err, b)
		}
	}
	if code, out, _ := lab(t, "bench", "crawl", "--data", dir, "--every", "1m"); code != exitDone || !strings.Contains(out, "item-hash") || !strings.Contains(out, " met") {
		t.Errorf("exit %d, %s", code, out)
	}
}
