package proxy

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tidings/internal/check/checktest"
	"tidings/internal/locale"
)

// shots is the folder in which TestPagesInABrowser saves pictures; none if empty:
//
//	go test ./proxy -run Browser -shots DIR
var shots = flag.String("shots", "", "folder for pictures of the pages")

// npmPackage returns the folder of a package that a test needs. npm fetches all of them once, in the versions and with the
// hashes in testdata/npm/package-lock.json.
func npmPackage(t *testing.T, name string) string {
	t.Helper()
	const all = "testdata/npm"
	folder := filepath.Join(all, "node_modules", name)
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	out, err := exec.Command("npm", "ci", "--prefix", all, "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput()
	if err != nil {
		checktest.Lacks(t, "npm cannot install %s: %v: %s", name, err, out)
	}
	return folder
}

// axeCore returns the script that checks the pages: Deque's axe-core.
func axeCore(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(npmPackage(t, "axe-core"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// judged shows what is collapsed, and lists the rules that pages must keep: WCAG 2.2, levels A and AA, and axe-core's best practices.
const judged = `document.querySelectorAll("details").forEach(d => { d.open = true })
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
	.then(r => JSON.stringify(r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join("  "))))`

// browser starts Chromium until the test ends, which has three minutes: machines may be busy.
func browser(t *testing.T) context.Context {
	t.Helper()
	return browserFor(t, 3*time.Minute)
}

// browserFor starts Chromium until the test ends, or for a time.
func browserFor(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes its time: left out with -short")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		checktest.Lacks(t, "Chromium is not installed: %v", err)
	}
	ctx, err := startBrowser(t, path)
	for range 2 { // Chromium itself crashes at some of its starts
		if err == nil {
			break
		}
		t.Logf("once more: %v", err)
		ctx, err = startBrowser(t, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
	})
	within, cancel := context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	return within
}

// startBrowser starts a browser that ends with the test.
func startBrowser(t *testing.T, path string) (context.Context, error) {
	t.Helper()
	background, cancel := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(background)
	t.Cleanup(cancel)
	return ctx, chromedp.Do(ctx)
}

// changedPage is a page of which one part counts.
const changedPage = "page+https://h.example/fares#select=.fares"

// newFullServer returns a server whose pages show everything that they can show.
func newFullServer(t *testing.T) *testServer {
	b := newTestServer(t, func(c *Config) {
		now, late := c.Now(), 3*time.Minute
		c.News = memoryNews{
			health: []HealthChange{{At: now.Add(-time.Hour), Kind: "recovered", Text: "it can be read again", Since: OptionalTime(now.Add(-72 * time.Hour))}},
			found:  []NewItem{{now, &late, true}, {now.Add(-5 * time.Hour), nil, false}, {now.Add(-6 * time.Hour), &late, false}},
		}
		c.Keywords = &memoryKeywords{watches: []Watch{{Number: 1, Query: "bridge NOT card"}}, preview: &solarPreview}
		c.Tokens = &memoryTokens{
			token:    &SearchToken{ID: "0000002a", MaxSearches: 5, Expires: OptionalTime(now.Add(90 * 24 * time.Hour))},
			keywords: memoryKeywords{watches: []Watch{{Number: 2, Query: "ferry"}, {Number: 3, Query: strings.Repeat("long", 30)}}},
		}
		failing := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
		c.Notifications = &memoryNotifications{targets: []NotifyTarget{
			{ID: "a", To: "https://hooks.example/…", Feeds: []string{rssURL}, Queries: []string{"bridge"}, Health: true, QuietHours: "22:00-07:00", Digest: "daily", Sent: 7},
			{ID: "b", To: "ntfy://ntfy.example/" + strings.Repeat("long", 20), Feeds: []string{atomURL}, Failing: &failing, Error: "it answered 400", Dead: 1},
		}}
		c.Messenger = func() *Messenger { return &Messenger{Account: "news@h.example", Error: "no such host"} }
		c.Notice = func() Notice {
			return Notice{Title: locale.Say("Demo"), Text: locale.Say("%d subscriptions", 3), Head: []locale.Text{nil, locale.Say("polled by")}, Rows: [][]locale.Text{{locale.Say("nodes together"), locale.Say("%d s", 10)}}, Footer: []locale.Text{locale.Say("no new item has been shown yet")}}
		}
	})
	gone := "https://h.example/gone?with=a&very=" + strings.Repeat("long", 20)
	for _, address := range []string{rssURL, atomURL, jsonURL, gone} {
		b.node.Subscribe(t.Context(), address, address == jsonURL)
	}
	b.node.inspections[choiceURL] = Inspection{Page: true, Feeds: []Choice{
		{URL: "https://page.example/posts.xml", Title: "Posts of the page", Kind: KindFeed},
		{URL: "https://page.example/comments/" + strings.Repeat("long", 20), Kind: KindFeed},
	}}
	b.node.publish(t, changedPage, `<feed xmlns="http://www.w3.org/2005/Atom"><title>Fares</title><id>urn:f</id><entry><id>1</id><title>Single 4.20</title><content type="html">`+
		`&lt;p&gt;Fares from May&lt;/p&gt;&lt;p&gt;− &lt;del&gt;Single 4.00&lt;/del&gt;&lt;/p&gt;&lt;p&gt;− &lt;del&gt;Children free&lt;/del&gt;&lt;/p&gt;&lt;p&gt;+ &lt;ins&gt;Single 4.20&lt;/ins&gt;&lt;/p&gt;&lt;hr&gt;&lt;p&gt;+ &lt;ins&gt;See &lt;a href="https://h.example/tickets"&gt;all tickets&lt;/a&gt;&lt;/ins&gt;&lt;/p&gt;</content></entry></feed>`)
	b.node.Subscribe(t.Context(), changedPage, false)
	b.node.channels[changedPage] = Channel{State: StateOK, Publisher: "SHA256:" + strings.Repeat("long", 10), FormerKeys: []FormerKey{{"SHA256:old", true}}, Pollers: 2}
	b.node.pollers = Pollers{Interval: time.Hour, Pollers: []Poller{
		{Member{ID: idAt(1), Role: RoleSelf}, OptionalTime(b.clock.Add(10 * time.Minute))}, {Member{ID: idAt(2), Role: RoleLeaf}, OptionalTime(b.clock.Add(40 * time.Minute))},
	}}
	rtt, soon, rank := 12.4, 21.0, 1
	b.node.channels[rssURL] = Channel{State: StateOK, Subscribers: 3, Pollers: 2, Key: idAt(26), DetectionExpectedS: &soon, NextPoll: OptionalTime(b.clock.Add(time.Minute)), LastPoll: OptionalTime(b.clock.Add(-time.Hour)), Rank: &rank, Why: "two members poll it in turns"}
	b.node.channels[gone] = Channel{State: "gone", Error: "poll " + gone + ": 410 Gone", Since: OptionalTime(b.clock.Add(-72 * time.Hour))}
	b.node.status.Warnings = []Warning{{What: locale.Text{"The clock is 3 minutes behind."}}}
	b.node.status.Addresses = []string{"/ip4/203.0.113.7/udp/4801/quic-v1/p2p/12D3KooW" + strings.Repeat("long", 10)}
	b.node.network = Network{Name: "town", EstimateN: 8, Members: []Member{
		{ID: idAt(0), PeerID: "12D3KooWme", Role: RoleSelf}, {ID: idAt(30), PeerID: "12D3KooWnear", Role: RoleLeaf, RTTMs: &rtt}, {ID: idAt(80), PeerID: "12D3KooWfar", Role: RoleContact},
	}}
	for i := range 300 {
		b.node.network.History = append(b.node.network.History, NetworkSample{At: b.clock.Add(time.Duration(i-300) * 10 * time.Minute), Members: 8 - i%3, Polls: 40 + float64(i%5), Target: 50, OwnPolls: i % 7})
	}
	b.node.trees = map[string]Tree{rssURL: {
		Known: true, Readers: 4, Leader: &Member{ID: idAt(55), PeerID: "12D3KooWleader"}, Parents: []Member{{ID: idAt(30)}}, Children: []Member{{ID: idAt(80)}, {ID: idAt(91)}},
		Last: &TreeDelivery{Items: 2, Written: b.clock.Add(-time.Minute), Arrived: b.clock.Add(-59 * time.Second), From: &Member{ID: idAt(30)}},
	}}
	rate := 0.0123
	b.node.status.Lambda, b.node.status.Levels, b.node.status.Clusters = &rate, []int{1, 0, 4}, 7
	return b
}

// Every page passes axe-core in light and in dark mode. On a phone, only boxes that scroll by themselves are wider
// than the screen. All controls can be reached with the keyboard, and the focus is visible.
func TestPagesInABrowser(t *testing.T) {
	ctx := browser(t)
	b := newFullServer(t)
	served := httptest.NewServer(submitForm(b.server))
	defer served.Close()
	// After the log-in, the address of a feed for readers leads to the page of the subscription.
	if err := chromedp.Do(ctx, chromedp.Navigate(b.server.OpenURL(served.URL)), chromedp.Navigate(b.server.ReadURL(served.URL, rssURL))); err != nil {
		t.Fatal(err)
	}
	if at, err := chromedp.Run(ctx, chromedp.Location()); err != nil || at != served.URL+"/show?url="+url.QueryEscape(rssURL) {
		t.Errorf("the address of a feed leads to %s, %v", at, err)
	}
	pages := fullPages(ctx, b)
	axe := axeCore(t)
	feed := url.QueryEscape(rssURL)
	for _, p := range pages {
		for _, scheme := range []string{"light", "dark"} {
			name := p.name + "-" + scheme
			openPage(ctx, t, served.URL+p.path, scheme, 1000)
			faults, err := chromedp.Run(ctx, chromedp.Evaluate[string](axe+";"+judged, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var found []string
			if err := json.Unmarshal([]byte(faults), &found); err != nil {
				t.Fatalf("%s: %q %v", name, faults, err)
			}
			if len(found) > 0 {
				t.Errorf("%s:\n%s", name, strings.Join(found, "\n"))
			}
			savePicture(ctx, t, name)
		}
		openPage(ctx, t, served.URL+p.path, "light", 320)
		savePicture(ctx, t, p.name+"-narrow")
		if width, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth")); err != nil || width > 320 {
			t.Errorf("%s: %d wide on a screen of 320, %v", p.name, width, err)
		}
		for _, unseen := range tabThrough(ctx, t) {
			t.Errorf("%s: by keyboard: %s", p.name, unseen)
		}
	}
	// The script replays the way of the last items, and adds fields to the form of a target.
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.Navigate(served.URL + "/network?channel=" + feed), chromedp.Click("[data-replay]"), chromedp.WaitVisible(".ring svg.play .hop-3"),
		chromedp.Navigate(served.URL + NotifyPath), chromedp.SendKeys(`input[name="feed"]:last-child`, "rss"), chromedp.WaitVisible(`input[name="feed"]:nth-of-type(4)`),
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Error(err)
	}
	fillBuilder(ctx, t, served.URL)
}

// A namedPage is a page of newFullServer.
type namedPage struct{ name, path string }

// fullPages returns all pages of newFullServer. One import of it runs until the test ends.
func fullPages(ctx context.Context, b *testServer) []namedPage {
	b.server.messages.put("undo", message{Text: locale.Text{"Unsubscribed from 2 feeds"}, Undo: []string{rssURL, atomURL}, until: b.clock.Add(time.Minute)}, 1)
	b.server.messages.put("problem", message{Text: locale.Text{"nothing can be read there yet: no such host: h.example"}, Problem: true, until: b.clock.Add(time.Minute)}, 1)
	_, imported := b.upload("<opml><outline xmlUrl='" + choiceURL + "'/><outline xmlUrl='ftp://h.example/" + strings.Repeat("long", 40) + "'/><outline </opml>")
	_, offered := b.upload("<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><H3>Reading</H3><DL><A HREF='https://one.example/'>One " + strings.Repeat("long", 40) + "</A><A FEEDURL='https://one.example/feed'>Two</A></DL></DL>")
	running, err := b.server.imports.begin(ctx, b.clock, func(ctx context.Context, run *importRun) error {
		run.enter(importSubscribing, 5000)
		run.step()
		<-ctx.Done()
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(b.server.imports.close)
	feed := url.QueryEscape(rssURL)
	return []namedPage{
		{"home", "/?still"}, {"show", "/show?url=" + feed}, {"shown", "/show?new=1&url=" + feed}, {"add", "/add?url=" + feed},
		{"page", "/show?url=" + url.QueryEscape(changedPage)},
		{"subscriptions", "/subscriptions"}, {"undo", "/subscriptions?q=gone&said=undo"}, {"problem", "/show?said=problem&url=" + feed}, {"lists", "/lists"}, {"node", "/node"},
		{"channels", "/channels?sort=-readers"}, {"filtered", "/channels?filter=nothing"},
		{"network", "/network"}, {"wedge", "/network?channel=" + feed}, {"fault", "/show?url=http://unknown.example/"}, {"missing", "/nowhere"},
		{"several", "/network?channel=h.example"}, {"notify", NotifyPath + "?dead=b"}, {"watch", "/watch?q=bridge"},
		{"choose", "/subscribe?url=" + url.QueryEscape(choiceURL)},
		{"watch", "/watch?all=solar+battery&none=advert"}, {"imported", imported}, {"offered", offered}, {"importing", running.path()},
		{"enter", searchesPath}, {"made", searchesPath + "watch?q=ferry+bridge"},
	}
}

// choiceURL is a page that advertises several feeds.
const choiceURL = "https://page.example/"

// submitForm handles a GET of a form's address as if its button had been pressed, and one with a query at the page of
// searches as if a token had been entered.
func submitForm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, form := r.URL.Path, r.URL.RawQuery
		if path == "/subscribe" || strings.HasPrefix(path, searchesPath) && strings.HasPrefix(form, "q=") {
			r = httptest.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+r.Host+path, strings.NewReader(form))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if strings.HasPrefix(path, searchesPath) && r.Method == http.MethodPost {
			r.AddCookie(&http.Cookie{Name: searchesCookie, Value: memoryToken})
		}
		next.ServeHTTP(w, r)
	})
}

// openPage opens a page, in a colour scheme and on a screen of a width.
func openPage(ctx context.Context, t *testing.T, address, scheme string, width int64) {
	t.Helper()
	media(ctx, t, address, width, 900, "prefers-color-scheme", scheme) //nolint:misspell // as CSS spells it
}

// savePicture saves a picture of the open page if -shots is set.
func savePicture(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o600); err != nil {
		t.Error(err)
	}
}

// tabThrough goes through the page with the Tab key. It returns the controls that it did not reach, and those whose
// focus is not visible.
func tabThrough(ctx context.Context, t *testing.T) (missed []string) {
	t.Helper()
	const all = `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter(e => e.checkVisibility())`
	count, err := chromedp.Run(ctx, chromedp.Evaluate[int](all+".length"))
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
			t.Fatal(err)
		}
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => {
			const e = document.activeElement, s = getComputedStyle(e)
			e.dataset.visited = 1
			return s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2 ? e.outerHTML.slice(0, 200) : ""
		})()`))
		if err != nil {
			t.Fatal(err)
		}
		if at != "" {
			missed = append(missed, "nothing shows that the focus is on "+at)
		}
	}
	left, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](all+`.filter(e => !e.dataset.visited).map(e => "does not come to " + e.outerHTML.slice(0, 200))`))
	if err != nil {
		t.Fatal(err)
	}
	return append(missed, left...)
}

// A column is sorted from the keyboard, and the filter is a form: the page has no scripts.
func TestChannelsByKeyboardInABrowser(t *testing.T) {
	ctx := browser(t)
	b := newFullServer(t)
	served := httptest.NewServer(b.server)
	defer served.Close()
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.Navigate(b.server.OpenURL(served.URL)),
		chromedp.Navigate(served.URL + "/channels"),
		chromedp.Focus(`th a[href*="sort=readers"]`), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(`th[aria-sort="ascending"] a[href*="sort=-readers"]`),
		chromedp.Focus(`input[name="filter"]`), chromedp.KeyEvent("json" + kb.Enter), chromedp.WaitNotPresent(`a[href*="gone"]`),
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	rows, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`))
	at, _ := chromedp.Run(ctx, chromedp.Location())
	if err != nil || rows != 1 || !strings.Contains(at, "sort=readers") || !strings.Contains(at, "filter=json") {
		t.Error(fmt.Sprint(rows, " rows at ", at), err)
	}
}
