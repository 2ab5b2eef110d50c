package wedge

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

func entries(of ...*wedgepb.Entry) *wedgepb.Batch { return &wedgepb.Batch{Entries: of} }

func TestFalseEntriesAreRefused(t *testing.T) {
	l := newLab(t)
	a := l.members(20)[3]
	l.invalid[l.key(9)] = true
	for _, c := range []struct {
		name   string
		change func(*wedgepb.Entry)
		want   wedgepb.Refusal_Kind
	}{
		{"right", func(*wedgepb.Entry) {}, wedgepb.Refusal_NONE},
		{"stands too high", func(e *wedgepb.Entry) { e.Depth++ }, wedgepb.Refusal_INVALID},
		{"stands too deep", func(e *wedgepb.Entry) { e.Depth-- }, wedgepb.Refusal_INVALID},
		{"stands nowhere", func(e *wedgepb.Entry) { e.Depth = 256 }, wedgepb.Refusal_INVALID},
		{"more ranks than there are", func(e *wedgepb.Entry) { e.Ranks++ }, wedgepb.Refusal_INVALID},
		{"ranks beyond", func(e *wedgepb.Entry) { e.First = 5 }, wedgepb.Refusal_INVALID},
		{"a stand-in too many", func(e *wedgepb.Entry) { e.StandIns = []uint32{1} }, wedgepb.Refusal_INVALID},
		{"a stand-in for nobody", func(e *wedgepb.Entry) { e.Ranks, e.StandIns = 11, []uint32{10} }, wedgepb.Refusal_INVALID},
		{"more ranks than members can serve", func(e *wedgepb.Entry) { e.Order.N, e.Ranks = 85, 85 }, wedgepb.Refusal_INVALID},
		{"an order that is not here", func(e *wedgepb.Entry) { e.Order = nil }, wedgepb.Refusal_NEED_PAYLOAD},
		{"an unknown payload", func(e *wedgepb.Entry) { e.Order.HasPayload, e.Order.Payload, e.Order.Key = false, nil, nil }, wedgepb.Refusal_NEED_PAYLOAD},
	} {
		l.pass(time.Second)
		key := l.key(len(c.name))
		e := a.entry(key, Term{}, 10, "words")
		c.change(e)
		if got, ok := a.batch(entries(e))[e.Key]; got != c.want {
			t.Errorf("%s: %v (%v), want %v", c.name, got, ok, c.want)
		}
		if _, serves := l.serves[key]; serves != (c.want == wedgepb.Refusal_NONE) {
			t.Errorf("%s: serves: %v", c.name, serves)
		}
	}
	e := a.entry(l.key(9), Term{}, 10, "words")
	if got := a.batch(entries(e))[e.Key]; got != wedgepb.Refusal_INVALID {
		t.Errorf("a leader without the right: %v", got)
	}
}

func TestPeersThatCannotBeParents(t *testing.T) {
	l := newLab(t)
	l.members(8)
	stranger, client := l.actor(100, true), l.actor(101, false)
	e := stranger.entry(l.key(0), Term{}, 1, "words")
	if err := stranger.say(&wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: &wedgepb.Batch{Life: 1, Number: 1, Entries: []*wedgepb.Entry{e}}}}); err != nil {
		t.Error(err)
	}
	if m := stranger.heard(); len(m) != 1 || !m[0].GetAck().GetUnknownSender() {
		t.Errorf("an unknown peer receives %v", m)
	}
	for name, b := range map[string]*wedgepb.Batch{
		"a client":            {Life: 1, Number: 1, Record: client.raw, Entries: []*wedgepb.Entry{client.entry(l.key(0), Term{}, 1, "words")}},
		"in another's name":   {Life: 1, Number: 1, Record: stranger.raw, Entries: []*wedgepb.Entry{e}},
		"a forged record":     {Life: 1, Number: 1, Record: []byte("record"), Entries: []*wedgepb.Entry{e}},
		"the node's own name": {Life: 1, Number: 1, Record: l.node.Self().Raw, Entries: []*wedgepb.Entry{e}},
	} {
		if err := client.say(&wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: b}}); !errors.Is(err, env.ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(l.serves) > 0 {
		t.Error("serves")
	}
	if stranger.batch(&wedgepb.Batch{Record: stranger.raw, Entries: []*wedgepb.Entry{e}}) == nil || len(l.serves) != 1 {
		t.Error("an unknown peer that sends its record is ignored")
	}
}

