package proxy

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/locale"
)

// showOf returns the page of a channel.
func (b *testServer) showOf(address string) string {
	b.Helper()
	r := b.ask("GET", "/show?url="+url.QueryEscape(address))
	text := body(b, r)
	if r.StatusCode != 200 {
		b.Fatalf("%d %s", r.StatusCode, text)
	}
	return text
}

// wants fails the test unless a page has all texts of a list, and none of another.
func wants(t *testing.T, page string, with, without []string) {
	t.Helper()
	for _, w := range with {
		if !strings.Contains(page, w) {
			t.Errorf("no %q in %s", w, page)
		}
	}
	for _, w := range without {
		if strings.Contains(page, w) {
			t.Errorf("%q in %s", w, page)
		}
	}
}

// The page of a channel draws how many items came on each of the last days and how late they were, with the same in words.
func TestAChannelsPlots(t *testing.T) {
	news := memoryNews{}
	b := newTestServer(t, func(c *Config) { c.News = &news })
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{State: StateOK}
	wants(t, b.showOf(rssURL), []string{"No new item has come in the last 7 days, or since you subscribed."}, []string{"<svg"})
	short, long := 90*time.Second, 3*time.Hour
	news.found = []NewItem{{b.clock, &short, true}, {b.clock.Add(-time.Hour), nil, false}, {b.clock.Add(-49 * time.Hour), &long, false}, {b.clock.Add(-8 * 24 * time.Hour), &long, false}}
	wants(t, b.showOf(rssURL), []string{
		"3 new items in the last 7 days.", "2026-11-20: 2", "2026-11-19: 0", "2026-11-18: 1", "Half of 2 items with a date were here within 3 h after that date, and the latest after 3 h.", "2026-11-20 12:00: 90 s",
	}, []string{"11-12"})
	news.found = news.found[1:2]
	wants(t, b.showOf(rssURL), []string{"1 new item in the last 7 days.", "The items have no dates"}, []string{"Half of"})
}

// The page shows who polls a channel when, as a ring and as a table, as far as that is known.
func TestWhoPollsAChannelWhen(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{State: StateOK, Pollers: 3}
	wants(t, b.showOf(rssURL), []string{"Other nodes poll this feed, and this node does not."}, []string{"<svg"})
	self := Poller{Member: Member{ID: idAt(1), Role: RoleSelf}, Next: OptionalTime(b.clock.Add(10 * time.Minute))}
	b.node.pollers = Pollers{Interval: 40 * time.Minute, Pollers: []Poller{self}}
	wants(t, b.showOf(rssURL), []string{"this node</th><td><time", ">in 10 min<", "once in 40 min"}, []string{"<svg"})
	b.node.pollers.Pollers = []Poller{
		{Member: Member{ID: "bbbbbbbb11", Role: RoleLeaf}}, self,
		{Member: Member{ID: "aaaaaaaa11", Role: RoleLeaf}, Next: OptionalTime(b.clock)},
	}
	page := b.showOf(rssURL)
	wants(t, page, []string{
		`<circle class="leaf" cx="200" cy="40" r="8"><title>1: aaaaaaaa</title>`, `<circle class="self" cx="360" cy="200" r="8"><title>2: this node</title>`, "<td>not known</td>",
	}, nil)
	if a, b := strings.Index(page, "<code>aaaaaaaa<"), strings.Index(page, "<code>bbbbbbbb<"); a < 0 || b < a {
		t.Error("the next one to poll does not come first")
	}
}

