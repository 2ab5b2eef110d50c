package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/store"
	"tidings/proxy"
)

const aFeed = `<rss version="2.0"><channel><title>A feed</title><link>http://a/</link><description/>` +
	`<item><guid>1</guid><title>One</title></item></channel></rss>`

// post sends a request to the API and decodes the answer.
func (m *member) post(t *testing.T, what, body string, answer any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.HTTPAddr().String()+"/api/v1/"+what, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tidings", "1")
	r.Header.Set("Tidings-Token", m.dataDir.apiToken)
	r.Header.Set("Content-Type", "application/json")
	if err := json.Unmarshal(doRequest(t, r), answer); err != nil {
		t.Fatal(err)
	}
}

// get reads a path as a feed reader does.
func (m *member) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.HTTPAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tidings-Token", m.dataDir.apiToken)
	return string(doRequest(t, r))
}

func doRequest(t *testing.T, r *http.Request) []byte {
	t.Helper()
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", r.Method, r.URL.Path, answer.Status, body, err)
	}
	return body
}

// subscribedURLs returns the addresses of all subscriptions.
func (m *member) subscribedURLs(t *testing.T) string {
	t.Helper()
	channels, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, c := range channels {
		urls = append(urls, c.URL)
	}
	return strings.Join(urls, " ")
}

// TestReadingDoesNotUndoUnsubscribing goes on reading an address after it was unsubscribed from, as feed
// readers do.
func TestReadingDoesNotUndoUnsubscribing(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aFeed) }))
	defer origin.Close()
	c := founding(t, "ended")
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)

	feed := origin.URL + "/feed"
	var given proxy.SubscribeMessage
	m.post(t, "subscribe", `{"url":"`+feed+`"}`, &given)
	path := strings.TrimPrefix(given.ReadURL, "http://"+m.HTTPAddr().String())
	readsOn := func(m *member, want string) {
		t.Helper()
		if doc := m.get(t, path); !strings.Contains(doc, "<title>One</title>") {
			t.Errorf("the reader reads %s", doc)
		}
		if got := m.subscribedURLs(t); got != want {
			t.Errorf("after reading, %q is subscribed to, not %q", got, want)
		}
	}
	readsOn(m, feed)
	m.post(t, "unsubscribe", `{"url":"`+feed+`"}`, &given)
	readsOn(m, "")
	m.stop(t)

	m = running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	m.awaitMembers(t, 1)
	readsOn(m, "")
	m.post(t, "subscribe", `{"url":"`+feed+`","tags":["news"]}`, &given)
	readsOn(m, feed)
	if channels, err := m.List(t.Context()); err != nil || len(channels) != 1 || !slices.Equal(channels[0].Tags, []string{"news"}) || channels[0].Newest == nil {
		t.Errorf("%+v, %v", channels, err)
	}
	// A subscription that the user made does not lapse.
	m.endLapsed(t.Context(), time.Now().Add(lapseAge+time.Hour))
	readsOn(m, feed)
	// A subscription made by reading lapses, and reading makes it again.
	m.post(t, "unsubscribe", `{"url":"`+feed+`"}`, &given)
	if err := m.do(t.Context(), func() { m.forgetUnsubscribed(m.byKey[m.key(feed)]) }); err != nil {
		t.Error(err)
	}
	readsOn(m, feed)
	m.endLapsed(t.Context(), time.Now().Add(lapseAge+time.Hour))
	if got := m.subscribedURLs(t); got != "" {
		t.Errorf("%q did not lapse", got)
	}
	readsOn(m, feed)
	m.stop(t)
}

func TestFailingStoreIsShownInTheState(t *testing.T) {
	for state, want := range map[string]string{proxy.StateOK: proxy.StateUnsaved, proxy.StateNew: proxy.StateUnsaved, "gone": "gone"} {
		c := withStoreError(proxy.Channel{State: state}, store.ErrFull.Error())
		if c.State != want || want == proxy.StateUnsaved && (!strings.Contains(c.Error, store.ErrFull.Error()) || c.Do == "") {
			t.Errorf("%s became %+v", state, c)
		}
		if c := withStoreError(proxy.Channel{State: state}, ""); c.State != state || c.Error != "" {
			t.Errorf("%s became %+v on a good disk", state, c)
		}
	}
}

func TestJoinHintNamesAnAddress(t *testing.T) {
	if s := joinHint(Snapshot{}).String(); !strings.Contains(s, "no address") {
		t.Error(s)
	}
	if s := joinHint(Snapshot{Addrs: []string{"/ip4/192.0.2.1/tcp/4801/p2p/x"}}).String(); !strings.HasSuffix(s, "/ip4/192.0.2.1/tcp/4801/p2p/x") {
		t.Error(s)
	}
}

