package feedtree_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/sim"
)

// writeLarge signs an item of about a number of bytes that hardly shrink.
func (a *testPublisher) writeLarge(s *sim.Swarm, name string, size int) *difference.Publication {
	b := make([]byte, size*3/4)
	dice := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range b {
		b[i] = byte(dice.Uint32())
	}
	it, err := feed.ReadItem(feed.RSS, []byte(`<item><guid>`+name+`</guid><title>All of `+name+`</title><description>`+base64.StdEncoding.EncodeToString(b)+`</description></item>`), nil, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	p := a.sign(s, a.seq+1, a.prev, &it)
	a.seq, a.prev = p.Seq, p.Hash
	return p
}

// Items of up to a mebibyte reach all readers, in order with the small ones around them.
func TestLargeItemsReachReaders(t *testing.T) {
	n := newPublishedFeed(t)
	of := []*difference.Publication{
		n.publisher.write(n.Swarm, "small"), n.publisher.writeLarge(n.Swarm, "large", difference.MaxEnvelope), n.publisher.write(n.Swarm, "between"),
		n.publisher.writeLarge(n.Swarm, "largest", feed.MaxItem-200), n.publisher.write(n.Swarm, "last"),
	}
	errs, _ := pushAll(t, n.Swarm, n.publisherNode, of...)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	n.Run(10 * time.Second)
	for _, name := range []string{"small", "large", "between", "largest", "last"} {
		n.checkAll(t, name, "All of "+name+", publisher")
	}
}

// A sequencer keeps a bounded number of bytes that wait for their entries. All of a burst get into the log nevertheless.
func TestLargeItemsWaitForRoom(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	const items = 11
	lead := leader(t, n.Swarm, url)
	lead.SubscribeFeed(url)
	n.Run(5 * time.Second)
	before := lead.Layers().Feeds.Stats().Accepted
	committed := 0
	for i := range items {
		p := n.publisher.writeLarge(n.Swarm, fmt.Sprint("large ", i), feed.MaxItem-200)
		lead.Do(func() {
			lead.Layers().Feeds.Publish(p.Raw, func(err error) {
				if err == nil {
					committed++
				}
			})
		})
	}
	if n := lead.Layers().Feeds.Stats().Accepted - before; n < 8 || n > 10 {
		t.Errorf("%d of %d items are accepted at once", n, items)
	}
	if !n.RunUntil(func() bool { return committed == items }, 10*time.Millisecond, time.Minute) {
		t.Errorf("%d of %d items are in the log", committed, items)
	}
}

// If the sequencer dies while it fetches a large item, the next one fetches it again.
func TestALargeItemSurvivesItsSequencer(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	var result error
	told := false
	large := n.publisher.writeLarge(n.Swarm, "large", feed.MaxItem-200)
	n.publisherNode.Do(func() {
		n.publisherNode.Layers().Feeds.Publish(large.Raw, func(err error) { told, result = true, err })
	})
	first := leader(t, n.Swarm, url)
	n.Run(100 * time.Millisecond)
	first.Kill(true)
	if !n.RunUntil(func() bool { return told }, 10*time.Millisecond, 2*time.Minute) {
		t.Fatal("no answer")
	}
	if result != nil { // the publisher's node sends it again
		if err := push(n.Swarm, n.publisherNode, large); err != nil {
			t.Fatal(err)
		}
	}
	n.Run(10 * time.Second)
	n.checkAll(t, "large", "All of large, publisher")
}

// Nobody fetches the item of a publisher whom the feed does not name.
func TestAStrangersLargeItemIsNotFetched(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "one")); err != nil {
		t.Fatal(err)
	}
	stranger := newPublisher(t, 9)
	stranger.seq, stranger.prev = n.publisher.seq, n.publisher.prev
	lead := leader(t, n.Swarm, url)
	before := lead.Stats().Received[env.Bulk].Bytes
	if err := push(n.Swarm, n.publisherNode, stranger.writeLarge(n.Swarm, "large", feed.MaxItem-200)); !errors.Is(err, feedtree.ErrRefused) {
		t.Errorf("the push ended with %v", err)
	}
	if sent := lead.Stats().Received[env.Bulk].Bytes - before; sent > feed.MaxItem/2 {
		t.Errorf("the sequencer has received %d bytes", sent)
	}
	n.checkAll(t, "large", "")
}

// The feeds that a node leads share a bounded number of bytes that wait for a quorum. The largest ones leave room for the
// others, and all items get into the logs in the end.
func TestFeedsShareTheRoomForItems(t *testing.T) {
	n := swarm(3, nil)
	publisher := newPublisher(t, 1)
	body := []byte(`<item><guid>large</guid><title>Large</title><description>` + strings.Repeat("x", 800<<10) + `</description></item>`)
	n.World.Run(10 * time.Second)
	var urls []string
	lead := n.Peers()[0]
	for i := 0; len(urls) < 9 && i < 60; i++ { // feeds that one node leads
		address := fmt.Sprintf("http://feed.example/%d", i)
		site := new(site)
		site.shows(publisher.metadata())
		n.Serve(address, site)
		lead.SubscribeFeed(address)
		n.World.Run(20 * time.Second)
		if v, ok := lead.Layers().Owners.View(n.Key(address)); ok && v.Leads {
			urls = append(urls, address)
		}
	}
	if len(urls) < 9 {
		t.Fatalf("one node leads %d feeds", len(urls))
	}
	committed, offered := map[string]int{}, map[string]int{}
	last := map[string]*difference.Publication{}
	publish := func(address string, raw []byte) (accepted bool) {
		it, err := feed.ReadItem(feed.RSS, raw, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		seq, prev := uint64(1), feed.Hash{}
		if p := last[address]; p != nil {
			seq, prev = p.Seq+1, p.Hash
		}
		p, err := difference.Publish(publisher.key, address, seq, prev, n.Now(), &it)
		if err != nil {
			t.Fatal(err)
		}
		last[address] = p
		before := lead.Layers().Feeds.Stats().Accepted
		offered[address]++
		lead.Do(func() {
			lead.Layers().Feeds.Publish(p.Raw, func(err error) {
				if err == nil {
					committed[address]++
				}
			})
		})
		return lead.Layers().Feeds.Stats().Accepted > before
	}
	accepted, all := map[string]int{}, 0
	for _, address := range urls[:8] {
		for i := range 9 {
			if publish(address, bytes.Replace(body, []byte("large"), fmt.Appendf(nil, "large %d", i), 1)) {
				accepted[address]++
				all += len(body)
			}
		}
	}
	t.Logf("accepted at once: %v, %d bytes", accepted, all)
	if all > feedtree.MaxAllAcceptedBytes || all < feedtree.MaxAllAcceptedBytes*3/4 {
		t.Errorf("%d bytes are accepted at once", all)
	}
	if accepted[urls[4]] == 0 || !publish(urls[8], []byte(`<item><guid>small</guid><title>Small</title></item>`)) {
		t.Errorf("the first feeds have taken all of the room: %v", accepted)
	}
	if !n.RunUntil(func() bool { return maps.Equal(committed, offered) }, 10*time.Millisecond, time.Minute) {
		t.Errorf("of %v items, %v are in the logs", offered, committed)
	}
}
