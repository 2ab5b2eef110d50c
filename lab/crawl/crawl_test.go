package crawl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/daemon/origin"
)

// doc returns a feed with the items from to to, and a build date.
func doc(built string, from, to int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<rss version="2.0"><channel><title>A</title><link>http://a.example/</link><description>d</description><lastBuildDate>%s</lastBuildDate>`, built)
	for i := to; i >= from; i-- {
		fmt.Fprintf(&b, "<item><title>Item %d</title><guid>%d</guid></item>", i, i)
	}
	b.WriteString("</channel></rss>")
	return b.String()
}

const anItem = int64(len("<item><title>Item 1</title><guid>1</guid></item>"))

func TestCrawl(t *testing.T) {
	head := int64(len(doc("10:00", 1, 0)))
	a, b, later, more := doc("10:00", 1, 3), doc("10:30", 1, 3), doc("11:00", 1, 4), doc("11:30", 2, 5)
	page := "<html><title>502</title></html>"
	for _, c := range []struct {
		what             string
		docs             []string // one each hour: two polls
		changed, unalike []string // fetched by polls with validators; not seen before
		items, failed    int
	}{
		{"one document", []string{a}, []string{a}, []string{a}, 3, 0},
		{"another build of the same items", []string{a, b}, []string{a, b}, []string{a, b}, 3, 0},
		{"replicas that take turns", []string{a, b, a, b}, []string{a, b, a, b}, []string{a, b}, 3, 0},
		{"a new item", []string{a, a, later}, []string{a, later}, []string{a, later}, 4, 0},
		{"one more, and one that rolls off", []string{a, later, more}, []string{a, later, more}, []string{a, later, more}, 5, 0},
		{"an error page between", []string{a, page, later}, []string{a, page, later}, []string{a, page, later}, 4, 1},
	} {
		var of []origin.Snapshot
		for i, d := range c.docs {
			of = append(of, origin.Snapshot{Time: time.Date(2026, 1, 1, 10+i, 0, 0, 0, time.UTC), ContentType: "application/xml", Body: []byte(d)})
		}
		got, err := Config{Interval: 30 * time.Minute, MaxHold: time.Hour}.Crawl(t.Context(), "a", of)
		if err != nil {
			t.Fatal(err)
		}
		if got.Polls != 2*len(c.docs) || got.Failed != c.failed || got.Items != c.items {
			t.Errorf("%s: %d polls, %d failed, %d items", c.what, got.Polls, got.Failed, got.Items)
		}
		full, changed, unalike := 2*size(c.docs), size(c.changed), size(c.unalike)
		items := got.Runs[3].Passed
		if heads := items - int64(c.items)*anItem; heads <= 0 || heads > head {
			t.Errorf("%s: %d bytes passed on beside %d items", c.what, heads, c.items)
		}
		want := []Run{{Full, full, full, 0}, {Validators, changed, changed, 0}, {DocumentHash, changed, unalike, 0}, {ItemHash, changed, items, got.Runs[3].Packed}}
		if !slices.Equal(got.Runs, want) || want[3].Packed == 0 {
			t.Errorf("%s: %+v, want %+v", c.what, got.Runs, want)
		}
	}
}

func size(docs []string) (bytes int64) {
	for _, d := range docs {
		bytes += int64(len(d))
	}
	return bytes
}

// A snapshot that was replaced before a poll is not fetched, and a gap in the trace does not count
// as a quiet feed.
func TestPolls(t *testing.T) {
	at := func(minute int) origin.Snapshot {
		return origin.Snapshot{Time: time.Date(2026, 1, 1, 10, minute, 0, 0, time.UTC), ContentType: "application/xml", Body: []byte(doc(fmt.Sprint(minute), 1, 2))}
	}
	got, err := Config{Interval: 30 * time.Minute, MaxHold: 2 * time.Hour}.Crawl(t.Context(), "a", []origin.Snapshot{at(0), at(40), at(50), at(70), at(7000)})
	if err != nil {
		t.Fatal(err)
	}
	// At 0 and 30 minutes the first, at 60 the third, then the fourth for two hours, and the last
	// for two more.
	if want := 2 + 1 + 4 + 4; got.Polls != want || got.Snapshots != 4 {
		t.Errorf("%d polls of %d documents, want %d of 4", got.Polls, got.Snapshots, want)
	}
}

// Each feed counts once, with its last document that could be read; a feed without any does not count.
func TestPropertiesOfFeeds(t *testing.T) {
	crawl := func(docs ...string) Trace {
		var of []origin.Snapshot
		for i, d := range docs {
			of = append(of, origin.Snapshot{Time: time.Date(2026, 1, 1, 10+i, 0, 0, 0, time.UTC), ContentType: "application/xml", Body: []byte(d)})
		}
		got, err := Config{Interval: 30 * time.Minute, MaxHold: time.Hour}.Crawl(t.Context(), "a", of)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	page := "<html><title>502</title></html>"
	short, long := doc("10:00", 1, 3), doc("11:00", 1, 14)
	traces := []Trace{crawl(page), crawl(long, short, page), crawl(short, short, long), crawl(long)}
	if n := len(traces[1].Documents); n != 2 || traces[1].Documents[1].Bytes != len(short) || traces[1].Documents[1].Items != 3 {
		t.Errorf("%d documents: %+v", n, traces[1].Documents)
	}
	got := PropertiesOf(traces)
	want := Properties{
		Feeds: 3, FeedBytes: Distribution{float64(len(long)), float64(len(long))}, FeedItems: Distribution{14, 14},
		ArticleBytes: Distribution{float64(anItem), float64(anItem + 2)}, ArticleWords: Distribution{2, 2},
	}
	if got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}