// A person can ask for a poll once in five minutes, and not within five minutes after a poll.
func TestPollNow(t *testing.T) {
	const button, again = ">Poll now</button>", "you can ask for a poll again"
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	polled := func(ago time.Duration) {
		b.node.channels[rssURL] = Channel{State: StateOK, LastPoll: OptionalTime(b.clock.Add(-ago))}
	}
	press := func(wantAsked int, words string) {
		t.Helper()
		status, location, _ := b.post("/poll", url.Values{"url": {rssURL}})
		if status != 303 || len(b.node.polledSoon) != wantAsked {
			t.Fatalf("%d, asked %d times, want %d", status, len(b.node.polledSoon), wantAsked)
		}
		wants(t, body(t, b.ask("GET", location)), []string{words}, nil)
	}
	polled(4 * time.Minute)
	wants(t, b.showOf(rssURL), []string{again, ">in 60 s<"}, []string{button})
	press(0, "A poll is possible again in 60 s.")
	polled(5 * time.Minute)
	wants(t, b.showOf(rssURL), []string{button}, []string{again})
	press(1, "A poll was asked for.")
	wants(t, b.showOf(rssURL), []string{again, ">in 5 min<"}, []string{button})
	press(1, "A poll is possible again in 5 min.")
	b.advance(5 * time.Minute)
	press(2, "A poll was asked for.")
	b.node.channels[rssURL] = Channel{State: StateOK, LastPoll: OptionalTime(b.clock), NextPoll: OptionalTime(b.clock.Add(time.Minute))}
	wants(t, b.showOf(rssURL), []string{"The next poll comes <time", "before you could ask for one"}, []string{button, again})
	press(2, "The next poll is planned in 60 s, before you could ask for one.")
	for state, words := range map[string]string{"failing": "A feed in trouble is polled when its pause is over.", StateNew: "The first poll is on its way."} {
		b.node.channels[rssURL] = Channel{State: state}
		wants(t, b.showOf(rssURL), []string{words}, []string{button, again})
	}
	b.node.channels[rssURL] = Channel{State: StateOK, Quiet: true}
	wants(t, b.showOf(rssURL), []string{"would tell other nodes"}, []string{button})
	if press(2, "would tell other nodes"); len(b.node.polledSoon) != 2 {
		t.Error("a quiet feed was polled")
	}
	if status, _, _ := b.post("/poll", url.Values{"url": {"https://h.example/other"}}); status != 404 {
		t.Errorf("a feed that is not followed: %d", status)
	}
}

// Several feeds can be asked for at once. Those that may not be polled now keep their times.
func TestPollSeveral(t *testing.T) {
	b := newTestServer(t)
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
		b.node.channels[address] = Channel{State: StateOK, LastPoll: OptionalTime(b.clock.Add(-10 * time.Minute))}
	}
	b.node.channels[jsonURL] = Channel{State: "failing"}
	for _, c := range []struct {
		of    []string
		asked int
		words string
	}{
		{[]string{rssURL, jsonURL}, 1, "A poll of 1 feed was asked for. A feed that was polled less than five minutes ago"},
		{[]string{rssURL}, 1, "No poll was asked for. A feed that was"},
		{[]string{atomURL}, 2, "A poll of 1 feed was asked for."},
	} {
		status, location, _ := b.post(subscriptionsPath, url.Values{"do": {doPoll}, "url": c.of})
		if status != 303 || len(b.node.polledSoon) != c.asked {
			t.Fatalf("%d, asked for %q", status, b.node.polledSoon)
		}
		wants(t, body(t, b.ask("GET", location)), []string{c.words}, nil)
	}
}

// The page says in words why items can be believed, and which keys the publisher has had.
func TestTrustInWords(t *testing.T) {
	for _, c := range []struct {
		channel Channel
		want    []string
	}{
		{Channel{Provenance: "single"}, []string{"One node read most of the items on the web server"}},
		{Channel{Provenance: "witnessed", MinProvenance: "witnessed"}, []string{"read on the web server by several nodes", "You see an item when several nodes have read it"}},
		{Channel{Private: true}, []string{"Only this node reads this feed"}},
		{
			Channel{Provenance: "publisher", Publisher: "SHA256:abc", FormerKeys: []FormerKey{{"SHA256:old", true}, {"SHA256:older", false}}, MinProvenance: "publisher"},
			[]string{"this node checks every signature", "SHA256:abc", "<code>SHA256:old</code> was revoked", "<code>SHA256:older</code> named the key", "You see only items that the publisher has signed."},
		},
	} {
		b := newTestServer(t)
		b.node.Subscribe(t.Context(), rssURL, false)
		c.channel.State = StateOK
		b.node.channels[rssURL] = c.channel
		wants(t, b.showOf(rssURL), c.want, []string{"level"})
	}
	for provenance, want := range map[string]string{"single": "seen by one node", "witnessed 3/5": "seen by 3 of 5 nodes", "publisher": "signed by the publisher", "witnessed": "witnessed", "varies": "varies"} {
		if got := provenanceWords(provenance).String(); got != want {
			t.Errorf("%s: %s, want %s", provenance, got, want)
		}
	}
}

