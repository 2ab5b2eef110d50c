package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/feed"
)

// A suite is a web server that plays the blogs and the hubs of the W3C's test suite for subscribers (websub.rocks, subscriber
// 100 to 302). The blog of a test is at /NUMBER, and its hub at /NUMBER/hub.
type suite struct {
	*httptest.Server
	t       *testing.T
	asking  sync.WaitGroup
	mu      sync.Mutex
	refused map[string]bool       // tests whose subscriber did not confirm
	subs    map[string]url.Values // confirmed subscriptions by test
}

func newSuite(t *testing.T) *suite {
	s := &suite{t: t, refused: map[string]bool{}, subs: map[string]url.Values{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); s.asking.Wait() })
	return s
}

func (s *suite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, rest, _ := strings.Cut(r.URL.Path[1:], "/")
	own := s.URL + "/" + number
	hub, self := own+"/hub", own
	switch {
	case rest == "wrong":
		s.t.Errorf("test %s: the wrong hub is asked", number)
	case rest == "hub" && number == "203":
		http.Redirect(w, r, "/203/hub/moved", http.StatusTemporaryRedirect)
	case rest == "hub" && number == "204":
		http.Redirect(w, r, "/204/hub/moved", http.StatusPermanentRedirect)
	case strings.HasPrefix(rest, "hub"):
		_ = r.ParseForm() // a form that is not valid lacks what is asked for
		form := r.PostForm
		w.WriteHeader(http.StatusAccepted)
		s.asking.Go(func() { s.confirm(number, form) })
	case number == "201" && rest == "":
		http.Redirect(w, r, "/201/moved", http.StatusFound)
	case number == "202" && rest == "":
		http.Redirect(w, r, "/202/moved", http.StatusMovedPermanently)
	default:
		if number == "200" || rest == "moved" {
			self += "/moved"
		}
		if !slices.Contains([]string{"101", "102", "103"}, number) {
			w.Header().Add("Link", "<"+self+`>; rel="self"`)
			w.Header().Add("Link", "<"+hub+`>; rel="hub"`)
		}
		_, _ = io.WriteString(w, s.blog(number, hub, self, "First"))
	}
}

// blog returns the document of a test with a post.
func (s *suite) blog(number, hub, self, post string) string {
	switch number {
	case "101":
		return `<!DOCTYPE html><html><head><title>Blog</title><link rel="hub" href="` + hub + `"><link rel="self" href="` + self + `"></head><body><main><h1>Blog</h1><p>` + post + ` post of this blog</p></main></body></html>`
	case "102", "104":
		if number == "104" {
			hub = s.URL + "/104/wrong"
		}
		return fmt.Sprintf(`<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title><id>%s</id><updated>2026-01-01T00:00:00Z</updated><link rel="self" href="%s"/><link rel="hub" href="%s"/>`+
			`<entry><id>%s#%s</id><title>%s</title><updated>2026-01-01T00:00:00Z</updated></entry></feed>`, self, self, hub, self, post, post)
	}
	links := ""
	if number == "103" {
		links = `<a:link rel="self" href="` + self + `"/><a:link rel="hub" href="` + hub + `"/>`
	}
	return `<rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel><title>Blog</title><link>` + s.URL + `</link>` + links +
		`<item><guid isPermaLink="false">` + post + `</guid><title>` + post + `</title></item></channel></rss>`
}

// confirm asks a subscriber whether its request is meant. In test 205 the question names another topic.
func (s *suite) confirm(number string, form url.Values) {
	topic := form.Get("hub.topic")
	if number == "205" {
		topic += "/other"
	}
	q := url.Values{"hub.mode": form["hub.mode"], "hub.topic": {topic}, "hub.challenge": {"wharf"}, "hub.lease_seconds": {"86400"}}
	a, err := http.Get(form.Get("hub.callback") + "?" + q.Encode())
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = a.Body.Close() }()
	body, _ := io.ReadAll(a.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.StatusCode/100 == 2 && string(body) == "wharf" {
		s.subs[number] = form
	} else {
		s.refused[number] = true
	}
}

