package proxy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/locale"
)

// upload imports a file by the form, and returns the answer and the page that it leads to.
func (b *testServer) upload(doc string) (*http.Response, string) {
	b.Helper()
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	file, err := m.CreateFormFile("list", "feeds")
	if err != nil {
		b.Fatal(err)
	}
	file.Write([]byte(doc))
	m.Close()
	r := b.send(request("POST", "/opml", &form, "Content-Type", m.FormDataContentType()))
	return r, r.Header.Get("Location")
}

// act sends the form of an import's page, and returns the page that it leads to.
func (b *testServer) act(page, form string) string {
	b.Helper()
	at, _ := url.Parse(page)
	r := b.send(request("POST", importPath, strings.NewReader("id="+at.Query().Get("id")+"&"+form), "Content-Type", "application/x-www-form-urlencoded"))
	if r.StatusCode != http.StatusSeeOther {
		b.Fatalf("%s: %d %s", form, r.StatusCode, body(b.T, r))
	}
	return r.Header.Get("Location")
}

// imported returns the page of an import that has ended.
func (b *testServer) imported(page string) string {
	b.Helper()
	at, _ := url.Parse(page)
	if run, err := b.server.imports.find(at.Query().Get("id")); err == nil {
		<-run.finished
	}
	return body(b.T, b.ask("GET", page))
}

// listOf returns a list of n feeds.
func listOf(n int) string {
	var doc strings.Builder
	for i := range n {
		fmt.Fprintf(&doc, "<outline xmlUrl='https://h.example/feed/%d'/>", i)
	}
	return "<opml>" + doc.String() + "</opml>"
}

// A slowNode subscribes only when it is allowed to.
type slowNode struct {
	*memoryNode
	allowed chan struct{}
}

