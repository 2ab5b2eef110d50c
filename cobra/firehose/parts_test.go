package firehose

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A report arrives complete although a part and an acknowledgement are lost, and leaves nothing behind on either side.
func TestALargeReportArrivesInParts(t *testing.T) {
	l := newLab(t, Config{})
	sender, receiver := newTransfers(l.d), newTransfers(l.d)
	report := bytes.Repeat([]byte("report "), 20<<10)
	var answers []answer
	sender.start(0, env.Peer{ID: "receiver"}, report, func(a answer) { answers = append(answers, a) })
	var arrived []byte
	exchange := func() {
		for i := 0; len(l.sent) > 0; i++ {
			part := l.sent[0].m.GetPart()
			l.sent = l.sent[1:]
			if l.now.Second() == 0 && i == 1 {
				continue // the second part is lost
			}
			ack := &firehosepb.PartAck{Report: part.Report}
			if b := receiver.receive("sender", part, ack, l.now); b != nil {
				arrived = b
			}
			if l.now.Second() == 1 && i == 0 {
				continue // the acknowledgement of the repeated part is lost
			}
			sender.onAck("receiver", ack)
		}
	}
	exchange()
	for range 10 {
		l.pass(time.Second, func(t task) { sender.partTimeout(transferID{t.peer, t.entry}, l.now) })
		exchange()
	}
	if !bytes.Equal(arrived, report) {
		t.Errorf("%d of %d bytes arrived", len(arrived), len(report))
	}
	if len(answers) != 1 || !answers[0].accepted {
		t.Errorf("answers %v, want one that accepts", answers)
	}
	if sender.bytes != 0 || receiver.bytes != 0 || len(receiver.incomingBytes) != 0 {
		t.Errorf("%d and %d bytes are still counted", sender.bytes, receiver.bytes)
	}
}

// A peer that does not answer is given up, and one sender cannot occupy the memory of all.
func TestTransfersAreBounded(t *testing.T) {
	l := newLab(t, Config{})
	tr := newTransfers(l.d)
	var answers []answer
	tr.start(0, env.Peer{ID: "dead"}, []byte("report"), func(a answer) { answers = append(answers, a) })
	l.pass(time.Minute, func(t task) { tr.partTimeout(transferID{t.peer, t.entry}, l.now) })
	if len(l.sent) != maxPartTries || len(answers) != 1 || answers[0].accepted || tr.bytes != 0 {
		t.Errorf("%d tries, answers %v, %d bytes left", len(l.sent), answers, tr.bytes)
	}
	accepted := func(from env.PeerID, n int) bool {
		ack := &firehosepb.PartAck{}
		hash := owner.Hash{byte(n), byte(n >> 8)}
		tr.receive(from, &firehosepb.Part{Report: hash[:], Size: 1 << 20, Bytes: make([]byte, 1)}, ack, l.now)
		return ack.Received > 0
	}
	for i := range maxPeerBytes >> 20 {
		if !accepted("greedy", i) {
			t.Fatalf("transfer %d was refused", i)
		}
	}
	if accepted("greedy", 100) || !accepted("modest", 0) {
		t.Error("one sender's share is not bounded, or bounds the others")
	}
	l.now = l.now.Add(incomingTimeout + time.Second)
	if tr.dropStale(l.now); tr.bytes != 0 || !accepted("greedy", 100) {
		t.Error("transfers that stopped were not dropped")
	}
}

