package proxy

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/cobra/query"
	"tidings/internal/feed"
	"tidings/internal/locale"
)

// memoryKeywords implements Keywords in memory, with given articles.
type memoryKeywords struct {
	mu       sync.Mutex
	watches  []Watch
	articles map[uint32][]feed.Entry // newest first
	reads    int
	short    locale.Text
	preview  *Preview // returned by Preview, if there is one
}

func (s *memoryKeywords) Watch(_ context.Context, text string) (Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(text, "(") {
		return Watch{}, ErrQuery
	}
	w := Watch{Number: uint32(len(s.watches)), Query: text, Since: time.Unix(1.7e9, 0)}
	s.watches = append(s.watches, w)
	return w, nil
}

func (s *memoryKeywords) Preview(_ context.Context, text string) (Preview, error) {
	if strings.Contains(text, "(") {
		return Preview{}, ErrQuery
	}
	if s.preview != nil {
		p := *s.preview
		p.Query = text
		return p, nil
	}
	return Preview{
		Query: text, Period: 7 * 24 * time.Hour, Articles: 1000, Matching: len(text), PerDay: float64(len(text)) / 7, // each letter increases the numbers
		Entries: []feed.Entry{{Arrived: time.Unix(1.7e9, 0), Meaning: &feed.Meaning{Title: "<i>It</i>", Link: "javascript:x()"}, Source: &feed.Source{Title: "X & Y"}}},
	}, nil
}

func (s *memoryKeywords) Unwatch(_ context.Context, number uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.watches, func(w Watch) bool { return w.Number == number })
	if i < 0 {
		return ErrNoSubscription
	}
	s.watches = slices.Delete(s.watches, i, i+1)
	return nil
}

func (s *memoryKeywords) Shortage() locale.Text { return s.short }

func (s *memoryKeywords) Watches(_ context.Context, q WatchList) (p WatchPage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		switch {
		case w.Number < q.From || !strings.Contains(strings.ToLower(w.Query), strings.ToLower(q.Filter)):
		case len(p.Watches) == q.Limit:
			p.Next = w.Number
			return p, nil
		default:
			p.Watches = append(p.Watches, w)
		}
	}
	return p, nil
}

func (s *memoryKeywords) CountWatches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

func (s *memoryKeywords) SameWatches(_ context.Context, text string) (same []Watch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meaning, wrong := query.Canonical(text)
	for _, w := range s.watches {
		if other, err := query.Canonical(w.Query); w.Query == text || err == nil && wrong == nil && other == meaning {
			same = append(same, w)
		}
	}
	return same, nil
}

func (s *memoryKeywords) LookUp(_ context.Context, number uint32) (Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.watches, func(w Watch) bool { return w.Number == number }); i >= 0 {
		return s.watches[i], nil
	}
	return Watch{}, ErrNoSubscription
}

func (s *memoryKeywords) Watched(_ context.Context, number uint32) (m MatchedFeed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.watches, func(w Watch) bool { return w.Number == number })
	if i < 0 {
		return m, ErrNoSubscription
	}
	for at := range s.articles[number] {
		m.Articles = append(m.Articles, uint32(len(s.articles[number])-at))
	}
	m.Read = func() (Watch, []feed.Entry, error) {
		s.reads++
		return s.watches[i], s.articles[number], nil
	}
	return m, nil
}

