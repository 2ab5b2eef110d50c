package corona

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// A change that all pollers find is one entry of the log. When a quorum holds it, no poller sees
// news in the same document, whatever its validators.
func TestAChangeThatAllPollersFindIsOneEntry(t *testing.T) {
	for name, items := range map[string]int{"few": 3, "more than are told": maxSnapshotItems + 9} {
		t.Run(name, func(t *testing.T) {
			v := newChannelNetwork(t, 3, rss("A", "", numbered(items-1)...))
			if n := len(v.knowing(rss("A", "", numbered(items-1)...))); n != 3 || v.reports() != 0 {
				t.Fatalf("%d pollers know the snapshot, %d have found news", n, v.reports())
			}
			next := rss("A", "", numbered(items)...)
			v.serve(next)
			v.slow = true
			v.poll(v.pollers...)
			if v.reports() != 3 || len(v.waiting) != 1 {
				t.Fatalf("%d pollers found news, %d entries are made of it", v.reports(), len(v.waiting))
			}
			v.hold(true)
			v.run(time.Second)
			if n := len(v.knowing(next)); n != 3 || len(v.found) != 2 || len(v.items) != items {
				t.Errorf("%d pollers know it; the log has %d entries with %d items", n, len(v.found), len(v.items))
			}
			v.serve(next, func(a *env.Answer) { a.Status, a.Body, a.ETag = 200, []byte(next), `"replica"` })
			v.run(2 * time.Hour)
			if v.reports() != 3 || len(v.found) != 2 {
				t.Errorf("%d change reports, %d entries after the same with other validators", v.reports(), len(v.found))
			}
		})
	}
}

// A lagging replica's document, whose items the log has replaced, is reported once by each poller.
func TestALaggingReplicaIsReportedOnce(t *testing.T) {
	old := rss("A", "", "one", "two", "three")
	v := newChannelNetwork(t, 3, old)
	next := rss("A", "", "two", "three", "four")
	v.serve(next)
	v.poll(v.pollers[0])
	if n := len(v.knowing(next)); n != 3 || len(v.found) != 2 {
		t.Fatalf("%d pollers know of it, %d entries", n, len(v.found))
	}
	v.serve(old)
	for range 3 {
		v.poll(v.pollers...)
		v.run(30 * time.Second)
	}
	if n := v.reports(); n != 1+3 || len(v.found) != 2 {
		t.Errorf("%d change reports, of which %d are entries", n, len(v.found))
	}
	if held := len(v.pollers[0].reports.pending); held != 0 {
		t.Errorf("%d reports are still pending", held)
	}
	last := rss("A", "", "three", "four", "five")
	v.serve(last)
	v.poll(v.pollers[1])
	if n := len(v.knowing(last)); n != 3 || titles(v.items[3:]) != "four five" {
		t.Errorf("after that %d pollers know that the log has %q", n, titles(v.items))
	}
}

// An origin has several replicas: one lags, another has its own validators. The snapshot stays at
// the newest document until an older one has stayed for an hour.
func TestALaggingReplicaDoesNotBecomeTheSnapshot(t *testing.T) {
	old, next := rss("A", "", "one", "two"), rss("A", "", "two", "three")
	v := newChannelNetwork(t, 3, old)
	v.serve(next)
	v.poll(v.pollers[0])
	stood := v.leader.leaders[v.key].valid
	fresh, lagging := serves(next), serves(old)
	v.origin = func(h *member, r env.Request) env.Answer {
		switch h {
		case v.pollers[1]:
			return lagging(r)
		case v.pollers[2]:
			a := fresh(r)
			a.ETag = "of its own"
			return a
		}
		return fresh(r)
	}
	for range 6 {
		v.poll(v.pollers...)
		v.run(9 * time.Minute)
		if l := v.leader.leaders[v.key]; digest(l.fingerprints) != digest(fingerprintsOf(parsed(t, next))) || l.valid != stood {
			t.Fatalf("the log stands on another document: %+v", l.valid)
		}
	}
	v.origin = func(_ *member, r env.Request) env.Answer { return lagging(r) }
	v.run(2 * time.Hour)
	if n := len(v.knowing(old)); n != 3 || len(v.found) != 2 {
		t.Errorf("%d pollers believe a document that has stayed, %d entries", n, len(v.found))
	}
}

// A report goes to the sequencer, and then, until it is answered, to the root of the key, which may
// know another sequencer. The delay doubles; after two minutes the report is dropped.
func TestAReportIsRepeatedUntilItIsAnswered(t *testing.T) {
	for _, c := range []struct {
		deafFor time.Duration
		told    []time.Duration
	}{
		{0, nil},
		{15 * time.Second, []time.Duration{10 * time.Second, 30 * time.Second}},
		{time.Hour, []time.Duration{10 * time.Second, 30 * time.Second, 70 * time.Second}},
	} {
		t.Run(c.deafFor.String(), func(t *testing.T) {
			v := newChannelNetwork(t, 2, rss("A", "", "one"))
			who, began := v.pollers[0], v.now
			v.deaf = func(*member) bool { return true }
			direct := 0
			v.way = func(from, to *member, layer wire.Layer, body []byte) []time.Duration {
				if m, _, err := parse(body); layer == wire.Corona && from == who && err == nil && m.GetChange() != nil {
					direct++
				}
				if layer == wire.Corona && to == who && v.now.Sub(began) < c.deafFor {
					return nil
				}
				return []time.Duration{20 * time.Millisecond}
			}
			v.serve(rss("A", "", "one", "two"))
			v.routed = nil
			who.Corona.poller.poll(who.assignments.Get(v.key), v.now)
			v.run(keepReportFor + time.Second)
			var told []time.Duration
			for _, at := range v.routed {
				told = append(told, at.Sub(began).Round(time.Second))
			}
			if direct != 1 || !slices.Equal(told, c.told) {
				t.Errorf("told %d times directly, and after %v, want %v", direct, told, c.told)
			}
			if len(who.reports.pending) != 0 || titles(v.items) != "one two" {
				t.Errorf("%d reports are pending after %v; the log has %q", len(who.reports.pending), v.now.Sub(began), titles(v.items))
			}
		})
	}
}

