package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/proxy"
)

const blogURL = "https://blog.example/feed.xml"

// A fakePublishNode is a node as publishers see it. It accepts the item with the next number.
type fakePublishNode struct {
	*httptest.Server
	key   string // file of the publisher's key
	mu    sync.Mutex
	taken []*difference.Publication
	// fault answers pushes, unless it is nil.
	fault http.HandlerFunc
	other proxy.Publisher // what it knows about another publisher
	began time.Time       // when it started
}

func newFakePublishNode(t *testing.T) *fakePublishNode {
	p := &fakePublishNode{key: filepath.Join(t.TempDir(), "blog.key"), began: time.Now()}
	runLocal(t, "keygen", p.key)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/publisher", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.publisher()) })
	mux.HandleFunc("POST /api/v1/publish", p.push)
	mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, p.status()) })
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() { p.Close() })
	return p
}

func (p *fakePublishNode) status() proxy.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return proxy.Status{UptimeS: time.Since(p.began).Seconds()}
}

// restart starts it at the address at which it was closed.
func (p *fakePublishNode) restart(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", p.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.began = time.Now()
	p.mu.Unlock()
	p.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: p.Config.Handler}}
	p.Start()
}

// answerWith makes it answer with a fault, or normally if the fault is nil.
func (p *fakePublishNode) answerWith(fault http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Tidings", "1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (p *fakePublishNode) publisher() proxy.Publisher {
	p.mu.Lock()
	defer p.mu.Unlock()
	publisher := p.other
	publisher.URL = blogURL
	for _, at := range p.taken {
		publisher.Key, publisher.Seq, publisher.Head = at.Key, at.Seq, at.Hash[:]
		publisher.Items = append(publisher.Items, at.Item.ID.String()+at.Item.Hash.String())
	}
	return publisher
}

func (p *fakePublishNode) push(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var draft proxy.Draft
	if p.fault != nil {
		p.fault(w, r)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&draft); err != nil {
		answer(w, http.StatusBadRequest, proxy.ErrorResponse{Error: err.Error()})
		return
	}
	at, err := difference.OpenPublication(draft.Envelope)
	switch {
	case err != nil:
		answer(w, http.StatusBadRequest, proxy.ErrorResponse{Error: err.Error()})
	case at.Seq != uint64(len(p.taken)+1):
		answer(w, http.StatusConflict, proxy.ErrorResponse{Error: "not published: out of order"})
	default:
		p.taken = append(p.taken, at)
		answer(w, http.StatusOK, proxy.PublishResult{URL: at.URL, Seq: at.Seq})
	}
}

// titles returns the titles of accepted items.
func (p *fakePublishNode) titles() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.taken {
		m, _ := at.Item.Meaning("")
		list = append(list, m.Title)
	}
	return list
}

// publish runs the command, and returns its exit code and output.
func (p *fakePublishNode) publish(args ...string) (code int, out, err string) {
	return p.publishWithKey(p.key, append(args, blogURL)...)
}

