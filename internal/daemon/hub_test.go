package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/news"
	"tidings/proxy"
)

// A subscriber is the callback of a WebSub subscriber (W3C WebSub, sections 5 and 7).
type subscriber struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	asks   []url.Values // verifications of intent and denials
	pings  []ping
	agrees bool
	status int // of the answer to a delivery
}

type ping struct {
	header http.Header
	body   string
}

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{t: t, agrees: true, status: http.StatusNoContent}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodGet {
			s.asks = append(s.asks, r.URL.Query())
			if !s.agrees {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.pings = append(s.pings, ping{r.Header, string(body)})
		w.WriteHeader(s.status)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *subscriber) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// asked waits until the hub has asked n times.
func (s *subscriber) asked(n int) url.Values {
	s.t.Helper()
	var last url.Values
	within(s.t, awaitTimeout, fmt.Sprintf("request %d of the hub", n), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.asks) < n {
			return fmt.Errorf("%d came", len(s.asks))
		}
		last = s.asks[n-1]
		return nil
	})
	return last
}

// pinged waits for a delivery with a text.
func (s *subscriber) pinged(text string) ping {
	s.t.Helper()
	var last ping
	within(s.t, awaitTimeout, text, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.pings {
			if strings.Contains(p.body, text) {
				last = p
				return nil
			}
		}
		return fmt.Errorf("%d deliveries came", len(s.pings))
	})
	return last
}

