package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tidings/internal/locale"
)

// manyNode is a node with many subscriptions, which it lists without any work.
type manyNode struct {
	*memoryNode
	list []Channel
}

func (m *manyNode) List(context.Context) ([]Channel, error) { return slices.Clone(m.list), nil }

func (m *manyNode) Each(_ context.Context, see func(*Channel)) error {
	for i := range m.list {
		see(&m.list[i])
	}
	return nil
}

func (m *manyNode) Doctor(ctx context.Context, see func(*Channel)) ([]Finding, error) {
	if see == nil {
		return m.findings, nil
	}
	return m.findings, m.Each(ctx, see)
}

func (m *manyNode) CountShared(context.Context) (int, error) { return len(m.list), nil }

func (m *manyNode) ListPart(_ context.Context, q ListQuery) (ListPart, error) {
	return partOf(slices.Clone(m.list), q), nil
}

func (m *manyNode) Status(context.Context) (Status, error) {
	return Status{State: StateOK, EstimateN: 40, Subscriptions: len(m.list)}, nil
}

// newManyServer returns a server of a node with n subscriptions, of which one in twenty is in trouble.
func newManyServer(t testing.TB, n int) *testServer {
	b := &testServer{clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	if t, ok := t.(*testing.T); ok {
		b.T = t
	}
	now := func() time.Time { return b.clock }
	many := &manyNode{memoryNode: newMemoryNode(now)}
	b.node = many.memoryNode
	b.node.network = Network{Name: "town", EstimateN: 40, Members: []Member{{ID: idAt(0), PeerID: "12D3KooWme", Role: RoleSelf}}}
	for i := range 400 {
		b.node.network.Members = append(b.node.network.Members, Member{ID: idAt(i % 100), PeerID: "12D3KooW" + strings.Repeat("x", 44), Role: RoleContact})
	}
	for i := range n {
		delay := 20 + float64(i%50)
		c := Channel{
			URL: fmt.Sprintf("https://www.site-%05d.example/blog/feeds/posts/default.xml?format=atom", i*7919%100003), Kind: KindFeed,
			Title: fmt.Sprintf("The Weblog of Person %d about Things", i*104729%100003), State: StateOK, Items: 20 + i%30, Subscribers: 1 + i%9, Pollers: 3, Owners: 5,
			Newest: OptionalTime(b.clock.Add(-time.Duration(i) * time.Minute)), Added: OptionalTime(b.clock.Add(-time.Duration(i) * time.Hour)),
			LastPoll: OptionalTime(b.clock.Add(-time.Minute)), NextPoll: OptionalTime(b.clock.Add(time.Minute)), DetectionExpectedS: &delay, Why: "two members poll it in turns",
		}
		switch {
		case i%20 == 7:
			c.State, c.Error, c.Do = "unreachable", "no such host: site.example", "look at the address"
			c.Since = OptionalTime(b.clock.Add(-time.Hour))
		case i%20 == 8:
			c.State, c.Items, c.Newest = StateNew, 0, nil
		case i%20 == 9:
			c.Kind, c.URL = KindPage, "page+"+c.URL
		case i%20 == 10:
			c.Publisher = "SHA256:key"
		}
		if i%3 == 0 {
			c.Tags = []string{fmt.Sprintf("Folder %d", i%40)}
		}
		many.list = append(many.list, c)
	}
	b.server = New(many, Config{Secret: []byte(secret), Token: secret, News: memoryNews{items: 7}, Now: now, Version: "test", Keywords: &memoryKeywords{}, Notifications: &memoryNotifications{}})
	return b
}

const (
	// maxPage bounds a page with many subscriptions, in bytes.
	maxPage = 100_000
	// maxListTime bounds the time in which the server makes such a page. Tests run beside others, so it is far more than is
	// usual.
	maxListTime = 2 * time.Second
)

// Pages stay small, however many subscriptions there are.
func TestPagesOfManySubscriptionsAreSmall(t *testing.T) {
	for _, n := range []int{300, 2000, 100_000} {
		b := newManyServer(t, n)
		for _, target := range []string{"/", "/subscriptions", "/subscriptions?sort=state", "/subscriptions?sort=newest&page=3", "/subscriptions?q=person+12&sort=added", "/channels?sort=-expected", "/node", "/network", "/network?channel=person", NotifyPath} {
			began := time.Now()
			r := b.ask("GET", target)
			took := time.Since(began)
			if text := body(t, r); r.StatusCode != 200 || len(text) > maxPage || took > maxListTime {
				t.Errorf("%d subscriptions, %s: %d, %d bytes in %v", n, target, r.StatusCode, len(text), took)
			}
		}
	}
}

func BenchmarkManySubscriptions(b *testing.B) {
	server := newManyServer(b, 100_000).server
	for _, target := range []string{"/", "/subscriptions", "/subscriptions?sort=state&page=1000", "/subscriptions?q=person+12&sort=newest", "/channels?sort=-expected", "/network?channel=person", NotifyPath} {
		b.Run(target, func(b *testing.B) {
			for b.Loop() {
				w := &pageWriter{header: http.Header{}}
				if server.ServeHTTP(w, request("GET", target, nil)); w.status != 200 {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// rowTitles returns the titles of the rows on a page.
func rowTitles(t *testing.T, page string) (titles []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Data == "h3" && attr(n.Parent.Parent.Parent, "class") == "rows" || n.Data == "h3" && attr(n.Parent.Parent, "class") == "rows" {
			titles = append(titles, textOf(n))
		}
	}
	return titles
}

// The page of subscriptions finds, sorts and divides them; its address says how.
func TestSubscriptionsAreFoundAndSorted(t *testing.T) {
	b := newTestServer(t)
	at := func(minutes int) *time.Time { return OptionalTime(b.clock.Add(-time.Duration(minutes) * time.Minute)) }
	page := "page+https://h.example/page"
	for address, c := range map[string]Channel{
		rssURL:  {Title: "banana", State: StateOK, Newest: at(5), Added: at(50), Tags: []string{"Fruit"}, Publisher: "SHA256:key"},
		atomURL: {Title: "Apple", State: "gone", Error: "gone for good (410)", Newest: at(50), Added: at(5), Tags: []string{"Fruit", "News/Local"}},
		jsonURL: {Title: "cherry", State: StateNew, Added: at(500)},
		page:    {Title: "Date", State: StateOK, Newest: at(1), Added: at(1)},
	} {
		b.node.Subscribe(t.Context(), address, false)
		b.node.channels[address] = c
	}
	for query, want := range map[string]string{
		"":                           "Apple, banana, cherry, Date",
		"sort=newest":                "Date, banana, Apple, cherry",
		"sort=added":                 "Date, Apple, banana, cherry",
		"sort=state":                 "Apple, cherry, banana, Date",
		"sort=nonsense&kind=nothing": "Apple, banana, cherry, Date",
		"q=AN":                       "banana",
		"q=h.example+fruit":          "Apple, banana",
		"q=nowhere":                  "",
		"state=trouble":              "Apple",
		"state=gone":                 "Apple",
		"state=ok":                   "banana, Date",
		"state=new":                  "cherry",
		"kind=page":                  "Date",
		"kind=feed&sort=newest":      "banana, Apple, cherry",
		"kind=private":               "",
		"publisher=signed":           "banana",
		"publisher=unsigned":         "Apple, cherry, Date",
		"tag=Fruit":                  "Apple, banana",
		"tag=Fruit&state=ok":         "banana",
		"page=99":                    "Apple, banana, cherry, Date",
	} {
		text := body(t, b.ask("GET", "/subscriptions?"+query))
		if got := strings.Join(rowTitles(t, text), ", "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if want == "" && !strings.Contains(text, "No subscription matches.") {
			t.Errorf("%s: it does not say that nothing matches", query)
		}
	}
	text := body(t, b.ask("GET", "/subscriptions?tag=Fruit&state=gone&q=app"))
	for _, want := range []string{`value="app"`, `<option value="gone" selected>In trouble: gone<`, `<option value="Fruit" selected>`, `<option value="News/Local">`, "1 to 1 of 1", "of 4 subscriptions", `href="/subscriptions" aria-current="page"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the form does not show %s", want)
		}
	}
}

func TestPagesOfSubscriptionsLeadToEachOther(t *testing.T) {
	b := newManyServer(t, 2*listRows+1)
	var seen []string
	target := "/subscriptions?sort=newest"
	for pages := 0; target != "" && pages < 5; pages++ {
		text := body(t, b.ask("GET", target))
		seen = append(seen, rowTitles(t, text)...)
		target = ""
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for n := range root.Descendants() {
			if n.Data == "a" && attr(n, "rel") == "next" {
				target = attr(n, "href")
			}
		}
	}
	if slices.Sort(seen); len(slices.Compact(seen)) != 2*listRows+1 {
		t.Errorf("%d of %d rows", len(seen), 2*listRows+1)
	}
}

// postRows sends the form of the page of subscriptions, and follows it to the next page.
func (b *testServer) postRows(form url.Values) (location, page string) {
	b.Helper()
	status, location, text := b.post("/subscriptions", form)
	if status != 303 {
		b.Errorf("%v: %d %s", form, status, text)
		return "", text
	}
	return location, body(b, b.ask("GET", location))
}

func TestSelectedSubscriptionsAreChanged(t *testing.T) {
	b := newTestServer(t)
	three := []string{rssURL, atomURL, jsonURL}
	for _, address := range three {
		b.node.Subscribe(t.Context(), address, address == jsonURL)
	}
	back := "/subscriptions?sort=newest"
	location, page := b.postRows(url.Values{"do": {"tag"}, "tag": {" two  words "}, "url": {rssURL, atomURL}, "back": {back}})
	if !strings.HasPrefix(location, back+"&said=") || !strings.Contains(page, "Added the tag two words to 2 subscriptions.") {
		t.Errorf("%s: %s", location, page)
	}
	if got := fmt.Sprint(b.node.channels[rssURL].Tags, b.node.channels[atomURL].Tags, b.node.channels[jsonURL].Tags); got != "[two words] [two words] []" {
		t.Error(got)
	}
	if _, page = b.postRows(url.Values{"do": {"untag"}, "tag": {"two words"}, "url": three}); !strings.Contains(page, "Removed the tag two words from 2 subscriptions.") {
		t.Error(page)
	}
	for _, wrong := range []url.Values{{"do": {"untag"}, "tag": {"x"}}, {"do": {"tag"}, "tag": {" "}, "url": three}, {"do": {"unsubscribe"}}} {
		if _, page := b.postRows(wrong); !strings.Contains(page, "said warning") || len(b.node.subscriptions()) != 3 {
			t.Errorf("%v: %s", wrong, page)
		}
	}
	if status, _, text := b.post("/subscriptions", url.Values{"do": {"export"}, "url": {rssURL, jsonURL}}); status != 200 || strings.Count(text, "xmlUrl=") != 2 || strings.Contains(text, "atom?a=1") {
		t.Errorf("%d %s", status, text)
	}
	location, page = b.postRows(url.Values{"do": {"unsubscribe"}, "url": {rssURL, jsonURL}, "back": {"//evil.example/"}})
	if !strings.HasPrefix(location, "/subscriptions?said=") || !strings.Contains(page, "Unsubscribed from 2 feeds.") || len(b.node.subscriptions()) != 1 {
		t.Errorf("%s: %s", location, page)
	}
	// The button of one row means that row alone.
	if _, page = b.postRows(url.Values{"one": {atomURL}, "do": {"tag"}, "url": three}); !strings.Contains(page, "Unsubscribed from An Atom.") || len(b.node.subscriptions()) != 0 {
		t.Error(page)
	}
	// The first unsubscription can be undone still, once, and gives both back as they were.
	undo := url.Values{"said": {location[strings.Index(location, "said=")+5:]}, "back": {"/"}}
	if status, to, text := b.post("/undo", undo); status != 303 || !strings.HasPrefix(to, "/?said=") {
		t.Errorf("%d %s %s", status, to, text)
	}
	if got := b.node.subscriptions(); len(got) != 2 || got[rssURL] || !got[jsonURL] {
		t.Error(got)
	}
	if status, _, text := b.post("/undo", undo); status != 410 {
		t.Errorf("twice: %d %s", status, text)
	}
}

// If some of several subscriptions cannot be ended, the message says so, and the others can be made again.
func TestSomeSubscriptionsCannotBeEnded(t *testing.T) {
	b := newTestServer(t)
	for _, address := range []string{rssURL, atomURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	b.node.unsubscribeErrors = map[string]error{atomURL: fmt.Errorf("unsubscribe: %w", ErrFull)}
	form := url.Values{"do": {"unsubscribe"}, "url": {rssURL, "https://ended.example/", atomURL}}
	_, page := b.postRows(form)
	for _, want := range []string{"said warning", "Unsubscribed from 1 feed, and the others are as they were: unsubscribe: no space left.", ">Undo<"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if status, _, text := b.post("/subscriptions", form); status != 507 {
		t.Errorf("if none ends: %d %s", status, text)
	}
}

// If some of several subscriptions cannot get a tag, the message says so.
func TestSomeSubscriptionsCannotGetATag(t *testing.T) {
	b := newTestServer(t)
	full := make([]string, maxTags)
	for i := range full {
		full[i] = fmt.Sprint(i)
	}
	for _, address := range []string{rssURL, atomURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	b.node.Describe(t.Context(), atomURL, Description{Tags: full})
	form := url.Values{"do": {"tag"}, "tag": {"fun"}, "url": {rssURL, atomURL}}
	if _, page := b.postRows(form); !strings.Contains(page, "said warning") || !strings.Contains(page, "Added the tag fun to 1 subscription, and the others are as they were: a subscription has at most 16 tags, and these are 17.") || !slices.Equal(b.node.channels[rssURL].Tags, []string{"fun"}) {
		t.Error(page)
	}
	if status, _, text := b.post("/subscriptions", form); status != 400 || !strings.Contains(text, "at most 16 tags") {
		t.Errorf("if none gets it: %d %s", status, text)
	}
}

// A subscription that the node does not remember does not keep the others from being made again.
func TestSomeSubscriptionsAreForgotten(t *testing.T) {
	b := newTestServer(t)
	for _, forgotten := range [][]string{{rssURL}, {rssURL, atomURL}} {
		for _, address := range []string{rssURL, atomURL} {
			b.node.Subscribe(t.Context(), address, false)
		}
		location, _ := b.postRows(url.Values{"do": {"unsubscribe"}, "url": {rssURL, atomURL}})
		for _, address := range forgotten {
			delete(b.node.ended, address)
		}
		status, to, text := b.post("/undo", url.Values{"said": {location[strings.Index(location, "said=")+5:]}})
		if len(forgotten) == 2 {
			if status != 404 {
				t.Errorf("if all are forgotten: %d %s", status, text)
			}
			continue
		}
		page := body(t, b.ask("GET", to))
		if got := b.node.subscriptions(); status != 303 || len(got) != 1 || !strings.Contains(page, "Subscribed again to 1 feed, with title, tags and settings, and the others are as they were:") {
			t.Errorf("%d %v %s", status, got, page)
		}
	}
}

func TestMessagesEnd(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	location, page := b.postRows(url.Values{"one": {rssURL}})
	token := location[strings.Index(location, "said=")+5:]
	if !strings.Contains(page, ">Undo<") {
		t.Error(page)
	}
	b.advance(messageTime)
	if page := body(t, b.ask("GET", location)); strings.Contains(page, ">Undo<") {
		t.Error("an old message is shown")
	}
	if status, _, text := b.post("/undo", url.Values{"said": {token}}); status != 410 || !strings.Contains(text, "subscribe again") || len(b.node.subscriptions()) != 0 {
		t.Errorf("%d %s", status, text)
	}
}

func TestOwnPages(t *testing.T) {
	for address, want := range map[string]string{
		"/": "/", "/subscriptions?q=a&sort=newest": "/subscriptions?q=a&sort=newest", "/show?url=x": "/show?url=x",
		"": "/", "//evil.example/": "/", "/\\evil.example": "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "/unsubscribe": "/", "/f/token/x": "/", "subscriptions": "/", "/%zz": "/",
	} {
		if got := ownPage(address, "/"); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// The title and the tags of a subscription are changed on its page. An empty title means the feed's own.
func TestASubscriptionIsDescribed(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	describe := func(title, tags string) Channel {
		t.Helper()
		status, location, text := b.post("/describe", url.Values{"url": {rssURL}, "title": {title}, "tags": {tags}})
		if status != 303 || !strings.HasPrefix(location, "/show?url=") {
			t.Errorf("%d %s %s", status, location, text)
		}
		return b.node.channels[rssURL]
	}
	if c := describe(" My  own ", "News, Local\r\n\r\nfun\r\n"); c.Title != "My own" || !slices.Equal(c.Tags, []string{"News, Local", "fun"}) {
		t.Errorf("%q %q", c.Title, c.Tags)
	}
	if page := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL))); !strings.Contains(page, `value="My own"`) || !strings.Contains(page, "News, Local\nfun\n</textarea>") {
		t.Error(page)
	}
	if c := describe("", ""); c.Title != "" || len(c.Tags) != 0 {
		t.Errorf("%q %q", c.Title, c.Tags)
	}
	for _, own := range []string{"An RSS", "An   RSS", strings.Repeat("long ", maxTitle), strings.Repeat("ü", maxTitle)} {
		b.node.publish(t, rssURL, strings.Replace(rssDoc(1, 2), "An RSS", own, 1))
		if c := describe(own, "fun"); c.Title != "" || len(c.Tags) != 1 {
			t.Errorf("%.20s: the feed's own title became one of the user, %.20q, with the tags %q", own, c.Title, c.Tags)
		}
	}
	note := "Ask Ann <ann@h.example>.\nIt moves in May."
	b.post("/describe", url.Values{"url": {rssURL}, "tags": {"fun"}, "note": {" " + strings.ReplaceAll(note, "\n", "\r\n") + "\r\n"}})
	if c := describe("", "fun"); c.Note != note { // a form without a note keeps it
		t.Errorf("the note is %q", c.Note)
	}
	if page := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL))); !strings.Contains(page, ">Ask Ann &lt;ann@h.example&gt;.\nIt moves in May.</textarea>") {
		t.Error(page)
	}
	for _, form := range []url.Values{{"url": {rssURL}, "note": {strings.Repeat("x", maxNote+1)}}, {"url": {rssURL}, "title": {strings.Repeat("x", maxTitle+1)}}, {"url": {rssURL}, "tags": {strings.Repeat("x\n", maxTags) + "y\n" + strings.Repeat("z", maxTag+1)}}, {"url": {atomURL}}} {
		if status, _, text := b.post("/describe", form); status < 400 || status >= 500 {
			t.Errorf("%.80v: %d %s", form, status, text)
		}
	}
}

// The start page shows what needs attention: problems that the doctor finds, feeds in trouble, feeds that have moved, and
// publishers' keys that were changed lately.
func TestWhatNeedsAttention(t *testing.T) {
	b := newTestServer(t)
	if text := body(t, b.ask("GET", "/")); !strings.Contains(text, `aria-live="polite" hidden>`) {
		t.Error("a new node needs attention")
	}
	b.node.findings = []Finding{{Level: "ok", What: locale.Text{"the store is sound"}}, {Level: "note", What: locale.Text{"a note"}}, {Level: "problem", What: locale.Text{"searches cannot be read"}, Do: locale.Text{"free space"}}, {Level: "problem", What: locale.Text{"the disk is full"}}}
	b.node.status.Warnings = []Warning{{What: locale.Text{"The disk is full; free space."}}}
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	b.node.channels[rssURL] = Channel{State: StateOK, Moved: "https://new.example/feed"}
	b.node.channels[atomURL] = Channel{State: StateOK, KeyChange: "the key was changed", PublisherSince: OptionalTime(b.clock.Add(-time.Hour))}
	b.node.channels[jsonURL] = Channel{State: StateOK, KeyChange: "the key was changed long ago", PublisherSince: OptionalTime(b.clock.Add(-keyChangeTime))}
	text := body(t, b.ask("GET", "/"))
	for _, want := range []string{"Searches cannot be read. Free space.", "The disk is full; free space.", "has moved to https://new.example/feed", "The key was changed."} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%d times: %s", strings.Count(text, want), want)
		}
	}
	for _, without := range []string{"A note", "The store is sound", "The disk is full.", "long ago"} {
		if strings.Contains(text, without) {
			t.Errorf("it has %s", without)
		}
	}
	if strings.Index(text, "Needs attention") > strings.Index(text, "New subscription") {
		t.Error("what needs attention does not come first")
	}
	many := body(t, newManyServer(t, 1000).ask("GET", "/"))
	if !strings.Contains(many, ">45 more<") || strings.Count(many, "No such host: site.example.") != maxAttention {
		t.Error("with 50 feeds in trouble, the start page does not show five")
	}
}

// The numbers of the start page are those of the node.
func TestNumbersOfTheStartPage(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.News = memoryNews{items: 1234} })
	quarter, hour := 900.0, 3600.0
	for address, c := range map[string]Channel{
		rssURL:  {State: StateOK, Pollers: 4, Polls: true, DetectionExpectedS: &quarter}, // 48 polls a day, 12 of them by this node
		atomURL: {State: StateOK, Pollers: 2, DetectionExpectedS: &hour},                 // 12 polls, all by others
		jsonURL: {State: "gone", Pollers: 1, Polls: true},
	} {
		b.node.Subscribe(t.Context(), address, false)
		b.node.channels[address] = c
	}
	text := body(t, b.ask("GET", "/"))
	for id, want := range map[string]string{"subscriptions": "3", "trouble": "1", "items": "1,234", "saved": "48", "delay": "37 min 30 s"} {
		if !strings.Contains(text, fmt.Sprintf(`id="n-%s">%s<`, id, want)) {
			t.Errorf("%s is not %s", id, want)
		}
	}
}

func TestRoughly(t *testing.T) {
	for estimate, want := range map[float64]int{0: 0, 0.4: 0, 47.6: 48, 99.4: 99, 100: 100, 27_078: 27_000, 999_999: 1_000_000} {
		if got := roughly(estimate); got != want {
			t.Errorf("%g: %d, want %d", estimate, got, want)
		}
	}
}

// An address that cannot be read is not greeted as a success; the page says what the command says.
func TestAnAddressThatCannotBeReadWarns(t *testing.T) {
	b := newTestServer(t)
	b.node.inspectErrors[rssURL] = &ReadError{URL: rssURL, Kind: ErrUnreachable, Reason: "there is no host h.example"}
	_, location, _ := b.post("/subscribe", url.Values{"url": {rssURL}})
	page := body(t, b.ask("GET", location))
	if !strings.Contains(page, "Subscribed, but nothing can be read there yet: there is no host h.example.") || !strings.Contains(page, "said warning") || strings.Contains(page, `class="done"`) {
		t.Error(page)
	}
}
