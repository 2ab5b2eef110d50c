package overlay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

func TestCountIsExactInTheLeafAndLearnedAboveIt(t *testing.T) {
	l := newLab(t)
	if n := l.boot(); n.Count(0) != 0 {
		t.Errorf("who is no member counts %d", n.Count(0))
	}
	n := l.member()
	if n.Count(0) != 1 || n.Count(200) != 1 {
		t.Errorf("a network of one counts %d", n.Count(0))
	}
	bits := 0
	for bits < 4 {
		for _, a := range l.near(n.ID(), bits, 3) {
			l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
		}
		bits++
	}
	for d, want := range []int{13, 10, 7, 4, 1} {
		if n.Count(d) != want {
			t.Errorf("%d members share %d bits, it counts %d", want, d, n.Count(d))
		}
	}
	// With a leaf of four bits those outside are known by contacts and what they say.
	n.leaf.Decide(l.now)
	n.setDepth(4)
	slots := 0
	n.table.each(4, func(_, _ int, s *slot) {
		if s.contact != nil {
			slots++
		}
	})
	if n.Count(0) != 1+slots {
		t.Errorf("counts %d of %d contacts that have said nothing", n.Count(0), slots)
	}
	n.table.each(4, func(_, _ int, s *slot) { s.count, s.counted = 5, true })
	if n.Count(0) != 1+5*slots || n.Count(4) != 1 {
		t.Errorf("counts %d, and %d in the leaf", n.Count(0), n.Count(4))
	}
}

func TestGivenUpMessageIsGivenUp(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	box := &inbox{}
	n.Handle(inboxLayer, box)
	failed := 0
	n.Route(inboxLayer, Key("lab", "x"), []byte("too early"), func(_ Receipt, ok bool) {
		if !ok {
			failed++
		}
	})
	l.pass(2 * time.Minute)
	n.Reachable([]string{"here"}) // now it is a network, and would be the root
	l.pass(time.Minute)
	if failed != 1 || len(box.got) != 0 {
		t.Errorf("failed %d times, delivered %q", failed, box.got)
	}
}

// A hop that has dropped a message knows it again when its origin tries once
// more, and passes on what it says.
func TestDroppedMessageIsPassedOnWhenItComesAgain(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := Key("lab", "key")
	for i := 0; !Nearer(key, root.contact.ID, n.ID()) || !Nearer(key, root.contact.ID, origin.contact.ID); i++ {
		key = Key("lab", fmt.Sprint(i))
	}
	r := &overlaypb.Route{Id: 7, Key: key[:], Layer: uint32(inboxLayer), Payload: []byte("news")}
	l.heard(root)
	l.say(origin, route(proto.Clone(r).(*overlaypb.Route)))
	for range 30 { // root lives, but takes nothing over
		l.pass(time.Second)
		l.answers(root)
		l.answers(origin)
	}
	if n.ways.load != 0 {
		t.Errorf("%d bytes of payload are kept for nothing", n.ways.load)
	}
	r.Try = 1
	l.heard(root)
	l.say(origin, route(r))
	got := l.heard(root)
	i := slices.IndexFunc(got, func(m *overlaypb.Message) bool { return m.GetRoute() != nil })
	if i < 0 || string(got[i].GetRoute().Payload) != "news" || got[i].GetRoute().Try != 1 {
		t.Errorf("passed on: %v", got)
	}
}

// A receipt that comes while the message waits to be sent again ends the matter.
func TestReceiptEndsTheWaiting(t *testing.T) {
	l := newLab(t)
	n := l.member()
	box := &inbox{}
	n.Handle(inboxLayer, box)
	done := 0
	w := &passage{id: 9, msg: Message{Key: n.ID(), Layer: inboxLayer, Payload: []byte("x")}, done: func(Receipt, bool) { done++ }, deadline: l.now.Add(time.Minute)}
	n.enter(w, l.now)
	n.hold(w)
	root := l.actor(1)
	l.say(root, ack(&overlaypb.Ack{Id: 9, Receipt: true, Root: root.contact.ID[:]}))
	n.release()
	l.pass(10 * time.Second)
	if done != 1 || len(box.got) != 0 || len(n.held) != 0 || n.ways.load != 0 {
		t.Errorf("done %d times, delivered %q, %d held", done, box.got, len(n.held))
	}
}

