package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/adrg/xdg"

	"tidings/internal/daemon"
)

// another is a user of the machine who does not run the commands.
const another = 12345

// acceptAs is a listener whose connections another user of the machine accepts: the system counts a
// connection to the user of the thread that accepts it.
type acceptAs struct {
	net.Listener
	user int
}

func (l acceptAs) Accept() (conn net.Conn, err error) {
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(l.user), uintptr(l.user), uintptr(l.user)); errno != 0 {
			err = errno
			return
		}
		conn, err = l.Listener.Accept()
	}()
	<-accepted
	return conn, err
}

// A thief answers 401 to all requests, and remembers the tokens that it is shown.
type thief struct {
	mu     sync.Mutex
	tokens []string
}

func (h *thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := r.Header.Get("Tidings-Token"); t != "" {
		h.tokens = append(h.tokens, t)
	}
	w.Header().Set("Tidings", "1") // as a node does
	http.Error(w, `{"error":"no"}`, http.StatusUnauthorized)
}

// got returns the tokens that the thief was shown since the last call.
func (h *thief) got() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.tokens = nil }()
	return strings.Join(h.tokens, " ")
}

// rob serves a thief on a listener until the test ends.
func rob(t *testing.T, l net.Listener) (h *thief, url string) {
	h = new(thief)
	s := &http.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return h, "http://" + l.Addr().String()
}

// leaveToken writes a token to a file.
func leaveToken(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// atHome gives the commands a default data directory with a token.
func atHome(t *testing.T) (text string) {
	t.Cleanup(xdg.Reload)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	xdg.Reload()
	text = strings.Repeat("H", 52)
	leaveToken(t, daemon.APITokenFile(dataDir()), text)
	return text
}

// TestTokenOfAnotherUsersServer starts commands while another user of the machine serves the address of
// a node that has stopped, or that was killed and has left the copy of its token.
func TestTokenOfAnotherUsersServer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can accept connections as another user")
	}
	home := atHome(t)
	listen := func(user int) (*thief, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return rob(t, acceptAs{l, user})
	}
	h, url := listen(another)
	refused := func(when string, args ...string) {
		t.Helper()
		code, _, stderr := calls(t, url, append([]string{"list"}, args...)...)
		if got := h.got(); got != "" || code != exitFailed || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, "another user (uid 12345)") || !strings.Contains(stderr, "sudo") || !strings.Contains(stderr, "--data") {
			t.Errorf("%s: %d %q, and the token %q was sent", when, code, stderr, got)
		}
	}
	refused("after the node has stopped")
	leaveToken(t, daemon.APITokenCopy(accessDir(), strings.TrimPrefix(url, "http://")), strings.Repeat("S", 52))
	refused("after the node was killed")
	refused("with this user's data directory", "--data", dataDir())

	// The data directory of a node that runs as that user.
	service := t.TempDir()
	text := strings.Repeat("N", 52)
	leaveToken(t, daemon.APITokenFile(service), text)
	if err := os.Chown(daemon.APITokenFile(service), another, another); err != nil {
		t.Fatal(err)
	}
	if calls(t, url, "list", "--data", service); h.got() != text {
		t.Error("the token of a named data directory was not sent to its owner's program")
	}
	h, url = listen(0)
	if calls(t, url, "list"); h.got() != home {
		t.Error("the token was not sent to the own node")
	}
}

// TestTokenOfAnotherMachine asks at an address that is not loopback.
func TestTokenOfAnotherMachine(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && l == nil {
			l, _ = net.Listen("tcp", net.JoinHostPort(n.IP.String(), "0"))
		}
	}
	if l == nil {
		t.Skip("this machine has loopback addresses only")
	}
	home := atHome(t)
	h, url := rob(t, l)
	code, _, stderr := calls(t, url, "list")
	if got := h.got(); got != "" || code != exitFailed || !strings.Contains(stderr, "not a loopback address") || !strings.Contains(stderr, "--data") {
		t.Errorf("%d %q, and the token %q was sent", code, stderr, got)
	}
	if calls(t, url, "list", "--data", dataDir()); h.got() != home {
		t.Error("the token of a named data directory was not sent")
	}
	t.Setenv("TIDINGS_DATA", dataDir())
	if calls(t, url, "list"); h.got() != home {
		t.Error("the token of a data directory named in the environment was not sent")
	}
}
