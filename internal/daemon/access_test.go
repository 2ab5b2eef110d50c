package daemon

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tidings/proxy"
)

// TestAnotherUserNeedsTheToken asks a node as programs of other users of the machine do, who reach its
// port but not its files.
func TestAnotherUserNeedsTheToken(t *testing.T) {
	t.Parallel()
	c := founding(t, "door")
	c.HTTP, c.Access = "127.0.0.1:0", filepath.Join(t.TempDir(), "state")
	m := running(t, c)
	m.knows(t, 1)
	if err := m.Subscribe(t.Context(), "https://clinic.example/feed.xml", false); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.HTTPAddr().String()+path, strings.NewReader(`{"url":"https://clinic.example/feed.xml"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Tidings", "1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Tidings-Token", token)
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(body)
	}
	for _, a := range [][2]string{{"GET", "/api/v1/list"}, {"POST", "/api/v1/unsubscribe"}, {"GET", "/"}, {"GET", "/channels"}, {"GET", "/api/v1/opml"}, {"POST", "/api/v1/open"}} {
		if status, said := ask(a[0], a[1], ""); status != http.StatusUnauthorized || strings.Contains(said, "clinic") {
			t.Errorf("%s %s: %d %s", a[0], a[1], status, said)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, said := ask("GET", path, ""); status != http.StatusOK || strings.Contains(said, "clinic") {
			t.Errorf("GET %s: %d %s", path, status, said)
		}
	}
	folder, err := os.Stat(c.Access)
	if err != nil || runtime.GOOS != "windows" && folder.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", folder.Mode(), err)
	}
	copied := AccessCopy(c.Access, m.HTTPAddr().String())
	for _, path := range []string{AccessFile(c.Dir), copied} {
		info, err := os.Stat(path)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		token, err := ReadToken(path)
		if err != nil {
			t.Fatal(err)
		}
		if status, said := ask("GET", "/api/v1/list", token); status != http.StatusOK || !strings.Contains(said, "clinic") {
			t.Errorf("with the token of %s: %d %s", path, status, said)
		}
	}
	m.stop(t)
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("a node that has ended leaves %s: %v", copied, err)
	}
	m = running(t, Config{Dir: c.Dir, HTTP: "127.0.0.1:0"})
	m.knows(t, 1)
	var listed proxy.Subscribed
	m.tell(t, "unsubscribe", `{"url":"https://clinic.example/feed.xml"}`, &listed)
}

func TestCopiesOfTokensAreFoundByAddress(t *testing.T) {
	home := AccessCopy("/state", "127.0.0.1:8190")
	for _, same := range []string{":8190", "0.0.0.0:8190", "[::]:8190", "localhost:8190", "LOCALHOST:8190"} {
		if got := AccessCopy("/state", same); got != home {
			t.Errorf("%s: %s, not %s", same, got, home)
		}
	}
	seen := map[string]bool{home: true}
	for _, other := range []string{"127.0.0.2:8190", "127.0.0.1:8191", "[::1]:8190", "192.168.1.7:8190"} {
		if got := AccessCopy("/state", other); seen[got] || filepath.Dir(got) != "/state" {
			t.Errorf("%s: %s", other, got)
		}
		seen[AccessCopy("/state", other)] = true
	}
}

func FuzzToken(f *testing.F) {
	f.Add([]byte(strings.Repeat("A", secretSize) + "\n"))
	f.Add([]byte("short"))
	f.Add([]byte(strings.Repeat("\x00", 64)))
	f.Add([]byte(strings.Repeat("B", maxToken+1)))
	path := filepath.Join(f.TempDir(), "token")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := ReadToken(path)
		if err == nil && (len(text) < secretSize || len(text) > maxToken || fmt.Sprintf("%q", text) != `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+`"`) {
			t.Errorf("%q is read as %q", b, text)
		}
		if got, err := tokenAt(path, "remove it"); err == nil && got != text {
			t.Errorf("%q, then %q", text, got)
		}
	})
}

func FuzzAccessCopy(f *testing.F) {
	for _, s := range []string{"127.0.0.1:8190", "[::1]:1", "../..:1", "a/b:c/d", ":", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if got := AccessCopy("state", address); filepath.Dir(got) != "state" || !fs.ValidPath(filepath.ToSlash(got)) {
			t.Errorf("%q leads to %s", address, got)
		}
	})
}
