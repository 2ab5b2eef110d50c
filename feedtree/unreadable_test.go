package feedtree_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tidings/difference"
	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/sim"
)

// deltaWithHead encodes a delta with an arbitrary head and items. Older sequencers signed deltas with an empty
// head.
func deltaWithHead(t *testing.T, head *differencepb.Head, names ...string) []byte {
	t.Helper()
	m := &differencepb.Delta{Head: head}
	for _, name := range names {
		m.Changes = append(m.Changes, &differencepb.Change{Format: uint32(feed.RSS), Raw: newItem(t, name).Raw})
	}
	b := wire.Encode(m)
	pack, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pack.EncodeAll(b, nil)
}

// appendBody makes the feed's sequencer append an arbitrary body to its log.
func appendBody(t *testing.T, s *sim.Swarm, body []byte, items int) {
	t.Helper()
	p := leader(t, s, url)
	held := false
	p.Do(func() {
		err := p.Layers().Owners.Append(s.Key(url), body, items, func(uint64, uint64, time.Time) owner.Hash { return owner.Hash{} }, func(ok bool) { held = ok })
		if err != nil {
			t.Error(err)
		}
	})
	if !s.RunUntil(func() bool { return held }, 10*time.Millisecond, 10*time.Second) {
		t.Fatal("the entry was not committed")
	}
}

// The items of an entry are shown even if its head is unreadable. An empty head counts as no head, so its entry is
// readable.
func TestItemsBesideAnUnreadableHeadAreShown(t *testing.T) {
	for _, c := range []struct {
		what       string
		head       *differencepb.Head
		unreadable int
	}{
		{"empty", &differencepb.Head{}, 0},
		{"broken", &differencepb.Head{Format: uint32(feed.RSS), Raw: []byte("<rss>")}, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := newPublishedFeed(t, "one")
			appendBody(t, n.Swarm, deltaWithHead(t, c.head, "two", "three"), 2)
			n.World.Run(10 * time.Second)
			for _, name := range []string{"two", "three"} {
				n.checkAll(t, name, "All of "+name+", single")
			}
			for _, p := range n.readers {
				if s, _ := p.Layers().Feeds.Subscription(n.Key(url)); s.Unreadable != c.unreadable || s.Title != "A feed" {
					t.Errorf("host %d: %d entries cannot be read; the title is %q", p.Index(), s.Unreadable, s.Title)
				}
			}
		})
	}
}

// Every follower reports an entry that it cannot read, and asks the origin within a polling interval for the items
// in it. A new sequencer that reads the log fetches the whole document and appends the items again. Each reader is
// shown them once.
func TestALogWithAnUnreadableEntryHeals(t *testing.T) {
	n := newPublishedFeed(t, "one")
	n.site.shows(nil, "two", "one")
	n.site.index-- // the origin answers "not modified" for this document, which hides what was lost
	appendBody(t, n.Swarm, []byte("no delta at all"), 1)
	n.World.Run(5 * time.Second)
	for _, p := range append(slices.Clone(n.readers), n.publisherNode) {
		if s, _ := p.Layers().Feeds.Subscription(n.Key(url)); s.Unreadable != 1 {
			t.Errorf("host %d reports %d unreadable entries", p.Index(), s.Unreadable)
		}
	}
	n.World.Run(quickNetwork().PollInterval + 10*time.Second)
	n.checkAll(t, "two", "Headline of two, single") // from the origin

	old := leader(t, n.Swarm, url)
	old.Kill(true)
	n.World.Run(5 * time.Second)
	old.Start()
	n.World.Run(3 * time.Minute)
	n.checkAll(t, "two", "Headline of two, single")
	p := leader(t, n.Swarm, url)
	if v, _ := p.Layers().Owners.View(n.Key(url)); v.Epoch == nil {
		t.Fatal("no member leads the feed")
	}
	if has := guidsInLog(n.Swarm, p); !slices.Contains(has, "two") {
		t.Errorf("the log has %q", has)
	}
	for _, v := range n.Violations() {
		t.Error(v)
	}
}

// guidsInLog returns the guids of the items in a member's copy of the log.
func guidsInLog(s *sim.Swarm, p *sim.Peer) (guids []string) {
	p.Do(func() {
		p.Layers().Owners.Bodies(p.Layers().Owners.Log(s.Key(url)), func(bodies [][]byte) {
			for _, b := range bodies {
				guids = append(guids, guidsIn(b)...)
			}
		})
	})
	s.World.Run(time.Second)
	return guids
}

// Bodies that a reader's disk has lost come from the feed's owners. All items are shown again, without asking the
// origin, which no longer shows them.
func TestLostBodiesComeFromOwners(t *testing.T) {
	n := newPublishedFeed(t, "one", "two")
	n.site.shows(n.publisher.metadata(), "three")
	n.World.Run(2 * time.Minute)
	reader := n.publisherNode // a client, which owns nothing
	reader.Kill(true)
	if lost := reader.LoseRecords("owner/body/"); lost < 2 {
		t.Fatalf("%d bodies were on the disk", lost)
	}
	reader.Start()
	if !n.RunUntil(func() bool { return len(seen(n.Swarm, reader)) == 3 }, time.Second, 30*time.Second) {
		t.Errorf("after half a minute the reader shows %v", seen(n.Swarm, reader))
	}
	n.World.Run(2 * time.Minute) // the origin would have been asked by now
	for _, name := range []string{"one", "two", "three"} {
		n.checkAll(t, name, "Headline of "+name+", single")
	}
	st := reader.Layers().Owners.Stats()
	if s, _ := reader.Layers().Feeds.Subscription(n.Key(url)); s.Unreadable > 0 || st.Repaired < 2 || reader.Layers().Feeds.Stats().Fetches > 0 {
		t.Errorf("%d entries cannot be read, %d bodies came from others, the origin was asked %d times", s.Unreadable, st.Repaired, reader.Layers().Feeds.Stats().Fetches)
	}
	for _, v := range n.Violations() {
		t.Error(v)
	}
}

