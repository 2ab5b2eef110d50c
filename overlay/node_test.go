package overlay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

func TestCountIsExactInTheLeafAndLearnedAboveIt(t *testing.T) {
	l := newLab(t)
	if n := l.boot(); n.Count(0) != 0 {
		t.Errorf("a node that is not a member counts %d", n.Count(0))
	}
	n := l.member()
	if n.Count(0) != 1 || n.Count(200) != 1 {
		t.Errorf("a network of one counts %d", n.Count(0))
	}
	bits := 0
	for bits < 4 {
		for _, a := range l.actorsNear(n.ID(), bits, 3) {
			l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
		}
		bits++
	}
	for d, want := range []int{13, 10, 7, 4, 1} {
		if n.Count(d) != want {
			t.Errorf("%d members share %d bits, it counts %d", want, d, n.Count(d))
		}
	}
	// With a leaf of depth four, members outside are known only through contacts and their
	// counts.
	n.leaf.Decide(l.now)
	n.leafUpkeep.setDepth(4)
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
	sum := 1
	n.EachSlot(func(row, col int, contact, spare *Contact, members int) {
		if spare != nil && contact == nil || contact != nil && (contact.ID.Common(n.ID()) >= 4 || contact.ID.Digit(row) != col) {
			t.Errorf("in slot (%d, %d) stand %v and %v", row, col, contact, spare)
		}
		if contact != nil {
			sum += members
		}
	})
	if sum != n.Count(0) {
		t.Errorf("slots and leaf have %d members of %d", sum, n.Count(0))
	}
}

func TestFailedMessageIsNotDeliveredLater(t *testing.T) {
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
	n.Reachable([]string{"here"}) // now the node is a network of its own, and the root of the key
	l.pass(time.Minute)
	if failed != 1 || len(box.got) != 0 {
		t.Errorf("failed %d times, delivered %q", failed, box.got)
	}
}

// False reports are counted, however many reporters there are.
func TestFalseReportsOfManyReportersAreCounted(t *testing.T) {
	g := deathReports{pending: map[env.PeerID]env.PeerID{}, falseReports: map[env.PeerID]falseReportCount{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	g.countFalse("liar", now)
	for i := range maxReporters {
		g.countFalse(env.PeerID(fmt.Sprint(i)), now)
	}
	for range maxFalseReports {
		g.countFalse("liar", now)
	}
	if g.trusts("liar", now) || len(g.falseReports) > maxReporters {
		t.Errorf("after %d false reports the reporter is still trusted, or %d reporters are counted", maxFalseReports+1, len(g.falseReports))
	}
}

// Peers without a place do not accumulate, nor do peers that only others have named.
func TestPeersWithoutAPlaceDoNotAccumulate(t *testing.T) {
	l := newLab(t)
	n := l.member()
	l.say(l.actor(1), probe(&overlaypb.Probe{Nonce: 1}))
	for i := range 200 {
		a := l.actor(i + 10)
		a.contact = l.client(a)
		key := Key("lab", fmt.Sprint(i))
		l.say(a, route(&overlaypb.Route{Id: uint64(i), Key: key[:], Layer: uint32(inboxLayer)}))
	}
	for i := range 200 { // the receipts go to peers that are forgotten by now
		l.say(l.actor(1), ack(&overlaypb.Ack{Id: uint64(i), Receipt: true, Root: make([]byte, 32)}))
	}
	if got := n.Stats().Peers; got > maxUnplaced+2 {
		t.Errorf("remembers %d peers", got)
	}
	a := l.actor(1)
	for i := range 20 {
		leaf := &overlaypb.Leaf{IdPrefixes: []uint64{1}}
		for j := range 100 {
			leaf.Records = append(leaf.Records, l.actor(1000+100*i+j).contact.Raw)
		}
		if err := l.say(a, &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: leaf}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Stats().Peers; got > maxCandidates+maxUnplaced+2 || got < maxCandidates {
		t.Errorf("waits for %d peers it has heard of", got)
	}
	for range 60 {
		l.pass(time.Second)
		l.answers(a)
		l.sent = nil
	}
	if got := n.Stats().Peers; got > maxUnplaced+2 || n.Leaf().Len() != 2 {
		t.Errorf("a minute later it remembers %d peers, %d in its leaf", got, n.Leaf().Len())
	}
}

func TestInvalidRecordsCountAgainstTheSender(t *testing.T) {
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
		t.Error("a member that never spoke is in the leaf")
	}
}

// A client that becomes a member is no longer a client, so it is not dropped for being silent
// as one.
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
	l.now = l.now.Add(time.Second) // the other way round: a member becomes a client
	a.contact = l.client(a)
	l.say(a, probe(&overlaypb.Probe{Nonce: 3, Attach: true}))
	if !n.ActsFor(a.id()) || n.Leaf().Len() != 1 {
		t.Errorf("acts for %d clients, %d in the leaf", n.Stats().Clients, n.Leaf().Len())
	}
}

func TestMemberRefusesMoreThanMaxClients(t *testing.T) {
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
	if got := n.Stats(); got.Clients != 0 || got.Peers > maxUnplaced {
		t.Errorf("after their silence it acts for %d clients, remembers %d peers", got.Clients, got.Peers)
	}
}

// A client whose nearest members are full asks others.
func TestClientAsksOthersIfTheNearestAreFull(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.DialBackTimeout = 0
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

// A decision about the depth that claims to be from the far future is not believed, because no
// later one could ever replace it.
func TestDecisionsFromTheFutureAreNotBelieved(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actorsNear(n.ID(), 9, 1)[0]
	at := func(d time.Duration) uint64 { return uint64(l.now.Add(d).UnixMilli()) }
	n.leafUpkeep.setDepth(6)
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
		if n.leaf.decided > n.latestDecision() || n.leaf.Depth() != c.depth {
			t.Fatalf("decided at %d: the leaf is at depth %d", c.decided, n.leaf.Depth())
		}
	}
}

func TestRepeatedAndUnsolicitedRepliesAreIgnored(t *testing.T) {
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

func TestDeadMemberIsReportedOnce(t *testing.T) {
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
		if m.GetDead() != nil {
			told++
		}
	}
	if told > 1 {
		t.Errorf("the other was told %d times", told)
	}
	// A report of b about a is ignored at first; a message of a itself is not.
	report := &overlaypb.Message{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Records: [][]byte{a.contact.Raw}}}}
	n.tombstones.add(a.contact, l.now, true)
	l.sent = nil
	l.say(b, report)
	if got := l.heard(a); len(got) > 0 {
		t.Errorf("probes a dead member: %v", got)
	}
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	if n.Leaf().Has(a.contact.ID) == nil {
		t.Error("a member that speaks is considered dead")
	}
}

