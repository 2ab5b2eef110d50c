package origin

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A HubSite is a web server with feeds and their hub. The hub does what W3C WebSub asks of one: it confirms subscriptions,
// fetches a feed whose publisher has pinged it, and sends it to the subscribers with a signature.
type HubSite struct {
	mu       sync.Mutex
	base     string
	items    []int                        // of each feed
	polls    int                          // requests for feeds, other than those of the hub
	subs     map[string]map[string]string // secrets, by topic and callback
	failures int                          // notifications that a subscriber has not accepted
	client   *http.Client
	parts    sync.WaitGroup
}

const (
	hubTimeout = 30 * time.Second
	hubLease   = "864000"
	// hubWindow is the number of items of a document.
	hubWindow = 10
	// hubAgent is the User-Agent of the hub.
	hubAgent = "lab-hub"
)

// ServeHub serves feeds and hub until ctx ends. Wait for the end by Close.
func ServeHub(ctx context.Context, feeds int) (*HubSite, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve feeds: %w", err)
	}
	s := &HubSite{base: "http://" + l.Addr().String(), items: make([]int, feeds), subs: map[string]map[string]string{}, client: &http.Client{Timeout: hubTimeout}}
	for i := range s.items {
		s.items[i] = 1
	}
	m := http.NewServeMux()
	m.HandleFunc("GET /feed/{number}", s.feed)
	m.HandleFunc("POST /hub", func(w http.ResponseWriter, r *http.Request) { s.hub(ctx, w, r) })
	server := &http.Server{ReadHeaderTimeout: hubTimeout, Handler: m}
	s.parts.Go(func() { _ = server.Serve(l) }) // it ends when it is closed
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return s, nil
}

// Close waits for the end of all that the site does. Its context has to end before.
func (s *HubSite) Close() {
	s.parts.Wait()
	s.client.CloseIdleConnections()
}

// URL returns the address of a feed.
func (s *HubSite) URL(feed int) string { return fmt.Sprintf("%s/feed/%d", s.base, feed) }

// ItemTitle returns the title of an item of a feed.
func ItemTitle(feed, item int) string { return fmt.Sprintf("item %d of feed %d", item, feed) }

// feed answers a request for a feed.
func (s *HubSite) feed(w http.ResponseWriter, r *http.Request) {
	var number int
	if _, err := fmt.Sscan(r.PathValue("number"), &number); err != nil || number < 0 || number >= len(s.items) {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	n := s.items[number]
	if r.UserAgent() != hubAgent {
		s.polls++
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/rss+xml")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(s.document(number, n)))
}

func (s *HubSite) document(feed, items int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel><title>Feed %d</title><link>%s/</link>`+
		`<a:link rel="hub" href="%s/hub"/><a:link rel="self" href="%s"/>`, feed, s.base, s.base, s.URL(feed))
	for i := items; i > max(items-hubWindow, 0); i-- {
		fmt.Fprintf(&b, "<item><guid>%d-%d</guid><title>%s</title><description>%s</description></item>", feed, i, ItemTitle(feed, i), strings.Repeat("It says something. ", 30))
	}
	return b.String() + "</channel></rss>"
}

// hub answers subscribers and publishers.
func (s *HubSite) hub(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	form := r.PostForm
	w.WriteHeader(http.StatusAccepted)
	switch form.Get("hub.mode") {
	case "subscribe", "unsubscribe":
		s.parts.Go(func() { s.confirm(ctx, form) })
	case "publish":
		s.parts.Go(func() { s.distribute(ctx, form.Get("hub.url")) })
	}
}

// confirm asks a subscriber whether its request is meant.
func (s *HubSite) confirm(ctx context.Context, form url.Values) {
	const challenge = "is that meant?"
	topic, callback := form.Get("hub.topic"), form.Get("hub.callback")
	q := url.Values{"hub.mode": form["hub.mode"], "hub.topic": {topic}, "hub.challenge": {challenge}, "hub.lease_seconds": {hubLease}}
	status, body := s.do(ctx, http.MethodGet, callback+"?"+q.Encode(), nil, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case status != http.StatusOK || string(body) != challenge: // it is not
	case form.Get("hub.mode") == "unsubscribe":
		delete(s.subs[topic], callback)
	default:
		if s.subs[topic] == nil {
			s.subs[topic] = map[string]string{}
		}
		s.subs[topic][callback] = form.Get("hub.secret")
	}
}

// distribute fetches a topic and sends it to its subscribers.
func (s *HubSite) distribute(ctx context.Context, topic string) {
	_, body := s.do(ctx, http.MethodGet, topic, http.Header{"User-Agent": {hubAgent}}, nil)
	s.mu.Lock()
	to := map[string]string{}
	for callback, secret := range s.subs[topic] {
		to[callback] = secret
	}
	s.mu.Unlock()
	for callback, secret := range to {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		header := http.Header{"Content-Type": {"application/rss+xml"}, "X-Hub-Signature": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
		for range 3 { // a subscriber that is busy is told again
			if status, _ := s.do(ctx, http.MethodPost, callback, header, body); status/100 == 2 {
				to[callback] = ""
				break
			}
		}
		if to[callback] != "" {
			s.mu.Lock()
			s.failures++
			s.mu.Unlock()
		}
	}
}

// do makes a request. The status is 0 if there is no answer.
func (s *HubSite) do(ctx context.Context, method, address string, header http.Header, body []byte) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	for k, v := range header {
		r.Header[k] = v
	}
	a, err := s.client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer a.Body.Close()
	if answer, err = io.ReadAll(a.Body); err != nil {
		return 0, nil
	}
	return a.StatusCode, answer
}

// Publish adds an item to a feed, and returns its title and when the hub was pinged.
func (s *HubSite) Publish(ctx context.Context, feed int) (title string, at time.Time, err error) {
	s.mu.Lock()
	s.items[feed]++
	title = ItemTitle(feed, s.items[feed])
	s.mu.Unlock()
	form := url.Values{"hub.mode": {"publish"}, "hub.url": {s.URL(feed)}}
	at = time.Now()
	if status, _ := s.do(ctx, http.MethodPost, s.base+"/hub", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode())); status != http.StatusAccepted {
		return "", at, fmt.Errorf("ping the hub: status %d", status)
	}
	return title, at, nil
}

// Callbacks returns the addresses of the subscribers of a feed.
func (s *HubSite) Callbacks(feed int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.subs[s.URL(feed)]))
}

// Counts returns the requests for feeds, the feeds with a subscriber, and the notifications that no subscriber has accepted.
func (s *HubSite) Counts() (polls, subscribed, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.subs {
		if len(of) > 0 {
			subscribed++
		}
	}
	return s.polls, subscribed, s.failures
}