// Anybody with the address of a keyword feed can read it, in each format and from other machines. If it has not
// changed, no article is read for it.
func TestAKeywordFeedIsReadByItsAddress(t *testing.T) {
	k := &memoryKeywords{articles: map[uint32][]feed.Entry{}}
	b := newTestServer(t, func(c *Config) { c.Keywords, c.BaseURL = k, "http://nas.example" })
	var answer struct {
		WatchResponse
		ErrorResponse
	}
	if status := b.call("POST", "watch", `{"query":"solar <b>"}`, &answer); status != 200 || len(answer.Watches) != 1 || len(answer.Scope) == 0 {
		t.Fatalf("%d %+v", status, answer)
	}
	address, ok := strings.CutPrefix(answer.Watches[0].ReadURL, "http://nas.example/k/")
	if token, ending, _ := strings.Cut(address, "."); !ok || len(token) != 32 || ending != "atom" {
		t.Fatal(answer.Watches[0].ReadURL)
	}
	k.articles[0] = []feed.Entry{{
		Arrived: time.Unix(1.7e9, 0),
		Meaning: &feed.Meaning{GUID: "https://x.example/ 1", Title: "A battery", Content: `<p onclick="x()">It is solar.<script>x()</script></p>`},
		Source:  &feed.Source{URL: "https://x.example/feed", Title: "X"},
	}}
	token := strings.TrimSuffix(address, ".atom")
	for _, ending := range []string{"atom", "rss", "json"} {
		r := b.ask("GET", "/k/"+token+"."+ending, "Host", "nas.example")
		text := body(t, r)
		if r.StatusCode != 200 || !strings.Contains(text, "It is solar.") || strings.Contains(text, "onclick") || strings.Contains(text, "x()") ||
			!strings.Contains(text, "urn:tidings:keywords:") || !strings.Contains(text, "https://x.example/feed") || ending != "json" && strings.Contains(text, "<b>") {
			t.Errorf("%s: %d\n%s", ending, r.StatusCode, text)
		}
		tag, reads := r.Header.Get("Etag"), k.reads
		again := b.ask("GET", "/k/"+token+"."+ending, "If-None-Match", tag)
		if again.StatusCode != http.StatusNotModified || again.Header.Get("Etag") != tag || k.reads != reads {
			t.Errorf("%s: %d with its tag", ending, again.StatusCode)
		}
	}
	k.articles[0] = append([]feed.Entry{{Meaning: &feed.Meaning{GUID: "https://x.example/ 2", Title: "More"}, Arrived: time.Unix(1.7e9, 5e8), Source: &feed.Source{URL: "u"}}}, k.articles[0]...)
	within := time.Unix(1.7e9, 0).UTC().Format(http.TimeFormat) // the second in which both articles were found
	if r := b.ask("GET", "/k/"+address, "If-Modified-Since", within); r.StatusCode != http.StatusOK {
		t.Errorf("%d, where an article came in the same second", r.StatusCode)
	}
	if text := body(t, b.ask("GET", "/k/"+address)); strings.Count(text, "<entry") != 2 {
		t.Error(text)
	}
	if r := b.ask("GET", "/k/"+address, "Accept", acceptOfFirefox, "Sec-Fetch-Mode", "navigate"); r.StatusCode != 303 || !strings.HasPrefix(r.Header.Get("Location"), watchPath+"?q=") {
		t.Errorf("a browser gets %d and is led to %q", r.StatusCode, r.Header.Get("Location"))
	}
	for _, wrong := range []string{"/k/", "/k/" + token, "/k/" + token + ".html", "/k/" + strings.Repeat("0", 32) + ".atom", "/k/" + token[2:] + ".atom", "/k/x.atom"} {
		if r := b.ask("GET", wrong); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", wrong, r.StatusCode)
		}
	}
	if r := b.ask("POST", "/k/"+address); r.StatusCode != http.StatusMethodNotAllowed {
		t.Error(r.StatusCode)
	}
	if status := b.call("POST", "unwatch", `{"query":"http://nas.example/k/`+address+`"}`, &answer); status != 200 || len(k.watches) != 0 {
		t.Errorf("%d %+v", status, k.watches)
	}
	if r := b.ask("GET", "/k/"+address); r.StatusCode != http.StatusGone {
		t.Error(r.StatusCode)
	}
	for _, q := range []string{`{"query":""}`, `{"query":"("}`, `{`} {
		if status := b.call("POST", "watch", q, &answer); status != http.StatusBadRequest {
			t.Errorf("%s: %d", q, status)
		}
	}
	if status := b.call("POST", "unwatch", `{"query":"nobody"}`, &answer); status != http.StatusNotFound {
		t.Error(status)
	}
}

// A search without articles was last updated when it was added, and not in 1970.
func TestAnEmptyKeywordFeedWasUpdatedWhenItWasAdded(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Keywords = &memoryKeywords{} })
	var answer WatchResponse
	if status := b.call("POST", "watch", `{"query":"solar"}`, &answer); status != 200 {
		t.Fatal(status)
	}
	at, err := url.Parse(answer.Watches[0].ReadURL)
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, b.ask("GET", at.Path)); !strings.Contains(text, ">2023-11-14T22:13:20Z</updated>") {
		t.Error(text)
	}
}