// awaitSubscribers waits until the hub of a node has a number of subscribers.
func (m *member) awaitSubscribers(t *testing.T, want int) {
	t.Helper()
	within(t, awaitTimeout, fmt.Sprintf("%d subscribers", want), func() error {
		m.hub.mu.Lock()
		defer m.hub.mu.Unlock()
		if n := len(m.hub.byID); n != want {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// askHub posts a form to a hub, and returns the status.
func askHub(t *testing.T, hub string, form ...string) int {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	a, err := http.PostForm(hub, values)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}

// links returns the addresses in a header Link, by relation.
func links(header http.Header) map[string]string {
	found := map[string]string{}
	for part := range strings.SplitSeq(header.Get("Link"), ", ") {
		address, rel, _ := strings.Cut(part, ">; rel=")
		found[strings.Trim(rel, `"`)] = strings.TrimPrefix(address, "<")
	}
	return found
}

// followingFerries returns a node that follows news.xml of a web server, whose first item is Pier 1.
func followingFerries(t *testing.T, network string) (m *member, source *ferryFeed, followed proxy.SubscribeMessage) {
	t.Helper()
	source = newFerryFeed(t)
	source.add("Pier 1")
	c := founding(t, network)
	c.Found.PollInterval = 2 * time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m = running(t, c)
	m.awaitMembers(t, 1)
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, source.URL+"/news.xml"), &followed)
	m.await(t, source.URL+"/news.xml", "Pier 1")
	return m, source, followed
}

// Programs that speak WebSub find the node's hub in a feed, confirm that they want it, and get what is new, also after a
// restart of the node.
func TestTheHubTellsSubscribers(t *testing.T) {
	t.Parallel()
	m, source, followed := followingFerries(t, "hub")
	feedURL := source.URL + "/news.xml"

	read, err := http.Get(followed.ReadURL)
	if err != nil {
		t.Fatal(err)
	}
	document, _ := io.ReadAll(read.Body)
	_ = read.Body.Close()
	topic, hub := links(read.Header)["self"], links(read.Header)["hub"]
	if topic != followed.ReadURL || hub == "" || !strings.Contains(string(document), `rel="hub" href="`+hub+`"`) || !strings.Contains(string(document), `rel="self" href="`+topic+`"`) {
		t.Fatalf("%v %s", read.Header, document)
	}

	reader, other, silent := newSubscriber(t), newSubscriber(t), newSubscriber(t)
	silent.set(func() { silent.agrees = false })
	ask := func(s *subscriber, mode string, more ...string) {
		t.Helper()
		form := append([]string{"hub.mode", mode, "hub.topic", topic, "hub.callback", s.URL + "/callback?own=1"}, more...)
		if status := askHub(t, hub, form...); status != http.StatusAccepted {
			t.Errorf("%s: status %d", mode, status)
		}
	}
	const secret = "anchor"
	ask(reader, "subscribe", "hub.secret", secret, "hub.lease_seconds", "3600")
	ask(other, "subscribe")
	ask(silent, "subscribe")
	for _, s := range []*subscriber{reader, other, silent} {
		if q := s.asked(1); q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != topic || q.Get("hub.challenge") == "" || q.Get("own") != "1" {
			t.Errorf("the hub asks %v", q)
		}
	}
	if lease := reader.asked(1).Get("hub.lease_seconds"); lease != "3600" {
		t.Errorf("a lease of %s s", lease)
	}
	if lease := other.asked(1).Get("hub.lease_seconds"); lease != "864000" {
		t.Errorf("a lease of %s s by default", lease)
	}
	m.awaitSubscribers(t, 2)

	source.add("Pier 2")
	got := reader.pinged("Pier 2")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(got.body))
	if signature := got.header.Get("X-Hub-Signature"); signature != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("the signature is %s", signature)
	}
	if l := links(got.header); l["self"] != topic || l["hub"] != hub || got.header.Get("Content-Type") != read.Header.Get("Content-Type") {
		t.Errorf("the delivery has %v", got.header)
	}
	if p := other.pinged("Pier 2"); p.header.Get("X-Hub-Signature") != "" {
		t.Errorf("a signature without a secret: %v", p.header)
	}

	ask(other, "unsubscribe")
	if q := other.asked(2); q.Get("hub.mode") != "unsubscribe" || q.Get("hub.challenge") == "" {
		t.Errorf("the hub asks %v", q)
	}
	m.awaitSubscribers(t, 1)
	reader.set(func() { reader.status = http.StatusInternalServerError })
	source.add("Pier 3")
	reader.pinged("Pier 3")
	m.stop(t)
	reader.set(func() { reader.status, reader.pings = http.StatusNoContent, nil })
	c := Config{Dir: m.config.Dir, HTTP: m.HTTPAddr().String(), AllowPrivateOrigins: true}
	again := running(t, c)
	reader.pinged("Pier 3") // which the subscriber did not take
	reader.set(func() { reader.status = http.StatusGone })
	source.add("Pier 4")
	reader.pinged("Pier 4")
	again.awaitSubscribers(t, 0)
	ask(reader, "subscribe")
	again.awaitSubscribers(t, 1)
	again.stop(t)
	c.HTTP = noHTTP
	dumb := running(t, c) // which serves no readers, and delivers nothing
	dumb.awaitMembers(t, 1)
	source.add("Pier 5")
	dumb.await(t, feedURL, "Pier 5")
	if n := len(other.pings); n != 1 {
		t.Errorf("%d deliveries to the subscriber that has left", n)
	}
	if n := len(silent.pings); n != 0 {
		t.Errorf("%d deliveries to the subscriber that has not agreed", n)
	}
}

// The hub takes only requests that make sense, and only for a feed that the node follows.
func TestTheHubRefuses(t *testing.T) {
	t.Parallel()
	m, source, followed := followingFerries(t, "hubrefuses")
	topic, base := followed.ReadURL, "http://"+m.HTTPAddr().String()
	valid := map[string]string{"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": source.URL}
	for _, test := range []struct {
		name, value string
		status      int
	}{
		{"hub.mode", "", 400},
		{"hub.mode", "publish", 400},
		{"hub.topic", "", 404},
		{"hub.topic", base + "/https://other.example/feed", 404},
		{"hub.callback", "", 400},
		{"hub.callback", "ftp://reader.example/", 400},
		{"hub.callback", source.URL + "/#part", 400},
		{"hub.callback", source.URL + "/" + strings.Repeat("x", 2<<10), 400},
		{"hub.secret", strings.Repeat("s", 200), 400},
		{"hub.secret", strings.Repeat("s", 199), 202},
		{"hub.lease_seconds", "ten", 400},
		{"hub.lease_seconds", "-1", 400},
		{"hub.lease_seconds", "", 202},
	} {
		form := []string{test.name, test.value}
		for name, value := range valid {
			if name != test.name {
				form = append(form, name, value)
			}
		}
		if status := askHub(t, topic, form...); status != test.status {
			t.Errorf("%s=%.40s: status %d, want %d", test.name, test.value, status, test.status)
		}
	}
	unknown := base + "/" + source.URL + "/other.xml"
	if status := askHub(t, unknown, "hub.mode", "subscribe", "hub.topic", unknown, "hub.callback", source.URL); status != http.StatusNotFound {
		t.Errorf("a feed that the node does not follow: status %d", status)
	}
}

