package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/overlay/owner"
	"tidings/proxy"
)

// A ferryFeed is a web server with one feed that grows.
type ferryFeed struct {
	*httptest.Server
	mu    sync.Mutex
	items []string // the oldest first
}

func newFerryFeed(t *testing.T) *ferryFeed {
	f := &ferryFeed{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); strings.HasPrefix(r.URL.Path, "/secret") && password != "gangway" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description/>`)
		for _, item := range f.items {
			_, _ = fmt.Fprintf(w, `<item><guid isPermaLink="false">%s</guid><title>%s</title></item>`, item, item)
		}
		_, _ = fmt.Fprint(w, `</channel></rss>`)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *ferryFeed) add(items ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items = append(f.items, items...)
}

// A listener reads the events of a node.
type listener struct {
	t      *testing.T
	events chan string // "id source title", or "missed"
	end    context.CancelFunc
	ended  chan struct{}
}

func (m *member) listen(t *testing.T, query, lastSeen string) *listener {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	l := &listener{t, make(chan string, 100), end, make(chan struct{})}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/api/v1/events%s", m.HTTPAddr(), query), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Tidings", "1")
	r.Header.Set("Tidings-Token", m.dataDir.apiToken)
	if lastSeen != "" {
		r.Header.Set("Last-Event-ID", lastSeen)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the answer is %d %v", a.StatusCode, a.Header)
	}
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // the comment that begins the stream: from now on nothing is missing
	go func() {
		defer close(l.ended)
		defer func() { _ = a.Body.Close() }()
		id, kind := "", ""
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "event":
				kind = value
			case "data":
				var e struct {
					URL, Query string
					Edited     bool
					Item       struct{ Title string }
				}
				if err := json.Unmarshal([]byte(value), &e); err != nil {
					t.Errorf("the event is %s: %v", value, err)
				}
				if kind != "item" {
					l.events <- kind
					continue
				}
				l.events <- fmt.Sprintf("%s %s%s %s", id, e.URL, e.Query, e.Item.Title)
			}
		}
	}()
	t.Cleanup(l.close)
	return l
}

func (l *listener) close() {
	l.end()
	<-l.ended
}

// expect waits for the next event: its source and its title. It returns its id.
func (l *listener) expect(source, title string) (id string) {
	l.t.Helper()
	select {
	case got := <-l.events:
		id, rest, _ := strings.Cut(got, " ")
		if rest != source+" "+title {
			l.t.Fatalf("the event is %q, want %s %s", got, source, title)
		}
		return id
	case <-time.After(awaitTimeout):
		l.t.Fatalf("no event of %s: %s", source, title)
	}
	return ""
}

// Programs hear what is new in feeds, searches and private feeds, in order and once; also what came while they or the node
// were away.
func TestEventsOfANode(t *testing.T) {
	t.Parallel()
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	c := founding(t, "events")
	c.Found.PollInterval = 2 * time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := feed.URL + "/news.xml"
	follow := func(m *member, request proxy.SubscribeMessage) (done proxy.SubscribeMessage) {
		t.Helper()
		body, _ := json.Marshal(request)
		m.post(t, "subscribe", string(body), &done)
		return done
	}
	follow(m, proxy.SubscribeMessage{URL: url})
	m.await(t, url, "Pier 1")
	var watch proxy.Watch
	m.post(t, "watch", `{"query":"bridge"}`, &watch)

	all, searches := m.listen(t, "", ""), m.listen(t, "?query=bridge", "")
	feed.add("Pier 2")
	all.expect(url, "Pier 2")
	feed.add("Bridge 3")
	seen := map[string]string{} // in either order
	for range 2 {
		select {
		case got := <-all.events:
			id, rest, _ := strings.Cut(got, " ")
			seen[rest] = id
		case <-time.After(awaitTimeout):
			t.Fatalf("after %v no further event", seen)
		}
	}
	if len(seen) != 2 || seen[url+" Bridge 3"] == "" || seen["bridge Bridge 3"] == "" {
		t.Errorf("the events are %v", seen)
	}
	searches.expect("bridge", "Bridge 3")
	// More articles than the feed of the search holds.
	var many []string
	for n := range 25 {
		many = append(many, fmt.Sprint("Bridge ", 100+n))
	}
	feed.add(many...)
	got, latest := map[string]bool{}, 0
	for range many {
		select {
		case e := <-searches.events:
			got[e[strings.LastIndexByte(e, ' ')+1:]] = true
		case <-time.After(awaitTimeout):
			t.Fatalf("%d of %d events of the search", len(got), len(many))
		}
	}
	if len(got) != len(many) {
		t.Errorf("%d of %d articles", len(got), len(many))
	}
	for range 2 * len(many) {
		id, _, _ := strings.Cut(<-all.events, " ")
		number, _ := strconv.Atoi(id)
		latest = max(latest, number)
	}
	last := strconv.Itoa(latest)
	all.close()
	searches.close()

	feed.add("Pier 4")
	m.await(t, url, "Pier 4")
	m.stop(t)
	feed.add("Pier 5")
	again := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	more := again.listen(t, "?url="+url, last)
	more.expect(url, "Pier 4")
	more.expect(url, "Pier 5")
	more.close()

	private := follow(again, proxy.SubscribeMessage{URL: strings.Replace(feed.URL, "//", "//anna:gangway@", 1) + "/secret.xml"})
	own := again.listen(t, "?url="+private.URL, "")
	feed.add("Pier 6")
	again.private.mu.Lock()
	again.private.byName[private.URL].State.Next = time.Now() // instead of in a quarter of an hour
	again.private.mu.Unlock()
	again.private.wake <- struct{}{}
	own.expect(private.URL, "Pier 6")

	if status, answer := again.api(t, http.MethodGet, "/api/v1/events?since=1", ""); status != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", status, answer)
	}
}

// await waits until readers of a feed see an item.
func (m *member) await(t *testing.T, url, title string) {
	t.Helper()
	within(t, awaitTimeout, title, func() error {
		w, err := m.Read(t.Context(), url)
		if err != nil {
			return err
		}
		for _, e := range w.Document.Entries {
			if strings.Contains(string(e.Item.Raw), title) {
				return nil
			}
		}
		return fmt.Errorf("%d items", len(w.Document.Entries))
	})
}

// A feed whose older items are still on their way is recorded as a whole until it is complete. Then the older items are no
// news, and what comes later is told once.
func TestAFeedIsRecordedWhenItIsComplete(t *testing.T) {
	const url = "https://ferry.example/news.xml"
	journal, disk, err := openNews(filepath.Join(t.TempDir(), "news"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close() //nolint:errcheck // the test is over
	r := &recorder{journal: journal, whole: map[string]wholeRecord{}}
	for _, step := range []struct {
		items    []int
		part     bool // of the feed: the items that have changed
		complete bool // nothing older is on its way
		told     uint64
	}{
		{items: []int{2}},
		{items: []int{2, 3}},
		{items: []int{1, 2, 3}, complete: true},
		{items: []int{4}, part: true, complete: true, told: 1},
		{items: []int{5}, part: true, told: 2}, // others are missing again
		{items: []int{6}, part: true, complete: true, told: 3},
	} {
		doc := &feed.Document{}
		marked := &markedFeed{}
		for _, n := range step.items {
			it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>%d</guid><title>Pier %[1]d</title></item>", n), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			doc.Entries = append(doc.Entries, feed.Entry{Item: it, Arrived: time.Now()})
			marked.changed = append(marked.changed, it.ID)
		}
		if all := r.recordsAll(url, marked); all == step.part {
			t.Errorf("%+v: all of the feed is recorded: %v", step, all)
		}
		read := feedReading{url: url, marked: marked, items: len(step.items), doc: news.Document{Document: doc, Complete: step.complete, Part: step.part}}
		if !r.recordGroup(t.Context(), []feedReading{read}) {
			t.Fatal("it cannot be recorded")
		}
		if last := journal.Last(); last != step.told {
			t.Errorf("%+v: %d events, want %d", step, last, step.told)
		}
	}
}

// All of a feed is recorded again after as many items as it had, or after a day, so that items that have left it are forgotten.
// A feed of thousands of items is not read as a whole for every thousand new ones.
func TestAllOfAFeedIsRecordedFromTimeToTime(t *testing.T) {
	const url = "https://ferry.example/news.xml"
	for _, c := range []struct {
		since wholeRecord
		more  int // items that are to be recorded
		want  bool
	}{
		{since: wholeRecord{at: time.Now()}, more: maxPartItems},
		{since: wholeRecord{at: time.Now()}, more: maxPartItems + 1, want: true},
		{since: wholeRecord{at: time.Now(), length: 5 * maxPartItems, items: 5*maxPartItems - 1}, more: 1},
		{since: wholeRecord{at: time.Now(), length: 5 * maxPartItems, items: 5 * maxPartItems}, more: 1, want: true},
		{since: wholeRecord{at: time.Now().Add(-maxPartTime - time.Second)}, more: 1, want: true},
	} {
		r := &recorder{whole: map[string]wholeRecord{url: c.since}}
		if got := r.recordsAll(url, &markedFeed{changed: make([]feed.ID, c.more)}); got != c.want {
			t.Errorf("%+v and %d more: %v", c.since, c.more, got)
		}
	}
}

// After a restart, a feed is read again unless the journal has all that its log has: all of it was recorded once, and what has
// come since was recorded, too.
func TestAFeedIsRecordedAgainIfItsLogHasGrown(t *testing.T) {
	const url = "https://ferry.example/news.xml"
	first, second := owner.Hash{1}, owner.Hash{2}
	witnessed := attributes{RequiredProvenance: "witnessed"}.encode()
	for name, c := range map[string]struct {
		earlier           bool                  // all of the feed was recorded before
		doc               news.Document         // which is recorded
		shown             owner.Hash            // with it
		atRecord, atStart feedtree.Subscription // the feed
		pending           bool                  // another item is marked
		want              bool
	}{
		"all of it":                       {doc: news.Document{Complete: true}, shown: first, want: true},
		"a part":                          {earlier: true, doc: news.Document{Complete: true, Part: true}, shown: first, want: true},
		"a part, before all of it":        {doc: news.Document{Complete: true, Part: true}, shown: first},
		"a part, and another one waits":   {earlier: true, doc: news.Document{Complete: true, Part: true}, shown: first, pending: true},
		"older items are on their way":    {doc: news.Document{}, shown: first},
		"the log has grown since":         {doc: news.Document{Complete: true}, shown: first, atStart: feedtree.Subscription{Logged: second}},
		"the log has grown meanwhile":     {doc: news.Document{Complete: true}, shown: first, atRecord: feedtree.Subscription{Logged: second}},
		"the log is empty":                {doc: news.Document{Complete: true}, atRecord: feedtree.Subscription{Attributes: []byte("{}")}},
		"readers wait for certificates":   {doc: news.Document{Complete: true}, shown: first, atRecord: feedtree.Subscription{Logged: first, Attributes: witnessed}},
		"the log of another life is back": {doc: news.Document{Complete: true}, shown: second, atRecord: feedtree.Subscription{Logged: second}, atStart: feedtree.Subscription{Logged: first}},
	} {
		t.Run(name, func(t *testing.T) {
			journal, disk, err := openNews(filepath.Join(t.TempDir(), "news"))
			if err != nil {
				t.Fatal(err)
			}
			defer disk.Close() //nolint:errcheck // the test is over
			before := &recorder{journal: journal, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), whole: map[string]wholeRecord{}}
			if c.earlier {
				before.whole[url] = wholeRecord{at: time.Now()}
			}
			if c.pending {
				before.mark(url)
			}
			for _, s := range []*feedtree.Subscription{&c.atRecord, &c.atStart} {
				if s.URL = url; s.Logged == (owner.Hash{}) && s.Attributes == nil {
					s.Logged = first
				}
			}
			if _, err := journal.Record(news.Source{URL: url}, news.Document{Document: &feed.Document{}, Complete: true}); err != nil {
				t.Fatal(err)
			}
			c.doc.Document = &feed.Document{}
			before.nameState(url, &c.doc, c.atRecord, c.shown)
			if !before.recordGroup(t.Context(), []feedReading{{url: url, doc: c.doc}}) {
				t.Fatal("it cannot be recorded")
			}
			again := &recorder{journal: journal, whole: map[string]wholeRecord{}}
			if got := again.resume(c.atStart); got != c.want || got == again.recordsAll(url, &markedFeed{}) {
				t.Errorf("continued: %v, want %v", got, c.want)
			}
		})
	}
}

// Programs are not told to read a feed before readers see what the journal has of it. The last entry of an owner's log may be
// missing for a while after a start, or for good. Then the feed is recorded again.
func TestAResumedFeedIsShownWhenItsLogIs(t *testing.T) {
	const url = "https://ferry.example/news.xml"
	r := &recorder{wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), whole: map[string]wholeRecord{url: {items: 7, awaited: owner.Hash{1}}}}
	for _, step := range []struct {
		log                     readableLog
		caughtUp, marked, known bool
	}{
		{log: readableLog{}},
		{log: readableLog{lacks: true}, marked: true},
		{log: readableLog{shows: true}, caughtUp: true, known: true},
	} {
		if got := r.catchUp(url, step.log); got != step.caughtUp {
			t.Errorf("%+v: caught up: %v", step.log, got)
		}
		if feeds, _ := r.take(); (feeds[url] != nil) != step.marked {
			t.Errorf("%+v: marked %v", step.log, feeds)
		}
		if r.catchUp("https://ended.example/", step.log) || len(r.whole) != 1 {
			t.Errorf("%+v: a feed that has ended: %v", step.log, r.whole)
		}
		if since := r.whole[url]; since.items != 7 || (since.awaited == owner.Hash{}) != step.known {
			t.Errorf("%+v: %+v", step.log, since)
		}
	}
}

// The changed items that wait to be recorded are bounded. A feed with further ones is recorded as a whole. When they are
// taken, also by a feed that has ended, there is room for others.
func TestChangedItemsAreBounded(t *testing.T) {
	r := &recorder{wake: make(chan struct{}, 1)}
	for range 2 {
		r.markChanges("https://a.example/", make([]difference.Change, maxMarkedItems-1), nil)
		r.markChanges("https://b.example/", make([]difference.Change, 2), make([]feed.ID, 2))
		r.mark("https://c.example/")
		feeds, _ := r.take()
		a, b, c := feeds["https://a.example/"], feeds["https://b.example/"], feeds["https://c.example/"]
		if len(feeds) != 3 || a.all || len(a.changed) != maxMarkedItems-1 || !b.all || len(b.changed)+len(b.found) > 0 || !c.all {
			t.Errorf("%d feeds: %d items, %v; %v; %v", len(feeds), len(a.changed), a.all, b, c)
		}
	}
}