func (p *fakePublishNode) publishWithKey(key string, args ...string) (code int, out, err string) {
	var o, e bytes.Buffer
	args = append([]string{"publish", "--http", strings.TrimPrefix(p.URL, "http://"), "--key", key}, args...)
	code = run(context.Background(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// rss returns a document with the items in the given order.
func rss(t *testing.T, items ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feed.xml")
	doc := `<rss version="2.0"><channel><title>B</title><link>https://blog.example/</link><description/>` + strings.Join(items, "") + `</channel></rss>`
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func rssItem(name, content string) string {
	return `<item><guid isPermaLink="false">` + name + `</guid><title>` + name + `</title><description>` + content + `</description></item>`
}

// An item that cannot be signed is named, and does not hold back the others.
func TestAnUnsignableItemDoesNotHoldBackOthers(t *testing.T) {
	p := newFakePublishNode(t)
	path := rss(t, rssItem("last", ""), rssItem("twin", "1"), rssItem("twin", "2"), rssItem("first", ""))
	code, _, said := p.publish("--document", path)
	if code != exitFailed || strings.Count(said, "\n") != 1 || !strings.Contains(said, `"twin" (twin)`) {
		t.Errorf("%d, %s", code, said)
	}
	if got := p.titles(); !slices.Equal(got, []string{"first", "last"}) {
		t.Errorf("published are %q", got)
	}
	if code, _, said := p.publish("--title", "Small", "--id", "s", "--content", strings.Repeat("x", feed.MaxItem)); code != exitFailed || !strings.Contains(said, "too large") {
		t.Errorf("%d, %s", code, said)
	}
	if code, _, said := p.publish("--title", "Next", "--id", "n"); code != exitDone {
		t.Errorf("nothing was signed, and yet: %s", said)
	}
}

// An item without an id is signed, and the publisher is warned once. If all of a document was published before, the
// command says so.
func TestPublishingADocumentPrintsNotes(t *testing.T) {
	p := newFakePublishNode(t)
	path := rss(t, rssItem("one", ""), "<item><title>Nameless</title></item>")
	const nameless = `"Nameless" has no id (guid): if you change its title, readers see it twice`
	if code, out, said := p.publish("--document", path); code != exitDone || out != "Nameless\none\n" || said != "tidings: "+nameless+"\n" {
		t.Errorf("%d, %q, %q", code, out, said)
	}
	if code, _, said := p.publish("--document", path); code != exitDone || said != "tidings: nothing new in "+path+"; 2 items were published before\n" {
		t.Errorf("%d, %q", code, said)
	}
}

// The file of a passphrase must be as private as that of a key.
func TestThePassphraseFileMustBePrivate(t *testing.T) {
	t.Parallel()
	words := filepath.Join(t.TempDir(), "words")
	key := filepath.Join(t.TempDir(), "blog.key")
	keygen := func() (code int, said string) {
		var out, err bytes.Buffer
		code = run(context.Background(), []string{"keygen", "--passphrase-file", words, key}, strings.NewReader(""), &out, &err)
		return code, err.String()
	}
	if code, said := keygen(); code != exitFailed || !strings.Contains(said, "read the passphrase: "+words+": ") {
		t.Errorf("%d, %s", code, said)
	}
	for _, c := range []struct {
		mode  os.FileMode
		words string
		says  string
	}{
		{0o600, "\n", "the first line of " + words + ", which has to be the passphrase, is empty"},
		{0o640, "correct horse\n", "chmod 600 " + words},
		{0o600, "correct horse\n", "private key: " + key},
	} {
		if c.mode != 0o600 && runtime.GOOS == "windows" {
			continue
		}
		err := os.WriteFile(words, []byte(c.words), 0o600)
		if err == nil {
			err = os.Chmod(words, c.mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, said := keygen(); !strings.Contains(said, c.says) {
			t.Errorf("%+v: %s", c, said)
		}
	}
}

// An item beyond the limit loses its largest parts, as it does when it is polled, and the publisher is told.
func TestAnItemThatLosesPartsIsTold(t *testing.T) {
	p := newFakePublishNode(t)
	code, _, said := p.publish("--document", rss(t, rssItem("large", strings.Repeat("x", feed.MaxItem)), rssItem("one", strings.Repeat("x", feed.MaxItem/2))))
	if got := p.titles(); code != exitDone || !strings.Contains(said, "1 item larger than 1 MiB lost its largest parts") || strings.Count(said, "\n") != 1 || !slices.Equal(got, []string{"one", "large"}) {
		t.Errorf("%d, %s; published are %q", code, said, got)
	}
}

// A watcher reports an item that cannot be signed once, however often the document changes.
func TestAWatcherReportsASkippedItemOnce(t *testing.T) {
	t.Parallel()
	p := newFakePublishNode(t)
	twins := rssItem("twin", "1") + rssItem("twin", "2")
	path := rss(t, rssItem("one", ""), twins)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var said bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- command(ctx, []string{"publish", "--http", strings.TrimPrefix(p.URL, "http://"), "--key", p.key, "--document", path, "--watch", "--every", "1s", blogURL}, strings.NewReader(""), &bytes.Buffer{}, &said)
	}()
	published := func(want int) {
		t.Helper()
		eventually(t, timeout, "what is new in the document", func() error {
			if got := p.titles(); len(got) != want {
				return fmt.Errorf("published are %q", got)
			}
			return nil
		})
	}
	published(1)
	for i, items := range [][]string{{rssItem("two", ""), rssItem("one", ""), twins}, {rssItem("three", ""), twins}} {
		if err := os.Rename(rss(t, items...), path); err != nil {
			t.Fatal(err)
		}
		published(i + 2)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), `"twin" (twin)`) || strings.Count(said.String(), "not published") != 2 { // each of them once
		t.Errorf("it says %s", said.String())
	}
}

// An outputRecorder records the output of a running command.
type outputRecorder struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (n *outputRecorder) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes.Write(b)
}

func (n *outputRecorder) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(strings.Lines(n.bytes.String()))
}

// A watcher reports once that the node does not answer, and that it answers again, even if there is nothing to
// publish.
func TestAWatcherReportsThatTheNodeStopped(t *testing.T) {
	t.Parallel()
	p := newFakePublishNode(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var said outputRecorder
	ended := make(chan error, 1)
	node := strings.TrimPrefix(p.URL, "http://")
	go func() {
		ended <- command(ctx, []string{"publish", "--http", node, "--key", p.key, "--document", rss(t, rssItem("one", "")), "--watch", "--every", "1s", blogURL}, strings.NewReader(""), &bytes.Buffer{}, &said)
	}()
	says := func(words string) { // checks that a message occurs once; the node may have stopped in the middle of an answer, which has another message
		t.Helper()
		eventually(t, timeout, words, func() error {
			if all := strings.Join(said.lines(), ""); strings.Count(all, words) != 1 {
				return fmt.Errorf("it says %q", all)
			}
			return nil
		})
	}
	eventually(t, timeout, "the first item", func() error {
		if p.titles() == nil {
			return errors.New("nothing is published")
		}
		return nil
	})
	p.Close()
	says("no node answers at " + node)
	p.restart(t)
	says("the node at " + node + " has started again, and publishing goes on")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A document of another feed is not signed, because signed items cannot be withdrawn.
func TestWrongDocumentsAreNotSigned(t *testing.T) {
	p, other := newFakePublishNode(t), filepath.Join(t.TempDir(), "other.key")
	runLocal(t, "keygen", other)
	metadata := func(key string) string {
		return strings.TrimSpace(runLocal(t, "publish", "--key", key, "--metadata", blogURL))
	}
	key := metadata(p.key)
	item := rssItem("one", "")
	channel := func(head string) string {
		return `<rss version="2.0"><channel><title>B</title>` + head + item + `</channel></rss>`
	}
	link := func(to string) string { return "<link>" + to + "</link>" }
	self := func(to string) string {
		return `<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="` + to + `"/>`
	}
	for _, c := range []struct{ name, document, says string }{
		{"page", "<!DOCTYPE html><html><body><p>B</body></html>", "a web page, not a feed; give the document of the feed"},
		{"text", "Dear readers,", "not a feed"},
		{"empty", "", "empty"},
		{"other feed", channel(link("https://other.example/")), "nothing in"},
		{"other feed of the site", channel(link("https://blog.example/") + self("https://blog.example/comments.xml")), "its self link is https://blog.example/comments.xml, not " + blogURL},
		{"other feed of the publisher", channel(key + self("https://blog.example/notes.xml")), "its self link is"},
		{"other publisher", channel(metadata(other) + link("https://blog.example/")), "names the key SHA256:"},
		{"no address", channel(""), "nothing in"},
		{"JSON of another site", `{"version":"https://jsonfeed.org/version/1.1","title":"B","home_page_url":"https://other.example/","items":[{"id":"1","title":"one"}]}`, "nothing in"},
	} {
		path := filepath.Join(t.TempDir(), "document")
		if err := os.WriteFile(path, []byte(c.document), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := p.publish("--document", path); code != exitFailed || !strings.Contains(said, c.says) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %d, %s", c.name, code, said)
		}
	}
	if got := p.titles(); got != nil {
		t.Fatalf("published are %q", got)
	}
	for _, head := range []string{
		link("https://www.blog.example/"), self(blogURL), self("http://blog.example/feed.xml"), self("/feed.xml"), key, key + link("https://other.example/"),
	} {
		path := filepath.Join(t.TempDir(), "document")
		if err := os.WriteFile(path, []byte(channel(head)), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := p.publish("--document", path); code != exitDone {
			t.Errorf("%s: %d, %s", head, code, said)
		}
	}
}

// Flags without effect are wrong usage.
func TestFlagsThatDoNotGoTogether(t *testing.T) {
	p := newFakePublishNode(t)
	doc := rss(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--title", "T", "--item", doc}, "--item"},
		{[]string{"--title", "T", "--metadata"}, "--metadata"},
		{[]string{"--author", "Ann", "--metadata"}, "--metadata"},
		{[]string{"--alive", "--title", "T", "--id", "1"}, "--alive"},
		{[]string{"--alive", "--document", doc}, "--alive"},
		{[]string{"--document", doc, "--title", "T"}, "--document"},
		{[]string{"--document", doc, "--date", "2026-11-24T20:00:00Z"}, "--document"},
		{[]string{"--watch", "--item", doc}, "--watch"},
		{[]string{"--resume", "--metadata"}, "--resume"},
		{[]string{"--document", doc, "--every", "5s"}, "--every needs --watch"},
		{[]string{"--document", doc, "--watch", "--every", "5ms"}, "--every: give at least 1s"},
		{[]string{"--metadata", "--beat-interval", "0s"}, "--beat-interval"},
		{[]string{"--fingerprint", strings.Repeat("0a", 32), "--title", "T", "--id", "1"}, "--fingerprint"},
		{[]string{"--metadata", "--certificate", "https://blog.example/c", "--fingerprint", strings.Repeat("0", 64)}, "--fingerprint"},
		{[]string{"--metadata", "--fingerprint", "0a"}, "--fingerprint"},
		{nil, "what to publish?"},
		{[]string{"--author", "Ann", "--id", "1"}, "neither title nor content"},
		{[]string{"--title", "caf\xe9", "--id", "1"}, "is not in UTF-8"},
		{[]string{"--title", "T", "--link", "/1"}, "https://"},
	} {
		if code, _, said := p.publish(c.args...); code != exitUsage || !strings.Contains(said, c.says) {
			t.Errorf("%q: %d, %s", c.args, code, said)
		}
	}
	if code, _, said := p.publishWithKey(p.key, "--metadata", "page+https://blog.example/"); code != exitUsage || !strings.Contains(said, "is a page") {
		t.Errorf("%d, %s", code, said)
	}
	for _, what := range []string{"--metadata", "--alive"} {
		if code, _, said := p.publishWithKey(p.key+".next", what, blogURL); code != exitFailed || !strings.Contains(said, "give "+p.key) {
			t.Errorf("%d, %s", code, said)
		}
	}
}

func TestItemsThatAreNotPublished(t *testing.T) {
	p := newFakePublishNode(t)
	file := filepath.Join(t.TempDir(), "item")
	for _, c := range []struct{ item, says string }{
		{"<item><title>caf\xe9</title><guid>1</guid></item>", "not in UTF-8"},
		{"<item><title>T</title></item>", "the item needs an id (guid) or a link"},
		{`{"title":"T","content_text":"C"}`, "the item needs an id (guid) or a link"},
		{"<item><title>T<guid>1</guid></item>", "item: <title> is not closed"},
		{"<entry><title>T</title></i></entry>", "item: </i> closes nothing"},
		{"<item><guid>1</guid><dc:creator>Ann</dc:creator></item>", `item: the prefix dc is not declared: add xmlns:dc="http://purl.org/dc/elements/1.1/" to <item>`},
	} {
		if err := os.WriteFile(file, []byte(c.item), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := p.publish("--item", file); code != exitFailed || !strings.Contains(said, c.says) {
			t.Errorf("%s: %d, %s", c.item, code, said)
		}
	}
	if code, _, said := p.publish("--item", filepath.Dir(file)); code != exitFailed || strings.Count(said, "read ") != 1 {
		t.Errorf("%d, %s", code, said)
	}
}

func TestKeygenSaysWhatItMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blog.key")
	var out, said bytes.Buffer
	if code := run(context.Background(), []string{"keygen", file}, strings.NewReader(""), &out, &said); code != exitDone || !strings.HasPrefix(out.String(), "SHA256:") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%d, %s", code, out.String())
	}
	if !strings.HasPrefix(said.String(), "private key: "+file+" (") || !strings.Contains(said.String(), "\nnext key:    "+file+".next (") || strings.Count(said.String(), "\n") != 2 {
		t.Error(said.String())
	}
	said.Reset()
	if code := run(context.Background(), []string{"keygen", "--rotate", file}, strings.NewReader(""), &out, &said); code != exitDone || !strings.Contains(said.String(), "\nold key:     "+file+".old (") {
		t.Errorf("%d, %s", code, said.String())
	}
	if code := run(context.Background(), []string{"keygen", ""}, strings.NewReader(""), &out, &said); code != exitUsage {
		t.Errorf("%d, %s", code, said.String())
	}
}

// The command says that an item is signed but not accepted yet, so that nobody signs it again. The item is sent
// with the next one.
func TestAnItemThatIsNotAcceptedIsKept(t *testing.T) {
	p := newFakePublishNode(t)
	for _, c := range []struct {
		name  string
		fault http.HandlerFunc
		says  string
	}{
		{"untaken", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusServiceUnavailable, proxy.ErrorResponse{Error: "nobody has taken it"})
		}, "number 1 of " + blogURL + " is signed, but nobody is known to have it (nobody has taken it): it is kept in " + p.key + ".record"},
		{"killed", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "ended the connection without an answer"},
	} {
		p.answerWith(c.fault)
		code, _, said := p.publish("--title", c.name, "--id", c.name)
		if code != exitFailed || !strings.Contains(said, c.says) || !strings.Contains(said, "do not publish it again") {
			t.Errorf("%s: %d, %s", c.name, code, said)
		}
		p.answerWith(nil)
		if code, _, said := p.publish("--title", "after "+c.name, "--id", "after "+c.name); code != exitDone {
			t.Errorf("%s: %d, %s", c.name, code, said)
		}
	}
	if got := p.titles(); !slices.Equal(got, []string{"untaken", "after untaken", "killed", "after killed"}) {
		t.Errorf("published are %q", got)
	}
}

// Signed items of a document that could not be pushed are not signed again when the document is published again.
func TestUnpushedItemsAreNotSignedAgain(t *testing.T) {
	p := newFakePublishNode(t)
	path := rss(t, rssItem("three", ""), rssItem("two", ""), rssItem("one", ""))
	p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, proxy.ErrorResponse{Error: "nobody has taken it"})
	})
	if code, _, said := p.publish("--document", path); code != exitFailed {
		t.Errorf("%d, %s", code, said)
	}
	p.answerWith(nil)
	if code, out, said := p.publish("--document", path); code != exitDone || out != "one\ntwo\nthree\n" {
		t.Errorf("%d, %s, %s", code, out, said)
	}
	if got := p.titles(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("published are %q", got)
	}
}