// newHubBench returns a hub without a node, whose feeds are what get and follows say.
func newHubBench(t *testing.T) *hub {
	t.Helper()
	journal, disk, err := openNews(filepath.Join(t.TempDir(), newsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	h := newHub(news.NewCourier(journal, slog.New(slog.DiscardHandler)), disk, slog.New(slog.DiscardHandler))
	h.get = func(context.Context, string) (proxy.Page, error) {
		return proxy.Page{Status: http.StatusOK, MediaType: "application/rss+xml", Body: []byte("ferries")}, nil
	}
	h.follows = func(context.Context, string, string) bool { return true }
	return h
}

var loopback = netip.MustParseAddr("127.0.0.1")

// A subscription ends with its lease, and with the node's own subscription, which the subscriber is told.
func TestSubscriptionsToTheHubEnd(t *testing.T) {
	h, reader := newHubBench(t), newSubscriber(t)
	now := time.Now()
	for i, url := range []string{"https://ferry.example/a", "https://ferry.example/b", "https://ferry.example/c"} {
		q := proxy.HubRequest{Subscribe: true, Topic: "topic of " + url, URL: url, Callback: reader.URL, Lease: time.Duration(i+1) * time.Hour, From: loopback}
		h.confirm(t.Context(), q)
	}
	h.follows = func(_ context.Context, url, _ string) bool { return url != "https://ferry.example/c" }
	h.check(t.Context(), now.Add(30*time.Minute))
	if denied := reader.asked(4); denied.Get("hub.mode") != "denied" || denied.Get("hub.topic") != "topic of https://ferry.example/c" || denied.Get("hub.reason") == "" {
		t.Errorf("the subscriber is told %v", denied)
	}
	if len(h.byID) != 2 {
		t.Errorf("%d subscriptions, want 2", len(h.byID))
	}
	h.check(t.Context(), now.Add(90*time.Minute))
	if _, ok := h.byID[hubID("topic of https://ferry.example/b", reader.URL)]; len(h.byID) != 1 || !ok {
		t.Errorf("%d subscriptions after 90 minutes, want the one whose lease is two hours", len(h.byID))
	}
}

// A hub that starts again has its subscribers, and takes no other record of the store for one.
func TestTheHubStartsAgain(t *testing.T) {
	h, reader := newHubBench(t), newSubscriber(t)
	h.confirm(t.Context(), proxy.HubRequest{Subscribe: true, Topic: "topic", URL: "https://ferry.example/a", Callback: reader.URL, Lease: time.Hour, From: loopback})
	journal, err := news.Open(h.disk, time.Now, proxy.Sanitise)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.RecordHealth(news.Source{URL: "https://ferry.example/a"}, news.Health{Failing: "it does not answer"}); err != nil {
		t.Fatal(err)
	}
	again := newHub(news.NewCourier(journal, slog.New(slog.DiscardHandler)), h.disk, slog.New(slog.DiscardHandler))
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	if _, ok := again.byID[hubID("topic", reader.URL)]; len(again.byID) != 1 || !ok {
		t.Errorf("subscribers: %+v", again.byID)
	}
}

// A subscriber that renews its subscription keeps it, with the new secret.
func TestASubscriptionToTheHubIsRenewed(t *testing.T) {
	h, reader := newHubBench(t), newSubscriber(t)
	q := proxy.HubRequest{Subscribe: true, Topic: "topic", URL: "https://ferry.example/", Callback: reader.URL, Secret: "old", Lease: time.Hour, From: loopback}
	h.confirm(t.Context(), q)
	q.Secret, q.Lease = "new", 2*maxHubLease
	h.confirm(t.Context(), q)
	id := hubID("topic", reader.URL)
	if s := h.byID[id]; len(h.byID) != 1 || s.Secret != "new" || time.Until(s.Until) > maxHubLease || time.Until(s.Until) < maxHubLease-time.Minute {
		t.Errorf("%d subscriptions, %+v", len(h.byID), s)
	}
	if err := h.deliver(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("new"))
	mac.Write([]byte("ferries"))
	if got := reader.pinged("ferries").header.Get("X-Hub-Signature"); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("the signature is %s", got)
	}
}

// A subscriber on another machine cannot make the node send requests to this machine, nor follow it there.
func TestTheHubCallsNoPrivateAddressForOthers(t *testing.T) {
	h, private := newHubBench(t), newSubscriber(t)
	for _, from := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.7")} {
		h.confirm(t.Context(), proxy.HubRequest{Subscribe: true, Topic: "topic", URL: "https://ferry.example/", Callback: private.URL, From: from})
	}
	redirect := httptest.NewServer(http.RedirectHandler(private.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	h.confirm(t.Context(), proxy.HubRequest{Subscribe: true, Topic: "topic", URL: "https://ferry.example/", Callback: redirect.URL, From: loopback})
	if len(private.asks) != 0 || len(h.byID) != 0 {
		t.Errorf("%d requests, %d subscriptions", len(private.asks), len(h.byID))
	}
}

// At its limits the hub refuses further subscribers, and keeps those that it has.
func TestLimitsOfTheHub(t *testing.T) {
	h := newHubBench(t)
	q := func(n int) proxy.HubRequest {
		return proxy.HubRequest{Subscribe: true, Topic: "topic", URL: "https://ferry.example/", Callback: fmt.Sprint("http://reader.example/", n)}
	}
	for n := range maxHubAsked {
		if err := h.Ask(q(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Ask(q(maxHubAsked)); !errors.Is(err, proxy.ErrFull) {
		t.Errorf("request %d: %v", maxHubAsked, err)
	}
	for range maxHubAsked {
		<-h.asked
	}
	for n := range maxHubSubscribers {
		h.byID[hubID("topic", q(n).Callback)] = hubSubscriber{}
	}
	if err := h.Ask(q(maxHubSubscribers)); !errors.Is(err, proxy.ErrFull) {
		t.Errorf("subscriber %d: %v", maxHubSubscribers, err)
	}
	if err := h.Ask(q(0)); err != nil {
		t.Errorf("a subscriber that renews: %v", err)
	}
}

// After a crash the document may lack an item for a while. The hub waits for it, but not for ever. A document that the
// subscriber has taken is not sent again: it had the items that came while it was on its way.
func TestTheHubWaitsForADocument(t *testing.T) {
	h, reader := newHubBench(t), newSubscriber(t)
	h.byID["id"] = hubSubscriber{Topic: "topic", URL: "https://ferry.example/", Callback: reader.URL, From: loopback, Until: time.Now().Add(time.Hour)}
	shown := false
	h.shows = func(context.Context, *news.Event) (bool, error) { return shown, nil }
	version := 0
	h.get = func(context.Context, string) (proxy.Page, error) {
		return proxy.Page{Status: http.StatusOK, MediaType: "application/rss+xml", Body: fmt.Append(nil, version)}, nil
	}
	for _, test := range []struct {
		shown bool
		age   time.Duration
		want  error
	}{{false, time.Minute, errNotShown}, {true, time.Minute, nil}, {false, hubPatience, nil}} {
		shown = test.shown
		version++
		if err := h.deliver(t.Context(), "id", []news.Event{{Time: time.Now().Add(-test.age)}}); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if err := h.deliver(t.Context(), "id", []news.Event{{Time: time.Now().Add(-hubPatience)}}); err != nil {
		t.Error(err)
	}
	if n := len(reader.pings); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
}

// A subscriber that asks for time gets it.
func TestTheHubWaitsForASubscriber(t *testing.T) {
	h := newHubBench(t)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer busy.Close()
	h.byID["id"] = hubSubscriber{Topic: "topic", URL: "https://ferry.example/", Callback: busy.URL, From: loopback, Until: time.Now().Add(time.Hour)}
	later, ok := errors.AsType[*news.RetryAfter](h.deliver(t.Context(), "id", nil))
	if !ok || later.Wait != 2*time.Minute {
		t.Errorf("%+v", later)
	}
}
