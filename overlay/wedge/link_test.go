package wedge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

func taken(*wedgepb.Entry) wedgepb.Refusal_Kind { return wedgepb.Refusal_NONE }

// A child that lives and does not acknowledge is replaced, and told so. The repeated batch differs
// only in its age.
func TestSilentChildIsGivenUp(t *testing.T) {
	l := newLab(t)
	all := l.members(10)
	key := all[9].id
	if err := l.w.Enlist(key, Order{N: 1, Interval: time.Minute, IntervalStart: l.now.Add(-10 * time.Second), Payload: []byte("words")}); err != nil {
		t.Fatal(err)
	}
	if len(l.serves) > 0 {
		t.Fatal("the nearest is somebody else")
	}
	var batches []*wedgepb.Batch
	var silent *actor
	for range 300 {
		l.pass(time.Second)
		for _, a := range all {
			if silent != nil && a != silent {
				a.told(taken)
				continue
			}
			for _, m := range a.heard() {
				if b := m.GetBatch(); b != nil && (len(b.Entries) > 0 || silent == nil) {
					silent = a
					batches = append(batches, b)
				}
			}
		}
	}
	if len(batches) != giveUpTries {
		t.Fatalf("%d batches to one that does not answer", len(batches))
	}
	for i, b := range batches {
		if b.Number != batches[0].Number || len(b.Record) == 0 || b.Entries[0].AgeMs != batches[0].Entries[0].AgeMs {
			t.Errorf("batch %d is another: %v", i, b)
		}
		if i > 0 && b.WaitedMs <= batches[i-1].WaitedMs {
			t.Errorf("batch %d waited %d ms, the one before %d", i, b.WaitedMs, batches[i-1].WaitedMs)
		}
	}
	if age := time.Duration(batches[0].Entries[0].AgeMs) * time.Millisecond; age < 10*time.Second || age > 12*time.Second {
		t.Errorf("the phase is %v old", age)
	}
	v, _ := l.w.View(key)
	if len(v.Children) != 1 || v.Children[0] == silent.id {
		t.Errorf("the children are %v", v.Children)
	}
}

// A child that does not know the sender is sent its record.
func TestUnknownSendersSendTheirRecord(t *testing.T) {
	l := newLab(t)
	all := l.members(10)
	key := all[9].id
	enlist := func(seq uint32) {
		if err := l.w.Enlist(key, Order{Term: Term{Seq: seq}, N: 1, Interval: time.Minute, Payload: []byte("words")}); err != nil {
			t.Fatal(err)
		}
		l.pass(time.Second)
	}
	enlist(1)
	var child *actor
	for _, a := range all {
		if len(a.told(taken)) > 0 {
			child = a
		}
	}
	enlist(2)
	m := child.heard()
	if len(m) == 0 || len(m[0].GetBatch().GetRecord()) > 0 {
		t.Fatalf("a peer with the record is sent %v", m)
	}
	number := m[0].GetBatch().Number
	if err := child.say(&wedgepb.Message{Body: &wedgepb.Message_Ack{Ack: &wedgepb.Ack{Number: number, UnknownSender: true}}}); err != nil {
		t.Fatal(err)
	}
	if m := child.heard(); len(m) != 1 || m[0].GetBatch().GetNumber() != number || string(m[0].GetBatch().Record) != string(l.node.Self().Raw) {
		t.Errorf("a peer without the record is sent %v", m)
	}
}

