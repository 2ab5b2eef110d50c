package daemon

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCopiesOfTokensAreFoundByAddress(t *testing.T) {
	home := APITokenCopy("/state", "127.0.0.1:8190")
	for _, same := range []string{":8190", "0.0.0.0:8190", "[::]:8190", "localhost:8190", "LOCALHOST:8190"} {
		if got := APITokenCopy("/state", same); got != home {
			t.Errorf("%s: %s, not %s", same, got, home)
		}
	}
	seen := map[string]bool{home: true}
	for _, other := range []string{"127.0.0.2:8190", "127.0.0.1:8191", "[::1]:8190", "192.168.1.7:8190"} {
		if got := APITokenCopy("/state", other); seen[got] || filepath.Dir(got) != "/state" {
			t.Errorf("%s: %s", other, got)
		}
		seen[APITokenCopy("/state", other)] = true
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
		if got, err := loadToken(path, "remove it"); err == nil && got != text {
			t.Errorf("%q, then %q", text, got)
		}
	})
}

func FuzzAccessCopy(f *testing.F) {
	for _, s := range []string{"127.0.0.1:8190", "[::1]:1", "../..:1", "a/b:c/d", ":", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if got := APITokenCopy("state", address); filepath.Dir(got) != "state" || !fs.ValidPath(filepath.ToSlash(got)) {
			t.Errorf("%q leads to %s", address, got)
		}
	})
}
