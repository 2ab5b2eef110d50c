package corona

import (
	"crypto/ed25519"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// forge makes a change report of a document that the origin never served, with the record of one
// node and the signature of another.
func forge(t *testing.T, v *channelNetwork, record []byte, signer *wire.Signer, at time.Time, ticket uint64) []byte {
	t.Helper()
	f := parsed(t, rss("A", "", "one", "forged"))
	r := observation{f: f}
	m := r.message(v.key, fingerprintsOf(f))
	m.Nonce, m.Poller, m.AtMs, m.Ticket = 99, record, uint64(at.UnixMilli()), ticket
	d := difference.Delta{Head: &f.Head}
	for _, it := range f.Items {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	var err error
	if m.Delta, err = d.Encode(); err != nil {
		t.Fatal(err)
	}
	signed := signer.Sign(wire.DomainObservation, wire.Encode(m))
	return wire.Encode(&coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: v.key[:], Observation: signed.Raw}}})
}

// Only a member that can have a rank in the channel's wedge can bring items into the log, whatever
// record it shows and whatever path its message takes. Without the signature any peer could rewrite
// a feed for all its readers, in the name of another node.
func TestForgedObservationsAreDropped(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	leader, member := v.leader, v.pollers[1]
	stranger := wire.NewSigner(ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", ed25519.SeedSize))), wire.HashOf(v.network.Descriptor()))
	alone := newLab(t).poller(Config{})
	e := env.Env{Clock: alone.l, Network: nobody{}, Worker: alone.l, Store: nobody{}, Rand: rand.New(rand.NewPCG(1, 1)), Log: alone.log}
	outside := overlay.New(e, stranger, v.verify, overlay.Config{Network: v.network}).Self().Raw
	record, now := member.overlay.Self().Raw, leader.Now()
	for _, c := range []struct {
		what   string
		from   env.PeerID
		report []byte
	}{
		{"under a member's record", stranger.PeerID(), forge(t, v, record, stranger, now, 0)},
		{"under its own record", stranger.PeerID(), forge(t, v, outside, stranger, now, 0)},
		{"in a member's mouth", stranger.PeerID(), forge(t, v, outside, member.signer, now, 0)},
		{"routed, under a member's record", "", forge(t, v, record, stranger, now, 0)},
		{"routed, under its own record", "", forge(t, v, outside, stranger, now, 0)},
		{"a member's word of long ago", member.signer.PeerID(), forge(t, v, record, member.signer, now.Add(-time.Hour), 0)},
		{"a member's word of days to come", member.signer.PeerID(), forge(t, v, record, member.signer, now.Add(time.Hour), 0)},
	} {
		before := leader.Stats()
		if c.from == "" {
			leader.Deliver(v.key, c.report)
		} else if err := leader.Receive(c.from, c.report); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		v.run(time.Minute)
		after := leader.Stats()
		if len(v.items) != 1 || after.Garbage+after.Strangers != before.Garbage+before.Strangers+1 {
			t.Errorf("%s: the log has %q, %d invalid messages, %d of strangers", c.what, titles(v.items), after.Garbage-before.Garbage, after.Strangers-before.Strangers)
		}
	}
	// The same report from the member itself is accepted; malicious members are another matter.
	if err := leader.Receive(member.signer.PeerID(), forge(t, v, record, member.signer, leader.Now(), 0)); err != nil {
		t.Fatal(err)
	}
	v.run(time.Minute)
	if titles(v.items) != "one forged" {
		t.Errorf("what a member says is not heard: %q", titles(v.items))
	}
}

// A sequencer whose clock is hours off still accepts reports of its pollers, and still rejects copies of earlier
// reports. It used to reject all reports, and its feed got no items until another node took over.
func TestASequencerWithAWrongClockAcceptsReports(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one"))
	leader, member := v.leader, v.pollers[1]
	record, then := member.overlay.Self().Raw, leader.Now().Add(-16*time.Hour)
	ticket := leader.leaders[v.key].ticket
	for _, c := range []struct {
		what  string
		at    time.Duration
		taken bool
	}{{"the first report", 0, true}, {"a copy of it", 0, false}, {"an earlier one", -time.Second, false}, {"a later one", time.Second, true}} {
		before := leader.Stats()
		if err := leader.Receive(member.signer.PeerID(), forge(t, v, record, member.signer, then.Add(c.at), ticket)); err != nil {
			t.Fatal(err)
		}
		v.run(time.Minute)
		if after := leader.Stats(); (after.Strangers == before.Strangers) != c.taken {
			t.Errorf("%s: %d reports are dropped", c.what, after.Strangers-before.Strangers)
		}
	}
	if titles(v.items) != "one forged" {
		t.Errorf("the log has %q", titles(v.items))
	}
}

// A head that does not fit beside the inline items comes with them later, so that followers can
// read the entry.
func TestAHeadComesWithLargeItems(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		what              string
		items, size, head int
	}{
		{"small items beside a small head", 2, 1 << 10, 100},
		{"large items", 2, 31 << 10, 100},
		{"a large head", 1, 1 << 10, 30 << 10},
		{"a head that is made anew", 1, 1 << 10, 70 << 10},
		{"both", 3, 100 << 10, 60 << 10},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := newChannelNetwork(t, 3, rss("A", "", "one"))
			doc, bodies := bulky(dice, c.items, c.size)
			_, filler := bulky(dice, 1, c.head)
			v.serve(strings.Replace(doc, "<title>A</title>", "<title>B</title><copyright>"+filler[0]+"</copyright>", 1))
			v.poll(v.pollers[0])
			v.run(time.Minute)
			if len(v.found) != 2 || len(v.items) != 1+len(bodies) {
				t.Fatalf("%d entries with %d items", len(v.found), len(v.items))
			}
			if h := v.found[1].Head; h == nil || h.Title != "B" {
				t.Errorf("the head of the entry is %+v", h)
			}
		})
	}
}