// A sequencer signs nothing that followers cannot read. The readable part of a change report is appended.
func TestNothingUnreadableIsSigned(t *testing.T) {
	n := newPublishedFeed(t, "one")
	p := leader(t, n.Swarm, url)
	d := deltaOf(t, "two", "three")
	d.Head = &feed.Head{} // an empty head
	d.Changes[1].Item.Raw = []byte("<item><guid>three</guid>")
	taken, held := false, false
	p.Do(func() {
		taken = p.Layers().Feeds.Append(n.Key(url), d, nil, func(ok bool) { held = ok })
	})
	n.World.Run(10 * time.Second)
	if st := p.Layers().Feeds.Stats(); !taken || !held || st.Illegible != 1 {
		t.Errorf("accepted %v, committed %v, %d items left out", taken, held, st.Illegible)
	}
	n.checkAll(t, "two", "All of two, single")
	n.checkAll(t, "three", "")
	if said := p.Layers().Feeds.Refusals(); len(said) != 1 || !strings.Contains(said[0].Why, "left out") {
		t.Errorf("refusals: %+v", said)
	}
	for _, p := range n.readers {
		if s, _ := p.Layers().Feeds.Subscription(n.Key(url)); s.Unreadable != 0 {
			t.Errorf("host %d has %d entries that it cannot read", p.Index(), s.Unreadable)
		}
	}
	checkSwarm(t, n.Swarm)
}

func deltaOf(t *testing.T, names ...string) (d difference.Delta) {
	for _, name := range names {
		d.Changes = append(d.Changes, difference.Change{Item: *newItem(t, name)})
	}
	return d
}

func guidsIn(body []byte) (of []string) {
	d, _ := difference.Decode(body) // as far as it can be read
	for _, c := range d.Changes {
		m, _ := c.Item.Meaning("")
		of = append(of, m.GUID)
	}
	return of
}

// Entries that arrive while lost bodies are recovered do not interfere: in the end all items are there. Once the
// window was emptied while an entry was on its way into it (one round in twenty).
func TestEntriesDuringABodyRecoveryAreNotLost(t *testing.T) {
	t.Parallel()
	for round := range longtest.Pick(8, 60) {
		n := newPublishedFeed(t, "one", "two")
		n.World.Run(2*time.Minute + time.Duration(round)*77*time.Millisecond)
		reader := n.publisherNode
		reader.Kill(false)
		reader.LoseRecords("owner/body/")
		reader.Start()
		want := []string{"one", "two"}
		for i := range 100 {
			name := fmt.Sprint("p", i)
			want = append(want, name)
			p := n.publisher.write(n.Swarm, name)
			n.readers[0].Do(func() {
				n.readers[0].Layers().Feeds.Publish(p.Raw, func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
			})
			if i < 20 { // rarely, until the node has joined, and then during the recovery
				n.World.Run(500 * time.Millisecond)
			} else {
				n.World.Run(25 * time.Millisecond)
			}
			if i == 20 {
				_ = seen(n.Swarm, reader)
			}
		}
		n.World.Run(time.Minute)
		got, missing := seen(n.Swarm, reader), 0
		for _, name := range want {
			if got[name] == "" {
				missing++
			}
		}
		if missing > 0 || reader.Layers().Owners.Stats().Repaired == 0 {
			t.Errorf("round %d: %d of %d items are missing, %d bodies came from others", round, missing, len(want), reader.Layers().Owners.Stats().Repaired)
		}
		for _, v := range n.Violations() {
			t.Error(v)
		}
	}
}

// Versions of one item that arrive together get separate entries, one after the other, without delay: an entry with
// two of them could not be read.
func TestVersionsOfOneItemGetSeparateEntries(t *testing.T) {
	n := newPublishedFeed(t)
	if err := push(n.Swarm, n.publisherNode, n.publisher.write(n.Swarm, "first")); err != nil {
		t.Fatal(err)
	}
	const versions = 6
	began, left := n.Now(), versions+1
	publish := func(p *difference.Publication) {
		n.publisher.seq, n.publisher.prev = p.Seq, p.Hash
		n.publisherNode.Layers().Feeds.Publish(p.Raw, func(err error) {
			if left--; err != nil {
				t.Error(err)
			}
		})
	}
	n.publisherNode.Do(func() {
		for i := range versions {
			it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>x</guid><title>Version %d</title></item>", i), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			publish(n.publisher.sign(n.Swarm, n.publisher.seq+1, n.publisher.prev, &it))
		}
		publish(n.publisher.sign(n.Swarm, n.publisher.seq+1, n.publisher.prev, newItem(t, "last")))
	})
	if !n.RunUntil(func() bool { return left == 0 }, 10*time.Millisecond, time.Minute) || n.Now().Sub(began) > 2*time.Second {
		t.Errorf("after %v %d publications are not committed", n.Now().Sub(began), left)
	}
	n.World.Run(5 * time.Second)
	n.checkAll(t, "x", "Version 5, publisher")
	n.checkAll(t, "last", "All of last, publisher")
	checkSwarm(t, n.Swarm)
}
