package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
	"tidings/proxy"
)

// newHubSite serves a feed and its hub.
func newHubSite(t *testing.T) *origin.HubSite {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	site, err := origin.ServeHub(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(); site.Close() })
	return site
}

// One of two nodes has a public address and subscribes at the feed's hub. A reader of the other one has what the hub pushes
// at once. Nothing but callbacks can be reached at the public address. A restart keeps the subscription.
func TestHubsPushToANodeWithAPublicAddress(t *testing.T) {
	t.Parallel()
	site := newHubSite(t)
	feed := site.URL(0)
	first := founding(t, "pushed")
	first.Found.PollInterval = time.Hour
	first.AllowPrivateOrigins = true
	first.PublicListen = "127.0.0.1:" + checktest.Port(t)
	first.PublicURL = "http://" + first.PublicListen
	a := running(t, first)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true, HTTP: "127.0.0.1:0"})
	b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	if err := b.Subscribe(t.Context(), feed, false); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		t.Helper()
		if _, _, err := site.Publish(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	subscribed := func(n int) error {
		if got := len(site.Callbacks(0)); got < n {
			return fmt.Errorf("%d subscriptions", got)
		}
		return nil
	}
	within(t, 3*awaitTimeout, "a subscription at the hub", func() error { return subscribed(1) })
	shows := func(n int) {
		t.Helper()
		took := within(t, awaitTimeout, "the new item", func() error {
			list, err := b.List(t.Context())
			if err == nil && (len(list) != 1 || list[0].Items != n) {
				err = fmt.Errorf("%+v", list)
			}
			return err
		})
		t.Logf("shown after %v", took)
	}
	shows(1)
	polls, _, _ := site.Counts()
	publish()
	shows(2)
	within(t, awaitTimeout, "the hub is relied on", func() error {
		list, err := b.List(t.Context())
		if err == nil && list[0].PushedBy != strings.TrimSuffix(strings.TrimPrefix(feed, "http://"), "/feed/0") {
			err = fmt.Errorf("pushed by %q, %q", list[0].PushedBy, list[0].HubFault)
		}
		return err
	})
	a.stop(t)
	first.Bootstrap = b.status(t).Addrs
	a = running(t, first)
	a.awaitMembers(t, 2)
	publish()
	shows(3)
	if later, _, refused := site.Counts(); later > polls+3 || refused > 0 {
		t.Errorf("%d polls after the hub was found, and %d notifications are refused", later-polls, refused)
	}
	callback := site.Callbacks(0)[0]
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{"GET", first.PublicURL + "/", 404},
		{"GET", first.PublicURL + "/api/v1/status", 404},
		{"GET", first.PublicURL + "/metrics", 404},
		{"GET", first.PublicURL + "/" + feed, 404},
		{"GET", callback, 404},
		{"GET", callback + "?hub.mode=subscribe&hub.challenge=x&hub.topic=" + url.QueryEscape(feed), 404},
		{"PUT", callback, 404},
		{"POST", callback + "0", 404},
		{"POST", callback[:len(callback)-1] + "g", 410},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); resp.StatusCode != c.status || len(body) != 0 {
			t.Errorf("%s %s: %s, %q", c.method, c.url, resp.Status, body)
		}
	}
	if findings, err := a.Doctor(t.Context(), nil); err != nil || !strings.Contains(fmt.Sprint(findings), "hubs reach this node at "+first.PublicURL) {
		t.Errorf("%+v, %v", findings, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAHubThatIsNotReliedOnIsReported(t *testing.T) {
	channels := []proxy.Channel{{URL: "https://a.example/", PushedBy: "hub.example"}, {URL: "https://b.example/", HubFault: "it has not delivered an item that polls have found"}}
	failed := func() []proxy.Finding {
		var x feedExamination
		for i := range channels {
			x.examine(&channels[i])
		}
		return x.failedHubs
	}
	f := failed()
	if len(f) != 1 || f[0].Level != levelNote || !strings.Contains(f[0].What.String(), "https://b.example/: its hub is not relied on") || len(f[0].Do) == 0 {
		t.Errorf("%+v", f)
	}
	for range 2 * maxProblemFeeds {
		channels = append(channels, channels[1])
	}
	if f := failed(); len(f) != maxProblemFeeds {
		t.Errorf("%d findings", len(f))
	}
}

func TestPublicAddressesAreChecked(t *testing.T) {
	for _, c := range []struct{ url, listen string }{{"node.example", ""}, {"https://node.example/path", ""}, {"ftp://node.example", ""}, {"https://node.example", "8191"}} {
		err := Config{Dir: "x", PublicURL: c.url, PublicListen: c.listen}.Validate()
		if err == nil || !strings.Contains(err.Error(), "--public-") || errors.Unwrap(err) != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}