func TestOlderTermsAndOldBatchesChangeNothing(t *testing.T) {
	l := newLab(t)
	all := l.members(12)
	a, b := all[3], all[4]
	key := l.key(0)
	parent := func() overlay.ID {
		v, _ := l.w.View(key)
		return v.Parent
	}
	a.batch(entries(a.entry(key, Term{1, 5}, 10, "words")))
	if got := b.batch(entries(b.entry(key, Term{1, 4}, 10, "words")))[shortKey(key)]; got != wedgepb.Refusal_LATER_TERM || parent() != a.id {
		t.Errorf("an older term: %v", got)
	}
	if got := b.batch(entries(b.entry(key, Term{1, 5}, 10, "other")))[shortKey(key)]; got != wedgepb.Refusal_INVALID || parent() != a.id {
		t.Errorf("another order of the same term: %v", got)
	}
	again := b.entry(key, Term{1, 5}, 10, "words")
	again.Listed = true
	if got := b.batch(entries(again))[shortKey(key)]; got != wedgepb.Refusal_HAS_PARENT || parent() != a.id {
		t.Errorf("a list of another parent: %v", got)
	}
	a.batch(&wedgepb.Batch{})
	asked := l.valid
	b.batch(entries(b.entry(key, Term{1, 5}, 10, "words")))
	if parent() != b.id || l.valid != asked {
		t.Errorf("another parent is not taken, or Valid was asked %d times", l.valid-asked)
	}
	l.pass(time.Second)
	parted := false
	for _, m := range a.heard() {
		for _, k := range m.GetBatch().GetLeaves() {
			parted = parted || k == shortKey(key)
		}
	}
	if !parted {
		t.Error("the old parent is not told")
	}
	old := entries(a.entry(key, Term{1, 9}, 10, "words"))
	old.Number = a.number - 1
	if a.batch(old) != nil || parent() != b.id {
		t.Error("a batch older than the last is read")
	}
	old.Number = a.number
	if a.batch(old) == nil || parent() != b.id {
		t.Error("the last batch is not acknowledged again, or read again")
	}
	// Ends, leaves, statuses and broadcasts of peers that are not parents or children.
	a.batch(&wedgepb.Batch{Ends: []uint64{shortKey(key)}, Leaves: []uint64{shortKey(key)}, Statuses: []*wedgepb.Status{{Key: shortKey(key), Missing: 3}}})
	if err := a.say(&wedgepb.Message{Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: 7, Messages: []*wedgepb.Broadcast{{Key: shortKey(key), Message: []byte("news")}}}}}); err != nil {
		t.Error(err)
	}
	if parent() != b.id || len(l.got) > 0 {
		t.Errorf("a peer that is no parent is obeyed: %v", l.got)
	}
	for range 2 {
		if err := b.say(&wedgepb.Message{Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: 7, Messages: []*wedgepb.Broadcast{{Key: shortKey(key), Message: []byte("news")}}}}}); err != nil {
			t.Error(err)
		}
	}
	if len(l.got) != 1 {
		t.Errorf("the parent's message is delivered as %q", l.got)
	}
}

