package proxy

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tidings/internal/locale"
)

// hostile lists texts that must have no effect, wherever they appear.
var hostile = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<svg/onload=alert(1)>`,
	`</title><script>alert(1)</script>`, `<iframe src="javascript:alert(1)"></iframe>`, `<a href="javascript:alert(1)">x</a>`,
	`<a href="data:text/html,<script>alert(1)</script>">x</a>`, `<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`,
	`<form action="/unsubscribe" method="post"><input name="url"><button>win</button></form>`, `<base href="https://evil.example/">`,
	`<meta http-equiv="refresh" content="0;url=https://evil.example/">`, `<link rel="stylesheet" href="https://evil.example/">`,
	`<style>*{display:none}</style>`, `<p style="position:fixed;inset:0">x</p>`, `<object data="https://evil.example/"></object>`,
	`</div></article></main></body></html><h1>out</h1>`, `<!--<img src="--><img src=x onerror=alert(1)//">`,
	"<a href=\"java\tscript:alert(1)\">x</a>", `<a href=" &#106;avascript:alert(1)">x</a>`, `{{.Version}}`,
	`<noscript><p title="</noscript><img src=x onerror=alert(1)>">`, `<img src="/unsubscribe?url=x">`, `<video src="https://h.example/" autoplay onplay=alert(1)>`,
}

// activeParts returns the parts of a page that could run, load or escape from their place.
func activeParts(t *testing.T, page string) (found []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{"/subscribe": true, "/unsubscribe": true, "/opml": true, "/channels": true, "/network": true, "/subscriptions": true, "/describe": true, "/poll": true, "/add": true, "/undo": true, "/language": true, "/import": true, "/watch": true, "/unwatch": true}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		icon := strings.HasPrefix(attr(n, "href")+attr(n, "src"), "/icon.svg?") && (n.Parent.Data == "head" || attr(n.Parent, "class") == "brand")
		switch n.Data {
		case "script":
			if n.Parent.Data != "head" || !strings.HasPrefix(attr(n, "src"), "/page.js?") || n.FirstChild != nil {
				found = append(found, n.Data)
			}
		case "iframe", "object", "embed", "base", "style", "math", "video", "audio", "frame", "applet", "noscript":
			found = append(found, n.Data)
		case "svg": // the ring of members, codes for phones, and charts
			if class := attr(n.Parent, "class"); class != "ring" && class != "phone" && class != "days" && class != "chart" {
				found = append(found, n.Data)
			}
			for up := n.Parent; up != nil; up = up.Parent {
				if attr(up, "class") == "content" {
					found = append(found, n.Data)
				}
			}
		}
		for _, a := range n.Attr {
			v := strings.ToLower(strings.TrimSpace(a.Val))
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "http-equiv", a.Key == "srcdoc",
				n.Data == "form" && a.Key == "action" && !ours[v],
				n.Data == "link" && a.Key == "href" && !strings.HasPrefix(v, "/style.css?") && !icon,
				n.Data == "img" && !icon,
				a.Key == "href" && strings.HasPrefix(v, "data:"),
				a.Key == "href" && strings.HasPrefix(v, "javascript:") && attr(n, "class") != "mark":
				found = append(found, n.Data+" "+a.Key+"="+a.Val)
			}
		}
	}
	return found
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func escaped(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err)
	}
	return b.String()
}

func TestHostileTextsHaveNoEffect(t *testing.T) {
	for _, bad := range hostile {
		b := newTestServer(t)
		e := escaped(bad)
		b.node.publish(t, rssURL, `<rss version="2.0"><channel><title>`+e+`</title><link>https://h.example/</link><description>`+e+`</description>`+
			`<item><title>`+e+`</title><link>`+e+`</link><author>`+e+`</author><guid>`+e+`</guid><description>`+e+`</description></item>`+
			`<item><title>second</title><description>`+e+`&lt;p&gt;after&lt;/p&gt;</description></item></channel></rss>`)
		b.node.Subscribe(t.Context(), rssURL, false)
		b.node.channels[rssURL] = Channel{State: bad, Error: bad, Why: bad, Moved: bad, Provenance: bad, NextPoll: OptionalTime(b.clock)}
		b.node.status.Warnings, b.node.status.Network = []Warning{{What: locale.Text{bad}}}, bad
		b.node.network = Network{Name: bad, EstimateN: 2, Members: []Member{{ID: bad, Role: bad}, {ID: idAt(7), PeerID: bad, Role: bad}}}
		b.node.Describe(t.Context(), rssURL, Description{Tags: []string{bad}})
		b.node.findings = []Finding{{Level: bad, What: locale.Text{bad}, Do: locale.Text{bad}}, {Level: levelProblem, What: locale.Text{bad}, Do: locale.Text{bad}}}
		for _, target := range []string{"/", "/subscriptions?sort=state&q=" + url.QueryEscape(bad), "/subscriptions?tag=" + url.QueryEscape(bad), "/node", "/lists", "/show?new=1&url=" + url.QueryEscape(rssURL), "/add?url=" + url.QueryEscape("https://h.example/"+bad),
			"/channels?sort=-next&filter=" + url.QueryEscape(bad), "/channels?sort=" + url.QueryEscape(bad), "/network?channel=" + url.QueryEscape(rssURL)} {
			r := b.ask("GET", target)
			text := body(t, r)
			if r.StatusCode != 200 {
				t.Errorf("%s: %d %s", target, r.StatusCode, text)
			}
			for _, found := range activeParts(t, text) {
				t.Errorf("%s: %q became %s", target, bad, found)
			}
		}
		// Titles appear as they were written.
		show := body(t, b.ask("GET", "/"))
		if !strings.Contains(show, template.HTMLEscapeString(bad)) {
			t.Errorf("the start page lacks %q as text", bad)
		}
		// The content that follows stays in its place.
		text := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL)))
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		articles := 0
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == "article" && attr(n.Parent, "aria-labelledby") == "items" {
				articles++
			}
		}
		if articles != 2 {
			t.Errorf("%q: %d articles in their place", bad, articles)
		}
	}
}