// A receipt says which attempt the root took, at the origin and on its way there,
// although a later one has been sent since.
func TestReceiptNamesTheAttempt(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := root.contact.ID
	for _, attempt := range []uint32{0, 1} {
		var got []Receipt
		n.Route(inboxLayer, key, nil, func(r Receipt, ok bool) { got = append(got, r) })
		var sent *overlaypb.Route
		for sent == nil || sent.Try < 1 {
			l.pass(time.Second)
			for _, m := range l.heard(root) {
				if m.GetRoute() != nil {
					sent = m.GetRoute()
					l.say(root, ack(&overlaypb.Ack{Id: sent.Id, Try: sent.Try}))
				}
			}
		}
		l.say(root, ack(&overlaypb.Ack{Id: sent.Id, Try: attempt, Receipt: true, Root: key[:], Hops: 1}))
		if len(got) != 1 || got[0] != (Receipt{Root: key, Hops: 1, Try: int(attempt)}) {
			t.Errorf("attempt %d: %+v", attempt, got)
		}

		id := uint64(7 + attempt)
		for try := range uint32(2) {
			l.say(origin, route(&overlaypb.Route{Id: id, Try: try, Key: key[:], Layer: uint32(inboxLayer)}))
		}
		l.heard(origin)
		l.say(root, ack(&overlaypb.Ack{Id: id, Try: attempt, Receipt: true, Root: key[:]}))
		if back := l.heard(origin); len(back) != 1 || back[0].GetAck().GetTry() != attempt {
			t.Errorf("attempt %d: passed back: %v", attempt, back)
		}
	}
}

// What waits for a node that does not become a member is dropped with its payload.
func TestWhatIsHeldTooLongIsDropped(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	key := ID{1}
	for id := range uint64(10) {
		l.say(a, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, MaxPayload)}))
	}
	if n.ways.load != 10*MaxPayload {
		t.Fatalf("%d bytes are held", n.ways.load)
	}
	l.pass(2 * hopLimit)
	if n.ways.load != 0 || n.stats.Dropped != 10 {
		t.Errorf("%d bytes are left, %d messages dropped", n.ways.load, n.stats.Dropped)
	}
}

// What finds no room to wait is dropped with its payload, and heard of when it comes again.
func TestWhatCannotBeHeldIsDropped(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	key := ID{1}
	for id := range uint64(maxHeld + 10) {
		l.say(a, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, 100)}))
	}
	if n.ways.load != maxHeld*100 || n.stats.Dropped != 10 || len(n.held) != maxHeld {
		t.Errorf("%d bytes are kept, %d messages held, %d dropped", n.ways.load, len(n.held), n.stats.Dropped)
	}
	n.unhold(n.held[0])
	l.say(a, route(&overlaypb.Route{Id: maxHeld, Try: 1, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, 100)}))
	if last := n.held[len(n.held)-1]; last.id != maxHeld || len(last.msg.Payload) != 100 {
		t.Errorf("message %d was held last, with %d bytes", last.id, len(last.msg.Payload))
	}
}