// A report is finished when a quorum has accepted it and the other owners had time to answer. Without filters the reporter
// pauses.
func TestAReportNeedsAQuorum(t *testing.T) {
	l := newLab(t, Config{})
	tr := newTransfers(l.d)
	r := &reporter{place: l.place("a", "b", "c"), transfers: tr, reports: map[owner.Hash]*report{}}
	run := func(t task) {
		if t.kind == taskRetryReport {
			r.retry(t.entry, l.now)
		}
	}
	acknowledge := func(from env.PeerID, idle bool) {
		for _, s := range l.sent {
			if p := s.m.GetPart(); s.to == from && p != nil {
				tr.onAck(from, &firehosepb.PartAck{Report: p.Report, Received: p.Size, Idle: idle})
			}
		}
	}
	epoch := &owner.Epoch{Sequencer: wire.PeerIDOf(make([]byte, 32))}
	r.add(Dispatch{URL: "http://a.example/1", Entry: l.entry(1, 0)}, epoch)
	acknowledge("a", false)
	l.pass(reportRetry, run)
	if len(r.reports) != 1 {
		t.Fatal("one owner of three is no quorum")
	}
	acknowledge("b", false)
	if len(r.reports) != 0 {
		t.Error("the report is not finished, although a quorum has it and the third owner had time to answer")
	}
	l.sent = nil
	r.add(Dispatch{URL: "http://a.example/2", Entry: l.entry(2, 0)}, epoch)
	for _, p := range []env.PeerID{"a", "b", "c"} {
		acknowledge(p, true)
	}
	r.add(Dispatch{URL: "http://a.example/3", Entry: l.entry(3, 0)}, epoch)
	if l.d.stats.NoListener != 1 || len(r.reports) != 0 {
		t.Errorf("%d entries were not reported, want 1, because no filter listens", l.d.stats.NoListener)
	}
	l.pass(idlePause, run)
	if r.add(Dispatch{URL: "http://a.example/4", Entry: l.entry(4, 0)}, epoch); len(r.reports) != 1 {
		t.Error("the pause does not end")
	}
	l.pass(reportDeadline+2*reportRetry, run)
	if len(r.reports) != 0 || l.d.stats.Unreported != 1 {
		t.Error("a report that no owner answers is not given up")
	}
}

// The second owner broadcasts an entry only if it has not heard the broadcast of the first in time.
func TestTheSecondOwnerStandsIn(t *testing.T) {
	l := newLab(t, Config{})
	p := l.place("first", "self")
	k := newKeeper(p, newTopic(p, l, nil))
	k.owned, k.ownedSince = true, l.now
	heard, unheard := Dispatch{Entry: l.entry(1, 0)}, Dispatch{Entry: l.entry(2, 0)}
	k.add(heard, []byte("1"), l.now, false)
	k.add(unheard, []byte("2"), l.now, false)
	if !k.onPublished(heard, []byte("1"), l.now) || k.onPublished(heard, []byte("1"), l.now) {
		t.Error("only the first broadcast of an entry is news")
	}
	l.pass(rankDelay, func(t task) { k.publishTimeout(t.entry, l.now) })
	if len(l.published) != 1 || string(l.published[0].Dispatch) != "2" || l.d.stats.Rescued != 1 {
		t.Errorf("published %v, want the entry that the first owner did not broadcast", l.published)
	}
}

// An entry whose bytes were dropped before this node's turn to broadcast is listed, so that filters ask for it.
func TestADroppedEntryIsListed(t *testing.T) {
	l := newLab(t, Config{})
	p := l.place("first", "self")
	k := newKeeper(p, newTopic(p, l, nil))
	k.owned, k.ownedSince = true, l.now
	k.add(Dispatch{Entry: l.entry(1, 0)}, []byte("1"), l.now, false)
	k.add(Dispatch{Entry: l.entry(2, 0)}, make([]byte, maxEntryBytes), l.now, true)
	l.pass(rankDelay, func(t task) { k.publishTimeout(t.entry, l.now) })
	if len(l.published) != 1 || len(l.published[0].List.GetEntries()) != 1 || owner.Hash(l.published[0].List.Entries[0].Entry) != (owner.Hash{1}) {
		t.Errorf("published %v, want a list of the entry", l.published)
	}
}

// An owner that is no filter remembers no entries as delivered, and asks once for an entry that nobody has.
func TestAnOwnerDoesNotRememberForever(t *testing.T) {
	l := newLab(t, Config{Shards: 1})
	p := l.place("first", "self")
	s := &shard{place: p}
	s.keeper = newKeeper(p, newTopic(p, l, nil))
	s.keeper.owned = true
	s.filter, s.requests = newFilter(p, s.keeper, newProgress(l.d, l), nil), newRequests(p)
	refs := []*firehosepb.EntryRef{l.ref(1)}
	s.onList("first", refs, l.now)
	l.pass(2*time.Minute, func(t task) { s.retryRequest(t.entry, l.now) })
	s.onList("first", refs, l.now)
	if l.d.stats.Missed != 1 || len(s.requests.missing) != 0 || len(s.filter.received) != 0 {
		t.Errorf("missed %d, asks for %d, remembers %d", l.d.stats.Missed, len(s.requests.missing), len(s.filter.received))
	}
}

