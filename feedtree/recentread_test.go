package feedtree_test

import (
	"reflect"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
)

// A reader keeps what it has just read and verified, for those who are told of it, and not for long. An old entry that it reads again
// is not kept.
func TestReadersKeepWhatTheyHaveJustRead(t *testing.T) {
	n := newPublishedFeed(t)
	reader := n.readers[0]
	kept := func() (count int) {
		reader.Do(func() { count = reader.Layers().Feeds.RecentlyRead() })
		return count
	}
	n.Run(2 * time.Minute)
	if kept() != 0 {
		t.Errorf("%d entries are kept at rest", kept())
	}
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "an item")); err != nil {
		t.Fatal(err)
	}
	n.Run(2 * time.Second)
	if kept() == 0 {
		t.Error("an entry that was just read is not kept")
	}
	n.Run(2 * time.Minute)
	read := false
	reader.Do(func() {
		reader.Layers().Feeds.Read(n.Key(url), func(d feedtree.Document) { read = len(d.Entries) > 0 })
	})
	n.RunUntil(func() bool { return read }, time.Millisecond, time.Second)
	if !read || kept() != 0 {
		t.Errorf("read: %v; %d entries are kept after they were read again", read, kept())
	}
}

// A caller that has some of the items gets the same document, in which they have no content.
func TestKnownItemsHaveNoContent(t *testing.T) {
	n := newPublishedFeed(t)
	for _, name := range []string{"one", "two", "three"} {
		if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, name)); err != nil {
			t.Fatal(err)
		}
		n.Run(2 * time.Second)
	}
	n.Run(2 * time.Minute)
	reader := n.readers[0]
	read := func(known func(difference.Version) bool) (doc feedtree.Document) {
		done := false
		reader.Do(func() {
			reader.Layers().Feeds.ReadUnknown(n.Key(url), known, func(d feedtree.Document) { doc, done = d, true })
		})
		n.RunUntil(func() bool { return done }, time.Millisecond, time.Second)
		return doc
	}
	whole := read(nil)
	if len(whole.Entries) != 3 {
		t.Fatalf("%d items", len(whole.Entries))
	}
	was := whole.Entries[1].Item
	some := read(func(v difference.Version) bool { return v == difference.Version{ID: was.ID, Hash: was.Hash} })
	want := whole
	want.Entries = append([]feed.Entry{}, whole.Entries...)
	want.Entries[1].Item, want.Entries[1].Provenance = feed.Item{ID: was.ID, Hash: was.Hash}, ""
	if !reflect.DeepEqual(some, want) {
		t.Errorf("%+v, want %+v", some, want)
	}
	if none := read(func(difference.Version) bool { return true }); len(none.Entries) != 3 || none.Entries[0].Item.Raw != nil {
		t.Errorf("%+v", none)
	}
}