// However many cry, a liar's false words count.
func TestCriersAreCounted(t *testing.T) {
	g := gossip{by: map[env.PeerID]env.PeerID{}, cries: map[env.PeerID]cry{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g.wrong("liar", now)
	for i := range maxCriers {
		g.wrong(env.PeerID(fmt.Sprint(i)), now)
	}
	for range maxCries {
		g.wrong("liar", now)
	}
	if g.heeds("liar", now) || len(g.cries) > maxCriers {
		t.Errorf("after %d false words it is heeded, or %d are counted", maxCries+1, len(g.cries))
	}
}

// A hop keeps a payload until the next has taken it over, and no more than
// maxLoad of them; what it remembers of a message ends after wayLife.
func TestPayloadsOfOthersAreBounded(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(origin, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	key := root.contact.ID
	send := func(id uint64) {
		l.sent = nil
		l.say(origin, route(&overlaypb.Route{Id: id, Key: key[:], Layer: uint32(inboxLayer), Payload: make([]byte, MaxPayload)}))
	}
	const many = 2 * maxLoad / MaxPayload
	for id := range uint64(many) {
		send(id)
	}
	if n.ways.load > maxLoad+MaxPayload || n.stats.Dropped < many/2-2 {
		t.Errorf("keeps %d bytes, dropped %d messages", n.ways.load, n.stats.Dropped)
	}
	load := n.ways.load
	for id := range uint64(10) {
		l.say(root, ack(&overlaypb.Ack{Id: id}))
	}
	if n.ways.load != load-10*MaxPayload {
		t.Errorf("of ten that were taken over, %d bytes are left", n.ways.load-load+10*MaxPayload)
	}
	l.pass(2 * wayLife)
	if n.ways.load != 0 || n.Stats().Passages != 0 {
		t.Errorf("in the end %d bytes in %d messages are kept", n.ways.load, n.Stats().Passages)
	}
}

// What a receipt carries beside the receipt goes no farther, so that it cannot
// grow over a frame on its way back.
func TestReceiptIsPassedOnBare(t *testing.T) {
	l := newLab(t)
	n := l.member()
	origin, root := l.actor(1), l.actor(2)
	l.say(root, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(origin, route(&overlaypb.Route{Id: 7, Key: root.contact.ID[:], Layer: uint32(inboxLayer)}))
	n.peers.get(origin.id()).told = false
	a := &overlaypb.Ack{Id: 7, Receipt: true, Root: root.contact.ID[:]}
	a.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, 64<<10-400)))
	l.heard(origin)
	l.say(root, &overlaypb.Message{Body: &overlaypb.Message_Ack{Ack: a}})
	got := l.heard(origin)
	if len(got) != 1 || !got[0].GetAck().GetReceipt() || proto.Size(got[0]) > 1000 {
		t.Errorf("%d messages for the origin", len(got))
	}
}

// Peers that pass by do not add up, nor do those of whom only others speak.
func TestStrangersDoNotAddUp(t *testing.T) {
	l := newLab(t)
	n := l.member()
	l.say(l.actor(1), probe(&overlaypb.Probe{Nonce: 1}))
	for i := range 200 {
		a := l.actor(i + 10)
		a.contact = l.client(a)
		key := Key("lab", fmt.Sprint(i))
		l.say(a, route(&overlaypb.Route{Id: uint64(i), Key: key[:], Layer: uint32(inboxLayer)}))
	}
	for i := range 200 { // receipts go back to those that are forgotten by now
		l.say(l.actor(1), ack(&overlaypb.Ack{Id: uint64(i), Receipt: true, Root: make([]byte, 32)}))
	}
	if got := n.Stats().Peers; got > maxStrangers+2 {
		t.Errorf("remembers %d peers", got)
	}
	a := l.actor(1)
	for i := range 20 {
		leaf := &overlaypb.Leaf{Ids: []uint64{1}}
		for j := range 100 {
			leaf.Records = append(leaf.Records, l.actor(1000+100*i+j).contact.Raw)
		}
		if err := l.say(a, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: leaf}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Stats().Peers; got > maxCandidates+maxStrangers+2 || got < maxCandidates {
		t.Errorf("waits for %d peers it has heard of", got)
	}
	for range 60 {
		l.pass(time.Second)
		l.answers(a)
		l.sent = nil
	}
	if got := n.Stats().Peers; got > maxStrangers+2 || n.Leaf().Len() != 2 {
		t.Errorf("a minute later it remembers %d peers, %d in its leaf", got, n.Leaf().Len())
	}
}

func TestRecordsThatAreNoneAreHeldAgainstWhoPassesThemOn(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a, b := l.actor(1), l.actor(2)
	for what, m := range map[string]*overlaypb.Message{
		"another's as its own": {Record: b.contact.Raw, Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}},
		"none as its own":      {Record: []byte("x"), Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}},
		"none in a leaf":       {Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Records: [][]byte{[]byte("x")}}}},
		"no body":              {},
	} {
		before := n.Stats().Garbage
		if err := l.say(a, m); err == nil || n.Stats().Garbage == before {
			t.Errorf("%s: %v, counted %d", what, err, n.Stats().Garbage-before)
		}
	}
	if n.Leaf().Has(b.contact.ID) != nil {
		t.Error("who never spoke is a member of the leaf")
	}
}