// Owners with other entries of a minute find that minute, and owners with the same entries find none.
func TestOwnersFindTheMinutesThatDiffer(t *testing.T) {
	l := newLab(t, Config{})
	keepers := make([]*keeper, 2)
	for i := range keepers {
		p := l.place("self")
		keepers[i] = newKeeper(p, newTopic(p, l, nil))
		keepers[i].owned = true
		for n := range byte(30) {
			keepers[i].add(Dispatch{Entry: l.entry(n, time.Duration(n)*time.Minute)}, nil, l.now, true)
		}
	}
	a, b := keepers[0], keepers[1]
	if m := a.differing(b.sums(l.now), l.now); len(m) > 0 {
		t.Errorf("equal owners differ in %d minutes", len(m))
	}
	a.add(Dispatch{Entry: l.entry(100, 10*time.Minute)}, nil, l.now, true)
	b.add(Dispatch{Entry: l.entry(101, 40*time.Minute)}, nil, l.now, true)
	b.add(Dispatch{Entry: l.entry(102, time.Minute)}, nil, l.now, true) // may still be on its way
	want := []uint32{minuteOf(l.now.Add(-40 * time.Minute)), minuteOf(l.now.Add(-10 * time.Minute))}
	for _, m := range [][]uint32{a.differing(b.sums(l.now), l.now), b.differing(a.sums(l.now), l.now)} {
		if !slices.Equal(m, want) {
			t.Errorf("minutes %v differ, want %v", m, want)
		}
	}
}

// Digests split at the limit and continue each other, and an owner that is replaced forgets everything.
func TestDigestsContinueEachOther(t *testing.T) {
	l := newLab(t, Config{})
	p := l.place("self")
	k := newKeeper(p, newTopic(p, l, nil))
	l.owned = l.epoch
	k.run(l.now)
	start := l.now
	for n := range maxListed + 5 {
		l.now = l.now.Add(10 * time.Millisecond)
		k.add(Dispatch{Entry: &owner.Entry{Hash: owner.Hash{byte(n), byte(n >> 8)}, Time: l.now}}, nil, l.now, true)
	}
	ds := k.digests(start.Add(-time.Hour), l.now.Add(time.Millisecond))
	if len(ds) != 2 || ds[0].Digest.UntilMs != ds[1].Digest.SinceMs || len(ds[0].Digest.Entries)+len(ds[1].Digest.Entries) != maxListed+5 {
		t.Errorf("%d digests do not list all entries without a gap", len(ds))
	}
	if ds[0].Digest.SinceMs != uint64(start.UnixMilli()) {
		t.Error("a digest reports on the time before the node was an owner")
	}
	l.owned = nil
	if k.run(l.now); k.owned || len(k.entries)+len(k.byArrival) > 0 {
		t.Error("a node that owns the shard no longer keeps its entries")
	}
}

// fullApp accepts entries while it has room.
type fullApp struct {
	room int
	got  []byte // first byte of each hash
}

func (a *fullApp) Dispatched(d Dispatch) bool {
	if a.room == 0 {
		return false
	}
	a.room--
	a.got = append(a.got, d.Entry.Hash[0])
	return true
}

func (l *lab) filter(app Application) *filter {
	l.d.cfg = Config{Shards: 1, Filter: true}
	p := l.place("a", "b")
	return newFilter(p, newKeeper(p, newTopic(p, l, nil)), newProgress(l.d, l), app)
}

func digest(since, until time.Time) *firehosepb.Digest {
	return &firehosepb.Digest{SinceMs: uint64(since.UnixMilli()), UntilMs: uint64(until.UnixMilli())}
}

// A filter delivers each entry once. An entry for which there is no room is delivered when it comes again.
func TestAFilterDeliversEachEntryOnce(t *testing.T) {
	l := newLab(t, Config{})
	app := &fullApp{room: 1}
	f := l.filter(app)
	f.begin(l.now, l.now)
	one, two := Dispatch{Entry: l.entry(1, 0)}, Dispatch{Entry: l.entry(2, 0)}
	if !f.deliver(one, l.now) || f.deliver(one, l.now) || f.lacks(l.ref(1), l.now) {
		t.Error("the first entry is not known")
	}
	if f.deliver(two, l.now); l.d.stats.Refused != 1 || !f.lacks(l.ref(2), l.now) {
		t.Error("the entry without room counts as delivered")
	}
	app.room = 1
	f.deliver(two, l.now)
	if old := l.ref(3); !bytes.Equal(app.got, []byte{1, 2}) || f.has(owner.Hash{2}) != true || f.lacks(&firehosepb.EntryRef{Key: old.Key, Entry: old.Entry}, l.now) {
		t.Errorf("delivered %v, or an entry from before the filter listened counts", app.got)
	}
}

