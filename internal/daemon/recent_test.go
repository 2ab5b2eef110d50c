package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/cobra/query"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/overlay/owner"
	"tidings/proxy"
)

// A filter keeps received articles for previews, and knows since when the list is complete.
func TestFilterKeepsReceivedArticles(t *testing.T) {
	m := startKeywords(t, math.MaxInt64)
	body, err := difference.Delta{Changes: items(t, 0, 5, "the moon shines")}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.unsubscribe(t.Context(), 0); err != nil { // previews come before the first subscription
		t.Fatal(err)
	}
	if !m.addEntry(firehose.Dispatch{URL: "https://example.org/f", Entry: &owner.Entry{Hash: owner.Hash{1}}, Body: body}) {
		t.Fatal("an entry was refused")
	}
	m.until("it came", func(s cobra.Stats) bool { return s.Articles == 5 })
	late, since := m.arrivals.appendAll(nil)
	if len(late) != 5 || time.Since(since) > time.Hour || since.After(late[0].Received) {
		t.Fatalf("%d articles since %v", len(late), since)
	}
}

// A request that is cancelled while the disk stalls may still subscribe. The node counts the subscription
// once it is durable, whatever order the commits come in.
func TestSubscriptionOfACancelledRequestIsCounted(t *testing.T) {
	m := startKeywords(t, math.MaxInt64)
	m.disk.stall(true)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := m.subscribe(ctx, 0, "moon", noArticles)
		left <- err
	}()
	m.until("it is counted", func(s cobra.Stats) bool { return s.Subscriptions == 2 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.disk.stall(false)
	if err := m.unsubscribe(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	m.publish(0, 3, "the moon shines")
	m.until("they are matched", func(s cobra.Stats) bool { return s.Matched == 3 && m.subscriptions.Load() == 1 })
}

// Previews and new keyword subscriptions contain only articles with the required provenance.
func TestRecentArticlesRespectRequiredProvenance(t *testing.T) {
	raw := attributes{RequiredProvenance: proxy.ProvenancePublisher}.encode()
	entries := func() feedtree.Document {
		return feedtree.Document{Entries: []feed.Entry{{Provenance: feedtree.ByPublisher}, {Provenance: "single"}, {}}}
	}
	if got := withRequiredProvenance(feedtree.Subscription{Attributes: raw}, entries()); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if got := withRequiredProvenance(feedtree.Subscription{}, entries()); len(got) != 3 {
		t.Errorf("%+v", got)
	}
}

// An edit that owners have not seen yet does not hide the version that they have seen.
func TestTheVersionThatOwnersHaveSeenIsShown(t *testing.T) {
	edited, witnessed := feed.Item{ID: feed.ID{1}}, feed.Item{ID: feed.ID{2}}
	entries := func(least, edit string) []feed.Entry {
		return withRequiredProvenance(feedtree.Subscription{Attributes: attributes{RequiredProvenance: least}.encode()}, feedtree.Document{
			Entries: []feed.Entry{{Item: edited, Provenance: edit}, {Item: witnessed, Provenance: "witnessed 3/5"}},
			Vouched: map[feed.ID]feed.Entry{edited.ID: {Item: edited, Provenance: "witnessed 4/5"}},
		})
	}
	for _, test := range []struct{ least, edit, shown string }{
		{feedtree.Witnessed, feedtree.Single, "witnessed 4/5"}, {feedtree.Witnessed, feedtree.Contested, "witnessed 4/5"},
		{feedtree.Witnessed, feedtree.ByPublisher, feedtree.ByPublisher}, {"", feedtree.Single, feedtree.Single},
	} {
		if got := entries(test.least, test.edit); len(got) != 2 || got[0].Provenance != test.shown {
			t.Errorf("%+v: %+v", test, got)
		}
	}
	if got := entries(feedtree.ByPublisher, feedtree.Single); len(got) != 0 {
		t.Errorf("not signed, and shown: %+v", got)
	}
}

func TestPreviewStatesItsPeriod(t *testing.T) {
	now := time.Unix(1.7e9, 0)
	of := func(n int, each time.Duration) (late []cobra.BacklogArticle) {
		for i := range n {
			late = append(late, cobra.BacklogArticle{Article: &cobra.Article{ID: feed.ID{byte(i)}, Title: fmt.Sprintf("sun %d", i%2)}, Received: now.Add(-time.Duration(n-i) * each)})
		}
		return late
	}
	q, err := query.Parse("sun 1 OR or")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		late         []cobra.BacklogArticle
		since        time.Duration
		of, matching int
		time         time.Duration
	}{
		"nothing":              {nil, recentAge, 0, 0, recentAge},
		"a day is enough":      {of(200, 10*time.Minute), recentAge, 144, 72, 24 * time.Hour},
		"few in a day":         {of(100, time.Hour), recentAge, 100, 50, recentAge},
		"a filter that began":  {of(100, time.Minute), 20 * time.Minute, 20, 10, 20 * time.Minute},
		"a clock set back":     {nil, -50 * time.Hour, 0, 0, 0},
		"no more than is kept": {of(20, time.Minute), 20 * time.Minute, 20, 10, 20 * time.Minute},
	} {
		p := previewOf(q, test.late, coverage{since: now.Add(-test.since), scale: 1}, now)
		if p.Articles != test.of || p.Matching != test.matching || p.Period != test.time || len(p.Hints) != 1 {
			t.Errorf("%s: %d of %d in %v, %q", name, p.Matching, p.Articles, p.Period, p.Hints)
		}
		days := map[string][]int{"nothing": {0, 0, 0, 0, 0, 0, 0}, "a day is enough": {0, 0, 0, 0, 0, 28, 72}, "few in a day": {0, 0, 2, 12, 12, 12, 12}}[name]
		if !slices.Equal(p.Days, days) {
			t.Errorf("%s: matches of the days %v, want %v", name, p.Days, days)
		}
	}
}

// The coverage of a document depends on its number of articles: a new subscription may have ten articles of
// the last minutes.
func TestCoverageOfADocument(t *testing.T) {
	now := time.Unix(1.7e9, 0)
	for name, test := range map[string]struct {
		entries  int
		each     time.Duration // between them
		followed time.Duration
		late     int
		covered  time.Duration
	}{
		"few are all there are":       {9, time.Minute, 0, 9, recentAge},
		"many of late":                {60, time.Minute, 0, 60, time.Hour},
		"many, and followed for long": {60, time.Minute, 5 * time.Hour, 60, 5 * time.Hour},
		"many of long ago":            {20, 24 * time.Hour, time.Hour, 7, recentAge},
		"none":                        {0, 0, time.Hour, 0, recentAge},
	} {
		var doc feedtree.Document
		for i, c := range items(t, 0, test.entries, "sun") {
			doc.Entries = append(doc.Entries, feed.Entry{Item: c.Item, Arrived: now.Add(-time.Duration(i+1) * test.each)})
		}
		late, covered := documentArticles(feedtree.Subscription{URL: "https://example.org/f", Since: now.Add(-test.followed)}, doc, now)
		if len(late) != test.late || covered != test.covered {
			t.Errorf("%s: %d in %v", name, len(late), covered)
		}
	}
}

// A new keyword subscription begins with the latest articles and the feed's title, even if an older preview
// is cached.
func TestNewWatchBeginsWithTheLatestArticles(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	doc := `<rss version="2.0"><channel><title>A feed</title><link>http://a/</link><language>de</language><description/>`
	say := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		doc += fmt.Sprintf(`<item><guid>%d</guid><title>Zebra %d</title></item>`, i, i)
	}
	say(1)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, doc+"</channel></rss>")
	}))
	defer origin.Close()
	c := founding(t, "zebra")
	c.Found.PollInterval = time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	var given proxy.SubscribeMessage
	m.post(t, "subscribe", `{"url":"`+origin.URL+`/feed"}`, &given)
	has := func(n int) {
		t.Helper()
		path := strings.TrimPrefix(given.ReadURL, "http://"+m.HTTPAddr().String())
		within(t, time.Minute, fmt.Sprint(n, " items"), func() error {
			if got := strings.Count(m.get(t, path), "<item>"); got != n {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
	}
	has(1)
	if p, err := m.Preview(t.Context(), "zebra"); err != nil || p.Matching != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	m.keywords.tier.hosted = true // a reflector tells nobody what the searches of others have found
	if p, err := m.Preview(t.Context(), "zebra"); err != nil || p.Query != "zebra" || p.Articles+p.Matching+len(p.Entries) > 0 {
		t.Fatalf("at a reflector: %+v, %v", p, err)
	}
	m.keywords.tier.hosted = false
	say(2)
	has(2)
	w, err := m.Watch(t.Context(), "zebra lang:de")
	if err != nil {
		t.Fatal(err)
	}
	watched, err := m.Watched(t.Context(), w.Number)
	if err != nil {
		t.Fatal(err)
	}
	if _, entries, err := watched.Read(); err != nil || len(entries) != 2 || entries[0].Source.Title != "A feed" {
		t.Errorf("it begins with %+v, %v", entries, err)
	}
}

// A keyword subscription that is just being removed can be made again.
func TestEndingWatchCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	m := opened(t, founding(t, "ending"))
	disk := &stallingStore{Disk: m.keywords.disk}
	m.keywords.store = disk
	m.start(t)
	m.awaitMembers(t, 1)
	sun, err := m.Watch(t.Context(), "sun")
	if err != nil {
		t.Fatal(err)
	}
	disk.stall(true)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- m.Unwatch(ctx, sun.Number) }()
	within(t, awaitTimeout, "it is about to end", func() error {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		if len(disk.held) == 0 {
			return errors.New("nothing is written")
		}
		return nil
	})
	leave() // while the disk stalls
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again := make(chan proxy.Watch)
	go func() {
		w, err := m.Watch(t.Context(), "sun")
		if err != nil {
			t.Error(err)
		}
		again <- w
	}()
	within(t, awaitTimeout, "it is asked for", func() error {
		if len(m.slot) == 0 {
			return errors.New("nobody asks")
		}
		return nil
	})
	disk.stall(false)
	w := <-again
	if _, err := m.Watched(t.Context(), w.Number); err != nil || w.Number == sun.Number {
		t.Errorf("%+v, which was %+v: %v", w, sun, err)
	}
}