// A client that becomes a member is a client no longer: its silence as one is
// not held against it.
func TestClientThatBecomesAMemberStays(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actor(1)
	l.now = l.now.Add(time.Second)
	a.contact = l.client(a)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1, Attach: true}))
	if !n.ActsFor(a.id()) || n.Stats().Clients != 1 || n.Leaf().Len() != 1 {
		t.Fatalf("acts for %d clients, %d in the leaf", n.Stats().Clients, n.Leaf().Len())
	}
	l.now = l.now.Add(time.Second)
	a = l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 2}))
	if n.ActsFor(a.id()) || n.Stats().Clients != 0 || n.Leaf().Len() != 2 {
		t.Errorf("acts for %d clients, %d in the leaf", n.Stats().Clients, n.Leaf().Len())
	}
	l.now = l.now.Add(time.Second) // and the other way round
	a.contact = l.client(a)
	l.say(a, probe(&overlaypb.Probe{Nonce: 3, Attach: true}))
	if !n.ActsFor(a.id()) || n.Leaf().Len() != 1 {
		t.Errorf("acts for %d clients, %d in the leaf", n.Stats().Clients, n.Leaf().Len())
	}
}

func TestMembersActForSoManyClientsAndNoMore(t *testing.T) {
	l := newLab(t)
	n := l.member()
	for i := range maxClients + 5 {
		a := l.actor(i + 1)
		a.contact = l.client(a)
		l.say(a, probe(&overlaypb.Probe{Nonce: 1, Attach: true}))
		for _, m := range l.heard(a) {
			if p := m.GetProbe(); p != nil && p.Reply && p.Attach != (i < maxClients) {
				t.Errorf("client %d: granted %v", i, p.Attach)
			}
		}
	}
	l.pass(clientSilence*n.cfg.WatchInterval + 2*n.cfg.WatchInterval)
	if got := n.Stats(); got.Clients != 0 || got.Peers > maxStrangers {
		t.Errorf("after their silence it acts for %d clients, remembers %d peers", got.Clients, got.Peers)
	}
}

// A client whose nearest members have no room asks others.
func TestClientAsksElsewhere(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.RolePatience = 0
	n.cfg.Founder = false
	var members []*actor
	nearby := &overlaypb.Nearby{Covers: true}
	for i := range 4 {
		members = append(members, l.actor(i+1))
		nearby.Records = append(nearby.Records, members[i].contact.Raw)
	}
	slices.SortFunc(members, func(a, b *actor) int {
		if Nearer(n.ID(), a.contact.ID, b.contact.ID) {
			return -1
		}
		return 1
	})
	n.Found(members[3].contact.Peer)
	nearby.Nonce = n.join.nonce
	l.say(members[3], &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: nearby}})
	for i := range 5 {
		for j, a := range members {
			for _, m := range l.heard(a) {
				if p := m.GetProbe(); p != nil && !p.Reply {
					if !p.Attach {
						t.Errorf("round %d: asks member %d for nothing", i, j)
					}
					l.say(a, probe(&overlaypb.Probe{Nonce: p.Nonce, Reply: true, Attach: j >= 2}))
				}
			}
		}
		l.pass(100 * time.Millisecond)
	}
	hosts := n.Hosts()
	if n.State() != Attached || len(hosts) != 2 || hosts[0].ID != members[2].contact.ID && hosts[1].ID != members[2].contact.ID {
		t.Errorf("%v, with %d members acting for it", n.State(), len(hosts))
	}
}

// A decision about the depth of the leaf that claims to be of a far future is not
// believed: no later one could ever take its place.
func TestDecisionsFromTheFutureAreNotBelieved(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.near(n.ID(), 9, 1)[0]
	at := func(d time.Duration) uint64 { return uint64(l.now.Add(d).UnixMilli()) }
	n.setDepth(6)
	for _, c := range []struct {
		decided uint64
		depth   int
	}{
		{^uint64(0), 6},
		{at(2 * maxAhead), 6},
		{at(time.Minute), 5},
		{at(0), 5}, // earlier than the last
		{at(2 * time.Minute), 4},
	} {
		l.say(a, probe(&overlaypb.Probe{Nonce: 1, Depth: 0, Decided: c.decided}))
		if n.leaf.decided > n.latest() || n.leaf.Depth() != c.depth {
			t.Fatalf("decided at %d: the leaf is at depth %d", c.decided, n.leaf.Depth())
		}
	}
}

