package owner

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A bench is the world of one component: a clock that stands, a network that records, and a disk that answers when flush is
// called. Its node, signer 0, is no member of a network, and leads the key of someEpoch with owners 1 and 2.
type bench struct {
	base
	t       *testing.T
	now     time.Time
	sent    []sent
	commits []func(error)
	stats   Stats
	storage *storage
	s       *replica
	visible int // VisibleChanged events
}

type sent struct {
	to env.PeerID
	*ownerpb.Message
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: began}
	rng := rand.New(rand.NewPCG(1, 1))
	e := env.Env{Clock: b, Network: b, Worker: b, Store: b, Rand: rng, Log: slog.New(slog.DiscardHandler)}
	node := overlay.New(e, signer(0), verify, overlay.Config{Network: wire.DefaultNetwork("fuzz")})
	r := newReplicas(signer(0).PeerID())
	b.base = base{
		timers:   &timers{clock: b, rand: rng},
		peers:    &peers{node: node, net: b, self: signer(0).PeerID(), owners: 5, stats: &b.stats},
		replicas: &r,
	}
	b.storage = newStorage(e, &b.stats, &r, func(Event) { b.visible++ })
	epoch := someEpoch(3)
	b.s = r.ensure(epoch.Key, epoch.URL, b.now)
	r.setEpoch(b.s, epoch)
	return b
}

func (b *bench) Now() time.Time                                   { return b.now }
func (b *bench) Do(pure, done func())                             { pure(); done() }
func (b *bench) Commit(_ []env.Op, done func(error))              { b.commits = append(b.commits, done) }
func (b *bench) Get([]byte) ([]byte, error)                       { return nil, nil }
func (b *bench) Range([]byte, func(key, value []byte) bool) error { return nil }

func (b *bench) Send(to env.Peer, _ env.Class, frame []byte) {
	m := new(ownerpb.Message)
	if _, body, err := wire.ParseFrame(frame); err != nil || proto.Unmarshal(body, m) != nil {
		b.t.Error("a frame that nobody can read")
	}
	b.sent = append(b.sent, sent{to.ID, m})
}

// flush answers all commits to the disk.
func (b *bench) flush(err error) {
	for _, done := range b.take() {
		done(err)
	}
}

func (b *bench) take() []func(error) {
	of := b.commits
	b.commits = nil
	return of
}

// next returns an entry that continues an entry, signed by the given node.
func (b *bench) next(prev *Entry, by byte) *Entry {
	body := []byte("body")
	e := &Entry{Key: b.s.key, At: Position{1, 2, 1}, Time: b.now, Body: HashOf(body), Size: len(body), Items: 1}
	if prev != nil {
		e.At.Seq, e.Prev = prev.At.Seq+1, prev.Hash
	}
	e.sign(signer(by))
	return e
}

func (b *bench) puller() *puller {
	return &puller{base: b.base, storage: b.storage, epochs: &epochs{base: b.base, verify: verify}, finish: func(*replica) {}}
}

func (b *bench) liveness() *liveness {
	return &liveness{base: b.base, lease: 8 * time.Minute, matched: map[env.PeerID]time.Time{}}
}

func (b *bench) sequencer(emit func(Event)) *sequencer {
	return &sequencer{membership: &membership{base: b.base}, storage: b.storage, puller: b.puller(), signer: signer(0), emit: emit}
}

var errDisk = errors.New("the disk refuses")

func TestReplicasAreListedByTheirSequencer(t *testing.T) {
	b := newBench(t)
	if of := b.replicas.ledBy[signer(0).PeerID()]; len(of) != 1 || !of[b.s] {
		t.Errorf("%d keys are led by this node", len(of))
	}
	other := someEpoch(3)
	other.Sequencer = other.Owners[1]
	if b.replicas.setEpoch(b.s, other); len(b.replicas.ledBy) != 1 || len(b.replicas.ledBy[other.Sequencer]) != 1 {
		t.Errorf("%d sequencers, of whom the new one leads %d keys", len(b.replicas.ledBy), len(b.replicas.ledBy[other.Sequencer]))
	}
	if b.replicas.remove(b.s); len(b.replicas.ledBy)+len(b.replicas.all()) > 0 {
		t.Error("a forgotten key is listed")
	}
}

