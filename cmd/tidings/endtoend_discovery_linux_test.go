package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAdvertisedLocalFeedsAreNotFetched subscribes to Web pages that advertise feeds on the reader's own machine and network.
// No node fetches these, whether or not it may poll private addresses.
func TestAdvertisedLocalFeedsAreNotFetched(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	var asked atomic.Int64
	inside := serveAt(t, "localhost:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>Secret</title><item><title>Secret</title></item></channel></rss>`)
	}))
	_, port, err := net.SplitHostPort(inside)
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{
		"http://127.0.0.1:" + port + "/feed", "http://localhost:" + port + "/feed", "http://2130706433:" + port + "/feed", "http://[::ffff:127.0.0.1]:" + port + "/feed",
		"http://192.168.1.1/feed", "http://10.0.0.1/feed", "http://169.254.169.254/feed", "http://[fe80::1]/feed", "http://[2002:7f00:1::]/feed",
	}
	serveAt(t, ":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/page%d", &i); err != nil || i >= len(targets) {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `<!DOCTYPE html><html><head><title>A page</title><link rel="alternate" type="application/rss+xml" href="%s"></head><body><p>%s</p></body></html>`,
			targets[i], strings.Repeat("A page with words enough to be followed by somebody who reads it. ", 20))
	}))
	for name, flags := range map[string][]string{
		"public origins alone": {"--network", "public"},
		"private ones as well": {"--network", "private", "--allow-private-origins"},
	} {
		n := startNode(t, flags...)
		for i, target := range targets {
			out, err := n.runCommand("subscribe", fmt.Sprintf("http://%s/page%d", publicAddress(i), i))
			if err == nil || !strings.Contains(err.Error(), "it advertises none") || strings.Contains(err.Error(), "/feed") {
				t.Errorf("%s: a page that advertises %s: %q, %v", name, target, out, err)
			}
		}
		if list := n.list(); len(list) > 0 {
			t.Errorf("%s: it is subscribed to %v", name, list)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("a program on this machine was asked %d times", n)
	}
}
