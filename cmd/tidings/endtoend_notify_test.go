package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A webhookServer is a receiver of webhooks that fails once. It keeps each message once, by its id.
type webhookServer struct {
	*httptest.Server
	mu     sync.Mutex
	calls  int
	titles map[string]string // by id
	order  []string          // titles, as they came first
	enough chan struct{}     // receives a value after every fifth message
}

func newWebhookServer(t *testing.T) *webhookServer {
	h := &webhookServer{titles: map[string]string{}, enough: make(chan struct{}, 1000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Item struct{ Title string } }
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &event) != nil {
			return // the node was killed while it sent
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.calls++; h.calls == 17 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		id := r.Header.Get("Webhook-Id")
		if before, again := h.titles[id]; again && before != event.Item.Title {
			t.Errorf("the message %s is %q, and was %q", id, event.Item.Title, before)
		} else if !again {
			h.titles[id] = event.Item.Title
			h.order = append(h.order, event.Item.Title)
		}
		if h.calls%5 == 0 {
			h.enough <- struct{}{}
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// TestWebhooksOfAKilledNode kills a node again and again while it tells a webhook what is new. Each item comes, in order, and
// none twice under its id.
func TestWebhooksOfAKilledNode(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o, hook := newTestOrigin(t), newWebhookServer(t)
	const begin, more = 1, 30
	o.Play("/feed", growingFeed("feed", begin, more))
	url := o.url + "/feed"
	n := startNode(t, "--allow-private-origins", "--network", "notify", "--poll-interval", "1s")
	address := n.subscribe(url)
	eventually(t, timeout, "the first item", func() error {
		f, _, err := readFeed(address)
		if err == nil {
			err = checkTitles("feed", begin, titles(f))
		}
		return err
	})
	notify := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		at := []string{"--http", n.http, "--data", n.dir}
		if err := command(context.Background(), append(append([]string{"notify", args[0]}, at...), args[1:]...), strings.NewReader(""), &out, io.Discard); err != nil {
			t.Fatalf("notify %v: %v", args, err)
		}
		return out.String()
	}
	id, secret, _ := strings.Cut(strings.TrimSpace(notify("add", "--feed", url, "--to", hook.URL)), "\n")
	if !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("the secret is %q", secret)
	}
	for range more {
		o.step()
	}
	for kills := range 4 {
		select {
		case <-hook.enough:
		case <-time.After(timeout):
			t.Fatalf("no message after %d kills", kills)
		}
		n.kill()
		n.restart()
	}
	want := make([]string, more)
	for i := range want {
		want[i] = fmt.Sprintf("feed %d", begin+1+i)
	}
	eventually(t, timeout, "all messages", func() error {
		hook.mu.Lock()
		defer hook.mu.Unlock()
		if !slices.Equal(hook.order, want) {
			return fmt.Errorf("%d of %d messages: %q", len(hook.order), more, hook.order)
		}
		return nil
	})
	hook.mu.Lock()
	ids := len(slices.Collect(maps.Keys(hook.titles)))
	t.Logf("%d calls for %d messages", hook.calls, ids)
	hook.mu.Unlock()
	if ids != more {
		t.Errorf("%d ids for %d items", ids, more)
	}
	eventually(t, timeout, "a list", func() error {
		if out := notify("list"); !strings.Contains(out, id) || !strings.Contains(out, "ok") || strings.Contains(out, secret) {
			return fmt.Errorf("the list is %s", out)
		}
		return nil
	})
	if out := notify("dead", id); out != "" {
		t.Errorf("the dead letters are %s", out)
	}
	if out := notify("test", id); !strings.Contains(out, "taken") {
		t.Errorf("the test says %s", out)
	}
	if out := notify("remove", id); out != id+"\n" {
		t.Errorf("removed %s", out)
	}
}
