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

// A sequencer fetches a bounded number of items at once, and of one feed from few nodes. One that has had its time gives up its
// place.
func TestASequencerFetchesFewLargeItemsAtOnce(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		url  func(n int) string
		from func(n int) env.PeerID
	}{
		{"of many feeds", maxWanted, func(n int) string { return fmt.Sprintf("http://feed%d.example/", n) }, func(int) env.PeerID { return "publisher" }},
		{"of one feed", maxSources, func(int) string { return benchURL }, func(n int) env.PeerID { return env.PeerID(fmt.Sprint(n)) }},
	} {
		b := newBench(t)
		co := &contents{b.common, map[source]*wantedContent{}}
		want := func(n int) bool {
			_, p := largePublication(t, test.url(n))
			return co.want(overlay.Key(b.node.Network(), test.url(n)), p, env.Peer{ID: test.from(n)})
		}
		for n := range test.most {
			if !want(n) {
				t.Errorf("%s: number %d is refused", test.name, n)
			}
		}
		if want(test.most) || !want(0) || len(b.sent) != test.most+1 {
			t.Errorf("%s: %d requests beside %d items", test.name, len(b.sent), len(co.wanted))
		}
		b.now = b.now.Add(wantedTime + time.Second)
		if !want(test.most) || len(co.wanted) > test.most {
			t.Errorf("%s: no place became free among %d", test.name, len(co.wanted))
		}
	}
}

// A node that sends an item slowly, in whatever parts, keeps its place no longer than others.
func TestASlowNodeGivesUpItsPlace(t *testing.T) {
	b := newBench(t)
	co := &contents{b.common, map[source]*wantedContent{}}
	full, announced := largePublication(t, benchURL)
	raw := full.Content()
	for n := range maxSources {
		co.want(key, announced, env.Peer{ID: env.PeerID(fmt.Sprint(n))})
	}
	for at := time.Duration(0); at <= wantedTime; at += wantedTime / 4 {
		for _, w := range co.wanted {
			if _, p, _, err := co.receive(w.from.ID, &feedtreepb.Content{Hash: full.Hash[:], Offset: uint32(len(w.raw)), Bytes: raw[len(w.raw):][:1]}); p != nil || err != nil || len(w.raw) > 0 {
				t.Fatalf("a part of a byte is taken: %d bytes, %v", len(w.raw), err)
			}
		}
		b.now = b.now.Add(wantedTime / 4)
	}
	if !co.want(key, announced, env.Peer{ID: "publisher"}) {
		t.Error("no place became free")
	}
}

// Parts count if they come from the node that pushes the item, in order, and all together are the item. Another node that pushes
// the same envelope, with another item or none, does not disturb that, and nothing is said against the publisher.
func TestPartsOfALargeItem(t *testing.T) {
	b := newBench(t)
	co := &contents{b.common, map[source]*wantedContent{}}
	full, announced := largePublication(t, benchURL)
	raw := full.Content()
	begin := func(from env.PeerID) {
		if !co.want(key, announced, env.Peer{ID: from}) {
			t.Fatal("no room")
		}
	}
	receive := func(from env.PeerID, offset int, part []byte) (*difference.Publication, error) {
		_, p, _, err := co.receive(from, &feedtreepb.Content{Hash: full.Hash[:], Offset: uint32(offset), Bytes: part})
		return p, err
	}
	begin("publisher")
	part, other := raw[:maxContentPart], bytes.ToUpper(raw)
	for _, c := range []struct {
		from   env.PeerID
		offset int
		part   []byte
	}{
		{"another", 0, part}, {"publisher", maxContentPart, raw[maxContentPart:][:maxContentPart]}, {"publisher", 0, part[1:]},
		{"publisher", 0, part}, {"publisher", 0, part},
	} {
		if p, err := receive(c.from, c.offset, c.part); p != nil || err != nil {
			t.Fatalf("after a part: %v, %v", p, err)
		}
	}
	if last := b.sent[len(b.sent)-1].GetContentRequest(); len(b.sent) != 2 || last.GetOffset() != maxContentPart {
		t.Errorf("%d requests, the last one for %d", len(b.sent), last.GetOffset())
	}
	begin("another")
	for offset := 0; offset < len(raw); offset += maxContentPart {
		last := offset+maxContentPart >= len(raw)
		if p, err := receive("another", offset, other[offset:min(offset+maxContentPart, len(raw))]); p != nil || errors.Is(err, difference.ErrPublication) != last {
			t.Errorf("another item becomes %v, %v", p, err)
		}
	}
	for _, r := range co.refusals.list {
		if len(r.Key) > 0 {
			t.Errorf("the publisher is said to have signed it: %+v", r)
		}
	}
	var p *difference.Publication
	var err error
	for offset := maxContentPart; offset < len(raw); offset += maxContentPart {
		if p, err = receive("publisher", offset, raw[offset:min(offset+maxContentPart, len(raw))]); err != nil {
			t.Fatal(err)
		}
	}
	if p == nil || !bytes.Equal(p.Raw, full.Raw) || len(co.wanted) != 0 {
		t.Errorf("%v, beside %d", p, len(co.wanted))
	}
}
