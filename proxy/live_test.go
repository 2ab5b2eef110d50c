package proxy

import (
	"context"
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A streamReader is a browser that reads a stream.
type streamReader struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (s *streamReader) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ResponseRecorder.Write(b)
}

func (s *streamReader) Flush() {}

// take returns what has come since the last call.
func (s *streamReader) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.Body.Reset()
	return s.Body.String()
}

// rowsOf returns the address of the stream of a page that shows some subscriptions.
func rowsOf(addresses ...string) string {
	var l listing
	for _, address := range addresses {
		l.Rows = append(l.Rows, channelView{Channel{URL: address}})
	}
	return l.LiveAddress()
}

// A page that is open is told of what changes, and of nothing else, in updates of at most 1 kB. It begins with all that the
// page shows, which may have changed since.
func TestLivePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		news := memoryNews{next: make(chan struct{})}
		b := newTestServer(t, func(c *Config) { c.News = news })
		for _, address := range []string{rssURL, atomURL, jsonURL} {
			b.node.Subscribe(t.Context(), address, false)
		}
		ctx, end := context.WithCancel(t.Context())
		w, ended := &streamReader{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
		go func() {
			defer close(ended)
			b.server.ServeHTTP(w, request("GET", rowsOf(rssURL, atomURL), nil).WithContext(ctx))
		}()
		told := func() string {
			synctest.Wait()
			return w.take()
		}
		if got := told(); w.Header().Get("Content-Type") != "text/event-stream" || strings.Count(got, "event: number") != 5 || strings.Count(got, "event: row") != 2 || strings.Contains(got, rowID(jsonURL)) {
			t.Errorf("a new stream begins with %q", got)
		}
		time.Sleep(liveQuiet)
		b.node.mu.Lock()
		b.node.channels[rssURL] = Channel{State: "gone", Error: "gone for good (410)"}
		b.node.mu.Unlock()
		close(news.next)
		got := told()
		for _, want := range []string{`event: number`, `{"id":"trouble","value":"1"}`, "event: row", `"id":"` + rowID(rssURL) + `","trouble":true`, "</b> gone", `"why":"<p class=\"error\">The feed is gone for good (410).`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		if strings.Count(got, "event:") != 2 || len(got) > 1000 {
			t.Errorf("%d bytes: %s", len(got), got)
		}
		time.Sleep(time.Minute)
		if got := told(); strings.Contains(got, "event:") {
			t.Errorf("nothing has changed, and it says %s", got)
		}
		end()
		<-ended
		if len(b.server.streams) != 0 {
			t.Error("the stream is not counted as closed")
		}
	})
}

// The page of a subscription says that there are items which it does not show.
func TestAPageTellsOfNewItems(t *testing.T) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), rssURL, false)
	for _, newest := range []*time.Time{nil, OptionalTime(b.clock)} {
		b.node.channels[rssURL] = Channel{State: StateOK, Newest: newest}
		_, address, _ := strings.Cut(body(t, b.ask("GET", "/show?url="+url.QueryEscape(rssURL))), `data-live="`)
		address, _, _ = strings.Cut(address, `"`)
		told := func() string {
			ctx, end := context.WithCancel(t.Context())
			end()
			w := httptest.NewRecorder()
			b.server.ServeHTTP(w, request("GET", html.UnescapeString(address), nil).WithContext(ctx))
			return w.Body.String()
		}
		if got := told(); !strings.Contains(got, "event: row") || strings.Contains(got, "fresh") {
			t.Errorf("a new page: %s", got)
		}
		b.node.channels[rssURL] = Channel{State: StateOK, Newest: OptionalTime(b.clock.Add(time.Minute))}
		if got := told(); !strings.Contains(got, `"id":"fresh"`) || !strings.Contains(got, "Show the new items") {
			t.Errorf("after a new item: %s", got)
		}
	}
}

// An update is small, however much a page shows, and a page too many is refused.
func TestLivePagesAreSmallAndFew(t *testing.T) {
	b := newManyServer(t, 1000)
	page := body(t, b.ask("GET", "/subscriptions?state=trouble"))
	_, address, _ := strings.Cut(page, `data-live="`)
	address, _, _ = strings.Cut(address, `"`)
	ctx, end := context.WithCancel(t.Context())
	end()
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, request("GET", html.UnescapeString(address), nil).WithContext(ctx))
	events := strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n")
	if len(events) != 5+50 {
		t.Errorf("%s: %d events", address, len(events))
	}
	for _, event := range events {
		if len(event) > 1000 {
			t.Errorf("%d bytes: %s", len(event), event)
		}
	}
	for range maxStreams {
		b.server.streams <- struct{}{}
	}
	if r := b.ask("GET", rowsOf(rssURL)); r.StatusCode != 503 {
		t.Error(r.StatusCode)
	}
}

