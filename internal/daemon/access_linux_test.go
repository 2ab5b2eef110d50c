package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"tidings/proxy"
)

// dialAs returns a dialler of another user of the machine. The system attributes a connection to the user of
// the thread that makes the socket.
func dialAs(user int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		made := make(chan struct{})
		go func() {
			defer close(made)
			runtime.LockOSThread() // never unlocked, so the thread ends with its user id
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
				err = errno
				return
			}
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
		}()
		<-made
		return conn, err
	}
}

// otherUser is the id of a user of the machine that does not run the node.
const otherUser = 12345

// TestAnotherUserNeedsTheToken makes requests as other users of the machine can. They reach the node's port
// but cannot read its files.
func TestAnotherUserNeedsTheToken(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another user's connections can be made by root alone")
	}
	t.Parallel()
	c := founding(t, "door")
	c.HTTP, c.TokenCopyDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "state")
	m := running(t, c)
	m.awaitMembers(t, 1)
	if err := m.Subscribe(t.Context(), "https://clinic.example/feed.xml", false); err != nil {
		t.Fatal(err)
	}
	ask := func(user int, method, path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.HTTPAddr().String()+path, strings.NewReader(`{"url":"https://clinic.example/feed.xml"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Tidings", "1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Tidings-Token", token)
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialAs(user)}}).Do(r)
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
		if status, said := ask(otherUser, a[0], a[1], ""); status != http.StatusUnauthorized || strings.Contains(said, "clinic") {
			t.Errorf("%s %s: %d %s", a[0], a[1], status, said)
		}
	}
	for _, path := range []string{"/", "/api/v1/list"} {
		if status, said := ask(os.Getuid(), "GET", path, ""); status != http.StatusOK || !strings.Contains(said, "clinic") {
			t.Errorf("the node's own user, GET %s: %d %s", path, status, said)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if status, said := ask(otherUser, "GET", path, ""); status != http.StatusOK || strings.Contains(said, "clinic") {
			t.Errorf("GET %s: %d %s", path, status, said)
		}
	}
	folder, err := os.Stat(c.TokenCopyDir)
	if err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", folder.Mode(), err)
	}
	copied := APITokenCopy(c.TokenCopyDir, m.HTTPAddr().String())
	for _, path := range []string{APITokenFile(c.Dir), copied} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		token, err := ReadToken(path)
		if err != nil {
			t.Fatal(err)
		}
		if status, said := ask(otherUser, "GET", "/api/v1/list", token); status != http.StatusOK || !strings.Contains(said, "clinic") {
			t.Errorf("with the token of %s: %d %s", path, status, said)
		}
	}
	m.stop(t)
	if _, err := os.Stat(copied); !os.IsNotExist(err) {
		t.Errorf("a node that has ended leaves %s: %v", copied, err)
	}
	m = running(t, Config{Dir: c.Dir, HTTP: "127.0.0.1:0"})
	m.awaitMembers(t, 1)
	var listed proxy.Subscribed
	m.post(t, "unsubscribe", `{"url":"https://clinic.example/feed.xml"}`, &listed)
}