func TestSanitisingKeepsTextAndRemovesLocalLinks(t *testing.T) {
	c := newSanitiser()
	for in, want := range map[string]string{
		`<p>a <b>b</b> <i>c</i></p>`:                                                        `<p>a <b>b</b> <i>c</i></p>`,
		`<a href="https://h.example/x">x</a>`:                                               `href="https://h.example/x"`,
		`<img src="https://h.example/x.png" alt="a cat">`:                                   `<a href="https://h.example/x.png" rel="nofollow noreferrer noopener" target="_blank">Image: a cat</a>`,
		`<a href="https://h.example/y"><img src="https://h.example/x.png" alt="a cat"></a>`: `target="_blank">Image: a cat</a>`,
		`<img alt="a cat">`:                                                                 `Image: a cat`,
		`<img src="https://h.example/x.png">`:                                               `>Image</a>`,
		`<b>unclosed <i>marks`:                                                              `<b>unclosed <i>marks</i></b>`,
		`<table><tr><td>x</td></tr></table>`:                                                `<td>x</td>`,
		`<blockquote><pre><code>x</code></pre></blockquote>`:                                `<blockquote><pre><code>x</code></pre></blockquote>`,
	} {
		if got := string(c.html(locale.English, in)); !strings.Contains(got, want) {
			t.Errorf("%s became %s", in, got)
		}
	}
	for _, address := range []string{
		"http://127.0.0.1:8190/unsubscribe", "http://localhost/", "http://LOCALHOST:8190/", "http://a.localhost/", "http://[::1]/", "http://2130706433/",
		"http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://192.168.0.1/", "http://10.0.0.1/", "http://172.16.1.1/", "http://169.254.169.254/",
		"http://0.0.0.0/", "http://100.64.0.1/", "http://198.18.0.1/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[::ffff:127.0.0.1]/",
		"http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://router/", "http://nas.local/", "http://x.internal/", "http://127.0.0.1./",
		"http://１２７.0.0.1/", "/opml", "//localhost/", "?x", "data:image/png;base64,AAAA", "javascript:alert(1)", "file:///etc/passwd", "ftp://h.example/",
		"http://user@h.example/",
	} {
		for _, in := range []string{`<img src="` + address + `">`, `<a href="` + address + `">x</a>`, `<blockquote cite="` + address + `">x</blockquote>`} {
			if got := string(c.html(locale.English, in)); strings.Contains(got, "src=") || strings.Contains(got, "href=") || strings.Contains(got, "cite=") {
				t.Errorf("%s became %s", in, got)
			}
		}
		if got := c.link(address); got != "" {
			t.Errorf("%s may be linked to", address)
		}
	}
}

