package feedtree_test

import (
	"fmt"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
)

// A head alone becomes an entry if readers show something else of it than of the one in the log, also when its document's
// items are left to their publisher.
func TestAHeadAloneIsAppended(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	n.World.Run(time.Second)
	p, key := leader(t, n.Swarm, url), n.Key(url)
	length := func() int { return len(p.Layers().Owners.Log(key)) }
	shown := func() (d feedtree.Document) {
		r := n.readers[0]
		r.Do(func() { r.Layers().Feeds.Read(key, func(doc feedtree.Document) { d = doc }) })
		n.World.Run(time.Second)
		return d
	}
	if d := shown(); !d.Changed.IsZero() {
		t.Errorf("changed at %v", d.Changed)
	}
	for _, c := range []struct {
		title, generator string
		item             bool
		entries          int
	}{
		{"A feed", "", false, 0},
		{"B", "", false, 1},
		{"B", "other", false, 0},
		{"C", "other", true, 1},
		{"C", "again another", true, 0},
	} {
		doc, err := feed.Parse(fmt.Appendf(nil, `<rss version="2.0"><channel><title>%s</title><link>http://feed.example/</link><x:generator xmlns:x="urn:x">%s</x:generator>
			<item><guid isPermaLink="false">one</guid><title>one</title></item></channel></rss>`, c.title, c.generator), "")
		if err != nil {
			t.Fatal(err)
		}
		d, before, began, held := difference.Delta{Head: &doc.Head}, length(), n.Now(), false
		if c.item {
			d.Changes = []difference.Change{{Item: doc.Items[0]}}
		}
		p.Do(func() { p.Layers().Feeds.Append(key, d, doc, func(ok bool) { held = ok }) })
		n.World.Run(5 * time.Second)
		if got := length() - before; got != c.entries || !held {
			t.Errorf("%+v: %d entries, held: %v", c, got, held)
		}
		if d := shown(); d.Head.Title != c.title || d.Changed.Before(began) != (c.entries == 0) || len(d.Entries) != 1 || d.Entries[0].Provenance != feedtree.ByPublisher {
			t.Errorf("%+v: readers see %q, changed %v after it, and %d items", c, d.Head.Title, d.Changed.Sub(began), len(d.Entries))
		}
	}
}
