package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/internal/node"
	"tidings/overlay"
	"tidings/proxy"
)

// A node follows a feed through two others: its readers get the items, also after a restart, lists say that the
// subscription is quiet, and the node's own layers, which other nodes can ask, know nothing of the feed. A
// subscription cannot become quiet later.
func TestQuietSubscriptions(t *testing.T) {
	t.Parallel()
	const document = `<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description/>%s</channel></rss>`
	var items atomic.Int64
	items.Store(1)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all := ""
		for n := items.Load(); n > 0; n-- {
			all += fmt.Sprintf(`<item><guid isPermaLink="false">%d</guid><title>Pier %d opens</title></item>`, n, n)
		}
		_, _ = fmt.Fprintf(w, document, all)
	}))
	defer origin.Close()
	network := laboratory("quiet")
	network.PollInterval, network.Owners = 2*time.Second, 3
	founder := running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	first := founder.awaitMembers(t, 1)
	nodes := []*member{founder}
	dirs := map[*member]Config{}
	for range 5 {
		c := Config{Dir: t.TempDir(), Bootstrap: first.Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true}
		m := running(t, c)
		nodes, dirs[m] = append(nodes, m), c
	}
	for _, m := range nodes {
		m.awaitMembers(t, 6)
	}
	reader := nodes[5]
	address := ""
	for i := 0; address == ""; i++ { // a feed that the reader's node does not own
		candidate := fmt.Sprintf("%s/%d.xml", origin.URL, i)
		key, nearer := overlay.Key(network.Name, candidate), 0
		for _, m := range nodes {
			if overlay.Nearer(key, m.status(t).ID, reader.status(t).ID) {
				nearer++
			}
		}
		if nearer >= network.Owners+1 {
			address = candidate
		}
	}
	var done proxy.SubscribeMessage
	reader.post(t, "subscribe", fmt.Sprintf(`{"url":%q,"quiet_follow":true}`, address), &done)
	if !done.QuietFollow {
		t.Errorf("the answer is %+v", done)
	}
	shows := func(m *member, title string) {
		t.Helper()
		within(t, awaitTimeout, title, func() error {
			if status, got := m.api(t, http.MethodGet, "/feed?url="+url.QueryEscape(address)+"&format=rss", ""); !strings.Contains(got, title) {
				return fmt.Errorf("%+v, it is %d %s", m.channel(t, address), status, got)
			}
			return nil
		})
	}
	isQuiet := func(m *member) {
		t.Helper()
		// The owners' answers, with items, can come through a circuit before the exit has taken the node as a client.
		within(t, awaitTimeout, "a quiet channel", func() error {
			if c := m.channel(t, address); !c.Quiet || c.State != proxy.StateOK || c.Owners != network.Owners {
				return fmt.Errorf("the channel is %+v", c)
			}
			return nil
		})
		key := overlay.Key(network.Name, address)
		if err := m.do(t.Context(), func() {
			_, keeps := m.node.Owners.View(key)
			_, follows := m.node.Feeds.Subscription(key)
			if keeps || follows || m.node.Scribe.Parents(key) != nil {
				t.Errorf("the node itself keeps the log: %v, follows: %v", keeps, follows)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	shows(reader, "Pier 1 opens")
	items.Store(2)
	shows(reader, "Pier 2 opens")
	isQuiet(reader)

	reader.stop(t)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	again := running(t, dirs[reader])
	again.awaitMembers(t, 6)
	items.Store(3)
	shows(again, "Pier 3 opens")
	isQuiet(again)

	if status, answer := again.api(t, http.MethodPost, "/api/v1/subscribe", fmt.Sprintf(`{"url":%q}`, address)); status != http.StatusOK {
		t.Errorf("subscribing again: %d %s", status, answer)
	}
	isQuiet(again)
	var ended proxy.SubscribeMessage
	again.post(t, "unsubscribe", fmt.Sprintf(`{"url":%q}`, address), &ended)
	again.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, address), &done)
	status, answer := again.api(t, http.MethodPost, "/api/v1/subscribe", fmt.Sprintf(`{"url":%q,"quiet_follow":true}`, address))
	if status != http.StatusConflict || !strings.Contains(answer, "unsubscribe first") {
		t.Errorf("a known subscription becomes quiet: %d %s", status, answer)
	}
}

// A node that has reached its limit of quiet subscriptions says so, and what to do. It used to say that no space was left.
func TestOneQuietSubscriptionTooMany(t *testing.T) {
	t.Parallel()
	m := running(t, founding(t, "full"))
	m.awaitMembers(t, 1)
	subscribe := func(i int) error {
		return m.SubscribeQuietly(t.Context(), fmt.Sprintf("https://feeds.example/%d.xml", i))
	}
	for i := range node.MaxQuiet {
		if err := subscribe(i); err != nil {
			t.Fatal(err)
		}
	}
	err := subscribe(node.MaxQuiet)
	if !errors.Is(err, proxy.ErrFull) || !strings.Contains(err.Error(), "limit of quiet subscriptions: 32; unsubscribe from another one first") || strings.Contains(err.Error(), "no space") {
		t.Errorf("one more: %v", err)
	}
}
