package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/cobra/query"
	"tidings/internal/feed"
)

// Beyond the bounds the oldest articles are dropped, and the list says since when it is complete.
func TestArrivalsAreBounded(t *testing.T) {
	begun := time.Unix(1.7e9, 0)
	b := arrivals{completeSince: begun, maxAge: recentAge}
	add := func(i, bytes int, at time.Time) {
		b.add(&cobra.Article{Feed: "f", ID: feed.ID{byte(i), byte(i >> 8)}, HTML: strings.Repeat("x", bytes)}, at)
	}
	for i := range maxRecent {
		add(i, 1, begun.Add(time.Duration(i)*time.Second))
	}
	if late, since := b.appendAll(nil); len(late) != maxRecent || !since.Equal(begun) {
		t.Fatalf("%d since %v", len(late), since)
	}
	add(0, 1, begun.Add(maxRecent*time.Second))
	if late, since := b.appendAll(nil); len(late) != maxRecent || since.Before(begun) || !late[0].Came.Equal(begun.Add(time.Second)) {
		t.Fatalf("%d since %v", len(late), since)
	}
	for i := range 2 * maxRecentBytes / cobra.MaxHTML {
		add(i, 2*cobra.MaxHTML, begun.Add((maxRecent+1)*time.Second))
	}
	if late, _ := b.appendAll(nil); len(late) != maxRecentBytes/(cobra.MaxHTML+257) || b.size > maxRecentBytes {
		t.Fatalf("%d of %d bytes", len(late), b.size)
	}
	for range 100 { // titles of strangers can be large, too
		b.add(&cobra.Article{Title: strings.Repeat("x", 1<<20), Tags: []string{strings.Repeat("x", 1<<20)}}, begun.Add((maxRecent+1)*time.Second))
	}
	if late, _ := b.appendAll(nil); len(late) != 15 {
		t.Fatalf("%d of %d bytes", len(late), b.size)
	}
	add(0, 1, begun.Add(2*recentAge))
	if late, since := b.appendAll(nil); len(late) != 1 || since.Before(begun.Add(maxRecent*time.Second)) {
		t.Fatalf("%d since %v", len(late), since)
	}
	b.clear(begun.Add(3 * recentAge))
	if late, since := b.appendAll(nil); len(late) != 0 || b.size != 0 || !since.Equal(begun.Add(3*recentAge)) {
		t.Fatalf("%d since %v", len(late), since)
	}
}

// Articles published some hours before their arrival count as new. Older ones are the backlog of a
// subscription.
func TestArticlesPublishedLatelyCountAsNew(t *testing.T) {
	now := time.Unix(1.7e9, 0)
	b := arrivals{completeSince: now.Add(-time.Hour), maxAge: recentAge}
	for _, ago := range []time.Duration{0, time.Hour, 20 * time.Hour, 30 * time.Hour} {
		b.add(&cobra.Article{Title: "sun", ID: feed.ID{byte(ago / time.Hour), 1}, Published: now.Add(-ago)}, now)
	}
	late, since := b.appendAll(nil)
	q, err := query.Parse("sun")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(late)
	if p := previewOf(q, late, coverage{since: since, scale: 1}, now); p.Of != 3 || p.Matching != 3 || p.PerDay != 72 {
		t.Errorf("%+v", p)
	}
}
