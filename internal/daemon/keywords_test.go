package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
)

// items returns articles as changes of a feed's document, the newest first.
func items(t *testing.T, from, n int, text string) (of []difference.Change) {
	t.Helper()
	doc := `<rss version="2.0"><channel><title>F</title>`
	for i := from + n - 1; i >= from; i-- {
		doc += fmt.Sprintf("<item><guid>%d</guid><title>Article %d</title><description>%s</description></item>", i, i, text)
	}
	f, err := feed.Parse([]byte(doc+"</channel></rss>"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range f.Items {
		of = append(of, difference.Change{Item: it})
	}
	return of
}

// A burst of articles that come faster than they are matched waits within the bounds. Further articles are
// counted and reported. After the burst everything works as before.
func TestBurstOfArticlesIsBounded(t *testing.T) {
	t.Parallel()
	k, err := openKeywords(filepath.Join(t.TempDir(), keywordsFile), cobra.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx)
	}()
	defer func() {
		stop()
		<-ended
		if err := k.disk.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := feedtree.Subscription{URL: "https://example.org/f", Title: "F"}
	if err := k.do(ctx, func() {}); err != nil {
		t.Fatal(err)
	}
	k.addItems(s, items(t, 0, 10, "sun")) // there is no keyword subscription yet
	if _, err := k.subscribe(ctx, 0, "sun", noArticles); err != nil {
		t.Fatal(err)
	}

	held, release := make(chan struct{}), make(chan struct{})
	k.loop.Deliver(func() { // the keyword loop is busy
		close(held)
		<-release
	})
	<-held
	const burst, each = 20, 1000
	for i := range burst {
		k.addItems(s, items(t, i*each, each, "the sun shines"))
	}
	if dropped := k.dropped.Load(); dropped != burst*each-maxWaitingArticles || k.waitingBytes.Load() > maxWaitingBytes {
		t.Errorf("%d articles of %d were dropped, and %d bytes wait", dropped, burst*each, k.waitingBytes.Load())
	}
	if of := k.findings(1, false); len(of) != 2 || of[1].Level != levelNote {
		t.Errorf("the doctor says %+v", of)
	}
	close(release)
	if err := k.do(ctx, func() {}); err != nil { // runs before the queued articles
		t.Fatal(err)
	}
	matched := func() (n uint64) {
		if err := k.do(ctx, func() { n = k.reflector.Stats().Matched }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	until := func(n uint64) {
		t.Helper()
		for late := time.After(5 * time.Minute); matched() < n; {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%d articles were matched, where %d came", matched(), n)
			}
		}
	}
	until(maxWaitingArticles)
	if k.waitingBytes.Load() != 0 {
		t.Errorf("%d bytes still wait", k.waitingBytes.Load())
	}
	k.addItems(s, items(t, burst*each, 1, "a last sun"))
	until(maxWaitingArticles + 1)
	f, err := ask(ctx, k, func(say func(cobra.Feed)) {
		f, _ := k.reflector.Feed(0)
		say(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := f.Read(k.disk)
	if err != nil || len(kept) != 10 || kept[0].Title != fmt.Sprint("Article ", burst*each) {
		t.Errorf("the feed has %d articles, %v", len(kept), err)
	}
	stop()
	<-ended
	if err := k.do(context.Background(), func() {}); err == nil {
		t.Error("it answers when it has ended")
	}
}
