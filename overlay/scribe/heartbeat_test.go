package scribe

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tidings/overlay/scribe/scribepb"
)

// heartbeatsOf returns the heartbeats among messages.
func heartbeatsOf(of []*scribepb.Message) (beats []*scribepb.Heartbeat) {
	for _, m := range of {
		if b := m.GetHeartbeat(); b != nil {
			beats = append(beats, b)
		}
	}
	return beats
}

func (a *actor) ack(nonce uint64, match bool) {
	a.say(&scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{Nonce: nonce, Match: match}}})
}

// A peer that sends heartbeats serves both ends: this node sends none, its edges up are compared in
// the peer's heartbeats, and last as long.
func TestOneHeartbeatServesBothEnds(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	l.subscribed(a, a.of(0), 1)
	a.child(l.own(0), 1)
	l.pass(2 * weightDelay)
	link := l.s.links.byPeer[a.peer]
	a.heard()
	for range 30 {
		l.pass(10 * time.Second)
		a.say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{
			Nonce: 5, UpCount: 1, UpDigest: link.down.digest, DownCount: 1, DownDigest: link.up.digest,
		}}})
		got := a.heard()
		if kinds := kindsOf(got); !slices.Equal(kinds, []string{"HeartbeatAck"}) || !got[0].GetHeartbeatAck().GetMatch() {
			t.Fatalf("sent %v", kinds)
		}
	}
	if p, ok := l.s.Place(l.own(0)); !ok || len(p.Children) != 1 {
		t.Errorf("%+v", p)
	}
	l.pass(40 * time.Second) // the peer is silent
	if beats := heartbeatsOf(a.heard()); len(beats) == 0 || beats[0].DownCount != 1 || beats[0].DownDigest != link.down.digest {
		t.Errorf("heartbeats %v", beats)
	}
}

// A parent that restarted has no edges. Its own heartbeat reveals that, and the child lists its
// edges.
func TestEdgesMissingInAHeartbeatAreListed(t *testing.T) {
	l := newLab(t, Config{}).active()
	all := l.members(2, l.own(0))
	a, stranger := all[0], all[1]
	g := a.of(0)
	l.subscribed(a, g, 3)
	l.pass(2 * weightDelay)
	a.heard()
	beat := func(nonce uint64, held uint32) *scribepb.Message {
		return &scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: nonce, DownCount: held}}}
	}
	a.say(beat(7, 0))
	got := a.heard()
	if kinds := kindsOf(got); !slices.Equal(kinds, []string{"HeartbeatAck", "EdgeList"}) {
		t.Fatalf("sent %v", kinds)
	}
	list := got[1].GetEdgeList()
	if len(list.Edges) != 1 || !bytes.Equal(list.Edges[0].Group, g[:]) || list.Edges[0].Weight != 3 || list.Nonce != 7 || list.Partial {
		t.Errorf("list %v", list)
	}
	a.say(&scribepb.Message{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{g[:]}}}})
	if l.run(); len(l.joins(g)) < 2 {
		t.Error("does not look for a parent")
	}
	// A node without edges lists none for the whole range.
	stranger.say(beat(8, 2))
	got = stranger.heard()
	if kinds := kindsOf(got); !slices.Equal(kinds, []string{"HeartbeatAck", "EdgeList"}) {
		t.Fatalf("sent %v", kinds)
	}
	list = got[1].GetEdgeList()
	if len(list.Edges) != 0 || list.Nonce != 8 || !bytes.Equal(list.First, make([]byte, 32)) || !bytes.Equal(list.Last, bytes.Repeat([]byte{0xff}, 32)) {
		t.Errorf("list %v", list)
	}
}

// Edges that the peer does not list in answer to this node's heartbeat end.
func TestListInAnswerToAHeartbeat(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	l.subscribed(a, a.of(0), 1)
	for i := range 2 {
		a.route(l.own(i), a.join(l.own(i), 1))
	}
	a.heard()
	l.pass(40 * time.Second)
	beats := heartbeatsOf(a.heard())
	if len(beats) == 0 || beats[0].DownCount != 2 {
		t.Fatalf("heartbeats %v", beats)
	}
	nonce := l.s.links.byPeer[a.peer].renewal.own.nonce
	a.ack(nonce, true)
	id := l.own(1)
	a.say(&scribepb.Message{Body: &scribepb.Message_EdgeList{EdgeList: &scribepb.EdgeList{
		First: make([]byte, 32), Last: bytes.Repeat([]byte{0xff}, 32), Nonce: nonce, Edges: []*scribepb.Edge{{Group: id[:], Weight: 4}},
	}}})
	if p, _ := l.s.Place(l.own(0)); len(p.Children) != 0 {
		t.Error("is a parent of a peer that did not list the group")
	}
	if w, _ := l.s.Weight(l.own(1)); w != 4 {
		t.Errorf("weight %d", w)
	}
}

