package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rsc.io/qr"
)

// A node without subscriptions says what to do first, and offers the lists of other readers, which it reads when it is
// told to.
func TestFirstSteps(t *testing.T) {
	dir := t.TempDir()
	urls, missing, secret := filepath.Join(dir, "urls"), filepath.Join(dir, "feedlist.opml"), filepath.Join(dir, "secret")
	for _, path := range []string{urls, secret} {
		if err := os.WriteFile(path, []byte(rssURL+" News\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newTestServer(t, func(c *Config) {
		c.ReaderLists = []ReaderList{{"newsboat", urls}, {"Liferea", missing}, {"a folder", dir}}
	})
	for _, path := range []string{"/", listsPath} {
		page := body(t, b.ask("GET", path))
		if strings.Count(page, `name="found"`) != 1 || !strings.Contains(page, "newsboat</h3>") {
			t.Errorf("%s offers other lists: %s", path, page)
		}
		if found := activeParts(t, page); len(found) > 0 {
			t.Errorf("active: %q", found)
		}
	}
	if page := body(t, b.ask("GET", "/")); !strings.Contains(page, "First steps") || strings.Contains(page, `class="numbers"`) {
		t.Errorf("a node without subscriptions: %s", page)
	}
	choose := func(path string) *http.Response {
		return b.send(request("POST", importPath, strings.NewReader("found="+url.QueryEscape(path)), "Content-Type", "application/x-www-form-urlencoded"))
	}
	for _, path := range []string{secret, missing, dir} {
		if r := choose(path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if n := len(b.node.subscriptions()); n != 0 {
		t.Errorf("%d subscriptions before anything was chosen", n)
	}
	if page := b.imported(choose(urls).Header.Get("Location")); !strings.Contains(page, "1 new") {
		t.Errorf("the list of newsboat: %s", page)
	}
	if page := body(t, b.ask("GET", "/")); strings.Contains(page, "First steps") || strings.Contains(page, `name="found"`) || !strings.Contains(page, `class="numbers"`) {
		t.Errorf("a node with a subscription: %s", page)
	}
}

// A code is shown only for an address that other machines may reach, and has the modules of the library.
func TestCodesForPhones(t *testing.T) {
	b := newTestServer(t)
	b.node.subscribed[rssURL] = false
	if page := body(t, b.ask("GET", "/show?url="+rssURL)); strings.Contains(page, "<svg class=\"qr\"") || !strings.Contains(page, "A phone cannot reach this address") {
		t.Errorf("the address of this machine: %s", page)
	}
	b = newTestServer(t, func(c *Config) { c.BaseURL = "http://nas.example:8190" })
	b.node.subscribed[rssURL] = false
	page := body(t, b.ask("GET", "/show?url="+rssURL))
	path := regexp.MustCompile(`class="qr".* d="([^"]*)"`).FindStringSubmatch(page)
	if path == nil || !strings.Contains(page, "needs to reach nas.example") {
		t.Fatalf("the address of another machine: %s", page)
	}
	if found := activeParts(t, page); len(found) > 0 {
		t.Errorf("active: %q", found)
	}
	code, err := qr.Encode(b.server.ReadURL("http://nas.example:8190", rssURL), qr.M)
	if err != nil {
		t.Fatal(err)
	}
	black := map[[2]int]bool{}
	for _, part := range strings.Split(strings.TrimSuffix(path[1], "z"), "z") {
		var x, y, length, back int
		if _, err := fmt.Sscanf(part, "M%d %dh%dv1h-%d", &x, &y, &length, &back); err != nil || back != length {
			t.Fatalf("%q: %v", part, err)
		}
		for i := range length {
			black[[2]int{x + i - quietZone, y - quietZone}] = true
		}
	}
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) != black[[2]int{x, y}] {
				t.Fatalf("module %d, %d differs", x, y)
			}
		}
	}
	if got := qrCode(strings.Repeat("x", 3000), "a code"); got != "" {
		t.Errorf("an address that is too long has the code %.100s", got)
	}
}