func (n slowNode) SubscribeAs(ctx context.Context, address string, d Description) error {
	select {
	case <-n.allowed:
		return n.memoryNode.SubscribeAs(ctx, address, d)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newSlowServer returns a server whose node subscribes only when a value is sent on allowed.
func newSlowServer(t *testing.T) (b *testServer, allowed chan struct{}) {
	b, allowed = newTestServer(t), make(chan struct{})
	b.server = New(slowNode{b.node, allowed}, b.server.config)
	return b, allowed
}

func TestAListIsImportedByForm(t *testing.T) {
	b := newTestServer(t)
	r, page := b.upload(`<opml version="1.0"><body><outline xmlUrl="` + rssURL + `"/><outline xmlUrl="gopher://h.example/"/><outline </body></opml>`)
	text := b.imported(page)
	if r.StatusCode != http.StatusSeeOther || len(b.node.subscriptions()) != 1 || !strings.Contains(text, "1 new, 0 already subscribed") || !strings.Contains(text, "gopher://h.example/") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	if found := activeParts(t, text); len(found) > 0 || strings.Contains(text, "Retry") {
		t.Errorf("active: %q, or the unusable address can be retried: %s", found, text)
	}
	if lists := body(t, b.ask("GET", listsPath)); !strings.Contains(lists, strings.ReplaceAll(page, "&", "&amp;")) || !strings.Contains(lists, "1 new, 0 already subscribed") {
		t.Errorf("the last import is not listed: %s", lists)
	}
	for doc, want := range map[string]string{"<opml/>": "contains no feeds", "SQLite format 3\x00": "feedlist.opml", "what is this": "no list of subscriptions"} {
		if r, _ := b.upload(doc); r.StatusCode != 400 || !strings.Contains(body(t, r), want) {
			t.Errorf("%q: %d, want %s", doc, r.StatusCode, want)
		}
	}
}

// The reasons of failures are in the language of the page if this node gives them, and in English if it only reports them.
func TestReasonsOfFailures(t *testing.T) {
	b := newTestServer(t)
	_, at := b.upload("http://127.0.0.1:8190/\ngopher://h.example/\n")
	b.imported(at)
	page := body(t, b.ask("GET", at, "Cookie", languageCookie+"="+locale.Pseudo.Tag))
	for _, want := range []string{`<p class="error">⟦the address leads back to this node⟧.</p>`, `<p class="error" lang="en">`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
}

// The page of an import that runs tells of its progress, by events and without scripts, and in the end of its result.
func TestAnImportShowsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, allowed := newSlowServer(t)
		const feeds = 40
		_, at := b.upload(listOf(feeds))
		page := body(t, b.ask("GET", at))
		if !strings.Contains(page, "Subscribing: 0 of 40") || !strings.Contains(page, `<noscript><meta http-equiv="refresh"`) || !strings.Contains(page, `data-live="/live?`) {
			t.Errorf("a running import is shown as %s", page)
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		w, ended := &streamReader{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
		go func() {
			defer close(ended)
			b.server.ServeHTTP(w, request("GET", "/live?import="+strings.TrimPrefix(at, "/import?id="), nil).WithContext(ctx))
		}()
		told := func() string {
			time.Sleep(2 * liveQuiet)
			synctest.Wait()
			return w.take()
		}
		if got := told(); !strings.Contains(got, "0 of 40") {
			t.Errorf("the stream begins with %q", got)
		}
		for range 10 {
			allowed <- struct{}{}
		}
		// The first change is told at once, and those of the next second together.
		if got := told(); !strings.Contains(got, "10 of 40") || strings.Count(got, "event:") > 2 || len(got) > 1000 {
			t.Errorf("updates of %d bytes: %s", len(got), got)
		}
		close(allowed)
		if got := told(); !strings.Contains(got, "event: reload") {
			t.Errorf("the end is told as %q", got)
		}
		page = body(t, b.ask("GET", at))
		if !strings.Contains(page, "The import is done.") || !strings.Contains(page, "40 new") || strings.Contains(page, "refresh") || strings.Contains(page, "data-live") {
			t.Errorf("an import that has ended is shown as %s", page)
		}
		end()
		<-ended
	})
}

// One import runs at a time, in the order of their beginnings. As many as are remembered can wait.
func TestSeveralImportsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, allowed := newSlowServer(t)
		var pages []string
		for range maxImports {
			r, page := b.upload(listOf(3))
			if r.StatusCode != http.StatusSeeOther {
				t.Fatalf("%d %s", r.StatusCode, body(t, r))
			}
			pages = append(pages, page)
		}
		if r, _ := b.upload(listOf(1)); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body(t, r), "wait until one of them has ended") {
			t.Errorf("one import too many: %d", r.StatusCode)
		}
		if page := body(t, b.ask("GET", pages[1])); !strings.Contains(page, "Waiting until another import has ended") {
			t.Errorf("the second import is shown as %s", page)
		}
		b.act(pages[2], "do=stop") // one that waits
		close(allowed)
		synctest.Wait()
		for i, want := range []string{"3 new, 0 already", "0 new, 3 already", "The import was stopped.", "0 new, 3 already"} {
			if page := body(t, b.ask("GET", pages[i])); !strings.Contains(page, want) {
				t.Errorf("import %d: want %s in %s", i, want, page)
			}
		}
		if r, _ := b.upload(listOf(1)); r.StatusCode != http.StatusSeeOther {
			t.Errorf("the next import: %d", r.StatusCode)
		}
		if r := b.ask("GET", pages[0]); r.StatusCode != http.StatusNotFound || !strings.Contains(body(t, r), "what it had subscribed to stays") {
			t.Errorf("the oldest import: %d", r.StatusCode)
		}
	})
}

// An import that is stopped keeps what it has subscribed to, and the rest can be imported with one button.
func TestAnImportIsStoppedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, allowed := newSlowServer(t)
		_, at := b.upload(listOf(40))
		for range 10 {
			allowed <- struct{}{}
		}
		b.act(at, "do=stop")
		synctest.Wait()
		page := body(t, b.ask("GET", at))
		if len(b.node.subscriptions()) != 10 || !strings.Contains(page, "The import was stopped.") || !strings.Contains(page, "10 new, 0 already subscribed, 30 failed") {
			t.Errorf("%d subscriptions, %s", len(b.node.subscriptions()), page)
		}
		close(allowed)
		at = b.act(at, "do=retry+all")
		synctest.Wait()
		if page := body(t, b.ask("GET", at)); len(b.node.subscriptions()) != 40 || !strings.Contains(page, "30 new, 0 already subscribed, 0 failed") {
			t.Errorf("%d subscriptions, %s", len(b.node.subscriptions()), page)
		}
	})
}