func TestNodeThatLeftIsForgottenAndSilent(t *testing.T) {
	l := newLab(t)
	n := l.member()
	a := l.actor(1)
	l.say(a, probe(&overlaypb.Probe{Nonce: 1}))
	l.say(a, &overlaypb.Message{Body: &overlaypb.Message_Leave{Leave: &overlaypb.Leave{}}})
	if n.Leaf().Len() != 1 || len(n.tombstones.withPlace()) != 0 {
		t.Error("a peer that left is still in the leaf, or counts as dead")
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

// A stranger's claim that a key lies in its leaf is believed only if it is possible.
func TestMemberThatCannotCoverAKeyIsNotBelieved(t *testing.T) {
	l := newLab(t)
	n := l.boot()
	n.cfg.Founder = false
	far := l.actorsNear(n.ID(), 0, 1)[0]
	n.Reachable([]string{"here"})
	n.Found(far.contact.Peer)
	say := func(depth uint32) {
		l.say(far, &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{
			Nonce: n.join.nonce, Covers: true, Depth: depth, Records: [][]byte{far.contact.Raw},
		}}})
	}
	if say(5); n.State() != Alone {
		t.Errorf("%v through a peer that shares no bit with it and claims a leaf of depth five", n.State())
	}
	l.pass(20 * time.Second)
	say(0)
	l.pass(10 * time.Second) // meanwhile the lookup finds no other member
	if n.State() != Joining {
		t.Errorf("%v through a peer whose leaf is the whole network", n.State())
	}
}

func BenchmarkNextHop(b *testing.B) {
	l := newLab(b)
	n := l.member()
	for i := range 50 {
		l.say(l.actor(i+1), probe(&overlaypb.Probe{Nonce: 1}))
	}
	n.leafUpkeep.setDepth(2)
	key := Key("lab", "x")
	for b.Loop() {
		key[0] += 37
		n.nextHop(key, nil)
	}
}
