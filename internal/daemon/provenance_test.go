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

// Items without the required provenance are in no keyword feed, neither by the firehose nor among the
// articles that arrived before.
func TestKeywordFeedsRespectRequiredProvenance(t *testing.T) {
	t.Parallel()
	for _, filter := range []bool{false, true} {
		t.Run(fmt.Sprint("filter: ", filter), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			items := map[string]string{}
			say := func(path string, i int) {
				mu.Lock()
				defer mu.Unlock()
				items[path] += fmt.Sprintf(`<item><guid>%s %d</guid><title>Zebra of %s %d</title></item>`, path, i, path, i)
			}
			origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				_, _ = io.WriteString(w, `<rss version="2.0"><channel><title>`+r.URL.Path+`</title><link>http://a/</link><description/>`+items[r.URL.Path]+"</channel></rss>")
			}))
			defer origin.Close()
			c := founding(t, fmt.Sprint("least-", filter))
			c.Found.PollInterval = time.Second
			c.HTTP, c.AllowPrivateOrigins, c.Filter, c.KeywordItems = "127.0.0.1:0", true, filter, 100
			m := running(t, c)
			m.awaitMembers(t, 1)
			for _, path := range []string{"/strict", "/plain"} {
				say(path, 0)
			}
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
				m.post(t, "subscribe", `{"url":"`+origin.URL+path+`"}`, &given)
			}
			has := func(w proxy.Watch, strict, plain int) {
				t.Helper()
				within(t, time.Minute, fmt.Sprint(strict, " and ", plain, " items"), func() error {
					if s, p := entries(w); s < strict || p < plain {
						return fmt.Errorf("%d and %d", s, p)
					}
					return nil
				})
			}
			ask := func(do func()) {
				t.Helper()
				if err := m.do(t.Context(), do); err != nil {
					t.Fatal(err)
				}
			}
			heard := func() (n uint64) {
				ask(func() { n = m.node.Firehose.Stats().Heard })
				return n
			}
			has(first, 1, 1)
			plains := 1
			for filter && heard() == 0 { // until sequencers know of the filter
				say("/plain", plains)
				plains++
				has(first, 1, plains)
			}
			m.post(t, "subscribe", `{"url":"`+origin.URL+`/strict","least":"publisher"}`, &given)
			second, err := m.Watch(t.Context(), "zebra of")
			if err != nil {
				t.Fatal(err)
			}
			has(second, 0, plains)
			before := heard()
			for i := range 3 { // one entry each; two earlier ones may be on their way
				say("/strict", i+1)
				within(t, time.Minute, "the log has it", func() error {
					items := 0
					ask(func() {
						s, _ := m.node.Feeds.Subscription(m.key(origin.URL + "/strict"))
						items = s.Items
					})
					if items < i+2 {
						return fmt.Errorf("%d items", items)
					}
					return nil
				})
			}
			if filter {
				within(t, time.Minute, "the firehose has brought it", func() error {
					if n := heard() - before; n < 3 {
						return fmt.Errorf("%d entries", n)
					}
					return nil
				})
			}
			say("/plain", plains)
			has(second, 0, plains+1)
			has(first, 1, plains+1)
			if s, _ := entries(second); s != 0 {
				t.Errorf("who watches since then has %d of strict", s)
			}
			if s, _ := entries(first); s != 1 {
				t.Errorf("who watched before has %d of strict, not the one that came before", s)
			}
		})
	}
}