func TestHealthHistory(t *testing.T) {
	news := memoryNews{}
	b := newTestServer(t, func(c *Config) { c.News = &news })
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{State: StateOK}
	wants(t, b.showOf(rssURL), []string{"Nothing to report from the last ten days"}, nil)
	news.health = []HealthChange{
		{At: b.clock.Add(-time.Hour), Kind: "recovered", Text: "it can be read again", Since: OptionalTime(b.clock.Add(-72 * time.Hour))},
		{At: b.clock.Add(-48 * time.Hour), Kind: "failing", Text: "the web server answered <500>"},
		{At: b.clock.Add(-50 * time.Hour), Kind: "gone", Text: "410 Gone"},
		{At: b.clock.Add(-50 * time.Hour), Kind: "moved", Text: movedWords + "https://h.example/new"},
		{At: b.clock.Add(-50 * time.Hour), Kind: "key", Text: "the old key named the new one"},
	}
	wants(t, b.showOf(rssURL), []string{
		"60 min ago</time>: It can be read again. The failure began <time", "3 days ago", `It had failed for a day: <span lang="en">The web server answered &lt;500&gt;.</span>`, `It is gone: <span lang="en">410 Gone.</span>`,
		"Its web server says that it is now at https://h.example/new<", `<span lang="en">The old key named the new one.</span>`,
	}, []string{"Nothing to report"})
}

// The change of a page is shown as pairs of what was removed and what was added.
func TestChangesOfPages(t *testing.T) {
	for content, want := range map[string]string{
		"<p>Fares</p>\n<p>− <del>A <a href=\"https://h.example/\">b</a></del></p>\n<p>+ <ins>C</ins></p>\n<hr>\n<p>+ <ins>D</ins></p>": `[Fares]-[A <a href="https://h.example/">b</a>]+[C] []-[]+[D]`,
		"<p>+ <ins>C</ins></p><p>… and 3 more lines</p>": "[]-[]+[C] [… and 3 more lines]-[]+[]",
		"<p>text</p>":                      "",
		"<ul><li><del>x</del></li></ul>":   "",
		"<p><del>x</del></p><h2>More</h2>": "",
		"":                                 "",
	} {
		var got []string
		for _, h := range changesOf(template.HTML(content)) {
			got = append(got, fmt.Sprintf("%v-%v+%v", h.Context, h.Before, h.After))
		}
		if said := strings.Join(got, " "); said != want {
			t.Errorf("%s: %s, want %s", content, said, want)
		}
	}
	const address = "page+https://h.example/fares"
	b := newTestServer(t)
	b.node.publish(t, address, `<feed xmlns="http://www.w3.org/2005/Atom"><title>Fares</title><id>urn:f</id><entry><id>1</id><title>C</title><content type="html">`+
		`&lt;p&gt;− &lt;del&gt;A&lt;script&gt;alert(1)&lt;/script&gt;&lt;/del&gt;&lt;/p&gt;&lt;p&gt;+ &lt;ins&gt;C&lt;/ins&gt;&lt;/p&gt;</content></entry></feed>`)
	b.node.Subscribe(t.Context(), address, false)
	b.node.channels[address] = Channel{State: StateOK}
	wants(t, b.showOf(address), []string{"Latest changes", `<div class="before"><p class="unseen">Removed:</p><p><span aria-hidden="true">− </span><del>A</del></p>`, `<div class="after">`, "The whole text of the page counts"}, []string{"alert"})
}

// The parts of a change are as safe as the content that they were cut from.
func FuzzChangesDoNotAct(f *testing.F) {
	f.Add("<p>Fares</p><p>− <del>A <b>b</del></p><p>+ <ins>C</b></ins></p><hr><p>+ <ins>D</ins></p>")
	for _, bad := range hostile {
		f.Add("<p><del>" + bad + "</del></p>")
		f.Add("<p>" + bad + "</p><p><ins>" + bad + "</ins></p>")
	}
	c := newSanitiser()
	f.Fuzz(func(t *testing.T, in string) {
		for _, h := range changesOf(c.html(locale.English, in)) {
			for _, part := range slices.Concat(h.Context, h.Before, h.After) {
				for _, found := range activeParts(t, "<main><article><p>"+string(part)+"</p></article></main>") {
					t.Errorf("%q became %s: %s", in, found, part)
				}
			}
		}
	})
}

