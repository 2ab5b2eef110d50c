package feedtree_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"tidings/feedtree"
)

// At all nodes together, a push allocates as much memory in a feed of a thousand items as in one of a hundred,
// because nodes only work on what is new.
func TestAPushCostsTheSameInALongFeed(t *testing.T) {
	n := newPublishedFeed(t)
	written := 0
	write := func(items int) {
		for range items {
			written++
			if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, fmt.Sprintf("item %d", written))); err != nil {
				t.Fatal(err)
			}
		}
	}
	// cost returns the bytes allocated by one push and by the request before it for the number of the next item.
	cost := func() uint64 {
		const pushes = 200 // in which nodes pack and unpack their windows once or twice
		write(1)           // after a rest, nodes unpack the windows of feeds once, which is not counted here
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range pushes {
			var last uint64
			n.publisherNode.Do(func() {
				n.publisherNode.Layers().Feeds.Head(n.Key(url), func(d feedtree.Document) { last = d.Pin.Seq })
			})
			n.RunUntil(func() bool { return last > 0 }, time.Millisecond, time.Second) // an entry may just be read
			if last+1 < uint64(written) {                                              // the last entry may still be on its way down the tree
				t.Fatalf("the last number is %d, not %d", last, written)
			}
			write(1)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / pushes
	}
	write(100)
	n.Run(time.Minute)
	short := cost()
	write(1_000 - written)
	n.Run(time.Minute)
	long := cost()
	t.Logf("%d bytes a push after 100 items, %d after 1,000", short, long)
	if long > short*5/4 {
		t.Errorf("a push takes %d bytes after 1,000 items, and %d after 100", long, short)
	}
}