// The answer of watch says which recent articles match, which parts of the query may be mistakes, and that nothing
// can match without subscriptions, of which private ones are none. A query that was watched several times ends as a whole.
func TestWatchSaysWhatToExpect(t *testing.T) {
	k := &memoryKeywords{articles: map[uint32][]feed.Entry{}}
	b := newTestServer(t, func(c *Config) { c.Keywords, c.MaxArticles = k, 25 })
	b.node.subscribed[privateName], b.node.channels[privateName] = false, Channel{Private: true}
	var answer struct {
		WatchResponse
		ErrorResponse
	}
	watch := func(query string) *PreviewResult {
		t.Helper()
		if status := b.call("POST", "watch", `{"query":"`+query+`"}`, &answer); status != 200 || answer.Preview == nil || answer.MaxArticles != 25 {
			t.Fatalf("%d %+v", status, answer)
		}
		return answer.Preview
	}
	if got := watch("solar"); got.TooGeneral || got.Warning != nil || got.PerDay == nil || got.Summary.String() != "5 of 1,000 articles of the last 7 days match; on average less than one a day" {
		t.Errorf("%+v", got)
	}
	if got := watch(strings.Repeat("a", 51)); !got.TooGeneral || !strings.Contains(got.Warning.String(), "newest 25") {
		t.Errorf("%+v", got)
	}
	if !answer.ScopeEmpty || !strings.Contains(answer.Scope.String(), "none yet") {
		t.Errorf("%+v", answer)
	}
	var subscribed SubscribeMessage
	b.call("POST", "subscribe", `{"url":"`+rssURL+`"}`, &subscribed)
	answer.ScopeEmpty = false // a false value is not sent
	if watch("solar"); answer.ScopeEmpty || !strings.Contains(answer.Scope.String(), "the feed or page that") {
		t.Errorf("%+v", answer)
	}
	if status := b.call("POST", "unwatch", `{"query":"solar"}`, &answer); status != 200 || len(answer.Watches) != 2 || len(k.watches) != 1 {
		t.Errorf("%d %+v, %+v are left", status, answer, k.watches)
	}
	// A query may look like the address of a keyword feed.
	const query = `{"query":"feed:https://example.org/k/feed.xml sun"}`
	b.call("POST", "watch", query, &answer)
	if status := b.call("POST", "unwatch", query, &answer); status != 200 || len(k.watches) != 1 {
		t.Errorf("%d %+v, %+v are left", status, answer, k.watches)
	}
}

func TestPreviewResults(t *testing.T) {
	for _, test := range []struct {
		preview Preview
		says    string
		general bool
	}{
		{Preview{}, "this node has only the articles that somebody searches for, so how many match is not known", false},
		{Preview{Period: 7 * day}, "no articles arrived in the last 7 days, so the number of matches is not known yet", false},
		{Preview{Period: 10 * time.Minute, Articles: 80, Matching: 5}, "5 of 80 articles of the last 10 min match; it is too early to say how many match in a day", false},
		{Preview{Period: 10 * time.Minute, Articles: 900, Matching: 101}, "101 of 900 articles of the last 10 min match; it is too early to say how many match in a day", true},
		{Preview{Period: 10 * time.Minute, Articles: 1000, Matching: 51}, "51 of 1,000 articles of the last 10 min match; it is too early to say how many match in a day", true},
		{Preview{Period: 2 * time.Hour, Articles: 80, Matching: 8, PerDay: 96}, "8 of 80 articles of the last 2 h match; on average about 96 a day", false},
		{Preview{Period: 2 * time.Hour, Articles: 80, Matching: 9, PerDay: 108}, "9 of 80 articles of the last 2 h match; on average about 108 a day", true},
		{Preview{Period: day, Articles: 7}, "0 of 7 articles of the last 24 h match; on average less than one a day", false},
		{Preview{Period: day, Articles: 1, Matching: 1, PerDay: 1}, "1 of 1 article of the last 24 h match; on average about 1 a day", false},
	} {
		if got := test.preview.result(10); got.Summary.String() != test.says || got.TooGeneral != test.general || (got.Warning != nil) != test.general {
			t.Errorf("%+v: %+v", test.preview, got)
		}
	}
}