// Of two plans for a campaign, the earlier one counts.
func TestTheEarliestCampaignCounts(t *testing.T) {
	b := newBench(t)
	m := &membership{base: b.base}
	for _, c := range []struct{ in, want time.Duration }{{10, 10}, {20, 10}, {5, 5}} {
		if m.campaignIn(b.s, c.in*time.Second); b.s.campaign.at.Time() != b.now.Add(c.want*time.Second) {
			t.Errorf("a campaign in %d s: planned for %v", c.in, b.s.campaign.at.Time().Sub(b.now))
		}
	}
}

// Readers see an entry when it is durable and committed. An entry that the disk has refused leaves the log again.
func TestAnEntryIsVisibleWhenItIsDurableAndCommitted(t *testing.T) {
	b := newBench(t)
	e := b.next(nil, 0)
	ok := true
	b.storage.append(b.s, []*Entry{e}, [][]byte{[]byte("body")}, false, func(well bool) { ok = well })
	b.storage.markCommitted(b.s, e.Hash)
	if b.visible != 0 || b.storage.durable(e.Hash) {
		t.Error("readers see what is not durable")
	}
	if b.flush(errDisk); ok || len(b.s.log.chain) > 0 || b.visible > 0 {
		t.Errorf("an entry that the disk has refused is in the log: %d, %v", len(b.s.log.chain), ok)
	}
	b.storage.append(b.s, []*Entry{e}, [][]byte{[]byte("body")}, false, func(well bool) { ok = well })
	if b.flush(nil); !ok || b.visible > 0 {
		t.Error("readers see what is not committed")
	}
	if b.storage.markCommitted(b.s, e.Hash); b.visible != 1 || len(b.s.log.visible) != 1 {
		t.Errorf("%d entries are visible", len(b.s.log.visible))
	}
}

// A log continues an epoch from the entry that the epoch names, and keeps nothing else behind that entry.
func TestWhatAnEpochCutsOff(t *testing.T) {
	b := newBench(t)
	var log chain
	for range 3 {
		log = append(log, b.next(log.head(), 0))
	}
	for _, c := range []struct {
		name string
		e    Epoch
		kept int
	}{
		{"the same epoch", Epoch{Branch: 1, Number: 2}, 3},
		{"a later epoch after all", Epoch{Branch: 1, Number: 3, AfterHash: log[2].Hash}, 3},
		{"a later epoch after the first", Epoch{Branch: 1, Number: 3, AfterHash: log[0].Hash}, 1},
		{"another branch, from the beginning", Epoch{Branch: 2, Number: 1}, 0},
		{"an entry that is not here", Epoch{Branch: 1, Number: 3, AfterHash: Hash{1}}, 3},
	} {
		l := &keyLog{}
		l.set(log)
		if cut := l.cut(&c.e); len(l.chain) != c.kept || len(cut) != 3-c.kept || l.items != c.kept {
			t.Errorf("%s: %d entries are kept, %d cut off", c.name, len(l.chain), len(cut))
		}
	}
}