// Items that are too large for one message come in chunks, even if messages are lost, repeated or
// reordered. Items beyond the size of one answer take several requests.
func TestLargeItemsComeInChunks(t *testing.T) {
	t.Parallel()
	near := []time.Duration{20 * time.Millisecond}
	for name, way := range map[string]func(*rand.Rand) []time.Duration{
		"well": func(*rand.Rand) []time.Duration { return near },
		"lost": func(dice *rand.Rand) []time.Duration {
			if dice.IntN(10) == 0 {
				return nil
			}
			return near
		},
		"repeated": func(*rand.Rand) []time.Duration { return []time.Duration{near[0], 2 * near[0], 9 * near[0]} },
		"overtaken": func(dice *rand.Rand) []time.Duration {
			return []time.Duration{near[0] + time.Duration(dice.IntN(400))*time.Millisecond}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newChannelNetwork(t, 3, rss("A", "", "one"))
			dice := rand.New(rand.NewPCG(1, 2))
			parts, wants := 0, 0
			v.way = func(_, to *member, layer wire.Layer, body []byte) []time.Duration {
				if layer != wire.Corona {
					return near
				}
				m, _, err := parse(body)
				if err != nil {
					t.Fatal(err)
				}
				if p := m.GetItemChunk(); p != nil {
					parts++
				} else if m.GetItemRequest() != nil {
					wants++
				}
				return way(dice)
			}
			doc, raw := bulky(dice, 16, 180<<10)
			v.serve(doc)
			v.run(65 * time.Minute) // two polls of each poller, one of which would be enough
			if len(v.found) != 2 || len(v.items) != 1+len(raw) {
				t.Fatalf("%d entries, %d items; %d parts came", len(v.found), len(v.items), parts)
			}
			for i, want := range raw {
				if !strings.Contains(string(v.items[1+i].Raw), want) {
					t.Errorf("item %d is not as it was", i)
				}
			}
			// 16 items of 180 KB take two requests, the larger of which asks for 2 MiB.
			t.Logf("%d parts, %d questions", parts, wants)
			if least := 16 * 180 << 10 / chunkSize; parts < least || name == "well" && parts > 2*least {
				t.Errorf("%d parts, %d would be enough", parts, least)
			}
			for _, h := range v.pollers {
				if len(h.reports.pending) != 0 {
					t.Error("a report is still pending")
				}
			}
		})
	}
}

// A newer document of a channel replaces a pending one. Of too many, the oldest is dropped and the
// next poll finds it again.
func TestPendingReportsAreBounded(t *testing.T) {
	l := newLab(t)
	p := l.poller(Config{})
	doc := serves(rss("A", "", "one"))
	for i := range maxPendingReports + 3 {
		d := p.poller.addAssignment(assignment{target: &pollTarget{key: key(fmt.Sprintf("http://a.example/%d", i))}})
		for range 2 {
			f := parsed(t, string(doc(env.Request{}).Body))
			p.reports.keep(d.key(), observation{f: f}, d, l.now)
		}
	}
	if len(p.reports.pending) != maxPendingReports || p.reports.pending[0].key != key("http://a.example/3") {
		t.Errorf("%d reports are pending", len(p.reports.pending))
	}
}

// An item request for a report that is no longer pending gets an empty answer. A request for items
// that the report does not have gets none.
func TestOnlyItemsOfPendingReportsAreSent(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "one"))
	who, stranger := v.pollers[0], v.pollers[1]
	var got []*coronapb.ItemChunk
	v.way = func(from, to *member, layer wire.Layer, body []byte) []time.Duration {
		if m, _, err := parse(body); layer == wire.Corona && err == nil && m.GetItemChunk() != nil && to == stranger {
			got = append(got, m.GetItemChunk())
		}
		return []time.Duration{20 * time.Millisecond}
	}
	w := &pendingReport{nonce: 7, key: v.key, observation: observation{f: parsed(t, rss("A", "", "one", "two"))}}
	who.reports.pending = append(who.reports.pending, w)
	for _, c := range []struct {
		nonce   uint64
		items   []uint32
		garbage uint64
		parts   int
	}{
		{8, []uint32{0}, 0, 1},
		{7, []uint32{2}, 1, 0},
		{7, []uint32{1, 2}, 1, 0},
		{7, []uint32{0, 1}, 0, 1},
	} {
		got = nil
		before := who.Stats().Garbage
		stranger.send(env.Peer{ID: who.signer.PeerID()}, env.Control, &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{
			Key: v.key[:], Nonce: c.nonce, Items: c.items,
		}}})
		v.run(time.Second)
		if len(got) != c.parts || who.Stats().Garbage-before != c.garbage {
			t.Errorf("%d of items %v: %d parts, %d invalid messages", c.nonce, c.items, len(got), who.Stats().Garbage-before)
		} else if c.parts == 1 && (got[0].Size == 0) != (c.nonce != 7) {
			t.Errorf("%d: a part of %d bytes", c.nonce, got[0].Size)
		}
	}
}