// The page of a page says what counts on it, and leads to a preview of other choices.
func TestWhatCountsOnAPage(t *testing.T) {
	const address = "page+https://h.example/shop#omit=.ad&number=.price%3C50"
	b := newTestServer(t)
	b.node.publish(t, address, rssDoc(1, 1))
	b.node.Subscribe(t.Context(), address, false)
	b.node.channels[address] = Channel{State: StateOK}
	c := countsOf(address)
	if c == nil || *c != (countsView{Page: "https://h.example/shop", Omit: ".ad", Number: ".price<50", Any: true}) {
		t.Fatalf("%+v", c)
	}
	for in, want := range map[string]string{
		"": "page+https://h.example/shop#a=b", "select=h2, h3&only=added": "page+https://h.example/shop#only=added&select=h2%2C%20h3", "omit=+": "page+https://h.example/shop#a=b",
	} {
		q, err := url.ParseQuery(in)
		if got := withCounts("page+https://h.example/shop#a=b", q); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", in, got, err, want)
		}
	}
	if got := withCounts("https://h.example/shop#x", url.Values{"omit": {".ad"}}); got != "page+https://h.example/shop#omit=.ad" {
		t.Error(got)
	}
	b.node.inspections["page+https://h.example/shop#select=h2"] = Inspection{Page: true, Counts: []string{"Lamps & more"}}
	wants(t, body(t, b.ask("GET", "/add?url="+url.QueryEscape("page+https://h.example/shop")+"&select=h2&omit=&number=")), []string{"Lamps &amp; more", `value="page&#43;https://h.example/shop#select=h2"`}, nil)
}

// A page has at most 100 kB, however long the items are; those without room say so.
func TestAChannelsPageIsShort(t *testing.T) {
	news := memoryNews{}
	b := newTestServer(t, func(c *Config) { c.News = &news })
	late := 90 * time.Second
	for i := range 10_000 {
		news.found = append(news.found, NewItem{b.clock.Add(-time.Duration(i) * time.Minute), &late, true})
	}
	b.node.pollers.Interval = time.Hour
	for i := range 64 { // as many as a node tells
		b.node.pollers.Pollers = append(b.node.pollers.Pollers, Poller{Member{ID: idAt(i), Role: RoleLeaf}, OptionalTime(b.clock.Add(time.Duration(i) * time.Minute))})
	}
	doc := `<rss version="2.0"><channel><title>Long</title><link>https://h.example/</link><description/>`
	for i := range 2 * maxPageItems {
		doc += fmt.Sprintf("<item><title>Item %d</title><guid>%d</guid><description>%s</description></item>", i, i, strings.Repeat("word ", 2500))
	}
	b.node.publish(t, rssURL, doc+"</channel></rss>")
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{State: StateOK}
	page := b.showOf(rssURL)
	if len(page) > 100_000 || strings.Count(page, "<article>") != maxPageItems || strings.Count(page, "no room for the text") != maxPageItems-3 {
		t.Errorf("%d bytes, %d items, %d of them without text", len(page), strings.Count(page, "<article>"), strings.Count(page, "no room for the text"))
	}
}

// The page of a channel is in the language of its reader, and what nodes and web servers report is marked as English.
func TestAChannelsPageInGerman(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	german := func(c Channel) string {
		b.node.channels[rssURL] = c
		return body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL), "Cookie", languageCookie+"=de"))
	}
	next := OptionalTime(b.clock.Add(time.Hour))
	wants(t, german(Channel{State: StateOK, Pollers: 3, Waiting: 1, Why: "the feed's ttl", NextPoll: next}), []string{
		"1 Eintrag wartet auf Zeugen", "3 Knoten fragen ab", "</time>, ttl des Feeds<", ">Neueste Einträge<",
	}, nil)
	wants(t, german(Channel{State: StateOK, Title: "Network"}), []string{"<title>Network</title>", ">Network</h1>"}, nil) // which the catalogue has, too
	wants(t, german(Channel{State: StateOK, Why: "no rule <here>", NextPoll: next}), []string{`</time>, <span lang="en">no rule &lt;here&gt;</span>`}, nil)
	wants(t, german(Channel{State: "missing", Error: "does not exist, or may not be read (404)"}), []string{`<p class="error">Den Feed gibt es nicht, oder er darf nicht gelesen werden (404).</p>`}, nil)
	wants(t, german(Channel{State: "failing", Error: "the web server answered 500", Do: "wait"}), []string{`<p class="error" lang="en" dir="auto">The web server answered 500.</p>`}, nil)
}