// A pull ends without success at a page that does not continue the log, and after three requests without an answer.
func TestAPullTakesAChainOnly(t *testing.T) {
	b := newBench(t)
	u := b.puller()
	finished := 0
	u.finish = func(s *replica) { finished++; u.end(s, true) }
	from := env.Peer{ID: signer(1).PeerID()}
	var ended []bool
	ask := func() *ownerpb.Pull {
		u.start(b.s, from, func(ok bool) { ended = append(ended, ok) })
		return b.sent[len(b.sent)-1].GetPull()
	}
	first := b.next(nil, 0)
	second := b.next(first, 0)
	page := func(q *ownerpb.Pull, of ...*Entry) error {
		m := &ownerpb.Entries{Key: q.Key, Nonce: q.Nonce, Epoch: b.s.epoch.proto(), Committed: true}
		for _, e := range of {
			m.Entries = append(m.Entries, &ownerpb.LogEntry{Entry: e.Raw(), Body: []byte("body")})
		}
		return u.onEntries(from.ID, m)
	}
	if page(ask(), second) == nil || finished > 0 {
		t.Error("a page that leaves out an entry is taken")
	}
	if err := page(ask(), first, second); err != nil || finished != 1 {
		t.Errorf("a chain is not taken: %v", err)
	}
	sent := len(b.sent)
	for ask(); b.s.pull != nil; u.retry(b.s, b.now) {
		b.now = b.now.Add(pullTime)
	}
	if n := len(b.sent) - sent; n != maxPullTries || !slices.Equal(ended, []bool{false, true, false}) || u.bytes != 0 {
		t.Errorf("%d requests, pulls ended with %v, %d bytes are held", n, ended, u.bytes)
	}
}

// A large body comes in full chunks, so that a peer that sends a byte at a time does not keep this node from pulling elsewhere.
func TestAPullTakesFullChunks(t *testing.T) {
	body := make([]byte, maxInline+1)
	for _, c := range []struct {
		chunks []int // their sizes
		ended  []bool
	}{
		{[]int{maxInline}, nil}, {[]int{maxInline, 1}, []bool{true}},
		{[]int{1}, []bool{false}}, {[]int{0}, []bool{false}}, {[]int{maxInline, 2}, []bool{false}},
	} {
		b := newBench(t)
		u := b.puller()
		u.finish = func(s *replica) { u.end(s, true) }
		from := env.Peer{ID: signer(1).PeerID()}
		var ended []bool
		u.start(b.s, from, func(ok bool) { ended = append(ended, ok) })
		e := b.next(nil, 0)
		e.Body, e.Size = HashOf(body), len(body)
		e.sign(signer(0))
		q := b.sent[0].GetPull()
		if err := u.onEntries(from.ID, &ownerpb.Entries{Key: q.Key, Nonce: q.Nonce, Epoch: b.s.epoch.proto(), Entries: []*ownerpb.LogEntry{{Entry: e.Raw()}}}); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, size := range c.chunks {
			if err := u.onChunk(from.ID, &ownerpb.Chunk{Key: q.Key, Hash: e.Hash[:], Offset: uint32(at), Bytes: make([]byte, size)}); err != nil {
				t.Errorf("chunks of %v bytes: %v", c.chunks, err)
			}
			at += size
		}
		if !slices.Equal(ended, c.ended) {
			t.Errorf("chunks of %v bytes: the pull ended with %v, want %v", c.chunks, ended, c.ended)
		}
	}
}

// Entries that are not durable are not announced to anybody.
func TestAnswersLeaveOutWhatIsNotDurable(t *testing.T) {
	b := newBench(t)
	first := b.next(nil, 0)
	second := b.next(first, 0)
	add := func(e *Entry) {
		b.storage.append(b.s, []*Entry{e}, [][]byte{[]byte("body")}, false, func(bool) {})
	}
	add(first)
	b.flush(nil)
	add(second)
	v := &server{base: b.base, storage: b.storage}
	v.onPull(signer(1).PeerID(), &ownerpb.Pull{Key: b.s.key[:], Nonce: 1})
	if m := b.sent[0].GetEntries(); len(m.Entries) != 1 || m.More || !m.Committed {
		t.Errorf("%d entries, more: %v, committed: %v", len(m.Entries), m.More, m.Committed)
	}
}

// A sequencer is silent after seven eighths of a lease without a sign of life about the key, nor a matching heartbeat.
func TestASilentSequencer(t *testing.T) {
	b := newBench(t)
	l := b.liveness()
	b.now = b.now.Add(7 * time.Minute)
	if l.silent(b.s) {
		t.Error("silent too early")
	}
	if b.now = b.now.Add(time.Second); !l.silent(b.s) {
		t.Error("not silent")
	}
	if l.matched[b.s.epoch.Sequencer] = b.now; l.silent(b.s) {
		t.Error("silent in spite of a heartbeat")
	}
}