// A program whose import a person stops is told so.
func TestAProgramsImportIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newSlowServer(t)
		var fault ErrorResponse
		status := make(chan int)
		go func() { status <- b.call("POST", "opml", listOf(2), &fault) }()
		synctest.Wait()
		b.server.imports.latest()[0].stop()
		if s := <-status; s != http.StatusServiceUnavailable || !strings.Contains(fault.Error, "the import was stopped") {
			t.Errorf("%d %+v", s, fault)
		}
	})
}

// An import whose program goes away while it waits for another one gives up its place. The one behind it goes on waiting.
func TestAWaitingImportGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of imports
		proceed, begun := make(chan struct{}), 0
		begin := func() (*importRun, context.CancelFunc, error) {
			ctx, leave := context.WithCancel(t.Context())
			run, err := of.begin(ctx, time.Now(), func(ctx context.Context, _ *importRun) error {
				if ctx.Err() == nil {
					begun++
					<-proceed
				}
				return ctx.Err()
			})
			return run, leave, err
		}
		var runs []*importRun
		var leaves []context.CancelFunc
		for range maxImports {
			run, leave, err := begin()
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			runs, leaves = append(runs, run), append(leaves, leave)
		}
		synctest.Wait()
		leaves[1]()
		synctest.Wait()
		if !runs[1].hasEnded() || runs[1].state != importStopped || runs[0].hasEnded() || begun != 1 {
			t.Errorf("the import that waits is %s, %d run at a time", runs[1].state, begun)
		}
		last, leave, err := begin()
		if err != nil {
			t.Fatalf("no place is free: %v", err)
		}
		defer leave()
		close(proceed)
		if _, err := last.wait(); err != nil || begun != maxImports {
			t.Errorf("%v after %d imports", err, begun)
		}
	})
}

// A node that stops ends its imports, and begins no other. What was subscribed to is there after its next start, and the
// same list brings the rest.
func TestANodeStopsInTheMiddleOfAnImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, allowed := newSlowServer(t)
		_, at := b.upload(listOf(40))
		allowed <- struct{}{}
		b.server.imports.close()
		if r, _ := b.upload(listOf(1)); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("an import of a node that stops: %d", r.StatusCode)
		}
		b.server = New(b.node, b.server.config)
		if r := b.ask("GET", at); r.StatusCode != http.StatusNotFound || !strings.Contains(body(t, r), "import the list again for the rest") {
			t.Errorf("an import of the earlier run: %d", r.StatusCode)
		}
		_, at = b.upload(listOf(40))
		if page := body(t, b.ask("GET", at)); !strings.Contains(page, "39 new, 1 already subscribed, 0 failed") {
			t.Errorf("the same list again: %s", page)
		}
	})
}

