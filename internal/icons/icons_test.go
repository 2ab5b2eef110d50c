package icons

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/env"
)

const (
	png  = "\x89PNG\r\n\x1a\n0000"
	ico  = "\x00\x00\x01\x000000"
	svg  = `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`
	site = "https://harbour.example/news/"
)

// A web answers requests from a map, and notes them.
type web struct {
	pages map[string]string
	asked []string
}

func (w *web) get(_ context.Context, r env.Request) env.Answer {
	w.asked = append(w.asked, r.URL)
	body, ok := w.pages[r.URL]
	if !ok || !r.Robots {
		return env.Answer{Status: 404, FinalURL: r.URL}
	}
	return env.Answer{Status: 200, FinalURL: r.URL, Body: []byte(body)}
}

func TestAnIconIsFoundOnce(t *testing.T) {
	page := `<link rel="icon" href="wrong.html"><link rel="icon" href="/a.svg"><link rel="icon" href="https://cdn.example/b.png">`
	root := "https://harbour.example/"
	for name, c := range map[string]struct {
		pages map[string]string
		own   bool
		kind  string // "": none
		asked string // the last address, without the host
	}{
		"the page names one":        {map[string]string{site: page, site + "wrong.html": "<html>", root + "a.svg": svg}, false, "image/svg+xml", root + "a.svg"},
		"at another host":           {map[string]string{site: page, "https://cdn.example/b.png": png}, false, "image/png", "https://cdn.example/b.png"},
		"at a host that is barred":  {map[string]string{site: page, "https://cdn.example/b.png": png}, true, "", root + "favicon.ico"},
		"the page names none":       {map[string]string{site: "<p>", root + "favicon.ico": ico}, false, "image/x-icon", root + "favicon.ico"},
		"there is no page":          {map[string]string{root + "favicon.ico": ico}, false, "image/x-icon", root + "favicon.ico"},
		"it is no picture":          {map[string]string{root + "favicon.ico": "<html>not found"}, false, "", root + "favicon.ico"},
		"it is too large":           {map[string]string{root + "favicon.ico": ico + strings.Repeat("0", maxIcon)}, false, "", root + "favicon.ico"},
		"there is nothing":          {nil, false, "", root + "favicon.ico"},
		"the page names too many":   {map[string]string{site: strings.Repeat(`<link rel="icon" href="1"><link rel="icon" href="2"><link rel="icon" href="3"><link rel="icon" href="4">`, 2), site + "4": png}, false, "", root + "favicon.ico"},
		"its address is no address": {map[string]string{site: `<link rel="icon" href="data:image/png;base64,AAAA"><link rel="icon" href="http://[">`}, false, "", root + "favicon.ico"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{pages: c.pages}
			s := New(filepath.Join(t.TempDir(), "icons"), w.get, c.own, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			go s.Run(ctx)
			if _, ok := s.Icon(site); ok {
				t.Errorf("%s: there is an icon at once", name)
			}
			synctest.Wait()
			icon, ok := s.Icon(site)
			asked := len(w.asked)
			if ok != (c.kind != "") || icon.Type != c.kind || len(w.asked) == 0 || w.asked[asked-1] != c.asked || asked > maxNamed+2 {
				t.Errorf("%s: %v, %q; asked %q", name, ok, icon.Type, w.asked)
			}
			s.Icon(site)
			synctest.Wait()
			if len(w.asked) != asked {
				t.Errorf("%s: the site is asked again", name)
			}
			old := time.Now().Add(-maxAge - time.Hour)
			if err := os.Chtimes(s.path(site), old, old); err != nil {
				t.Fatal(err)
			}
			if again, _ := s.Icon(site); again.Type != c.kind {
				t.Errorf("%s: an old icon is not shown", name)
			}
			synctest.Wait()
			if len(w.asked) != 2*asked {
				t.Errorf("%s: the site is not asked again after a month", name)
			}
			w.pages = nil
			if err := os.Chtimes(s.path(site), old, old); err != nil {
				t.Fatal(err)
			}
			s.Icon(site)
			synctest.Wait()
			asked = len(w.asked)
			if again, _ := s.Icon(site); again.Type != c.kind {
				t.Errorf("%s: an icon is lost when the site fails", name)
			}
			synctest.Wait()
			if len(w.asked) != asked {
				t.Errorf("%s: a site that fails is asked at once again", name)
			}
			cancel()
			synctest.Wait()
		})
	}
}

func TestSitesOfFeeds(t *testing.T) {
	for _, c := range [][3]string{
		{"https://harbour.example/feed.xml", "https://harbour.example/news", "https://harbour.example/news"},
		{"https://harbour.example/feed.xml", "https://other.example/", "https://harbour.example/"},
		{"https://harbour.example/feed.xml", "", "https://harbour.example/"},
		{"https://harbour.example/feed.xml", "https://user@harbour.example/", "https://harbour.example/"},
		{"https://harbour.example:8443/feed.xml", "javascript:1", "https://harbour.example:8443/"},
		{"private/abc", "https://harbour.example/", ""},
		{"https://user:x@harbour.example/feed.xml", "", ""},
	} {
		if got, ok := SiteOf(c[0], c[1]); got != c[2] || ok != (c[2] != "") {
			t.Errorf("%s with the home page %q: %q", c[0], c[1], got)
		}
	}
}

// The folder holds so many icons, and loses the oldest.
func TestTheFolderIsBounded(t *testing.T) {
	s := New(t.TempDir(), nil, false, slog.New(slog.DiscardHandler))
	begun := time.Now().Add(-time.Hour)
	for i := range maxIcons {
		path := s.path(fmt.Sprint(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at := begun.Add(time.Duration(i) * time.Millisecond)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.keep("new", []byte(png)); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(s.folder)
	if err != nil || len(files) != maxIcons-maxIcons/10+1 {
		t.Errorf("%d files, %v", len(files), err)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name()
	}
	if !slices.Contains(names, filepath.Base(s.path("new"))) || slices.Contains(names, filepath.Base(s.path("0"))) || !slices.Contains(names, filepath.Base(s.path(fmt.Sprint(maxIcons-1)))) {
		t.Error("another icon than the oldest is lost")
	}
}

// Sites that come while many wait are looked for later.
func TestTheQueueIsBounded(t *testing.T) {
	s := New(t.TempDir(), nil, false, slog.New(slog.DiscardHandler))
	for i := range maxWaiting + 10 {
		s.Icon(fmt.Sprint(i))
		s.Icon(fmt.Sprint(i))
	}
	if len(s.wanted) != maxWaiting || len(s.pending) != maxWaiting {
		t.Errorf("%d and %d wait", len(s.wanted), len(s.pending))
	}
}

func FuzzTypes(f *testing.F) {
	for _, body := range []string{png, ico, svg, "<!-- a --><svg", "<html><svg>", "GIF89a"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if kind := typeOf(body); kind != "" && (!strings.HasPrefix(kind, "image/") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<html"))) {
			t.Errorf("%q is %s", body, kind)
		}
	})
}