// Outside the leaf, only a successor of the epoch in force is accepted without a lookup.
func TestWhichEpochsNeedALookup(t *testing.T) {
	b := newBench(t)
	l := &locator{base: b.base}
	next := someEpoch(3)
	next.Number = 3
	stranger := someEpoch(3)
	stranger.Branch, stranger.Hash = 7, Hash{7}
	if l.needsLookup(b.s, next) || !l.acceptable(b.s, next) {
		t.Error("a successor is not accepted")
	}
	if !l.needsLookup(b.s, stranger) || l.acceptable(b.s, stranger) {
		t.Error("another epoch is accepted")
	}
	b.s.lookup.near = &keyLookup{members: stranger.Owners[:2], at: b.now}
	if l.needsLookup(b.s, stranger) || !l.acceptable(b.s, stranger) {
		t.Error("an epoch is not accepted whose owners a lookup has found")
	}
}

// Owners whose keys were searched for are not taken for the owners of a key of the leaf where ids do not follow from keys.
// Outside the leaf nobody knows the ids of owners without a lookup.
func TestKeysThatWereSearchedForAreNoIDs(t *testing.T) {
	const members = 1 << 12
	for kind, want := range map[string]bool{wire.KeyIDs: true, wire.AddressIDs: false} {
		n := wire.DefaultNetwork("fuzz")
		n.IDs = kind
		e, honest := &Epoch{Key: overlay.Key("fuzz", "https://a.example/feed")}, &Epoch{}
		for i := 0; len(e.Owners) < 5; i++ {
			key := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
			id := wire.PeerIDOf(ed25519.NewKeyFromSeed(key[:]).Public().(ed25519.PublicKey))
			switch near := overlay.NodeID("fuzz", id).Common(e.Key); {
			case near >= 8:
				e.Owners = append(e.Owners, id)
			case near == 0:
				honest.Owners = append(honest.Owners, id)
			}
		}
		b := newBench(t)
		b.node = overlay.New(env.Env{Clock: b, Network: b, Worker: b, Store: b, Rand: b.rand, Log: slog.New(slog.DiscardHandler)}, signer(0), verify, overlay.Config{Network: n, Founder: true})
		if honest.Key = e.Key; b.ownersNear(honest, members) == want {
			t.Errorf("%s: owners outside the leaf, by their keys: %v", kind, !want)
		}
		b.node.Reachable([]string{"\x04\x01\x01\x01\x01\x00\x01"})
		b.node.Run(b.now)
		if b.outsideLeaf(e.Key) {
			t.Fatalf("%s: the node is %v", kind, b.node.State())
		}
		if got := b.ownersNear(e, members); got != want {
			t.Errorf("%s: in the leaf: %v, want %v", kind, got, want)
		}
	}
}

// A promise is sent when it is durable, and to one candidate only.
func TestAPromiseIsDurable(t *testing.T) {
	b := newBench(t)
	a := &acceptor{membership: &membership{base: b.base}, storage: b.storage, puller: b.puller(), liveness: b.liveness(), signer: signer(0)}
	prepare := &ownerpb.Prepare{Key: b.s.key[:], Branch: 1, Number: 3}
	a.onPrepare(signer(1).PeerID(), prepare)
	if len(b.sent) > 0 {
		t.Error("a promise is sent that may be forgotten")
	}
	b.flush(nil)
	a.onPrepare(signer(2).PeerID(), prepare)
	b.flush(nil)
	if len(b.sent) != 2 || b.sent[0].GetPromise().GetRefused() != 0 || b.sent[1].GetPromise().GetRefused() != 3 || b.sent[1].to != signer(2).PeerID() {
		t.Errorf("%v", b.sent)
	}
}

