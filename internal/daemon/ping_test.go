package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/proxy"
)

// A site without a hub announces news at the node with a public address, whichever node leads its feeds: they are fetched
// at once, an hour before the next poll. The answer is the same for a feed that nobody follows.
func TestASiteAnnouncesItsNews(t *testing.T) {
	t.Parallel()
	const feeds, compression = 4, 30000 // five minutes are ten milliseconds
	var items [feeds]atomic.Int64
	var others atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i int
		if n, err := fmt.Sscanf(r.URL.Path, "/feed/%d", &i); n != 1 || err != nil || i >= feeds {
			others.Add(1)
			http.NotFound(w, r)
			return
		}
		b := new(strings.Builder)
		for n := items[i].Load(); n >= 0; n-- {
			fmt.Fprintf(b, "<item><guid>%d-%d</guid><title>item %d</title></item>", i, n, n)
		}
		w.Header().Set("Content-Type", "application/rss+xml")
		_, _ = fmt.Fprintf(w, "<rss version=\"2.0\"><channel><title>Feed %d</title><link>http://a.example/</link>%s</channel></rss>", i, b)
	}))
	defer site.Close()
	first := founding(t, "pinged")
	first.Found.PollInterval = time.Hour
	first.AllowPrivateOrigins, first.Compression = true, compression
	first.PublicListen = "127.0.0.1:" + checktest.Port(t)
	first.PublicURL = "http://" + first.PublicListen
	a := running(t, first)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true, Compression: compression})
	b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	for i := range feeds {
		if err := b.Subscribe(t.Context(), fmt.Sprintf("%s/feed/%d", site.URL, i), false); err != nil {
			t.Fatal(err)
		}
	}
	show := func(want int64) time.Duration {
		t.Helper()
		return within(t, awaitTimeout, "all items", func() error {
			list, err := b.List(t.Context())
			if err != nil {
				return err
			}
			var shown int64
			for _, c := range list {
				shown += int64(c.Items)
			}
			if shown != want {
				return fmt.Errorf("%d items", shown)
			}
			return nil
		})
	}
	ping := func(address string) string {
		t.Helper()
		body := "<?xml version=\"1.0\"?><methodCall><methodName>weblogUpdates.extendedPing</methodName><params><param><value>A</value></param><param><value>" + site.URL + "/</value></param><param><value>" + address + "</value></param></params></methodCall>"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.PublicURL+proxy.PingPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		return string(answer)
	}
	show(feeds)
	var answers [feeds]string
	for i := range feeds {
		items[i].Add(1)
		answers[i] = ping(fmt.Sprintf("%s/feed/%d", site.URL, i))
		t.Logf("shown after %v", show(feeds+1+int64(i)))
	}
	if got := ping(site.URL + "/unread"); got != answers[0] || others.Load() != 0 {
		t.Errorf("answered %s, not %s; %d requests for what nobody follows", got, answers[0], others.Load())
	}
	http.DefaultClient.CloseIdleConnections()
}