func TestRepeatedAndUnaskedRepliesSayNothing(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 0, Reply: true}))
	if p := n.peers.get(a.id()); p.rtt != 0 || p.acked {
		t.Errorf("a reply that was not asked for: round trip %v, acknowledged %v", p.rtt, p.acked)
	}
	l.heard(a)
	n.Suspect(a.id())
	asked := l.heard(a)[0].GetProbe()
	l.now = l.now.Add(50 * time.Millisecond)
	reply := &overlaypb.Probe{Nonce: asked.Nonce, Reply: true}
	l.say(a, probe(reply))
	if got := n.RTO(a.id()); got != minRTO {
		t.Errorf("timeout %v after one reply", got)
	}
	l.now = l.now.Add(time.Hour)
	l.say(a, probe(reply))
	if got := n.RTO(a.id()); got != minRTO {
		t.Errorf("timeout %v after the same reply an hour later", got)
	}
}

func TestDeadMemberIsMissedOnce(t *testing.T) {
	l := newLab(t)
	n := l.member()
	box := &inbox{}
	n.Handle(inboxLayer, box)
	a, b := l.actor(1), l.actor(2)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(b, probe(&overlaypb.Probe{Nonce: 1}))
	n.Watch(a.contact)
	for range 60 {
		l.pass(time.Second)
		l.answers(b)
	}
	if n.Leaf().Has(a.contact.ID) != nil || n.Leaf().Has(b.contact.ID) == nil || n.Stats().Deaths != 1 || !slices.Equal(box.gone, []env.PeerID{a.id()}) {
		t.Errorf("%d in the leaf, %d deaths, gone: %d", n.Leaf().Len(), n.Stats().Deaths, len(box.gone))
	}
	told := 0
	for _, m := range l.heard(b) {
		if m.GetGone() != nil {
			told++
		}
	}
	if told > 1 {
		t.Errorf("the other was told %d times", told)
	}
	// What b says of a is not heeded at once, what a says itself is.
	hearsay := &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Records: [][]byte{a.contact.Raw}}}}
	n.dead.bury(a.contact, l.now, true)
	l.sent = nil
	l.say(b, hearsay)
	if got := l.heard(a); len(got) > 0 {
		t.Errorf("asks the dead: %v", got)
	}
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	if n.Leaf().Has(a.contact.ID) == nil {
		t.Error("who speaks is taken for dead")
	}
}

func TestWhoLeavesIsGoneAndSilent(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(a, &overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}})
	if n.Leaf().Len() != 1 || len(n.dead.missed()) != 0 {
		t.Error("who left is there, or is missed")
	}
	l.say(l.actor(2), probe(&overlaypb.Probe{Nonce: 1}))
	n.Leave()
	l.sent = nil
	failed := false
	n.Route(inboxLayer, ID{}, nil, func(_ Receipt, ok bool) { failed = !ok })
	l.say(l.actor(2), probe(&overlaypb.Probe{Nonce: 2}))
	l.pass(time.Hour)
	if len(l.sent) > 0 || !failed || n.State() != Left {
		t.Errorf("sent %d messages after it had left", len(l.sent))
	}
}

// The claim of a stranger that a key lies in its leaf counts only if it can.
func TestOnlyWhoCanCoverAKeyIsBelievedToCoverIt(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.Founder = false
	far := l.near(n.ID(), 0, 1)[0]
	n.Reachable([]string{"here"})
	n.Found(far.contact.Peer)
	say := func(depth uint32) {
		l.say(far, &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{
			Nonce: n.join.nonce, Covers: true, Depth: depth, Records: [][]byte{far.contact.Raw},
		}}})
	}
	if say(5); n.State() != Alone {
		t.Errorf("%v through one who shares no bit with it and says that its leaf is five deep", n.State())
	}
	l.pass(20 * time.Second)
	say(0)
	l.pass(10 * time.Second) // in which nobody else is found who says otherwise
	if n.State() != Joining {
		t.Errorf("%v through one whose leaf is everybody", n.State())
	}
}

func BenchmarkNextHop(b *testing.B) {
	l := newLab(b)
	n := l.member()
	for i := range 50 {
		l.say(l.actor(i+1), probe(&overlaypb.Probe{Nonce: 1}))
	}
	n.setDepth(2)
	key := Key("lab", "x")
	for b.Loop() {
		key[0] += 37
		n.nextHop(key, nil)
	}
}