// An entry is sent when it is durable here, and committed when one of the two others has stored it.
func TestAnEntryIsCommittedByAQuorum(t *testing.T) {
	b := newBench(t)
	published := 0
	q := b.sequencer(func(ev Event) {
		switch ev := ev.(type) {
		case Committed:
			published++
		case Appended:
			ev.Done(ev.OK)
		}
	})
	q.becomeLeader(b.s)
	committed := false
	if err := q.Append(b.s.key, []byte("body"), 1, func(seq, _ uint64, _ time.Time) Hash { return Hash{byte(seq)} }, func(ok bool) { committed = ok }); err != nil {
		t.Fatal(err)
	}
	if b.flush(errDisk); len(b.sent) > 0 {
		t.Error("an entry is sent that the disk has refused")
	}
	b.now = b.now.Add(answerTime)
	q.retry(b.s, b.now)
	if len(b.sent) > 0 {
		t.Error("an entry is sent before it is durable")
	}
	if b.flush(nil); len(b.sent) != 2 || published > 0 {
		t.Fatalf("sent to %d owners, %d committed", len(b.sent), published)
	}
	ack := &ownerpb.ReplicateAck{Key: b.s.key[:], Hash: b.s.log.head().Hash.bytes()}
	if q.onReplicateAck(signer(5).PeerID(), ack); committed {
		t.Error("committed by somebody who is no owner")
	}
	if q.onReplicateAck(signer(2).PeerID(), ack); !committed || published != 1 || !b.s.log.headCommitted() {
		t.Error("not committed")
	}
}

