package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"tidings/internal/locale"
)

// A failingNode does not report its status.
type failingNode struct{ *memoryNode }

func (failingNode) Status(context.Context) (Status, error) {
	return Status{}, errors.New("the node hangs")
}

func TestHealth(t *testing.T) {
	b := newTestServer(t)
	for _, c := range []struct {
		what           string
		node           Subscriptions
		status         Status
		health, ready  int
		words, unready string
	}{
		{"well", b.node, Status{State: StateOK}, 200, 200, "ok\n", "ok\n"},
		{"joining", b.node, Status{State: "joining"}, 200, 503, "ok\n", "joining\n"},
		{"cut off", b.node, Status{State: StateCutOff, CutOff: true, Warnings: []Warning{{What: locale.Text{"Nobody was heard."}}}}, 200, 200, "ok\n", "ok\ncut off\nNobody was heard.\n"},
		{"refused", b.node, Status{State: StateRefused, Warnings: []Warning{{What: locale.Text{"Another network."}}}}, 200, 200, "ok\n", "ok\nrefused\nAnother network.\n"},
		{"a disk that is full", b.node, Status{State: "trouble", Warnings: []Warning{{What: locale.Text{"The store cannot be written."}}}}, 200, 503, "ok\n", "trouble\nThe store cannot be written.\n"},
		{"hanging", failingNode{b.node}, Status{}, 503, 503, "the node hangs\n", "the node hangs\n"},
	} {
		b.server.subs, b.node.status = c.node, c.status
		if r := b.ask("GET", "/healthz"); r.StatusCode != c.health || body(t, r) != c.words {
			t.Errorf("%s: /healthz says %s", c.what, r.Status)
		}
		if r := b.ask("GET", "/readyz"); r.StatusCode != c.ready || body(t, r) != c.unready {
			t.Errorf("%s: /readyz says %s", c.what, r.Status)
		}
	}
	if r := b.ask("POST", "/readyz"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", r.Status)
	}
	if r := b.ask("GET", "/readyz", "Host", "evil.example"); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %s", r.Status)
	}
}

func TestMetricsAreServedIfConfigured(t *testing.T) {
	if r := newTestServer(t).ask("GET", "/metrics"); r.StatusCode != http.StatusNotFound {
		t.Errorf("without any: %s", r.Status)
	}
	b := newTestServer(t, func(c *Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a 1\n") })
	})
	if r := b.ask("GET", "/metrics"); r.StatusCode != http.StatusOK || body(t, r) != "a 1\n" {
		t.Errorf("with some: %s", r.Status)
	}
	if r := b.ask("GET", "/metrics", "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("asked for by another site's page: %s", r.Status)
	}
}
