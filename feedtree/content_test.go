package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// largePublication returns a publication with an item of 100 KB, and the same as its envelope announces it.
func largePublication(t *testing.T, feedURL string) (full, announced *difference.Publication) {
	t.Helper()
	it, err := feed.ReadItem(feed.RSS, []byte("<item><guid>1</guid><title>"+strings.Repeat("x", 100_000)+"</title></item>"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err = difference.Publish(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), feedURL, 1, feed.Hash{}, began, &it)
	if err == nil {
		announced, err = difference.OpenAnnounced(full.Envelope())
	}
	if err != nil {
		t.Fatal(err)
	}
	return full, announced
}

// A sequencer fetches a bounded number of items at once. The one that has made no progress for a while gives up its place.
func TestASequencerFetchesFewLargeItemsAtOnce(t *testing.T) {
	b := newBench(t)
	co := &contents{b.common, map[overlay.ID]*wantedContent{}}
	want := func(n int) bool {
		url := fmt.Sprintf("http://feed%d.example/", n)
		_, p := largePublication(t, url)
		return co.want(overlay.Key(b.node.Network(), url), p, env.Peer{ID: "publisher"})
	}
	for n := range maxWanted {
		if !want(n) {
			t.Errorf("number %d is refused", n)
		}
	}
	if want(maxWanted) || !want(0) || len(b.sent) != maxWanted+1 {
		t.Errorf("%d requests beside %d items", len(b.sent), len(co.wanted))
	}
	b.now = b.now.Add(wantedTime + time.Second)
	if !want(maxWanted) || len(co.wanted) > maxWanted {
		t.Errorf("no place became free among %d", len(co.wanted))
	}
}

// Parts count if they come from the node that pushes the item, in order, and all together are the item.
func TestPartsOfALargeItem(t *testing.T) {
	b := newBench(t)
	co := &contents{b.common, map[overlay.ID]*wantedContent{}}
	full, announced := largePublication(t, benchURL)
	raw := full.Content()
	begin := func() {
		if !co.want(key, announced, env.Peer{ID: "publisher"}) {
			t.Fatal("no room")
		}
	}
	receive := func(from env.PeerID, offset int, part []byte) (*difference.Publication, error) {
		_, p, _, err := co.receive(from, &feedtreepb.Content{Hash: full.Hash[:], Offset: uint32(offset), Bytes: part})
		return p, err
	}
	begin()
	for _, c := range []struct {
		from   env.PeerID
		offset int
		part   []byte
	}{
		{"another", 0, raw[:10]}, {"publisher", 10, raw[10:20]}, {"publisher", 0, raw[:10]}, {"publisher", 0, raw[:10]},
	} {
		if p, err := receive(c.from, c.offset, c.part); p != nil || err != nil {
			t.Fatalf("after a part: %v, %v", p, err)
		}
	}
	if last := b.sent[len(b.sent)-1].GetContentRequest(); len(b.sent) != 2 || last.GetOffset() != 10 {
		t.Errorf("%d requests, the last one for %d", len(b.sent), last.GetOffset())
	}
	p, err := receive("publisher", 10, raw[10:])
	if err != nil || !bytes.Equal(p.Raw, full.Raw) || len(co.wanted) != 0 {
		t.Errorf("%v, %v", p, err)
	}
	begin()
	if p, err := receive("publisher", 0, bytes.ToUpper(raw)); p != nil || !errors.Is(err, difference.ErrPublication) || len(co.wanted) != 0 {
		t.Errorf("another item becomes %v, %v", p, err)
	}
	begin()
	if p, err := receive("publisher", 0, append(bytes.Clone(raw), 'x')); p != nil || !errors.Is(err, difference.ErrPublication) {
		t.Errorf("a longer item becomes %v, %v", p, err)
	}
}