// deliver sends a subscriber the document with another post, and returns the status of the answer.
func (s *suite) deliver(number, post string) int {
	s.t.Helper()
	s.mu.Lock()
	form := s.subs[number]
	s.mu.Unlock()
	body := s.blog(number, s.URL+"/"+number+"/hub", form.Get("hub.topic"), post)
	mac := hmac.New(sha256.New, []byte(form.Get("hub.secret")))
	mac.Write([]byte(body))
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, form.Get("hub.callback"), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if number == "301" {
		signature = "sha256=" + strings.Repeat("0", 64)
	}
	if number != "302" {
		r.Header.Set("X-Hub-Signature", signature)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}

// A node passes the tests for subscribers of the W3C's test suite for WebSub.
func TestTheSubscriberPassesTheTestsOfTheW3C(t *testing.T) {
	t.Parallel()
	site := newSuite(t)
	c := founding(t, "w3csubscriber")
	c.Found.PollInterval = time.Hour
	c.AllowPrivateOrigins = true
	c.PublicListen = "127.0.0.1:" + checktest.Port(t)
	c.PublicURL = "http://" + c.PublicListen
	m := running(t, c)
	m.awaitMembers(t, 1)
	tests := []struct{ number, topic string }{
		{"100", ""}, {"101", ""}, {"102", ""}, {"103", ""}, {"104", ""}, // discovery
		{"200", "/moved"}, {"201", "/moved"}, {"202", "/moved"}, {"203", ""}, {"204", ""}, {"205", ""}, // subscribing
		{"300", ""}, {"301", ""}, {"302", ""}, // distribution
	}
	for _, test := range tests {
		address := site.URL + "/" + test.number
		if test.number == "101" {
			address = feed.PageChannel(address)
		}
		if err := m.Subscribe(t.Context(), address, false); err != nil {
			t.Fatal(err)
		}
	}
	items := func(number string) int {
		list, err := m.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if strings.HasSuffix(c.URL, "/"+number) {
				return c.Items
			}
		}
		t.Fatalf("test %s: no subscription", number)
		return 0
	}
	for _, test := range tests {
		within(t, 3*awaitTimeout, "a subscription for test "+test.number, func() error {
			site.mu.Lock()
			defer site.mu.Unlock()
			form := site.subs[test.number]
			switch {
			case test.number == "205" && site.refused["205"]:
				return nil
			case form == nil:
				return errors.New("there is none")
			case test.number == "205":
				t.Fatal("a question for another topic was confirmed")
			}
			if want := site.URL + "/" + test.number + test.topic; form.Get("hub.topic") != want || form.Get("hub.secret") == "" {
				t.Errorf("test %s: subscribed by %v, want the topic %s", test.number, form, want)
			}
			return nil
		})
		if test.number < "300" {
			continue
		}
		within(t, awaitTimeout, "the first post", func() error {
			if n := items(test.number); n != 1 {
				return fmt.Errorf("test %s: %d items", test.number, n)
			}
			return nil
		})
		if status := site.deliver(test.number, "Second"); status/100 != 2 {
			t.Errorf("test %s: the delivery is answered %d", test.number, status)
		}
	}
	// The delivery to 300 came before those that are not to be believed, and one more comes after them.
	if status := site.deliver("300", "Third"); status/100 != 2 {
		t.Errorf("the last delivery is answered %d", status)
	}
	within(t, awaitTimeout, "the last post", func() error {
		if n := items("300"); n != 3 {
			return fmt.Errorf("%d items", n)
		}
		return nil
	})
	for _, number := range []string{"301", "302"} {
		if n := items(number); n != 1 {
			t.Errorf("test %s: %d items after a delivery that nobody has signed as the hub", number, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