// An item that a wrong address rejects is not kept.
func TestAWrongAddressIsForgotten(t *testing.T) {
	p := newFakePublishNode(t)
	p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusConflict, proxy.ErrorResponse{Error: "the feed's document does not name this key"})
	})
	code, _, said := p.publish("--title", "One", "--id", "1")
	if code != exitFailed || !strings.Contains(said, "number 1 of "+blogURL+" is not kept") {
		t.Errorf("%d, %s", code, said)
	}
	for _, suffix := range []string{".record", ".record.log"} {
		if record, err := os.ReadFile(p.key + suffix); err != nil || strings.Contains(string(record), "blog.example") {
			t.Errorf("the record has %s, %v", record, err)
		}
	}
}

// If the feed has another key than the one that signed so far, the error does not suggest an old backup.
func TestAnotherKeyOfTheFeedIsReported(t *testing.T) {
	p := newFakePublishNode(t)
	if code, _, said := p.publish("--title", "One", "--id", "1"); code != exitDone {
		t.Fatal(said)
	}
	p.mu.Lock()
	p.taken = nil
	p.other = proxy.Publisher{Key: bytes.Repeat([]byte{7}, 32), Seq: 9, Head: bytes.Repeat([]byte{8}, 32)}
	p.mu.Unlock()
	for _, what := range [][]string{{"--title", "Two", "--id", "2"}, {"--alive"}, {"--document", rss(t, rssItem("2", ""))}, {"--document", rss(t, rssItem("2", "")), "--watch"}} {
		code, _, said := p.publish(what...)
		if code != exitFailed || !strings.Contains(said, "to replace the key") || strings.Contains(said, "backup") {
			t.Errorf("%v: %d, %s", what, code, said)
		}
	}
}

