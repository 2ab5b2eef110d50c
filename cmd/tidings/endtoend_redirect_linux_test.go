package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
	"tidings/proxy"
)

// publicAddresses belong to somebody else. In the test's own network they belong to an origin, and the node cannot
// tell that they are local.
const publicAddresses = "11.22.33.0/24"

// publicAddress returns one of publicAddresses.
func publicAddress(i int) string { return fmt.Sprintf("11.22.33.%d", 44+i) }

// inOwnNetwork runs the rest of a test in another process in a network namespace, and reports whether this is that
// process. In the namespace, publicAddresses lead to this machine but belong to no interface, so a node takes them
// for foreign addresses.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	ip := checktest.Tool(t, "ip", "it makes the network of this test")
	const mark = "TIDINGS_TEST_NETWORK"
	if os.Getenv(mark) != "" {
		for _, args := range []string{"link set lo up", "route add local " + publicAddresses + " dev lo"} {
			if out, err := exec.Command(ip, strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", args, err, out)
			}
		}
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), mark+"=1")
	killWithParent(c)
	c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	if uid := os.Getuid(); uid != 0 { // needs root, which the namespace provides
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		checktest.Lacks(t, "no network of its own may be made here: %v", err)
	}
	t.Logf("in a network of its own:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("there it did not pass: %v", err)
	}
	return false
}

// TestRedirectToThisMachine lets an origin on the Web redirect nodes to forbidden addresses: to programs on their
// own machine and on local networks. No node follows, whether or not it may poll private addresses.
func TestRedirectToThisMachine(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	// These servers on this machine record all requests.
	var asked atomic.Int64
	inside := serveAt(t, "localhost:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>Secret</title><item><title>Secret</title></item></channel></rss>`)
	}))
	_, port, err := net.SplitHostPort(inside)
	if err != nil {
		t.Fatal(err)
	}
	o := origin.New(origin.Clock(1))
	serveAt(t, ":80", o)

	o.Play("/good", growingFeed("good", 3, 0))
	targets := map[string]string{
		"/address":    "http://127.0.0.1:" + port + "/feed",
		"/name":       "http://localhost:" + port + "/feed",
		"/number":     "http://2130706433:" + port + "/feed",
		"/mapped":     "http://[::ffff:127.0.0.1]:" + port + "/feed",
		"/six":        "http://[::1]:" + port + "/feed",
		"/nowhere":    "http://0.0.0.0:" + port + "/feed",
		"/cloud":      "http://169.254.169.254/latest/meta-data/",
		"/home":       "http://192.168.1.1/",
		"/other-port": "http://" + publicAddress(0) + ":" + port + "/feed",
	}
	for path, to := range targets {
		o.Play(path, growingFeed(path[1:], 3, 0))
		o.Misbehave(path, origin.Redirect(http.StatusFound, to))
	}
	for name, flags := range map[string][]string{
		"public origins alone": {"--network", "public"},
		"private ones as well": {"--network", "private", "--allow-private-origins"},
	} {
		n := startNode(t, append(flags, "--poll-interval", "1s")...)
		good := "http://" + publicAddress(0) + "/good"
		n.subscribe(good)
		feeds, address := map[string]string{}, map[string]string{}
		for path := range targets { // each in its own domain, because a domain is polled slowly
			feeds[path] = "http://" + publicAddress(len(address)+1) + path
			if _, err := n.runCommand("subscribe", feeds[path]); err == nil || !strings.Contains(err.Error(), "may not be polled") {
				t.Errorf("%s: %s: who subscribes is told: %v", name, path, err)
			}
			address[path] = n.importOne(feeds[path])
		}
		eventually(t, timeout, "a feed of the same origin", func() error {
			if c := n.list()[good]; c.State != proxy.StateOK || c.Items != 3 {
				return fmt.Errorf("%s, %d items: %s", c.State, c.Items, c.Error)
			}
			return nil
		})
		for path, to := range targets {
			var c proxy.Channel
			eventually(t, timeout, name+": "+path, func() error {
				c = n.list()[feeds[path]]
				if c.State != "refused" || c.Error == "" || c.Since == nil || c.NextPoll == nil {
					return fmt.Errorf("%s is said to be %s (%s) since %v, next %v", to, c.State, c.Error, c.Since, c.NextPoll)
				}
				return nil
			})
			t.Logf("%s: %s: %s: %s", name, to, c.State, c.Error)
			if _, _, err := readFeed(address[path]); err == nil || !strings.Contains(err.Error(), "403") {
				t.Errorf("%s: %s: its reader is told: %v", name, to, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("a program on this machine was asked %d times", n)
	}
	// The servers can be reached; otherwise the test would show nothing.
	if a, err := http.Get("http://" + inside); err != nil || asked.Load() != 1 {
		t.Errorf("%v %v, asked %d times", a, err, asked.Load())
	} else {
		a.Body.Close()
	}
}

// serveAt serves at an address until the test ends, and returns the address.
func serveAt(t *testing.T, address string, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return l.Addr().String()
}