// In a network of several leaf sets the sequencer does not know all members. It accepts a poller
// beyond its leaf set by the ticket that came with the rank, and rejects a node without the ticket.
func TestReportsFromBeyondTheLeafSetNeedATicket(t *testing.T) {
	v := newChannelNetwork(t, 39, rss("A", "", "one"))
	leader := v.leader
	leaf := leader.overlay.Leaf()
	i := slices.IndexFunc(v.pollers, func(h *member) bool { return !leaf.Covers(h.id) })
	if i < 0 {
		t.Fatal("the leader's leaf has all members")
	}
	var stranger *wire.Signer
	for n := range byte(200) {
		s := wire.NewSigner(ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('0'+n)), ed25519.SeedSize))[:ed25519.SeedSize]), wire.HashOf(v.network.Descriptor()))
		if id := overlay.NodeID(v.network.Name, s.PeerID()); !leaf.Covers(id) && leader.couldPoll(id, leader.leaders[v.key]) {
			stranger = s
			break
		}
	}
	alone := newLab(t).poller(Config{})
	e := env.Env{Clock: alone.l, Network: nobody{}, Worker: alone.l, Store: nobody{}, Rand: rand.New(rand.NewPCG(1, 1)), Log: alone.log}
	member := overlay.New(e, stranger, v.verify, overlay.Config{Network: v.network})
	member.Reachable([]string{"anywhere"}) // otherwise it is a client
	record := member.Self().Raw
	before := leader.Stats().Strangers
	if err := leader.Receive(stranger.PeerID(), forge(t, v, record, stranger, leader.Now(), 0)); err != nil {
		t.Fatal(err)
	}
	leader.Deliver(v.key, forge(t, v, record, stranger, leader.Now(), 0))
	v.run(time.Minute)
	if len(v.items) != 1 || leader.Stats().Strangers != before+2 {
		t.Errorf("the log has %q; %d were strangers", titles(v.items), leader.Stats().Strangers-before)
	}
	v.serve(rss("A", "", "one", "two"))
	v.poll(v.pollers[i])
	v.run(time.Minute)
	if titles(v.items) != "one two" {
		t.Errorf("what a poller beyond the leaf has found is not heard: the log has %q", titles(v.items))
	}
}

// A list of items that a cut-off node found is not the origin's document. The log gets the items, and pollers
// still know which document the origin served last.
func TestItemsHandedOverDoNotReplaceTheSnapshot(t *testing.T) {
	v := newChannelNetwork(t, 3, rss("A", "", "one", "two"))
	v.poll(v.pollers...)
	v.run(2 * time.Minute)
	doc := rss("A", "", "one", "two")
	stood, state := len(v.knowing(doc)), v.leader.leaders[v.key].state
	if stood == 0 || len(v.items) != 2 {
		t.Fatalf("%d pollers know the document; the log has %q", stood, titles(v.items))
	}
	f := parsed(t, rss("A", "", "found"))
	known := []difference.Entry{{ID: v.items[0].ID, Hash: v.items[0].Hash}}
	reports := v.reports()
	v.pollers[1].HandOver(v.key, &f.Head, f.Items, known)
	v.run(2 * time.Minute)
	l := v.leader.leaders[v.key]
	if len(v.items) != 3 || len(v.pollers[1].reports.pending) != 0 {
		t.Errorf("the log has %q; %d reports still wait", titles(v.items), len(v.pollers[1].reports.pending))
	}
	if now := len(v.knowing(doc)); now != stood || l.state != state {
		t.Errorf("%d pollers know the document, where %d did; the state was %+v, and is %+v", now, stood, state, l.state)
	}
	v.poll(v.pollers...)
	v.run(2 * time.Minute)
	if n := v.reports() - reports; n != 1 {
		t.Errorf("%d reports, where one was handed over", n)
	}
}