// A member that sends far too many entries is refused, sooner if it is outside the leaf.
func TestFloodsAreBounded(t *testing.T) {
	l := newLab(t)
	all := l.members(70) // the leaf splits
	near, far := all[0], all[len(all)-1]
	if d := l.node.Leaf().Depth(); d == 0 || near.id.Common(l.node.ID()) < d || far.id.Common(l.node.ID()) >= d {
		t.Fatalf("the leaf is %d deep", d)
	}
	key := func(n uint32) (id overlay.ID) {
		binary.BigEndian.PutUint32(id[:], n)
		return id
	}
	taken := func(a *actor, from, count uint32) (taken int) {
		for ; count > 0; count -= min(count, maxChanges) {
			b := &wedgepb.Batch{Record: a.raw}
			for range min(count, maxChanges) {
				b.Entries = append(b.Entries, a.entry(key(from), Term{}, 1, "w"))
				from++
			}
			for _, kind := range append([]wedgepb.Refusal_Kind{}, answersOf(a.batch(b))...) {
				if kind != wedgepb.Refusal_FULL {
					t.Fatalf("answered %v", kind)
				}
				taken--
			}
			taken += len(b.Entries)
		}
		return taken
	}
	if n := taken(far, 0, maxMemberships/outsideShare+1000); n != maxMemberships/outsideShare {
		t.Errorf("%d of one from beyond the leaf", n)
	}
	if n := taken(near, 1<<20, maxMemberships+10); n != maxMemberships-maxMemberships/outsideShare {
		t.Errorf("%d more of one from the leaf", n)
	}
	if st := l.w.Stats(); st.Records != maxMemberships {
		t.Errorf("%d memberships", st.Records)
	}
	if err := l.w.Enlist(key(1<<25), Order{N: 1, Interval: time.Minute}); err != nil {
		t.Errorf("what others ask of a node keeps it from polling the keys that it leads: %v", err)
	}
}

func answersOf(m map[uint64]wedgepb.Refusal_Kind) (of []wedgepb.Refusal_Kind) {
	for _, kind := range m {
		of = append(of, kind)
	}
	return of
}

// A child that refuses, or asks for the payload again and again, is replaced. If the next one
// refuses too, the node serves the ranks for a round.
func TestChildrenThatRefuse(t *testing.T) {
	for _, kind := range []wedgepb.Refusal_Kind{
		wedgepb.Refusal_NEED_PAYLOAD, wedgepb.Refusal_FULL, wedgepb.Refusal_INVALID, wedgepb.Refusal_HAS_PARENT, wedgepb.Refusal_LATER_TERM, 77,
	} {
		l := newLab(t)
		all := l.members(10)
		key := all[9].id // in the other half
		if err := l.w.Enlist(key, Order{N: 3, Interval: time.Minute, Payload: []byte("words")}); err != nil {
			t.Fatal(err)
		}
		asked, edges := 0, map[uint32]bool{}
		for range 20 {
			l.pass(time.Second)
			for _, a := range all {
				for _, e := range a.told(func(*wedgepb.Entry) wedgepb.Refusal_Kind { return kind }) {
					asked++
					edges[e.Depth] = true
				}
			}
		}
		elsewhere := kind == wedgepb.Refusal_HAS_PARENT || kind == wedgepb.Refusal_LATER_TERM
		if d := l.serves[key]; elsewhere != (d.Ranks.Len() == 0) {
			t.Errorf("%v: serves %v", kind, d.Ranks)
		}
		if asked > 4*len(edges) || asked == 0 {
			t.Errorf("%v: asked %d times for %d edges", kind, asked, len(edges))
		}
		asked = 0
		for range 780 {
			l.pass(time.Second)
			for _, a := range all {
				asked += len(a.told(func(*wedgepb.Entry) wedgepb.Refusal_Kind { return wedgepb.Refusal_NONE }))
			}
		}
		if kind != wedgepb.Refusal_FULL && (asked != len(edges) || l.serves[key].Ranks.Len() > 0) {
			t.Errorf("%v: a round later %d were asked, and the node serves %v", kind, asked, l.serves[key].Ranks)
		}
	}
}