// Concurrent requests for equal queries share one keyword subscription.
func TestEqualQueriesShareOneWatch(t *testing.T) {
	t.Parallel()
	c := founding(t, "watched")
	c.HTTP = "127.0.0.1:0"
	m := running(t, c)
	m.awaitMembers(t, 1)
	numbers := make([]uint32, 20)
	var all sync.WaitGroup
	for i := range numbers {
		all.Go(func() {
			w, err := m.Watch(t.Context(), []string{"sun wind", "sun  AND wind", "(sun wind)", "Wind SUN"}[i%4])
			if err != nil {
				t.Error(err)
			}
			numbers[i] = w.Number
		})
	}
	all.Wait()
	for _, n := range numbers {
		if n != numbers[0] {
			t.Fatal(numbers)
		}
	}
	page, err := m.Watches(t.Context(), proxy.WatchList{Limit: 2})
	if err != nil || len(page.Watches) != 1 || page.Next != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if m.keywords.subscriptions.Load() != 1 {
		t.Error("it counts", m.keywords.subscriptions.Load())
	}
	m.get(t, "/watch?q=sun")
}

// Articles leave their documents, so that their addresses are absolute, and so is that of the page of their feed.
func TestArticlesHaveAbsoluteAddresses(t *testing.T) {
	f, err := feed.Parse([]byte(`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="blog/"><title>T</title><link href="/rel/"/><entry><id>1</id><title>One</title>`+
		`<link href="1"/><content type="html">&lt;a href="2">2&lt;/a>&lt;img src="/3.png"></content></entry></feed>`), "")
	if err != nil {
		t.Fatal(err)
	}
	s := feedtree.Subscription{URL: "https://origin.example/dir/atom.xml", Title: f.Head.Title, Link: "/rel/"}
	a, ok := articleOf(s, &f.Items[0])
	if !ok || a.Link != "https://origin.example/dir/blog/1" || a.FeedLink != "https://origin.example/rel/" ||
		a.HTML != `<a href="https://origin.example/dir/blog/2">2</a><img src="https://origin.example/3.png">` {
		t.Errorf("%v %+v", ok, a)
	}
}
