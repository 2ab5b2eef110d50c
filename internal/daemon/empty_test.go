package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/proxy"
)

// TestFeedWithoutItemsIsServedEmpty subscribes at two nodes to a feed that has no items yet. Both serve it
// empty in each format, and show its first item later.
func TestFeedWithoutItemsIsServedEmpty(t *testing.T) {
	t.Parallel()
	const empty = `<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description>News of the ferry</description>%s</channel></rss>`
	var items atomic.Value
	items.Store("")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, empty, items.Load())
	}))
	defer origin.Close()
	network := laboratory("empty")
	network.PollInterval = 3 * time.Second
	founder := running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second := running(t, Config{Dir: t.TempDir(), Bootstrap: founder.awaitMembers(t, 1).Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second.awaitMembers(t, 2)
	address := origin.URL + "/feed.xml"
	for _, m := range []*member{founder, second} {
		var done proxy.Subscribed
		m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, address), &done)
		at, err := url.Parse(done.ReadURL)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.get(t, at.RequestURI()); !strings.Contains(got, "Ferry news") || strings.Contains(got, "<item") {
			t.Errorf("the address of the subscription serves %s", got)
		}
		for _, format := range []string{"rss", "atom", "json"} {
			if got := m.get(t, "/feed?url="+url.QueryEscape(address)+"&format="+format); !strings.Contains(got, "Ferry news") {
				t.Errorf("as %s it is %s", format, got)
			}
		}
	}
	items.Store(`<item><guid isPermaLink="false">1</guid><title>Pier opens</title></item>`)
	for _, m := range []*member{founder, second} {
		within(t, awaitTimeout, "the first item", func() error {
			r, err := http.Get("http://" + m.HTTPAddr().String() + "/feed?url=" + url.QueryEscape(address))
			if err != nil {
				return err
			}
			defer r.Body.Close()
			if got, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(got), "Pier opens") {
				return fmt.Errorf("%s %s, %w", r.Status, got, err)
			}
			return nil
		})
	}
}