// Each failed entry can be retried by itself, and keeps the title and the tags that it has in the list.
func TestFailuresOfAnImportAreRetried(t *testing.T) {
	b := newTestServer(t)
	b.node.room = 0
	b.node.inspections[choiceURL] = Inspection{Page: true, Feeds: []Choice{{URL: atomURL, Title: "Posts", Kind: KindFeed}, {URL: jsonURL, Kind: KindFeed}}}
	b.node.inspections[atomURL], b.node.inspections[jsonURL] = Inspection{Feed: true}, Inspection{Feed: true}
	_, at := b.upload("<opml><outline text='News'><outline text='Mine' xmlUrl='" + rssURL + "'/><outline text='Theirs' xmlUrl='" + choiceURL + "'/></outline></opml>")
	if page := b.imported(at); !strings.Contains(page, "0 new, 0 already subscribed, 2 failed") || !strings.Contains(page, "Follow Posts") {
		t.Fatal(page)
	}
	if page := b.imported(b.act(at, "do=retry&place=1")); !strings.Contains(page, "Still not subscribed to") || !strings.Contains(page, "2 failed") {
		t.Errorf("the second attempt: %s", page)
	}
	b.node.room = 10
	if page := b.imported(b.act(at, "do=retry&place=1")); !strings.Contains(page, "Subscribed to Mine") || !strings.Contains(page, "1 new, 0 already subscribed, 1 failed") {
		t.Errorf("the third attempt: %s", page)
	}
	if page := b.imported(b.act(at, "do=retry&place=1")); !strings.Contains(page, "retried already") {
		t.Errorf("the fourth attempt: %s", page)
	}
	if page := b.imported(b.act(at, "do=retry&place=2&choice="+url.QueryEscape(atomURL))); !strings.Contains(page, "Subscribed to Theirs") || !strings.Contains(page, "2 new, 0 already subscribed, 0 failed") {
		t.Errorf("the choice: %s", page)
	}
	for address, title := range map[string]string{rssURL: "Mine", atomURL: "Theirs"} {
		if c := b.node.channels[address]; c.Title != title || !slices.Equal(c.Tags, []string{"News"}) {
			t.Errorf("%s: %+v", address, c)
		}
	}
}

// Nothing is subscribed to for bookmarks before a person has chosen. Then their feeds are found, or the choice is told.
func TestBookmarksAreChosen(t *testing.T) {
	b := newTestServer(t)
	const one, two, down = "https://one.example/", "https://two.example/", "https://down.example/"
	b.node.inspections[one] = Inspection{Page: true, Feeds: []Choice{{URL: rssURL, Kind: KindFeed}}}
	b.node.inspections[rssURL] = Inspection{Feed: true}
	b.node.inspections[two] = Inspection{Page: true}
	b.node.inspectErrors[down] = ErrUnreachable
	doc := "<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><H3>Reading</H3><DL>"
	for i, address := range []string{one, two, down, "https://four.example/"} {
		doc += fmt.Sprintf("<DT><A HREF='%s'>Number %d</A>", address, i)
	}
	for i := range 1000 {
		doc += fmt.Sprintf("<DT><A HREF='https://h.example/%d'>%s</A>", i, strings.Repeat("long ", 20))
	}
	_, at := b.upload(doc + "</DL></DL>")
	page := b.imported(at)
	if len(b.node.subscriptions()) != 0 || b.node.inspected != 0 || !strings.Contains(page, "Number 3") || !strings.Contains(page, "Reading") || len(page) > 100_000 {
		t.Fatalf("%d bytes: %s", len(page), page)
	}
	if found := activeParts(t, page); len(found) > 0 {
		t.Errorf("active: %q", found)
	}
	if page := b.imported(at + "&q=four.example"); !strings.Contains(page, "Number 3") || strings.Contains(page, "Number 1") {
		t.Errorf("the search: %s", page)
	}
	if page := b.imported(b.act(at, "do=choose")); !strings.Contains(page, "No bookmark is selected") {
		t.Errorf("no choice: %s", page)
	}
	page = b.imported(b.act(at, "do=choose&entry=1&entry=2&entry=3"))
	if got := slices.Collect(maps.Keys(b.node.subscriptions())); !slices.Equal(got, []string{rssURL}) || !strings.Contains(page, "1 new, 0 already subscribed, 2 failed") || !strings.Contains(page, "Follow the page itself") {
		t.Errorf("%q, %s", got, page)
	}
	if c := b.node.channels[rssURL]; c.Title != "Number 0" || !slices.Equal(c.Tags, []string{"Reading"}) {
		t.Errorf("%+v", c)
	}
	if page := b.imported(at); strings.Contains(page, "Number 2") || !strings.Contains(page, "Number 3") {
		t.Errorf("what is left: %s", page)
	}
	var fault ErrorResponse
	if status := b.call("POST", "opml", doc, &fault); status != 400 || !strings.Contains(fault.Error, listsPath) {
		t.Errorf("by a program: %d %+v", status, fault)
	}
}