func TestHugeAndDeepContentIsCut(t *testing.T) {
	c := newSanitiser()
	for _, in := range []string{
		strings.Repeat("<div>", 5000) + "x", strings.Repeat("<b><i>", 10_000) + "x", strings.Repeat("&amp;", 100_000), strings.Repeat("é", maxContent),
		"\xff\xfe<p>\x00", "<", "<!", "<![CDATA[", "</",
	} {
		if got := c.html(locale.English, in); len(got) > 10*maxContent {
			t.Errorf("%.20q became %d bytes", in, len(got))
		}
	}
}

func FuzzCleanedContentDoesNotAct(f *testing.F) {
	for _, bad := range hostile {
		f.Add(bad)
	}
	c := newSanitiser()
	f.Fuzz(func(t *testing.T, in string) {
		clean := string(c.html(locale.English, in))
		for _, found := range activeParts(t, "<main><article>"+clean+"</article></main>") {
			t.Errorf("%q became %s: %s", in, found, clean)
		}
	})
}

func (b *testServer) post(path string, form url.Values) (status int, location, text string) {
	b.Helper()
	r := b.send(request("POST", path, strings.NewReader(form.Encode()), "Content-Type", "application/x-www-form-urlencoded"))
	return r.StatusCode, r.Header.Get("Location"), body(b, r)
}

func TestFormsSubscribeAndUnsubscribe(t *testing.T) {
	b := newTestServer(t)
	if text := body(t, b.ask("GET", "/")); !strings.Contains(text, "First steps") {
		t.Error("an empty list does not say so")
	}
	status, location, _ := b.post("/subscribe", url.Values{"url": {" https://h.example/feed.xml "}})
	if status != 303 {
		t.Fatal(status)
	}
	address := b.server.ReadURL("http://"+host, rssURL)
	text := body(t, b.ask("GET", location))
	for _, want := range []string{"Subscribed.", address, "Item 1", "Item 2"} {
		if !strings.Contains(text, want) {
			t.Errorf("after adding, no %s", want)
		}
	}
	text = body(t, b.ask("GET", "/"))
	for _, want := range []string{"An RSS", address, "2 items", `id="n-subscriptions">1<`} {
		if !strings.Contains(text, want) {
			t.Errorf("on the start page, no %s", want)
		}
	}
	if status, location, _ = b.post("/unsubscribe", url.Values{"url": {rssURL}}); status != 303 || !strings.HasPrefix(location, "/?said=") || len(b.node.subscriptions()) != 0 {
		t.Errorf("%d %s", status, location)
	}
	if text := body(t, b.ask("GET", location)); !strings.Contains(text, "Unsubscribed from An RSS.") || !strings.Contains(text, ">Undo<") {
		t.Errorf("after unsubscribing: %s", text)
	}
}

func TestFormErrorsAreExplained(t *testing.T) {
	b := newTestServer(t)
	b.node.room = 0
	for _, c := range []struct {
		path, url string
		status    int
		words     string
	}{
		{"/subscribe", "", 400, "No address given."},
		{"/subscribe", "https://me:secret@h.example/", 400, "remove it"},
		{"/subscribe", rssURL, 507, "no space left."},
		{"/unsubscribe", rssURL, 404, "there is no such subscription."},
		{"/subscribe", strings.Repeat("x", maxRequest), 413, "bytes"},
		{"/opml", rssURL, 400, "multipart"},
	} {
		status, _, text := b.post(c.path, url.Values{"url": {c.url}})
		if status != c.status || !strings.Contains(text, c.words) || !strings.HasPrefix(text, "<!DOCTYPE html>") || strings.Contains(text, "secret") {
			t.Errorf("%s %.60s: %d, want %d and %q in %s", c.path, c.url, status, c.status, c.words, text)
		}
	}
}

func TestFeedsWithProblemsComeFirst(t *testing.T) {
	b := newTestServer(t)
	for _, url := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), url, false)
	}
	b.node.channels[rssURL] = Channel{State: "unreachable", Error: "no such host: h.example", Since: OptionalTime(b.clock.Add(-3 * time.Hour)), NextPoll: OptionalTime(b.clock.Add(10 * time.Minute))}
	b.node.channels[jsonURL] = Channel{State: StateNew}
	b.node.status.Warnings = []Warning{{What: locale.Text{"The disk is full."}}}
	text := body(t, b.ask("GET", "/"))
	for _, want := range []string{"The disk is full.", `id="n-trouble">1<`, "Needs attention", "unreachable", "No such host: h.example.", "for 3 h", "The next poll is <time", "in 10 min", "waiting for the first poll"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Index(text, ">An RSS<") > strings.Index(text, ">An Atom<") {
		t.Error("what has trouble does not come first")
	}
}