// The first list of a feed shows its title even if the log, which others had before, was not read yet.
func TestFirstListHasTitles(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, aFeed) }))
	defer origin.Close()
	founder := founding(t, "listed")
	founder.AllowPrivateOrigins = true
	a := running(t, founder)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true})
	b.awaitMembers(t, 2)
	url := origin.URL + "/feed"
	if err := a.Subscribe(t.Context(), url, false); err != nil {
		t.Fatal(err)
	}
	within(t, awaitTimeout, "a log", func() (err error) {
		if e := b.do(t.Context(), func() {
			if len(b.node.Owners.Visible(b.key(url))) == 0 {
				err = errors.New("nothing is held")
			}
		}); e != nil {
			return e
		}
		return err
	})
	if err := b.Subscribe(t.Context(), url, false); err != nil {
		t.Fatal(err)
	}
	channels, err := b.List(t.Context())
	if err != nil || len(channels) != 1 || channels[0].Title == "" || channels[0].Items == 0 {
		t.Errorf("%+v, %v", channels, err)
	}
}

func TestLookSaysWhatADocumentIs(t *testing.T) {
	t.Parallel()
	const feed, xml = aFeed, "text/xml"
	documents := []struct{ doc, contentType, words string }{
		{feed, xml, ""},
		{feed[:len(feed)-30], xml, "a broken feed: document ends too early"},
		{strings.Replace(feed, "</item>", "", 1), xml, "a broken feed: <channel> ends inside <item>"},
		{"%PDF-1.4\n%\xe2\xe3\xcf\xd3", "application/pdf", "not a feed: application/pdf"},
		{"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png", "not a feed: image/png"},
		{`{"a":1}`, "application/json", "not a feed: JSON, but no JSON Feed"},
		{"<!DOCTYPE html><p>" + strings.Repeat("Some text. ", 20), "text/html", "a web page, not a feed"},
	}
	web := http.NewServeMux()
	for i, d := range documents {
		web.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", d.contentType)
			io.WriteString(w, d.doc)
		})
	}
	origin := httptest.NewServer(web)
	t.Cleanup(origin.Close)
	config := founding(t, "look")
	config.AllowPrivateOrigins = true
	m := running(t, config)
	for i, d := range documents {
		url := fmt.Sprintf("%s/%d", origin.URL, i)
		look, err := m.Inspect(t.Context(), url)
		words := look.NotFeedReason
		if err != nil {
			words = strings.TrimPrefix(err.Error(), url+": ")
		}
		if !strings.HasPrefix(words, d.words) || look.Feed != (d.words == "") {
			t.Errorf("%s %.20q: %+v, %v; want %s", d.contentType, d.doc, look, err, d.words)
		}
	}
}

func TestDoctorStatesAProblemOnce(t *testing.T) {
	for _, c := range []struct{ kind, state, words, want string }{
		{proxy.KindFeed, "not a feed", "a web page, not a feed", "a web page, not a feed"},
		{proxy.KindFeed, "not a feed", "another feed in its place", "not a feed: another feed in its place"},
		{proxy.KindFeed, "missing", "does not exist, or may not be read (404)", "does not exist, or may not be read (404)"},
		{proxy.KindFeed, "gone", "gone for good (410)", "gone for good (410)"},
		{proxy.KindFeed, "broken", "broken document: <channel> ends inside <item>", "a broken feed: <channel> ends inside <item>"},
		{proxy.KindPage, "broken", "an empty page", "broken: an empty page"},
		{proxy.KindFeed, "failing", "the web server answered 500", "failing: the web server answered 500"},
	} {
		if got := problemOf(&proxy.Channel{Kind: c.kind, State: c.state, Error: c.words}); got != c.want {
			t.Errorf("%s: %q, want %q", c.state, got, c.want)
		}
	}
}

func TestImportedNamesStayWhenTheFeedIsRead(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, aFeed) }))
	t.Cleanup(origin.Close)
	read, unread := origin.URL+"/feed", "http://127.0.0.1:1/feed"
	config := founding(t, "names")
	config.AllowPrivateOrigins = true
	m := running(t, config)
	for _, url := range []string{read, unread} {
		if err := m.Subscribe(t.Context(), url, false); err != nil {
			t.Fatal(err)
		}
		for _, d := range []proxy.Description{{Title: "Mine", Site: "https://mine.example/"}, {Tags: []string{"News/Local"}}} {
			if err := m.Describe(t.Context(), url, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	const want = "Mine, https://mine.example/, [News/Local]"
	within(t, awaitTimeout, "names", func() error {
		channels, err := m.List(t.Context())
		if err != nil {
			return err
		}
		for _, c := range channels {
			switch got := fmt.Sprintf("%s, %s, %v", c.Title, c.Site, c.Tags); {
			case got != want:
				err = errors.Join(err, fmt.Errorf("%s: %s", c.URL, got))
			case c.URL == read && c.Items == 0:
				err = errors.New("the feed is not read yet")
			}
		}
		return err
	})
}
