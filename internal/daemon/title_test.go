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

// TestAnotherTitleIsServed changes the title of a feed, and neither its items nor its date. The readers of two nodes get the
// title, with a date that is not older.
func TestAnotherTitleIsServed(t *testing.T) {
	t.Parallel()
	var title atomic.Value
	title.Store("Ferry news")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:f</id><title>%s</title><updated>2024-01-01T00:00:00Z</updated>
			<entry><id>urn:1</id><title>Pier opens</title><updated>2024-01-01T00:00:00Z</updated></entry></feed>`, title.Load())
	}))
	defer origin.Close()
	network := laboratory("title")
	network.PollInterval = 3 * time.Second
	founder := running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second := running(t, Config{Dir: t.TempDir(), Bootstrap: founder.awaitMembers(t, 1).Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	second.awaitMembers(t, 2)
	both := []*member{founder, second}
	for _, m := range both {
		var done proxy.SubscribeMessage
		m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, origin.URL), &done)
	}
	reads := func(want string, changed time.Time) {
		t.Helper()
		for _, m := range both {
			within(t, awaitTimeout, "the title "+want, func() error {
				r, err := http.Get("http://" + m.HTTPAddr().String() + "/feed?url=" + url.QueryEscape(origin.URL))
				if err != nil {
					return err
				}
				defer r.Body.Close()
				got, err := io.ReadAll(r.Body)
				_, date, _ := strings.Cut(string(got), "<updated>")
				date, _, _ = strings.Cut(date, "<")
				if at, wrong := time.Parse(time.RFC3339, date); err != nil || wrong != nil || at.Before(changed.Truncate(time.Second)) || !strings.Contains(string(got), "<title>"+want+"</title>") {
					return fmt.Errorf("%s %s, %w", r.Status, got, err)
				}
				return nil
			})
		}
	}
	reads("Ferry news", time.Time{})
	changed := time.Now()
	title.Store("Harbour news")
	reads("Harbour news", changed)
}
