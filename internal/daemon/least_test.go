package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/proxy"
)

// What a subscription is not to be shown without its publisher's signature is in no keyword feed either: not by
// the firehose, and not of what was brought before that was said.
func TestKeywordFeedsHaveWhatIsVouchedForAlone(t *testing.T) {
	for _, filter := range []bool{false, true} {
		t.Run(fmt.Sprint("filter: ", filter), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			items := ""
			say := func(feed string, i int) {
				mu.Lock()
				defer mu.Unlock()
				items += fmt.Sprintf(`<item><guid>%s %d</guid><title>Zebra of %s %d</title></item>`, feed, i, feed, i)
			}
			origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				_, _ = io.WriteString(w, `<rss version="2.0"><channel><title>`+r.URL.Path+`</title><link>http://a/</link><description/>`+items+"</channel></rss>")
			}))
			defer origin.Close()
			c := founding(t, fmt.Sprint("least-", filter))
			c.Found.PollInterval = time.Second
			c.HTTP, c.AllowPrivateOrigins, c.Filter = "127.0.0.1:0", true, filter
			m := running(t, c)
			m.knows(t, 1)
			say("x", 0)
			entries := func(w proxy.Watch) (strict, plain int) {
				t.Helper()
				watched, err := m.Watched(t.Context(), w.Number)
				if err != nil {
					t.Fatal(err)
				}
				_, of, err := watched.Read()
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range of {
					if strings.HasSuffix(e.Source.URL, "/strict") {
						strict++
					} else {
						plain++
					}
				}
				return strict, plain
			}
			first, err := m.Watch(t.Context(), "zebra")
			if err != nil {
				t.Fatal(err)
			}
			var given proxy.Subscribed
			for _, path := range []string{"/strict", "/plain"} {
				m.tell(t, "subscribe", `{"url":"`+origin.URL+path+`"}`, &given)
			}
			has := func(w proxy.Watch, strict, plain int) {
				t.Helper()
				within(t, time.Minute, fmt.Sprint(strict, " and ", plain, " items"), func() error {
					if s, p := entries(w); s < strict || p < plain {
						return fmt.Errorf("%d and %d", s, p)
					}
					return nil
				})
				time.Sleep(3 * time.Second)
				if s, p := entries(w); s != strict || p != plain {
					t.Errorf("%d and %d, not %d and %d", s, p, strict, plain)
				}
			}
			has(first, 1, 1)
			m.tell(t, "subscribe", `{"url":"`+origin.URL+`/strict","least":"publisher"}`, &given)
			second, err := m.Watch(t.Context(), "zebra of")
			if err != nil {
				t.Fatal(err)
			}
			has(second, 0, 1)
			say("x", 1)
			has(second, 0, 2)
			has(first, 1, 2)
		})
	}
}