// The tasks of the page of subscriptions are done from the keyboard; what changes meanwhile is shown.
func TestSubscriptionsByKeyboardInABrowser(t *testing.T) {
	ctx := browser(t)
	news := memoryNews{next: make(chan struct{})}
	b := newTestServer(t, func(c *Config) { c.News = news })
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	served := httptest.NewServer(b.server)
	defer served.Close()
	row := "#" + rowID(rssURL)
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.Navigate(b.server.OpenURL(served.URL)),
		chromedp.KeyEvent("?"), chromedp.WaitVisible("#keys"), chromedp.KeyEvent(kb.Escape), chromedp.WaitNotVisible("#keys"),
		chromedp.Navigate(served.URL + "/subscriptions"),
		chromedp.KeyEvent("/"), chromedp.WaitVisible("#search:focus"), chromedp.SetValue("#search", "rss"), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitNotPresent("#" + rowID(jsonURL)), chromedp.WaitVisible(row),
		chromedp.KeyEvent("j"), chromedp.WaitVisible(row + " h3 a:focus"),
		chromedp.KeyEvent("x"), chromedp.WaitVisible(row + " input:checked"),
		chromedp.SendKeys(".bulk input[name=tag]", "fruit"+kb.Enter), chromedp.WaitVisible(row + " .tags a"),
		chromedp.KeyEvent("k"), chromedp.WaitVisible(row + " h3 a:focus"),
		chromedp.KeyEvent("u"), chromedp.WaitVisible(".said form button"), chromedp.WaitNotPresent(row),
		chromedp.Focus(".said form button"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(row),
	}
	for i, step := range steps {
		if err := chromedp.Do(ctx, step); err != nil {
			at, _ := chromedp.Run(context.WithoutCancel(ctx), chromedp.Location())
			t.Fatalf("step %d at %s: %v", i, at, err)
		}
	}
	if got := b.node.subscriptions(); len(got) != 3 {
		t.Errorf("after undo: %v", got)
	}
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.Call(ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted}); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Focus(row+" [data-copy]"), chromedp.KeyEvent(" ")); err != nil {
		t.Fatal(err)
	}
	copied, err := chromedp.Run(ctx, chromedp.Evaluate[string](`new Promise(done => {
		const look = () => document.getElementById("told").textContent ? done(navigator.clipboard.readText()) : setTimeout(look, 10)
		look()
	})`, chromedp.EvalAwaitPromise))
	if want := b.server.ReadURL(served.URL, rssURL); err != nil || copied != want {
		t.Errorf("copied %q, want %q: %v", copied, want, err)
	}
	b.node.mu.Lock()
	b.node.channels[rssURL] = Channel{State: "gone", Error: "gone for good (410)"}
	b.node.mu.Unlock()
	close(news.next)
	if err := chromedp.Do(ctx, chromedp.WaitVisible(row+" .facts .state.trouble"), chromedp.WaitVisible(row+" .why .error"), chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
}

// The first updates of a page tell what it shows already, and replace nothing: a click on a link that is replaced meanwhile is lost.
func TestLiveUpdatesLeaveWhatIsRight(t *testing.T) {
	browser := browserFor(t, time.Minute)
	b := newTestServer(t)
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	b.node.channels[rssURL] = Channel{State: StateOK, Moved: "https://new.example/feed", LastPoll: OptionalTime(b.clock.Add(-time.Hour)), NextPoll: OptionalTime(b.clock.Add(time.Hour))}
	b.node.channels[jsonURL] = Channel{State: "gone", Error: "gone for good (410) & away", Do: "unsubscribe"}
	h := newHand(browser, t, b, false, 1440, 900, "light")
	const script = `
		const Stream = window.EventSource;
		window.told = []; // ids of parts
		window.replaced = [];
		window.EventSource = class extends Stream {
			addEventListener(kind, hear) {
				super.addEventListener(kind, event => { hear(event); kind === "part" && told.push(JSON.parse(event.data).id); });
			}
		};
		document.addEventListener("DOMContentLoaded", () => new MutationObserver(all => replaced.push(...all.map(m => m.target.outerHTML)))
			.observe(document.querySelector("main"), { subtree: true, childList: true }));`
	if _, err := chromedp.Call(h.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		t.Fatal(err)
	}
	h.open("/")
	h.until(`window.told.includes("t-words")`, "the last of the first updates")
	if replaced := look[[]string](h, "window.replaced"); len(replaced) > 0 {
		t.Errorf("replaced: %q", replaced)
	}
}

// The script of pages says times in the words of the node.
func TestTimesInABrowserAreThoseOfTheNode(t *testing.T) {
	ctx := browser(t)
	b := newTestServer(t)
	served := httptest.NewServer(b.server)
	defer served.Close()
	stopped := fmt.Sprintf("Date.now = () => %d; window.setInterval = tick => { window.tick = tick }", b.clock.UnixMilli())
	if _, err := chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: stopped}); err != nil {
		t.Fatal(err)
	}
	var times, want []string
	for _, d := range []time.Duration{0, time.Second, 119 * time.Second, 120 * time.Second, 7199 * time.Second, 2 * time.Hour, 48*time.Hour - time.Second, 48 * time.Hour, 800 * 24 * time.Hour} {
		for _, d := range []time.Duration{d, -d} {
			at := OptionalTime(b.clock.Add(-d))
			times = append(times, fmt.Sprintf(`<time datetime="%s"></time><time datetime="%[1]s" data-for></time>`, iso(at)))
			want = append(want, relative(b.clock, at).String(), lasting(b.clock, at).String())
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(b.server.OpenURL(served.URL))); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(`document.body.innerHTML = %q; tick(); [...document.querySelectorAll("time")].map(e => e.textContent)`, strings.Join(times, ""))))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}