// A page that refreshes itself can be paused and resumed (WCAG 2.2, 2.2.2).
func TestRefreshingCanBePaused(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Notice = func() Notice { return Notice{Title: locale.Text{"A demo"}} } })
	for path, want := range map[string]struct{ refresh, link string }{"/": {"2", `href="/?still"`}, "/?still": {"", `href="/"`}} {
		r := b.ask("GET", path)
		if text := body(t, r); r.Header.Get("Refresh") != want.refresh || !strings.Contains(text, want.link) {
			t.Errorf("%s: anew after %q s, no %s", path, r.Header.Get("Refresh"), want.link)
		}
	}
}

// textOf returns the visible text of a part of a page, with white space collapsed.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.NewReplacer(" .", ".").Replace(strings.Join(strings.Fields(b.String()), " "))
}

// For each problem of a feed, the pages say what it is, for how long it has lasted, and what happens next. They say
// it only once.
func TestEachProblemIsDescribedCompletely(t *testing.T) {
	const again, stays = "The next poll is in 10 min.", "Items from before are still shown."
	for _, c := range []struct {
		state, words, do string
		items            bool // the feed was read before
		next             bool // another poll is planned
		want             []string
		without          []string
	}{
		{state: "ok", items: true, next: true, want: []string{"✓ ok", "2 items", "polled 5 min ago", "next in 10 min"}, without: []string{"next poll", "are still shown", "!"}},
		{state: "new", want: []string{"… waiting for the first poll", "0 items"}, without: []string{"next poll", "polled", "are still shown", "!"}},
		{state: "unreachable", words: "no such host: h.example", items: true, next: true, want: []string{again, stays}},
		{state: "unreachable", words: "no such host: h.example", next: true, want: []string{again}, without: []string{"are still shown"}},
		{state: "missing", words: "does not exist, or may not be read (404)", do: "look at the address", items: true, next: true, want: []string{again, stays, "Look at the address."}},
		{state: "gone", words: "gone for good (410)", do: "unsubscribe", items: true, want: []string{stays, "The feed is gone for good (410).", "Unsubscribe."}, without: []string{"next poll"}},
		{state: "limited", words: "the web server asks for fewer requests (429)", items: true, next: true, want: []string{again, stays}},
		{state: "failing", words: "the web server answered 500", items: true, next: true, want: []string{again, stays}},
		{state: "not a feed", words: "a web page, not a feed", do: "look at the address", items: true, next: true, want: []string{again, stays, "Look at the address."}},
		{state: "broken", words: "document ends too early", do: "tell its owner", items: true, next: true, want: []string{again, stays, "Tell its owner."}},
		{state: "too large", words: "larger than 10240 KiB", items: true, next: true, want: []string{again, stays}},
		{state: "refused", words: "10.0.0.1 is not a public address", do: "run it otherwise", next: true, want: []string{again, "Run it otherwise."}, without: []string{"are still shown"}},
	} {
		b := newTestServer(t)
		trouble := c.words != ""
		switch {
		case !c.items:
			b.node.fail(rssURL, fmt.Errorf("read %s: %w: %s", rssURL, ErrUnreachable, c.words))
		case trouble:
			b.node.makeStale(rssURL, c.words)
		}
		b.node.Subscribe(t.Context(), rssURL, false)
		channel := Channel{State: c.state, Error: c.words, Do: c.do, Since: OptionalTime(b.clock.Add(-3 * time.Hour))}
		if c.state != StateNew {
			channel.LastPoll = OptionalTime(b.clock.Add(-5 * time.Minute))
		}
		if c.next {
			channel.NextPoll = OptionalTime(b.clock.Add(10 * time.Minute))
		}
		b.node.channels[rssURL] = channel
		for _, target := range []string{"/", "/show?url=" + url.QueryEscape(rssURL)} {
			root, err := html.Parse(strings.NewReader(body(t, b.ask("GET", target))))
			if err != nil {
				t.Fatal(err)
			}
			said := textOf(root)
			if target == "/" {
				said = ""
				for n := range root.Descendants() {
					if class := attr(n, "class"); n.Type == html.ElementNode && n.Data == "ul" && (class == "channels" || class == "rows") {
						said += textOf(n)
					}
				}
			}
			words := strings.TrimPrefix(sentence(c.words), "Gone ") // the page puts a subject before it
			if c.state == "missing" {
				words = "The feed " + c.words + "."
			}
			want := append([]string{words}, c.want...)
			if c.state != StateOK { // nobody asks since when all is well
				want = append(want, "for 3 h")
			}
			if trouble {
				want = append(want, "! "+c.state)
			}
			for _, w := range want {
				if !strings.Contains(said, w) {
					t.Errorf("%s, %s: no %q in: %s", c.state, target, w, said)
				}
			}
			for _, w := range c.without {
				if strings.Contains(said, w) {
					t.Errorf("%s, %s: %q in: %s", c.state, target, w, said)
				}
			}
			if trouble && strings.Count(said, words) != 1 {
				t.Errorf("%s, %s: the trouble is told %d times: %s", c.state, target, strings.Count(said, words), said)
			}
			if trouble && strings.Contains(said, "no items") {
				t.Errorf("%s, %s: a feed in trouble is said to have no items: %s", c.state, target, said)
			}
		}
	}
}

