package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/corona/websub"
)

// hubCalls records what a CallbackServer passes on.
type hubCalls struct {
	got   []string
	err   error
	block chan struct{} // a notification waits for it; nil: it is taken at once
	came  chan struct{} // a notification has come, and waits
}

func (c *hubCalls) Confirm(_ context.Context, path string, query url.Values) (websub.Response, error) {
	c.got = append(c.got, fmt.Sprintf("confirm %s %s", path, query.Get("hub.topic")))
	return websub.Response{Status: 200, Body: query.Get("hub.challenge")}, c.err
}

func (c *hubCalls) Notify(_ context.Context, path, signature, contentType string, body []byte) (websub.Response, error) {
	if c.block != nil {
		c.came <- struct{}{}
		<-c.block
	} else {
		c.got = append(c.got, fmt.Sprintf("notify %s %s %s %d", path, signature, contentType, len(body)))
	}
	return websub.Response{Status: 202}, c.err
}

func (c *hubCalls) Hint(_ context.Context, addresses []string) error {
	c.got = append(c.got, "hint "+strings.Join(addresses, " "))
	return c.err
}

func TestOnlyCallbacksAreAnswered(t *testing.T) {
	const path = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		method, target, body string
		status               int
		passed               string // what the node got; "": nothing
	}{
		{"GET", "/websub/" + path + "?hub.challenge=a%26b&hub.topic=x", "", 200, "confirm " + path + " x"},
		{"POST", "/websub/" + path, "<rss/>", 202, "notify " + path + " sha256=1 text/xml 6"},
		{"POST", "/websub/" + path, strings.Repeat("x", websub.MaxNotification), 202, fmt.Sprintf("notify %s sha256=1 text/xml %d", path, websub.MaxNotification)},
		{"POST", "/websub/" + path, strings.Repeat("x", websub.MaxNotification+1), 413, ""},
		{"GET", "/websub/" + path + "?hub.challenge=" + strings.Repeat("x", websub.MaxQuery), "", 404, ""},
		{"GET", "/websub/" + path + "?hub.topic=%zz", "", 404, ""},
		{"HEAD", "/websub/" + path, "", 404, ""},
		{"DELETE", "/websub/" + path, "", 404, ""},
		{"GET", "/websub/", "", 404, ""},
		{"GET", "/websub/" + path + "/", "", 404, ""},
		{"GET", "/websub/../api/v1/status", "", 404, ""},
		{"GET", "/", "", 404, ""},
		{"GET", "/api/v1/list", "", 404, ""},
		{"GET", "/https://a.example/feed", "", 404, ""},
	} {
		calls := &hubCalls{}
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://node.example/", strings.NewReader(c.body))
		target, query, _ := strings.Cut(c.target, "?")
		r.URL.Path, r.URL.RawQuery = target, query
		r.Header.Set("X-Hub-Signature", "sha256=1")
		r.Header.Set("Content-Type", "text/xml")
		w := httptest.NewRecorder()
		NewCallbackServer(calls, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		name := c.method + " " + c.target[:min(len(c.target), 80)]
		if got := strings.Join(calls.got, ", "); w.Code != c.status || got != c.passed {
			t.Errorf("%s: status %d, the node got %q", name, w.Code, got)
		}
		if c.status == 200 && (w.Body.String() != "a&b" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain")) {
			t.Errorf("%s: %q as %s", name, w.Body, w.Header().Get("Content-Type"))
		}
	}
}

// A node that cannot answer yet, or has its hands full, asks hubs to come again.
func TestHubsAreAskedToComeAgain(t *testing.T) { synctest.Test(t, testBusyCallbacks) }

func testBusyCallbacks(t *testing.T) {
	calls := &hubCalls{err: errors.New("the node does not know its network yet")}
	s := NewCallbackServer(calls, slog.New(slog.DiscardHandler))
	post := func() int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://node.example/websub/0123456789abcdef0123456789abcdef", io.LimitReader(strings.NewReader("x"), 1)))
		return w.Code
	}
	if got := post(); got != 503 {
		t.Errorf("answered %d", got)
	}
	calls.err, calls.block, calls.came = nil, make(chan struct{}), make(chan struct{}, maxCallbacks+1)
	answers := make(chan int, maxCallbacks+1)
	for range maxCallbacks {
		go func() { answers <- post() }()
	}
	for range maxCallbacks {
		<-calls.came
	}
	began := time.Now()
	if got := post(); got != 503 || time.Since(began) != callbackWait {
		t.Errorf("one too many: answered %d after %v", got, time.Since(began))
	}
	go func() { answers <- post() }()
	synctest.Wait()
	close(calls.block)
	for range maxCallbacks + 1 {
		if got := <-answers; got != 202 {
			t.Errorf("answered %d", got)
		}
	}
}
