package owner

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

func five() (of []env.PeerID) {
	for i := range 5 {
		of = append(of, signer(byte(i)).PeerID())
	}
	return of
}

// A refusal costs a candidate nothing as long as the others are a quorum, before and after its proposal.
func TestRefusalsOfAMinority(t *testing.T) {
	of := five()
	for _, proposed := range []bool{false, true} {
		b := &candidacy{number: 7, oldOwners: of, newOwners: of}
		if proposed {
			b.proposal, b.voterSets = someEpoch(1), [][]env.PeerID{of}
		}
		for i, want := range []bool{true, true, false} {
			if b.refuse(of[4-i], 9); b.mayWin() != want {
				t.Errorf("proposed %v: after %d refusals: %v", proposed, i+1, !want)
			}
		}
	}
}

// Two of five owners cannot drive the numbers of epochs up, neither beyond what the others promise at a time nor at all.
func TestTheNumberToExceed(t *testing.T) {
	of := five()
	const far = 1 << 20
	for _, c := range []struct {
		name     string
		promised int
		refused  []uint32
		want     uint32
	}{
		{"nobody has said anything", 0, nil, 0},
		{"one is ahead, and four may be", 1, []uint32{9}, 9},
		{"three are ahead", 2, []uint32{9, 10, 11}, 9},
		{"two are far ahead", 3, []uint32{far, far}, 7},
		{"three are ahead, two of them far", 2, []uint32{9, far, far}, 9},
		{"two are beyond all bounds", 1, []uint32{9, 1 << 31, 1 << 31}, 9},
	} {
		b := &candidacy{number: 7, oldOwners: of, promised: of[:c.promised]}
		for i, n := range c.refused {
			b.refuse(of[c.promised+i], n)
		}
		if got := b.numberToExceed(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A head that its owner does not deliver counts until enough others have promised without it. A forced reconfiguration does
// not wait for it.
func TestHeadsThatNobodyDelivers(t *testing.T) {
	of := five()
	inForce := &Epoch{Key: someEpoch(1).Key, Branch: 1, Number: 2, Sequencer: of[0], Owners: of}
	at := func(seq uint64, by int) *Entry {
		return &Entry{Key: inForce.Key, At: Position{1, 2, seq}, Prev: Hash{9}, Hash: Hash{byte(seq), byte(by)}, Signer: of[by]}
	}
	stored, claimed := at(2, 0), at(99, 0)
	b := &candidacy{number: 3, oldOwners: of}
	b.count(inForce, of[1], stored, nil)
	b.count(inForce, of[4], claimed, nil)
	if head, holder := b.best(inForce, nil, false); head != claimed || holder != of[4] {
		t.Errorf("%v of %q is pulled first", head, holder)
	}
	withheld := map[env.PeerID]bool{of[4]: true}
	b.count(inForce, of[2], stored, nil)
	if head, holder := b.best(inForce, withheld, false); head != claimed || holder != "" {
		t.Errorf("with three promises, a quorum may have stored the entry: %v of %q", head, holder)
	}
	if head, _ := b.best(inForce, withheld, true); head != stored {
		t.Errorf("a forced reconfiguration waits for %v", head)
	}
	b.count(inForce, of[3], stored, nil)
	if head, holder := b.best(inForce, withheld, false); head != stored || holder != of[3] {
		t.Errorf("with four promises: %v of %q", head, holder)
	}
	// Nor does an entry count that the sequencer of the epoch has not signed, or that is of another epoch.
	b = &candidacy{number: 3, oldOwners: of}
	later := at(5, 0)
	later.At.Epoch = 9
	b.count(inForce, of[4], at(99, 4), nil)
	b.count(inForce, of[3], later, nil)
	if head, _ := b.best(inForce, nil, false); head != nil {
		t.Errorf("%v counts", head)
	}
}

// A candidate that asks all the time gets every second turn at most, and those that nobody knows share one.
func TestCandidatesTakeTurns(t *testing.T) {
	var turns turns
	now, of := began, five()
	got, undisturbed := map[env.PeerID]int{}, 0
	for range 600 {
		now = now.Add(time.Second)
		for _, liar := range []env.PeerID{of[3], of[4], stranger} {
			if turns.take(liar, now, true) {
				got[liar]++
			}
		}
		if now.Unix()%7 == 0 && turns.take(of[1], now, true) { // this one is honest, and asks rarely
			got[of[1]]++
			if !turns.take(of[4], now.Add(candidacyTime-time.Second), true) {
				undisturbed++
			}
		}
	}
	if undisturbed < 10 {
		t.Errorf("it had %d undisturbed turns in ten minutes; granted: %v", undisturbed, got)
	}
	turns = nil
	for i := range 100 { // if nobody else asks, nobody waits
		if !turns.take(of[1], now.Add(time.Duration(i)*time.Second), true) {
			t.Fatalf("a lone candidate waits after %d s", i)
		}
	}
}

// An owner is left out if it refuses twice in a row what a quorum signs, or if it does not deliver the head that it has
// promised; and no more than a minority is.
func TestWhoIsLeftOut(t *testing.T) {
	b := newBench(t)
	m := &membership{base: b.base}
	of := five()
	vote := func(refused ...env.PeerID) {
		c := &candidacy{oldOwners: of, proposal: &Epoch{}, refused: map[env.PeerID]uint32{}}
		for _, p := range refused {
			c.refused[p] = 9
		}
		m.judge(b.s, c)
	}
	out := func() (n int) {
		for _, p := range of {
			if b.s.conduct.isLeftOut(p, b.now) {
				n++
			}
		}
		return n
	}
	for range 3 {
		vote(of[4])
		vote()
	}
	if out() > 0 {
		t.Error("left out after refusals that were not in a row")
	}
	vote(of[4])
	vote(of[4])
	b.s.conduct.withholds(of[3])
	vote()
	if !b.s.conduct.isLeftOut(of[4], b.now) || !b.s.conduct.isLeftOut(of[3], b.now) || b.stats.LeftOut != 2 {
		t.Errorf("%d are left out", out())
	}
	b.s.conduct.withholds(of[2])
	vote()
	if out() != 2 {
		t.Errorf("%d of five are left out", out())
	}
	if b.now = b.now.Add(leftOutTime); out() > 0 {
		t.Error("they are left out for ever")
	}
}

// An owner that acknowledges nothing for half a lease is left out, and one that answers in time is not.
func TestAnOwnerThatStoresNothingIsLeftOut(t *testing.T) {
	b := newBench(t)
	q := b.sequencer(nil)
	b.s.leader = &leaderState{}
	owners := b.s.epoch.Owners
	e := b.next(nil, 0)
	b.s.log.set(chain{e})
	b.s.leader.lagging = &inflight{entry: e, acks: owners[:1]}
	q.noteAcks(b.s)
	q.onReplicateAck(owners[1], &ownerpb.ReplicateAck{Key: b.s.key[:], Hash: e.Hash[:]})
	if _, owes := b.s.leader.unacked[owners[1]]; owes || len(b.s.leader.unacked) != len(owners)-2 {
		t.Errorf("%d owners owe an acknowledgement", len(b.s.leader.unacked))
	}
	b.now = b.now.Add(time.Hour)
	q.checkAcks(b.s, time.Minute) // those that are not alive have an excuse
	if len(b.s.leader.unacked)+len(b.s.conduct.leftOut) > 0 {
		t.Error("dead owners are left out")
	}
}

// A sequencer makes a new epoch for the sake of one refusing owner at most once in a third of a lease.
func TestASequencerHeedsARefusalNowAndThen(t *testing.T) {
	l, of := &leaderState{}, five()
	for _, c := range []struct {
		owner int
		at    time.Duration
		want  bool
	}{{1, 0, true}, {1, time.Second, false}, {2, time.Second, true}, {1, 19 * time.Second, false}, {1, 20 * time.Second, true}} {
		if got := l.heed(of[c.owner], began.Add(c.at), time.Minute); got != c.want {
			t.Errorf("owner %d after %v: heeded %v, want %v", c.owner, c.at, got, c.want)
		}
	}
}

// The median of the clocks decides how late an entry may be dated, so that neither a wrong clock here nor a minority of
// liars does.
func TestDatesFollowMostClocks(t *testing.T) {
	b := newBench(t)
	of := five()
	year := 365 * 24 * time.Hour
	says := func(ahead ...time.Duration) {
		b.ahead = nil
		for i, d := range ahead {
			b.heardClock(of[i+1], uint64(b.now.Add(d).UnixMilli()))
		}
	}
	for _, c := range []struct {
		name       string
		ahead      []time.Duration // of the other four
		date       time.Duration   // ahead of this clock
		late, soon time.Duration   // dates that are refused and accepted
	}{
		{"nobody else is known", nil, 0, maxDateAhead + 1, maxDateAhead},
		{"two liars are ahead", []time.Duration{year, year, 0, 0}, 0, maxDateAhead + 1, maxDateAhead},
		{"two liars are behind", []time.Duration{-year, -year, 0, 0}, 0, maxDateAhead + 1, maxDateAhead},
		{"this clock is fast", []time.Duration{-year, -year, -year, 0}, -year, maxDateAhead + 1, 0},
		{"this clock is slow", []time.Duration{year, year, year, year}, 0, year + maxDateAhead + 1, year},
		{"this clock is a little fast", []time.Duration{-time.Minute, -time.Minute, -time.Minute, -time.Minute}, 0, maxDateAhead + 1, 0},
	} {
		says(c.ahead...)
		if got := b.date().Sub(b.now); got.Round(time.Second) != c.date {
			t.Errorf("%s: entries are dated %v ahead, want %v", c.name, got, c.date)
		}
		if !b.tooFarAhead(b.now.Add(c.late)) || b.tooFarAhead(b.now.Add(c.soon)) {
			t.Errorf("%s: an entry %v ahead is accepted, or one %v ahead is not", c.name, c.late, c.soon)
		}
	}
	before := b.ahead[of[1]]
	for _, ms := range []uint64{0, 1 << 63} {
		if b.heardClock(of[1], ms); b.ahead[of[1]] != before {
			t.Errorf("the clock %d counts", ms)
		}
	}
}

// An owner does not store an entry that is dated too far ahead, and wants another sequencer.
func TestAnEntryDatedAheadIsNotStored(t *testing.T) {
	b := newBench(t)
	e := someEpoch(3)
	e.Sequencer = signer(1).PeerID()
	b.replicas.setEpoch(b.s, e)
	p := &proposer{membership: &membership{base: b.base}}
	l := &learner{
		base: b.base, storage: b.storage, epochs: &epochs{base: b.base, verify: verify}, puller: b.puller(), liveness: b.liveness(), proposer: p,
	}
	for _, ahead := range []time.Duration{maxDateAhead, maxDateAhead + time.Second} {
		b.now = b.now.Add(-ahead)
		n := b.next(nil, 1)
		b.now = b.now.Add(ahead)
		n.Time = b.now.Add(ahead)
		n.sign(signer(1))
		if err := l.onReplicate(e.Sequencer, &ownerpb.Replicate{Entry: n.Raw(), Body: []byte("body")}); err != nil {
			t.Fatal(err)
		}
		stored, refused := len(b.take()) > 0, b.stats.DatedAhead > 0
		if late := ahead > maxDateAhead; stored == late || refused != late || b.s.progress.datedAhead != late || (b.s.campaign.at == env.Never) == late {
			t.Errorf("%v ahead: stored %v, refused %v", ahead, stored, refused)
		}
		b.s.log.set(nil)
	}
}

// An owner that pulls its first epoch with an entry that is dated too far ahead refuses it, and leaves it to the others to campaign.
// It crashed (sim, wrong clocks of a year, seed 2).
func TestAFirstEpochWithAnEntryDatedAheadIsRefused(t *testing.T) {
	b := newBench(t)
	p := &proposer{membership: &membership{base: b.base}}
	l := &learner{base: b.base, storage: b.storage, puller: b.puller(), liveness: b.liveness(), proposer: p}
	b.s.epoch = nil
	if l.refuseDate(b.s); b.stats.DatedAhead != 1 || b.s.campaign.at != env.Never {
		t.Errorf("refused %d times, campaign at %v", b.stats.DatedAhead, b.s.campaign.at)
	}
}

// One entry from the future does not reduce a log to its last items.
func TestAnEntryFromTheFutureDropsNoLog(t *testing.T) {
	log := chained(1000, time.Minute, func() (int, int) { return 1, 100 })
	s := &keyLog{}
	s.set(log)
	future := &Entry{At: Position{1, 1, 1001}, Prev: log.headHash(), Time: log.headTime().Add(365 * 24 * time.Hour), Hash: Hash{1, 2, 3, 4}, Items: 1, Size: 100}
	s.add(future)
	if old := s.prune(); len(old) > 0 {
		t.Errorf("%d entries are dropped", len(old))
	}
	next := &Entry{At: Position{1, 1, 1002}, Prev: future.Hash, Time: log.headTime().Add(time.Minute), Hash: Hash{2, 3, 4, 5}, Items: 1, Size: 100}
	if n := s.firstKept(s.step(next.Time), 1, 100); n != 0 {
		t.Errorf("%d entries are dropped afterwards", n)
	}
	quiet := &Entry{At: Position{1, 1, 1003}, Prev: next.Hash, Time: next.Time.Add(10 * 24 * time.Hour), Hash: Hash{3, 4, 5, 6}, Items: 1, Size: 100}
	later := &Entry{At: Position{1, 1, 1004}, Prev: quiet.Hash, Time: quiet.Time.Add(time.Minute), Hash: Hash{4, 5, 6, 7}, Items: 1, Size: 100}
	for _, e := range []*Entry{next, quiet, later} {
		s.add(e)
	}
	if s.prune(); s.items != KeepItems {
		t.Errorf("%d items are kept after a quiet time, want %d", s.items, KeepItems)
	}
}

// A sequencer that appends nothing gains no time by beginning new epochs. Another one gets its own time.
func TestNewEpochsOfASequencerHideNoStall(t *testing.T) {
	for _, same := range []bool{true, false} {
		b := newBench(t)
		e, next := someEpoch(3), someEpoch(4)
		e.Sequencer, next.Sequencer = signer(1).PeerID(), signer(1).PeerID()
		if !same {
			next.Sequencer = signer(2).PeerID()
		}
		b.replicas.setEpoch(b.s, e)
		b.s.progress.missingAt, b.s.progress.promisedAt = env.MomentOf(b.now), env.MomentOf(b.now)
		p := &proposer{membership: &membership{base: b.base}}
		p.epochChanged(b.s, next)
		if (b.s.progress.missingAt == env.Never) == same || b.s.progress.promisedAt != env.Never {
			t.Errorf("the same sequencer: %v: %+v", same, b.s.progress)
		}
	}
}

// A candidate that will be no owner itself proposes neither the sequencer that it replaces nor one that is barred.
func TestTheNextSequencerIsFit(t *testing.T) {
	b := newBench(t)
	p := &proposer{membership: &membership{base: b.base}}
	want := five()[1:]                                      // the first is this node
	b.s.epoch.Owners, b.s.epoch.Sequencer = five(), want[0] // which is not alive
	b.s.campaign.barred = map[env.PeerID]time.Time{want[1]: b.now.Add(time.Hour)}
	if got := p.chooseSequencer(b.s, want[:3]); got != want[2] {
		t.Errorf("owner %d", slices.Index(want, got))
	}
}
