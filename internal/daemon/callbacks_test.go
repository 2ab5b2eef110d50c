package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/proxy"
)

// hubSite is a web server with a feed and its hub.
type hubSite struct {
	*httptest.Server
	mu    sync.Mutex
	items int
	polls int
	subs  []url.Values // subscriptions that were confirmed
}

func newHubSite(t *testing.T) *hubSite {
	s := &hubSite{items: 1}
	var asking sync.WaitGroup
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r.URL.Path {
		case "/feed":
			s.polls++
			_, _ = io.WriteString(w, s.feed())
		case "/hub":
			_ = r.ParseForm()
			form := r.PostForm
			w.WriteHeader(http.StatusAccepted)
			asking.Go(func() { s.confirm(t, form) })
		}
	}))
	t.Cleanup(func() { s.Close(); asking.Wait() })
	return s
}

func (s *hubSite) feed() string {
	b := fmt.Sprintf(`<rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel><title>T</title><link>%s/</link><a:link rel="hub" href="%s/hub"/><a:link rel="self" href="%s/feed"/>`, s.URL, s.URL, s.URL)
	for i := s.items; i > 0; i-- {
		b += fmt.Sprintf("<item><guid>%d</guid><title>item %d</title></item>", i, i)
	}
	return b + "</channel></rss>"
}

// confirm asks a subscriber whether a request is meant.
func (s *hubSite) confirm(t *testing.T, form url.Values) {
	q := url.Values{"hub.mode": form["hub.mode"], "hub.topic": form["hub.topic"], "hub.challenge": {"abc"}, "hub.lease_seconds": {"86400"}}
	resp, err := http.Get(form.Get("hub.callback") + "?" + q.Encode())
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode == 200 && string(body) == "abc" && form.Get("hub.mode") == "subscribe" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subs = append(s.subs, form)
	}
}

// publish adds an item and sends the feed to the subscribers, as its hub.
func (s *hubSite) publish(t *testing.T) {
	s.mu.Lock()
	s.items++
	body, subs := s.feed(), s.subs
	s.mu.Unlock()
	for _, sub := range subs {
		mac := hmac.New(sha256.New, []byte(sub.Get("hub.secret")))
		_, _ = io.WriteString(mac, body)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sub.Get("hub.callback"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/rss+xml")
		r.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("the subscriber answers %s", resp.Status)
		}
	}
}

// freePort returns a loopback address that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// One of two nodes has a public address and subscribes at the feed's hub. A reader of the other one has what the hub pushes
// at once. Nothing but callbacks can be reached at the public address. A restart keeps the subscription.
func TestHubsPushToANodeWithAPublicAddress(t *testing.T) {
	t.Parallel()
	site := newHubSite(t)
	first := founding(t, "pushed")
	first.Found.PollInterval = time.Hour
	first.AllowPrivateOrigins = true
	first.PublicListen = freePort(t)
	first.PublicURL = "http://" + first.PublicListen
	a := running(t, first)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true, HTTP: "127.0.0.1:0"})
	b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	if err := b.Subscribe(t.Context(), site.URL+"/feed", false); err != nil {
		t.Fatal(err)
	}
	subscribed := func(n int) error {
		site.mu.Lock()
		defer site.mu.Unlock()
		if len(site.subs) < n {
			return fmt.Errorf("%d subscriptions", len(site.subs))
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
	polls := site.polls
	site.publish(t)
	shows(2)
	within(t, awaitTimeout, "the hub is relied on", func() error {
		list, err := b.List(t.Context())
		if err == nil && list[0].PushedBy != strings.TrimPrefix(site.URL, "http://") {
			err = fmt.Errorf("pushed by %q, %q", list[0].PushedBy, list[0].HubFault)
		}
		return err
	})
	a.stop(t)
	first.Bootstrap = b.status(t).Addrs
	a = running(t, first)
	a.awaitMembers(t, 2)
	site.publish(t)
	shows(3)
	site.mu.Lock()
	if site.polls > polls+3 {
		t.Errorf("%d polls after the hub was found", site.polls-polls)
	}
	callback := site.subs[0].Get("hub.callback")
	site.mu.Unlock()
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{"GET", first.PublicURL + "/", 404},
		{"GET", first.PublicURL + "/api/v1/status", 404},
		{"GET", first.PublicURL + "/metrics", 404},
		{"GET", first.PublicURL + "/" + site.URL + "/feed", 404},
		{"GET", callback, 404},
		{"GET", callback + "?hub.mode=subscribe&hub.challenge=x&hub.topic=" + url.QueryEscape(site.URL+"/feed"), 404},
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
	if findings, err := a.Doctor(t.Context()); err != nil || !strings.Contains(fmt.Sprint(findings), "hubs reach this node at "+first.PublicURL) {
		t.Errorf("%+v, %v", findings, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAHubThatIsNotReliedOnIsReported(t *testing.T) {
	channels := []proxy.Channel{{URL: "https://a.example/", PushedBy: "hub.example"}, {URL: "https://b.example/", HubFault: "it has not delivered an item that polls have found"}}
	f := failedHubs(channels)
	if len(f) != 1 || f[0].Level != levelNote || !strings.Contains(f[0].What, "https://b.example/: its hub is not relied on") || f[0].Do == "" {
		t.Errorf("%+v", f)
	}
	for range 2 * maxProblemFeeds {
		channels = append(channels, channels[1])
	}
	if f := failedHubs(channels); len(f) != maxProblemFeeds {
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