// With any number of parents, an idle node sends few messages, and its children wait accordingly
// longer.
func TestManyLinksMakeHeartbeatsRare(t *testing.T) {
	const parents = 300
	l := newLab(t, Config{}).active()
	all := l.members(parents, l.own(0))
	for _, a := range all {
		l.s.Join(a.of(0), 1)
	}
	l.pass(time.Second)
	for _, a := range all {
		if !l.accepted(a, a.of(0)) {
			t.Fatal("has no parent")
		}
	}
	child := all[0]
	child.route(l.own(0), child.join(l.own(0), 1))
	said := 0
	const rest = 8 * time.Minute
	for end := l.now.Add(rest); l.now.Before(end); {
		l.pass(time.Second)
		for _, a := range all {
			for _, b := range heartbeatsOf(a.heard()) {
				said++
				if want := uint32(maxHeartbeatPeriod / time.Second); b.PeriodS != want {
					t.Fatalf("a period of %d s with %d parents", b.PeriodS, parents)
				}
				a.say(&scribepb.Message{Body: &scribepb.Message_HeartbeatAck{HeartbeatAck: &scribepb.HeartbeatAck{
					Nonce: b.Nonce, Match: true, PeriodS: uint32(maxHeartbeatPeriod / time.Second),
				}}})
			}
		}
	}
	usual := parents * int(rest/maxHeartbeatPeriod)
	if said < usual*9/10 || said > usual*12/10 {
		t.Errorf("%d heartbeats, not some %d", said, usual)
	}
	if p, _ := l.s.Place(l.own(0)); len(p.Children) != 1 {
		t.Error("the child was dropped")
	}
}

// A connection breaks also when its other end restarts: the edges are compared before anything is
// missed.
func TestBrokenConnectionCausesAHeartbeat(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	l.subscribed(a, a.of(0), 1)
	l.pass(time.Second)
	a.heard()
	l.s.PeerDown(a.peer)
	l.pass(2 * reconnectDelay)
	if beats := heartbeatsOf(a.heard()); len(beats) == 0 {
		t.Error("no heartbeat")
	}
	l.s.PeerDown("nobody that is known")
}

// A peer with wrong digests receives a list once, and again only after a time that depends on its
// length, since a few bytes would otherwise cause hundreds of kilobytes each time.
func TestListsForWrongDigestsAreRateLimited(t *testing.T) {
	const groups = 100
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	for i := range groups {
		l.s.Join(a.of(i), 1)
	}
	l.pass(time.Second)
	for i := range groups {
		if !l.accepted(a, a.of(i)) {
			t.Fatal("has no parent")
		}
	}
	a.heard()
	wrong := &scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 5}}}
	for range 50 {
		a.say(wrong)
	}
	got := a.heard()
	if acks, lists := count(got, "HeartbeatAck"), count(got, "EdgeList"); acks != 50 || lists != 1 {
		t.Errorf("%d answers, %d lists", acks, lists)
	}
	l.pass(groups * timePerListedEdge)
	if a.say(wrong); count(a.heard(), "EdgeList") != 1 {
		t.Error("no second list")
	}
}

// A peer may send any number of heartbeats: this node has one plan for its own, which is due when
// the peer falls silent.
func TestAFloodOfHeartbeatsIsOnePlan(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	a.route(l.own(0), a.join(l.own(0), 1))
	before := l.s.cal.Len()
	for range 1000 {
		a.say(&scribepb.Message{Body: &scribepb.Message_Heartbeat{Heartbeat: &scribepb.Heartbeat{Nonce: 5}}})
	}
	if n := l.s.cal.Len() - before; n > 10 {
		t.Errorf("%d entries in the calendar", n)
	}
	a.heard()
	if l.pass(40 * time.Second); len(heartbeatsOf(a.heard())) == 0 {
		t.Error("no heartbeat")
	}
}

// A node without edges up on a link sends heartbeats all the same, and so postpones the peer's.
// Edges that only the peer has end by the answer; otherwise they would last as long as the peer,
// which may have more links, sends no heartbeat.
func TestANodeWithoutEdgesUpListsNone(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	a.route(l.own(0), a.join(l.own(0), 1))
	a.heard()
	var beats []*scribepb.Heartbeat
	for range 400 {
		l.pass(100 * time.Millisecond)
		if beats = heartbeatsOf(a.heard()); len(beats) > 0 {
			break
		}
	}
	if len(beats) != 1 || beats[0].UpCount != 0 || beats[0].DownCount != 1 {
		t.Fatalf("heartbeats %v", beats)
	}
	nonce := beats[0].Nonce
	a.ack(nonce, false)
	got := a.heard()
	if kinds := kindsOf(got); !slices.Equal(kinds, []string{"EdgeList"}) {
		t.Fatalf("sent %v", kinds)
	}
	if list := got[0].GetEdgeList(); len(list.Edges) != 0 || list.Partial || list.Nonce != nonce {
		t.Errorf("list %v", list)
	}
}