// A parent that knows fewer edges lists them, and edges that are not in the list end.
func TestEdgesMissingFromAListEnd(t *testing.T) {
	l := newLab(t)
	a := l.members(10)[3]
	var all []*wedgepb.Entry
	for i := range 3 {
		all = append(all, a.entry(l.key(i), Term{}, 1, "words"))
	}
	a.batch(entries(all...))
	if len(l.serves) != 3 {
		t.Fatalf("%d assignments", len(l.serves))
	}
	digest := func(number uint64, count uint32, digest uint64) bool {
		a.heard()
		if err := a.say(&wedgepb.Message{Body: &wedgepb.Message_Digest{Digest: &wedgepb.Digest{Number: number, Count: count, Digest: digest}}}); err != nil {
			t.Fatal(err)
		}
		return a.heard()[0].GetDigestReply().Match
	}
	up := l.w.links.byPeer[a.peer].up
	if !digest(100, up.count, up.digest) || digest(101, up.count, up.digest+1) || digest(102, up.count-1, up.digest) {
		t.Error("digests are not compared")
	}
	for _, e := range all[:2] {
		e.Listed, e.Order = true, nil
	}
	a.number = 200
	a.batch(&wedgepb.Batch{Entries: all[:2], ListEnd: 101}) // for another digest
	l.pass(2 * grace)
	if len(l.serves) != 3 {
		t.Errorf("%d assignments after a list that nobody asked for", len(l.serves))
	}
	digest(201, 2, 1)
	a.batch(&wedgepb.Batch{Entries: all[:1]})
	a.batch(&wedgepb.Batch{Entries: all[1:2], ListEnd: 201})
	l.pass(grace / 2)
	if len(l.serves) != 3 {
		t.Errorf("%d assignments before the grace is over", len(l.serves))
	}
	l.pass(grace)
	if _, ok := l.serves[l.key(2)]; ok || len(l.serves) != 2 {
		t.Errorf("%d assignments", len(l.serves))
	}
	if up := l.w.links.byPeer[a.peer].up; !digest(300, up.count, up.digest) || up.count != 2 {
		t.Error("the list was not the whole")
	}
	l.pass(15 * time.Minute) // a lease after that
	if len(l.serves) != 2 {
		t.Error("the assignments end before their lease")
	}
	l.pass(8 * time.Minute)
	if len(l.serves) != 0 || l.w.Stats().Expired != 2 {
		t.Errorf("%d assignments after their lease, %d expired", len(l.serves), l.w.Stats().Expired)
	}
}

// Changes that do not fit into one batch go into the next, and all arrive.
func TestBatchesAreBounded(t *testing.T) {
	for _, payload := range []int{0, MaxPayload} {
		l := newLab(t)
		all := l.members(1)
		const keys = maxChanges + 100
		for i := range keys {
			var key overlay.ID
			key[0], key[1], key[2] = all[0].id[0], byte(i>>8), byte(i)
			if err := l.w.Enlist(key, Order{N: 2, Interval: time.Minute, Payload: make([]byte, payload)}); err != nil {
				t.Fatal(err)
			}
		}
		got, batches := 0, 0
		for range 400 {
			l.pass(500 * time.Millisecond)
			if n := len(all[0].told(taken)); n > 0 {
				got += n
				batches++
			}
		}
		if got != keys {
			t.Errorf("%d of %d entries with %d bytes of payload arrived", got, keys, payload)
		}
		if least := keys * payload / maxBatch; batches < max(least, 2) {
			t.Errorf("%d batches", batches)
		}
	}
}

// An application may call the Wedge from within Serve.
func TestAssignmentsCanBeDeclinedWithinServe(t *testing.T) {
	l := newLab(t)
	a := l.members(10)[3]
	key := l.key(0)
	l.onServe = func() { l.w.Decline(key) }
	a.batch(entries(a.entry(key, Term{}, 5, "words")))
	if len(l.serves) > 0 {
		t.Error("serves what it declined")
	}
	l.pass(time.Minute)
	statuses := 0
	for _, m := range a.heard() {
		for _, status := range m.GetBatch().GetStatuses() {
			statuses++
			if status.Declined == 0 || status.Missing < status.Declined || int(status.Declined) != len(status.Ranks) {
				t.Errorf("told %v", status)
			}
		}
	}
	if statuses == 0 {
		t.Error("the parent is not told")
	}
}

// A node that is no longer a member takes part in no wedge.
func TestClientsServeNothing(t *testing.T) {
	l := newLab(t)
	a := l.members(3)[1]
	a.batch(entries(a.entry(l.key(0), Term{}, 1, "words")))
	if err := l.w.Enlist(l.key(1), Order{N: 4, Interval: time.Minute}); err != nil {
		t.Fatal(err)
	}
	l.pass(time.Second)
	l.node.Reachable(nil)
	l.pass(10 * time.Second)
	if st := l.w.Stats(); st.Records > 0 || len(l.serves) > 0 {
		t.Errorf("the node is %v and has %d memberships", l.node.State(), st.Records)
	}
	if err := l.w.Enlist(l.key(1), Order{N: 4, Interval: time.Minute}); err == nil {
		t.Error("gives an order")
	}
	e := a.entry(l.key(2), Term{}, 1, "words")
	if got := a.batch(entries(e))[e.Key]; got != wedgepb.Refusal_FULL {
		t.Errorf("answers %v", got)
	}
}