func TestOrdersThatCannotBeGiven(t *testing.T) {
	l := newLab(t)
	l.members(4)
	key := l.key(0)
	right := Order{Term: Term{2, 2}, N: 3, Interval: time.Minute}
	if err := l.w.Enlist(key, right); err != nil {
		t.Fatal(err)
	}
	twin := key
	twin[31]++
	for name, c := range map[string]struct {
		key    overlay.ID
		change func(*Order)
		words  string
	}{
		"the same term":     {key, func(*Order) {}, "not later"},
		"an older term":     {key, func(o *Order) { o.Term = Term{1, 9} }, "not later"},
		"too many ranks":    {l.key(1), func(o *Order) { o.N = 21 }, "21 ranks"},
		"a short interval":  {l.key(1), func(o *Order) { o.Interval = time.Millisecond }, "interval"},
		"a long interval":   {l.key(1), func(o *Order) { o.Interval = 8 * 24 * time.Hour }, "interval"},
		"a broken interval": {l.key(1), func(o *Order) { o.Interval++ }, "interval"},
		"a large payload":   {l.key(1), func(o *Order) { o.Payload = make([]byte, MaxPayload+1) }, "bytes"},
		"a colliding key":   {twin, func(*Order) {}, "same first"},
	} {
		o := right
		c.change(&o)
		if err := l.w.Enlist(c.key, o); !errors.Is(err, ErrOrder) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.w.Broadcast(key, make([]byte, MaxBroadcast+1)); err == nil {
		t.Error("sends more than it may")
	}
	if err := l.w.Broadcast(l.key(5), nil); err == nil {
		t.Error("broadcasts for a key that it does not lead")
	}
	if err := l.w.Enlist(l.key(7), Order{}); err != nil {
		t.Errorf("dismisses nothing: %v", err)
	}
}

func TestMessagesOverBounds(t *testing.T) {
	l := newLab(t)
	a := l.members(3)[0]
	e := func(change func(*wedgepb.Entry)) *wedgepb.Message {
		e := a.entry(l.key(0), Term{}, 2, "words")
		change(e)
		return &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: &wedgepb.Batch{Life: 1, Number: 1, Entries: []*wedgepb.Entry{e}}}}
	}
	batch := func(b *wedgepb.Batch) *wedgepb.Message {
		return &wedgepb.Message{Body: &wedgepb.Message_Batch{Batch: b}}
	}
	for name, m := range map[string]*wedgepb.Message{
		"nothing":                {},
		"no number":              batch(&wedgepb.Batch{Life: 1}),
		"no life":                batch(&wedgepb.Batch{Number: 1}),
		"a large record":         batch(&wedgepb.Batch{Life: 1, Number: 1, Record: make([]byte, overlay.MaxRecord+1)}),
		"many ends":              batch(&wedgepb.Batch{Life: 1, Number: 1, Ends: make([]uint64, maxChanges+1)}),
		"many parts":             batch(&wedgepb.Batch{Life: 1, Number: 1, Leaves: make([]uint64, maxChanges+1)}),
		"more declined":          batch(&wedgepb.Batch{Life: 1, Number: 1, Statuses: []*wedgepb.Status{{Missing: 1, Declined: 2}}}),
		"many declined":          batch(&wedgepb.Batch{Life: 1, Number: 1, Statuses: []*wedgepb.Status{{Ranks: make([]uint32, 17)}}}),
		"depth 0":                e(func(e *wedgepb.Entry) { e.Depth = 0 }),
		"depth 257":              e(func(e *wedgepb.Entry) { e.Depth = 257 }),
		"no ranks":               e(func(e *wedgepb.Entry) { e.Ranks = 0 }),
		"ranks around":           e(func(e *wedgepb.Entry) { e.First, e.Ranks = 1<<32-1, 1<<32-1 }),
		"many stand-ins":         e(func(e *wedgepb.Entry) { e.StandIns = make([]uint32, maxStandIns+1) }),
		"n of 0":                 e(func(e *wedgepb.Entry) { e.Order.N = 0 }),
		"a short interval":       e(func(e *wedgepb.Entry) { e.Order.IntervalMs = 1 }),
		"a long interval":        e(func(e *wedgepb.Entry) { e.Order.IntervalMs = 1 << 31 }),
		"a large payload":        e(func(e *wedgepb.Entry) { e.Order.Payload = make([]byte, MaxPayload+1) }),
		"another payload":        e(func(e *wedgepb.Entry) { e.Order.Payload = []byte("others") }),
		"another key":            e(func(e *wedgepb.Entry) { e.Key++ }),
		"a short key":            e(func(e *wedgepb.Entry) { e.Order.Key = e.Order.Key[:31] }),
		"an unannounced payload": e(func(e *wedgepb.Entry) { e.Order.HasPayload = false }),
		"a payload over the bound": {Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Messages: []*wedgepb.Broadcast{
			{Message: make([]byte, MaxBroadcast+1)},
		}}}},
		"many answers": {Body: &wedgepb.Message_Ack{Ack: &wedgepb.Ack{Refusals: make([]*wedgepb.Refusal, maxChanges+1)}}},
	} {
		for i, a := range m.GetAck().GetRefusals() {
			if a == nil {
				m.GetAck().Refusals[i] = &wedgepb.Refusal{}
			}
		}
		garbage := l.w.Stats().Garbage
		if err := a.say(m); !errors.Is(err, env.ErrFrame) || l.w.Stats().Garbage != garbage+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.say(e(func(*wedgepb.Entry) {})); err != nil {
		t.Errorf("a right one: %v", err)
	}
}