// Before the first publication, the node inspects the feed's document. If it names another key or none, nothing is
// signed.
func TestNothingIsSignedForAFeedThatDoesNotNameTheKey(t *testing.T) {
	p := newFakePublishNode(t)
	other := bytes.Repeat([]byte{1}, 32)
	for _, c := range []struct {
		of   proxy.Publisher
		says string
	}{
		{proxy.Publisher{URL: blogURL, DocumentKey: other}, "names the key " + difference.Fingerprint(other)},
		{proxy.Publisher{URL: blogURL, NoDocumentKey: "the document names no key"}, "nothing was signed: the document names no key"},
	} {
		p.other = c.of
		code, out, err := p.publish("--title", "T", "--id", "1")
		if code != exitFailed || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("exit %d, %q, %q, want %q", code, out, err, c.says)
		}
		if _, err := os.Stat(p.key + ".record"); err == nil {
			t.Error("something was signed")
		}
	}
}

func TestTimesOnTheCommandLine(t *testing.T) {
	code, _, err := newFakePublishNode(t).publish("--title", "T", "--date", "yesterday")
	if code != exitUsage || !strings.Contains(err, `"yesterday" is not a time: give one such as 2026-11-24T20:00:00Z`) {
		t.Errorf("exit %d, %q", code, err)
	}
}

// The metadata for a JSON Feed can be pasted after its first brace unchanged.
func TestMetadataOfAJSONFeedIsPasted(t *testing.T) {
	p := newFakePublishNode(t)
	code, out, err := p.publish("--metadata", "--format", "json")
	if code != exitDone || err != "" {
		t.Fatalf("exit %d, %q", code, err)
	}
	f, bad := feed.Parse([]byte("{"+out+`"version":"https://jsonfeed.org/version/1.1","title":"T","items":[]}`), "application/feed+json")
	if bad != nil {
		t.Fatal(bad)
	}
	if said, ok := f.Head.Publisher(); !ok || len(said.Key) == 0 {
		t.Errorf("%+v in %s", said, out)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	code, out, err := runCommandAt(t, "", "help", "publish")
	if code != exitDone || err != "" || !strings.HasPrefix(out, "Usage: tidings publish") {
		t.Errorf("exit %d, %q, %q", code, out, err)
	}
}