// Nodes on one goroutine share orders, and never confuse two.
func TestOrdersAreShared(t *testing.T) {
	s := NewOrderCache(4)
	an := func(i int, payload string) order {
		o := order{n: uint32(i), interval: time.Minute, payload: []byte(payload)}
		o.computeHashes()
		return o
	}
	buffer := []byte("words")
	o := an(1, "")
	o.payload = buffer
	o.computeHashes()
	first := s.intern(o, true)
	copy(buffer, "other")
	if again := s.intern(an(1, "words"), true); again != first || string(first.payload) != "words" {
		t.Error("equal orders are not shared, or hold a frame")
	}
	for i := 2; i < 6; i++ {
		s.intern(an(i, "words"), true)
	}
	if s.intern(an(1, "words"), true) != first {
		t.Error("forgotten too early")
	}
	for i := 10; i < 30; i++ {
		s.intern(an(i, "words"), true)
	}
	if len(s.recent)+len(s.older) > 8 || s.intern(an(1, "words"), true) == first {
		t.Error("nothing is forgotten")
	}
	false1 := an(40, "words")
	false2 := an(41, "words")
	false2.hash = false1.hash
	if a, b := s.intern(false1, true), s.intern(false2, true); a == b || b.n != 41 {
		t.Error("one order is taken for another of the same hash")
	}
}

func TestNoNumberIsTakenTwice(t *testing.T) {
	var s recentNumbers
	for i := range uint64(3 * maxRecentNumbers) {
		if !s.addNew(i) || s.addNew(i) {
			t.Fatalf("number %d", i)
		}
	}
	if len(s.recent) != maxRecentNumbers || s.addNew(3*maxRecentNumbers-1) || s.addNew(2*maxRecentNumbers) {
		t.Error(fmt.Sprint("remembers ", s.recent))
	}
}

// IsBroadcast accepts only whole frames that hold nothing but broadcasts.
func TestOnlyWholeFramesOfBroadcastsAreBroadcasts(t *testing.T) {
	downs := &wedgepb.Message{Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: 7, Messages: []*wedgepb.Broadcast{{Key: 1, Message: []byte("news")}}}}}
	frame := wire.Encode(downs)
	if !IsBroadcast(frame) {
		t.Error("a frame of broadcasts is not one")
	}
	for what, m := range map[string]*wedgepb.Message{
		"a batch":  {Body: &wedgepb.Message_Batch{Batch: &wedgepb.Batch{Life: 1, Number: 1}}},
		"an ack":   {Body: &wedgepb.Message_Ack{Ack: &wedgepb.Ack{Number: 1}}},
		"a digest": {Body: &wedgepb.Message_Digest{Digest: &wedgepb.Digest{Number: 1}}},
		"nothing":  {},
	} {
		other := wire.Encode(m)
		if IsBroadcast(other) || IsBroadcast(append(slices.Clip(frame), other...)) && len(other) > 0 {
			t.Errorf("%s counts as a broadcast", what)
		}
	}
	for n := range frame {
		if IsBroadcast(frame[:n]) {
			t.Errorf("%d of %d bytes count as a broadcast", n, len(frame))
		}
	}
}

// readBroadcasts agrees with proto.Unmarshal.
func FuzzReadBroadcasts(f *testing.F) {
	for _, m := range []*wedgepb.Broadcasts{
		{},
		{Number: 7, Messages: []*wedgepb.Broadcast{{Key: 1, Message: []byte("news")}}},
		{Number: 1 << 63, Messages: []*wedgepb.Broadcast{{}, {Key: 1 << 63, CatchUp: true}, {Message: []byte{}}}},
	} {
		frame := wire.Encode(&wedgepb.Message{Body: &wedgepb.Message_Broadcasts{Broadcasts: m}})
		if readBroadcasts(frame) == nil {
			f.Errorf("not read in place: %v", m)
		}
		f.Add(frame)
		f.Add(slices.Concat(frame, frame))
		f.Add(frame[:len(frame)-1])
	}
	f.Add([]byte{5<<3 | 2, 2, 2<<3 | 2, 5})            // an inner length beyond the outer one
	f.Add([]byte{5<<3 | 2, 4, 2<<3 | 2, 2, 3 << 3, 2}) // catch_up is neither 0 nor 1
	f.Fuzz(func(t *testing.T, frame []byte) {
		var want wedgepb.Message
		err := proto.Unmarshal(frame, &want)
		if got := readBroadcasts(frame); got != nil && (err != nil || !proto.Equal(got, &want)) {
			t.Errorf("%x: %v, want %v, %v", frame, got, &want, err)
		}
	})
}