// FuzzReceive gives arbitrary messages to a node that leads, serves and relays.
func FuzzReceive(f *testing.F) {
	seed := newLab(f)
	a := seed.members(3)[0]
	e := a.entry(seed.key(0), Term{1, 2}, 5, "words")
	for _, m := range []*wedgepb.Message{
		{Body: &wedgepb.Message_Batch{Batch: &wedgepb.Batch{Life: 1, Number: 9, Entries: []*wedgepb.Entry{e}, Ends: []uint64{3}, Leaves: []uint64{4}, Statuses: []*wedgepb.Status{{Key: e.Key, Missing: 2, Declined: 1, Ranks: []uint32{1}}}, ListEnd: 3}}},
		{Body: &wedgepb.Message_Ack{Ack: &wedgepb.Ack{Number: 1, Refusals: []*wedgepb.Refusal{{Key: e.Key, Kind: wedgepb.Refusal_NEED_PAYLOAD}}}}},
		{Body: &wedgepb.Message_Ack{Ack: &wedgepb.Ack{Number: 1, UnknownSender: true}}},
		{Body: &wedgepb.Message_Digest{Digest: &wedgepb.Digest{Number: 3, Count: 1, Digest: 7}}},
		{Body: &wedgepb.Message_DigestReply{DigestReply: &wedgepb.DigestReply{Number: 2}}},
		{Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: 1, Messages: []*wedgepb.Broadcast{{Key: e.Key, Message: []byte("news")}}}}},
	} {
		body := wire.Encode(m)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		l := newLab(t)
		a := l.members(3)[0]
		if err := l.w.Enlist(l.key(1), Order{N: 7, Interval: time.Minute, Payload: []byte("words")}); err != nil {
			t.Fatal(err)
		}
		a.batch(entries(a.entry(l.key(0), Term{1, 1}, 5, "words")))
		l.pass(time.Second)
		for range 2 {
			if err := l.w.Receive(a.peer, body); err != nil && !errors.Is(err, env.ErrFrame) {
				t.Errorf("error %v", err)
			}
			l.pass(time.Second)
		}
		l.pass(15 * time.Second)
		if m, err := parse(body); err == nil {
			again := wire.Encode(m)
			if m2, err := parse(again); err != nil || !proto.Equal(m, m2) {
				t.Errorf("%v is parsed again as %v, %v", m, m2, err)
			}
		}
	})
}

// The broadcasts that relays keep are bounded, for any number of keys.
func TestRelaysKeepALimitedAmount(t *testing.T) {
	l := newLab(t)
	all := l.members(10)
	parent, near := all[9], all[0]
	message := make([]byte, MaxBroadcast)
	const keys = 2 * maxRelayed / MaxBroadcast
	for i := range keys {
		key := near.id
		binary.BigEndian.PutUint32(key[4:], uint32(i))
		parent.batch(entries(parent.entry(key, Term{}, 1, "words")))
		down := &wedgepb.Broadcasts{Number: uint64(i) + 1, Messages: []*wedgepb.Broadcast{{Key: shortKey(key), Message: message}}}
		if err := parent.say(&wedgepb.Message{Body: &wedgepb.Message_Broadcasts{Broadcasts: down}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.serves) > 0 || len(l.w.table.active) != keys || l.w.broadcasts.relayedBytes != maxRelayed {
		t.Errorf("a relay of %d keys, which serves %d, keeps %d bytes", len(l.w.table.active), len(l.serves), l.w.broadcasts.relayedBytes)
	}
	for _, r := range slices.Collect(l.w.table.all()) {
		l.w.tree.remove(r)
	}
	if l.w.finishChanges(); l.w.broadcasts.relayedBytes != 0 {
		t.Errorf("%d bytes are kept of no key", l.w.broadcasts.relayedBytes)
	}
}