// The owners of an undecided epoch have to promise, unless a quorum of the old owners have promised without having signed
// that epoch.
func TestWhoHasToPromise(t *testing.T) {
	id := func(i byte) env.PeerID { return signer(i).PeerID() }
	inForce := someEpoch(3)
	undecided := &Epoch{Key: inForce.Key, Branch: 1, Number: 3, Hash: Hash{3}, Owners: []env.PeerID{id(2), id(7), id(8)}}
	open := []*Epoch{undecided}
	for _, c := range []struct {
		name   string
		signed []byte // old owners that promise and have signed the undecided epoch
		plain  []byte // others that promise
		want   bool
	}{
		{"no quorum", nil, []byte{0}, false},
		{"a quorum", nil, []byte{0, 1}, true},
		{"one has signed an epoch that a quorum has not", []byte{2}, []byte{0, 1}, true},
		{"one has signed, another one may have", []byte{1}, []byte{0}, false},
		{"its owners promise too", []byte{1}, []byte{0, 7, 8}, true},
	} {
		b := &candidacy{number: 4, oldOwners: inForce.Owners}
		for _, i := range c.signed {
			b.count(inForce, id(i), nil, open)
		}
		for _, i := range c.plain {
			b.count(inForce, id(i), nil, nil)
		}
		if b.hasPromises() != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
}

// A candidate that is refused gives up its slot, and campaigns again later with a higher number.
func TestARefusedCandidatePauses(t *testing.T) {
	b := newBench(t)
	p := &proposer{
		membership: &membership{base: b.base}, storage: b.storage, puller: b.puller(), liveness: b.liveness(),
		locator: &locator{base: b.base}, sequencer: b.sequencer(nil), epochs: &epochs{base: b.base, verify: verify}, running: 1,
	}
	b.s.candidacy = &candidacy{since: b.now, number: 3, oldOwners: b.s.epoch.Owners, hasSlot: true}
	m := &ownerpb.Promise{Key: b.s.key[:], Branch: 1, Number: 3, Refused: 5}
	for i, owner := range b.s.epoch.Owners[1:] {
		if refusals := i + 1; refusals > len(b.s.epoch.Owners)-b.s.epoch.Quorum()+1 {
			break
		} else if b.s.candidacy == nil {
			t.Fatalf("it gives up after %d refusals", i)
		}
		if err := p.onPromise(owner, m); err != nil {
			t.Fatal(err)
		}
	}
	if b.s.candidacy != nil || p.running != 0 || b.s.campaign.promisedElsewhere != 5 || !b.s.campaign.at.After(b.now) {
		t.Errorf("%d candidacies are under way; the next one is planned for %v", p.running, b.s.campaign.at.Time())
	}
}

// A node without keys may leave at once, and is told so once.
func TestNothingToHandOver(t *testing.T) {
	b := newBench(t)
	d := &departure{membership: &membership{base: b.base}}
	told := 0
	d.HandOver(func() { told++ })
	if d.timeout(b.now.Add(maxHandOver)); told != 1 {
		t.Errorf("told %d times", told)
	}
}

// An owner acknowledges an entry of the sequencer when it is durable, and no entry of anybody else.
func TestAnOwnerTakesEntriesOfTheSequencer(t *testing.T) {
	b := newBench(t)
	e := someEpoch(3)
	e.Sequencer = signer(1).PeerID()
	b.replicas.setEpoch(b.s, e)
	l := &learner{
		base: b.base, storage: b.storage, epochs: &epochs{base: b.base, verify: verify}, puller: b.puller(), liveness: b.liveness(),
	}
	if err := l.onReplicate(e.Owners[2], &ownerpb.Replicate{Entry: b.next(nil, 2).Raw(), Body: []byte("body")}); !errors.Is(err, errSigner) {
		t.Errorf("an entry of another owner: %v", err)
	}
	if err := l.onReplicate(e.Sequencer, &ownerpb.Replicate{Entry: b.next(nil, 1).Raw(), Body: []byte("body")}); err != nil || len(b.sent) > 0 {
		t.Fatalf("%v; %d messages before the entry is durable", err, len(b.sent))
	}
	if b.flush(nil); len(b.sent) != 1 || b.sent[0].GetReplicateAck() == nil {
		t.Error("no acknowledgement")
	}
}

// Of two branches that meet, the one that ends asks the other one to append its log; the other one asks for that. Each does
// so once in a while.
func TestWhichBranchAsksForAMerge(t *testing.T) {
	for branch, merges := range map[uint64]bool{0: true, 2: false} {
		b := newBench(t)
		q := b.sequencer(func(Event) {})
		q.becomeLeader(b.s)
		r := &merger{base: b.base, storage: b.storage, sequencer: q}
		other := someEpoch(2)
		other.Branch, other.Sequencer = branch, signer(1).PeerID()
		b.s.rival.epoch, b.s.rival.seen = other, env.MomentOf(b.now)
		r.contactRival(b.s)
		r.contactRival(b.s)
		if len(b.sent) != 1 || (b.sent[0].GetMerge() != nil) != merges {
			t.Errorf("branch 1 meets branch %d: %v", branch, b.sent)
		}
		if r.retryContact(b.s, b.now.Add(contactPause)); len(b.sent) != 2 {
			t.Error("a live branch is contacted once only")
		}
		if r.retryContact(b.s, b.now.Add(rivalTime+time.Second)); b.s.rival.epoch != nil {
			t.Error("a branch that was not heard of for long is a rival")
		}
	}
}

// The votes for a key outlive its log.
func TestForgottenLogsLeaveTheirVotes(t *testing.T) {
	b := newBench(t)
	m := &membership{base: b.base}
	k := &keeper{membership: m, storage: b.storage, puller: b.puller(), proposer: &proposer{membership: m}}
	b.s.promise(1, 7, signer(1).PeerID())
	if k.forget(b.s); len(b.replicas.byKey) > 0 {
		t.Error("it is not forgotten")
	}
	if s := b.replicas.ensure(b.s.key, b.s.url, b.now); s.promised.in(1).number != 7 || s.epoch != nil {
		t.Errorf("%+v is promised", s.promised)
	}
}

// An epoch from a peer is believed if it is the one in force, or if a quorum of its owners has signed it.
func TestWhichEpochsAreBelieved(t *testing.T) {
	b := newBench(t)
	r := &epochs{base: b.base, verify: verify}
	bare := b.s.epoch.proto()
	bare = &ownerpb.Epoch{Statement: bare.Statement, Signatures: bare.Signatures[:1]}
	if e, err := r.open(bare); err != nil || e != b.s.epoch {
		t.Errorf("the epoch in force is not recognised: %v", err)
	}
	b.replicas.remove(b.s)
	if e, err := r.open(bare); err != nil || r.check(e) == nil {
		t.Errorf("an epoch with one signature of three is believed: %v", err)
	}
}