// Tokens do not show numbers, and a token that this node did not make is not accepted.
func TestKeywordTokensCannotBeForged(t *testing.T) {
	s, other := newNumberTokens([]byte("0123456789abcdef")), newNumberTokens([]byte("0123456789abcdeF"))
	for _, n := range []uint32{0, 1, 2, 1 << 31, 1<<32 - 1} {
		token := s.token(n)
		if got, ok := s.open(token); !ok || got != n {
			t.Errorf("%d is %d, %v", n, got, ok)
		}
		if _, ok := other.open(token); ok {
			t.Errorf("another node opens %d", n)
		}
		if n > 0 && token[:8] == s.token(n - 1)[:8] {
			t.Errorf("%d looks like the one before", n)
		}
	}
}

// The page of keywords shows the articles that a query would have matched, as a whole page and as a part, and warns
// of a query that is too general.
func TestThePageOfKeywords(t *testing.T) {
	k := &memoryKeywords{articles: map[uint32][]feed.Entry{}}
	b := newTestServer(t, func(c *Config) { c.Keywords = k })
	for query, want := range map[string]string{"a": "less than one a day", "sun+wind+sea": "about 2 a day", "(": "Query not accepted.", strings.Repeat("a", 51): "too general"} {
		for _, part := range []string{"", "&part=1"} {
			r := b.ask("GET", "/watch?q="+query+part, "Sec-Fetch-Site", "same-origin")
			text := body(t, r)
			if r.StatusCode != 200 || !strings.Contains(text, want) || strings.Contains(text, "<!DOCTYPE") != (part == "") || strings.Contains(text, "<i>") || strings.Contains(text, "javascript:x") {
				t.Errorf("%s%s: %d\n%s", query, part, r.StatusCode, text)
			}
		}
	}
	if r := b.ask("GET", "/watch?q=a&part=1", "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page is told: %d", r.StatusCode)
	}
	status, location, _ := b.post("/watch", url.Values{"q": {"solar"}})
	if text := body(t, b.ask("GET", location)); status != 303 || !strings.Contains(text, "is now a feed") || !strings.Contains(text, "/k/") {
		t.Errorf("%d %s\n%s", status, location, text)
	}
	_, location, _ = b.post("/watch", url.Values{"q": {"C++"}})
	if text := html.UnescapeString(body(t, b.ask("GET", location))); !strings.Contains(text, `"C++" is searched as "C", because + is no part of a word.`) {
		t.Errorf("it does not say what is dropped\n%s", text)
	}
	b.post("/unwatch", url.Values{"q": {"C++"}})
	for _, path := range []string{"/", "/watch"} { // the script may run, and no other one
		if r := b.ask("GET", path); !strings.Contains(r.Header.Get("Content-Security-Policy"), "script-src 'self';") {
			t.Errorf("%s: %s", path, r.Header.Get("Content-Security-Policy"))
		}
	}
	if r := b.ask("GET", "/watch"); strings.Contains(body(t, r), "For now") {
		t.Error("it says that something is not kept")
	}
	k.short = locale.Say("new articles are not kept: %s", "<full>")
	if text := body(t, b.ask("GET", "/watch")); !strings.Contains(text, "For now, new articles are not kept: &lt;full&gt;.") {
		t.Errorf("it does not say that nothing is kept\n%s", text)
	}
	if status, location, _ := b.post("/unwatch", url.Values{"q": {"solar"}}); status != 303 || location != "/watch" || len(k.watches) > 0 {
		t.Errorf("%d %s %+v", status, location, k.watches)
	}
	if status, _, text := b.post("/watch", url.Values{"q": {"("}}); status != 400 || !strings.Contains(text, "Query not accepted.") {
		t.Error(status, text)
	}
}

// Searches at a node of a hosting centre cover what its crawlers poll, whether or not the node has subscriptions.
func TestSearchesOfAHostingCentre(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Keywords, c.HostingCentre = &memoryKeywords{}, true })
	var answer WatchResponse
	if status := b.call("POST", "watch", `{"query":"solar"}`, &answer); status != 200 || answer.ScopeEmpty || !strings.Contains(answer.Scope.String(), "that the crawlers of the hosting centre poll") {
		t.Errorf("%d: %+v", status, answer)
	}
}
