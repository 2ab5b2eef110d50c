package feedtree_test

import (
	"testing"
	"time"

	"tidings/feedtree"
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