// A filter knows that it misses nothing as long as digests continue each other. It gives up a gap only after it has asked
// for it, and never because of a node that is not an owner.
func TestAGapIsAskedForBeforeItIsGivenUp(t *testing.T) {
	l := newLab(t, Config{})
	f := l.filter(&fullApp{})
	start := l.now
	at := func(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }
	f.onDigest("a", digest(at(-2), at(0)), l.now)
	f.onDigest("b", digest(at(-1), at(1)), l.now)
	f.onDigest("stranger", digest(at(0), at(9)), l.now)
	if !f.completeUntil.Equal(at(1)) {
		t.Fatalf("complete until %v, want %v", f.completeUntil, at(1))
	}
	for f.catchUps <= maxCatchUps {
		f.onDigest("a", digest(at(5), at(6)), l.now)
		f.catchUps++
	}
	if !f.completeUntil.Equal(at(1)) || l.d.stats.Gaps != 0 {
		t.Error("the gap was given up early")
	}
	f.onDigest("a", digest(at(5), at(6)), l.now)
	if !f.completeUntil.Equal(at(6)) || l.d.stats.Gaps != 1 {
		t.Error("the gap was not given up")
	}
}

// After a switch of branches a digest without the time before does not count as a gap, because each new owner is asked.
func TestASwitchOfBranchesIsNoGap(t *testing.T) {
	l := newLab(t, Config{})
	f := l.filter(&fullApp{})
	f.switchBranch(1, l.now)
	f.begin(l.now, l.now)
	was := l.now
	l.now = l.now.Add(10 * time.Minute)
	f.switchBranch(2, l.now)
	f.onDigest("a", digest(l.now.Add(-time.Minute), l.now), l.now)
	if !f.unsureSince.Equal(was) || !f.completeUntil.Equal(l.now.Truncate(time.Millisecond)) {
		t.Errorf("unsure since %v, complete until %v", f.unsureSince, f.completeUntil)
	}
}

// A filter continues where an earlier life ended. With another number of shards it starts as a new one.
func TestProgressSurvivesARestart(t *testing.T) {
	l := newLab(t, Config{Shards: 2, Filter: true})
	p := newProgress(l.d, l)
	p.shards[1] = shardProgress{7, l.now}
	p.save(l.now)
	p.shards[1].branch = 8
	p.save(l.now.Add(progressInterval / 2)) // too early
	if again := newProgress(l.d, l); again.shards[1].branch != 7 || !again.shards[1].completeUntil.Equal(l.now) || !again.shards[0].completeUntil.IsZero() {
		t.Errorf("loaded %v", again.shards)
	}
	l.d.cfg.Shards = 3
	if again := newProgress(l.d, l); len(again.shards) != 3 || again.shards[1].branch != 0 {
		t.Errorf("loaded %v for another number of shards", again.shards)
	}
}

// An entry is requested from the node that named it, then from the other owners of the shard, then from the channel's.
func TestRequestsGoToEverySource(t *testing.T) {
	l := newLab(t, Config{})
	r := newRequests(l.place("a", "b", "self"))
	l.found.Owners = []*overlay.Contact{{Peer: env.Peer{ID: "channel"}}}
	gaveUp := 0
	r.add(l.ref(1), "b")
	l.pass(5*time.Minute, func(t task) {
		if !r.retry(t.entry) {
			gaveUp++
		}
	})
	var asked []env.PeerID
	for _, s := range l.sent {
		asked = append(asked, s.to)
	}
	if !slices.Equal(asked, []env.PeerID{"b", "a", "channel"}) {
		t.Errorf("asked %v", asked)
	}
	if gaveUp != 1 || l.d.stats.Missed != 1 || len(r.missing) != 0 {
		t.Errorf("given up %d times, counted %d times", gaveUp, l.d.stats.Missed)
	}
}

// A topic is joined again only when its peers have changed.
func TestATopicFollowsTheOwners(t *testing.T) {
	l := newLab(t, Config{})
	topic := newTopic(l.place("b", "self", "a"), l, nil)
	topic.update()
	topic.update()
	topic.introduced["a"], topic.introduced["c"] = env.Peer{ID: "a"}, env.Peer{ID: "c"}
	topic.update()
	want := [][]env.PeerID{{"a", "b"}, {"a", "b", "c"}}
	if len(l.joins) != len(want) {
		t.Fatalf("joined %d times", len(l.joins))
	}
	for i, peers := range l.joins {
		if !slices.EqualFunc(peers, want[i], func(p env.Peer, id env.PeerID) bool { return p.ID == id }) {
			t.Errorf("joined with %v, want %v", peers, want[i])
		}
	}
}