func TestFormatRelative(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 40 * time.Second: "40 s ago", 119 * time.Second: "119 s ago", 30 * time.Minute: "30 min ago", 30 * time.Hour: "30 h ago",
		80 * time.Hour: "3 days ago", -5 * time.Minute: "in 5 min",
	} {
		if got := relative(now, OptionalTime(now.Add(-d))).String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if relative(now, nil).String() != "" {
		t.Error("no time is no words")
	}
}

// Pages say "seen by one node" of an item, or a feed, for which a single node vouches, and a tooltip explains it.
// "unconfirmed" is the word for items with an unconfirmed key. The API keeps the original words.
func TestSingleProvenanceIsShownAsOneNode(t *testing.T) {
	b := newTestServer(t)
	b.node.subscribed[rssURL] = false
	b.node.provenance = "single"
	b.node.publish(t, rssURL, rssDoc(1, 2))
	page := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL)))
	if n := strings.Count(page, `no other node and no signature confirms it">seen by one node<`); n != 2 {
		t.Errorf("%d of two items are one node's: %s", n, page)
	}
	if text := body(t, b.ask("GET", "/feed?url="+rssURL)); strings.Count(text, ">single<") != 2 {
		t.Errorf("the feed says: %s", text)
	}
	b.node.provenance = "publisher"
	b.node.publish(t, rssURL, rssDoc(1, 2))
	if page := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL))); strings.Contains(page, ">one node<") {
		t.Errorf("signed items are one node's: %s", page)
	}
}

// Feeds and pages keep an item that its publisher has withdrawn, and say so.
func TestWithdrawnItemsAreMarked(t *testing.T) {
	b := newTestServer(t)
	b.node.subscribed[rssURL] = false
	b.node.provenance = "single"
	b.node.publish(t, rssURL, rssDoc(1, 2))
	entries := b.node.sources[rssURL].window.Document.Entries
	entries[0].Withdrawn = true
	page := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL)))
	if strings.Count(page, "withdrawn by the publisher") != 1 || strings.Count(page, "<article>") != len(entries) {
		t.Errorf("one of %d items was withdrawn: %s", len(entries), page)
	}
	for format, mark := range map[string]string{"rss": ">single, withdrawn<", "atom": ">single, withdrawn<", "json": `"single, withdrawn"`} {
		if text := body(t, b.ask("GET", "/feed?format="+format+"&url="+rssURL)); strings.Count(text, mark) != 1 || strings.Count(text, ", withdrawn") != 1 {
			t.Errorf("%s says: %s", format, text)
		}
	}
}

// The page of a feed says how many items wait for witnesses.
func TestItemsThatWaitAreCounted(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	for waiting, want := range map[int]int{0: 0, 2: 1} {
		b.node.channels[rssURL] = Channel{State: StateOK, Waiting: waiting}
		if text := body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL))); strings.Count(text, "2 items wait for witnesses") != want {
			t.Errorf("%d wait: %s", waiting, text)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 entries", 1: "1 entry", 2: "2 entries"} {
		if got := Plural(n, "entry", "entries"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
