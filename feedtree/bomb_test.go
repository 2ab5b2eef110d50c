package feedtree_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
)

// bomb returns a body of a few kilobytes that holds items of 15 MiB.
func bomb(t *testing.T, n int) []byte {
	t.Helper()
	var d difference.Delta
	for i := range 15 {
		it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>bomb %d.%d</guid><title>A</title><!--%s--></item>", n, i, strings.Repeat("x", feed.MaxItem-200)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 64<<10 {
		t.Fatalf("a body of %d bytes", len(body))
	}
	return body
}

// A log whose small entries hold much more than memory should is led, read and recalled a part at a time. Readers see the
// newest of its items, and are told that there are more.
func TestALogOfBombsIsReadInSteps(t *testing.T) {
	n := newPublishedFeed(t, "old")
	const bombs = 6
	for i := range bombs {
		appendBody(t, n.Swarm, bomb(t, i), 15)
	}
	n.World.Run(10 * time.Second)
	reader := n.publisherNode
	var doc feedtree.Document
	var known *difference.Known
	total, most := 0, 0
	reader.Do(func() {
		feeds, log := reader.Layers().Feeds, reader.Layers().Owners.Visible(n.Key(url))
		feeds.DecodedAtOnce(log, func(bytes int) { total, most = total+bytes, max(most, bytes) })
		feeds.Read(n.Key(url), func(d feedtree.Document) { doc = d })
		feeds.Recall(n.Key(url), func(k *difference.Known) { known = k })
	})
	if !n.RunUntil(func() bool { return doc.Head != nil && known != nil && total >= bombs*14<<20 }, 10*time.Millisecond, 10*time.Second) {
		t.Fatal("no answer")
	}
	if most > feedtree.DecodeStep+difference.MaxDelta || total < bombs*14<<20 || total < 4*most {
		t.Errorf("at most %d bytes are decoded at once, of %d", most, total)
	}
	size := 0
	for _, e := range doc.Entries {
		size += len(e.Item.Raw)
	}
	if size > feedtree.MaxDocumentBytes+difference.MaxDelta || size < feedtree.MaxDocumentBytes {
		t.Errorf("readers are shown %d bytes", size)
	}
	if at := seen(n.Swarm, reader); at["old"] != "" || at[fmt.Sprintf("bomb %d.0", bombs-1)] == "" {
		t.Error("readers are not shown the newest items")
	}
	if r := reader.Layers().Feeds.Refusals(); len(r) == 0 || !strings.Contains(r[len(r)-1].Why, "readers see the newest") {
		t.Errorf("people are told %v", r)
	}
	if known.Len() != bombs*15+1 {
		t.Errorf("%d of %d items are known", known.Len(), bombs*15+1)
	}

	first := leader(t, n.Swarm, url)
	first.Kill(true)
	n.World.Run(30 * time.Second)
	if next := leader(t, n.Swarm, url); next == first {
		t.Fatal("nobody else leads the feed")
	}
	if err := push(n.Swarm, reader, n.publisher.write(n.Swarm, "after")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(10 * time.Second)
	if got := seen(n.Swarm, reader)["after"]; got != "All of after, publisher" {
		t.Errorf("readers are shown %q", got)
	}
}
