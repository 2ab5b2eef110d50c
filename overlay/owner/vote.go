package owner

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

var (
	errRouted = errors.New("a message that is routed was sent")
	errSigner = errors.New("an entry of somebody else's epoch")
	errAfter  = errors.New("an entry that leaves out what its epoch goes on from")
	errBody   = errors.New("a body that is not its entry's")
	errKey    = errors.New("an epoch of another URL's key")
)

const (
	// maxNumber bounds the numbers of epochs. At the bound no higher one can be
	// promised: a lineage that came there ends in a jump.
	maxNumber = 1 << 31
	// maxAhead is how far beyond what it knows an owner promises a number:
	// more than a year of attempts.
	maxAhead = 1 << 22
)

// onSeal promises to hold nothing of older epochs, if nobody else was promised
// as much.
func (o *Owners) onPrepare(from env.PeerID, m *ownerpb.Prepare) {
	s := o.replicaOf(m.Key)
	if s == nil || s.epoch == nil {
		return
	}
	// Who owns the key in an epoch that others have signed need not have heard of that: what an
	// owner asks it promises, as it can do no harm.
	asked := o.owns(s) || s.mayOwn(o.self) || s.epoch.owns(from)
	if m.Branch != s.epoch.Branch || !asked || !o.mayBeCandidate(s, from) {
		o.sendCommit(from, s)
		return
	}
	if refused := o.conflictingPromise(s, from, m.Branch, m.Number); refused > 0 {
		o.sendPromise(from, s, m.Number, refused)
		return
	}
	s.promised.set(vote{branch: m.Branch, number: m.Number, candidate: from})
	o.saveReplica(s, func() {
		if p := s.promised.in(m.Branch); p.number == m.Number && p.candidate == from && s.epoch != nil {
			o.sendPromise(from, s, m.Number, 0)
		}
	})
	if s.leader != nil {
		o.campaignIn(s, candidacyTime) // if the candidate does not come through
	}
}

// mayBid says whether a peer may be a candidate, as far as is known here: an owner,
// or a member of the leaf.
func (o *Owners) mayBeCandidate(s *replica, p env.PeerID) bool {
	return s.epoch != nil && s.epoch.owns(p) || s.mayOwn(p) || o.alive(p)
}

// refuses returns the number that stands against promising one to a candidate, 0
// if none does.
func (o *Owners) conflictingPromise(s *replica, from env.PeerID, lineage uint64, number uint32) uint32 {
	if plant.VoteTwice {
		return 0
	}
	if s.epoch != nil && s.epoch.Branch == lineage && number <= s.epoch.Number {
		return s.epoch.Number
	}
	p := s.promised.in(lineage)
	known := p.number
	if s.epoch != nil && s.epoch.Branch == lineage {
		known = max(known, s.epoch.Number)
	}
	if p.number > number || p.number == number && p.candidate != from || known > 0 && number-known > maxAhead {
		return known
	}
	return 0
}

func (o *Owners) sendPromise(to env.PeerID, s *replica, number, refused uint32) {
	m := &ownerpb.Promise{Key: s.key[:], Branch: s.epoch.Branch, Number: number, Refused: refused, Epoch: s.epoch.proto()}
	m.Undecided = epochsProto(s.undecided)
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Promise{Promise: m}})
}

// onSign signs the epoch of a candidate, once it has all that the epoch goes on
// from.
func (o *Owners) onSign(from env.PeerID, m *ownerpb.Sign) error {
	e, err := openStatement(m.Statement)
	if err != nil {
		return err
	}
	if overlay.Key(o.node.Network(), e.URL) != e.Key {
		return errKey
	}
	s := o.replicas[e.Key]
	if !e.owns(o.self) && (s == nil || !o.owns(s) && !s.mayOwn(o.self)) {
		return nil
	}
	if !o.mayBeCandidate(cmp.Or(s, &replica{}), from) {
		return nil
	}
	if s == nil {
		if len(o.replicas) >= maxReplicas {
			return nil
		}
		s = o.ensureReplica(e.Key, e.URL)
	}
	if v := s.signed.in(e.Branch); v.number == e.Number && !plant.VoteTwice {
		if v.hash == e.Hash && v.durable {
			o.sendSigned(from, e)
		}
		return nil
	}
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		if e.Number != 1 || !m.Forced || o.owns(s) && !o.silent(s) && from != s.epoch.Sequencer {
			o.sendCommit(from, s)
			return nil
		}
	} else if refused := o.conflictingPromise(s, from, e.Branch, e.Number); refused > 0 {
		if s.epoch != nil {
			o.sendPromise(from, s, e.Number, refused)
		}
		return nil
	}
	if s.epoch == nil && len(s.undecided) > 0 && s.undecided[0].Branch != e.Branch && o.clock.Now().Sub(s.undecided[0].Time).Abs() < candidacyTime {
		return nil // somebody else is founding; one at a time
	}
	if len(s.stillUndecided(e)) >= maxUndecided {
		return nil
	}
	if e.AfterHash != (Hash{}) && s.log.find(e.AfterHash) < 0 {
		o.startPull(s, o.peer(from), nil)
		if s.pull != nil {
			s.pull.takeUncommitted = true
		}
		return nil // the candidate asks again
	}
	if o.volatile[e.AfterHash] {
		return nil // so it does here: what is not durable may yet be refused
	}
	o.lockSignature(s, e, from, func() { o.sendSigned(from, e) })
	return nil
}

// mayOwn says whether a peer is an owner in an epoch that may be in force, unknown
// here.
func (s *replica) mayOwn(p env.PeerID) bool {
	return slices.ContainsFunc(s.undecided, func(e *Epoch) bool { return e.owns(p) })
}

// opened returns the open epochs that stay so beside a new one: its candidate has
// ruled out the others, for a quorum that has not signed them never will.
func (s *replica) stillUndecided(e *Epoch) (of []*Epoch) {
	for _, p := range s.undecided {
		if p.Branch == e.Branch && slices.Contains(e.Concurrent, p.Hash) {
			of = append(of, p)
		}
	}
	return of
}

// lock makes durable that this node signs an epoch, and no other of its number.
func (o *Owners) lockSignature(s *replica, e *Epoch, candidate env.PeerID, then func()) {
	v := vote{branch: e.Branch, number: e.Number, candidate: candidate, hash: e.Hash}
	s.signed.set(v)
	s.promised.set(vote{branch: e.Branch, number: e.Number, candidate: candidate})
	s.undecided = append(s.stillUndecided(e), e)
	o.saveReplica(s, func() {
		if s.signed.in(e.Branch).hash == e.Hash {
			v.durable = true
			s.signed.set(v)
			then()
		}
	})
}

func (o *Owners) sendSigned(to env.PeerID, e *Epoch) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Signed{Signed: &ownerpb.Signed{
		Key: e.Key[:], Signature: o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw,
	}}})
}

// silent says whether a key's sequencer has given no sign of life for a lease, or
// nearly: clocks and beats are not that exact.
func (o *Owners) silent(s *replica) bool {
	return s.leader == nil && o.clock.Now().Sub(o.lastHeard(s)) > o.cfg.Lease*7/8
}

// heard is when the sequencer in force gave its last sign of life.
func (o *Owners) lastHeard(s *replica) time.Time {
	at := s.lastHeard
	if s.epoch != nil {
		if b := o.matchedHeartbeats[s.epoch.Sequencer]; b.After(at) {
			at = b
		}
	}
	return at
}

func (o *Owners) sendCommit(to env.PeerID, s *replica) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{
		Epoch: s.epoch.proto(), Note: s.note, Version: s.version,
	}}})
}

// onInstall takes the news of an epoch.
func (o *Owners) onCommit(from env.PeerID, m *ownerpb.Commit) error {
	e, err := o.openEpoch(m.Epoch)
	if err != nil {
		return err
	}
	if overlay.Key(o.node.Network(), e.URL) != e.Key {
		return errKey
	}
	s := o.replicas[e.Key]
	if s == nil {
		return nil // who signed it has a seat; the others are told by mistake
	}
	o.lookUpLater(s, e, from)
	if s.epoch != nil && e.Branch != s.epoch.Branch {
		merged, _ := hashFrom(m.MergedHead)
		o.onOtherBranch(s, e, from, merged, m.Absorbed)
		return nil
	}
	switch {
	case s.epoch != nil && (e.Number < s.epoch.Number || m.WantReply && e.Number == s.epoch.Number):
		o.sendCommit(from, s)
		return nil
	case s.epoch == nil || e.Number > s.epoch.Number:
		if o.needsLookup(s, e) {
			o.startPull(s, o.peer(from), nil) // which looks first who lives there
			return nil
		}
		if !o.acceptable(s, e) {
			o.stats.Untrusted++
			return nil
		}
		if s.epoch != nil && s.epoch.owns(from) && !e.owns(from) {
			s.exclude(from, o.clock.Now()) // it gives the key up, because it is about to leave
		}
		o.commitEpoch(s, e, from)
	}
	if e.Hash == s.epoch.Hash && s.epoch.owns(from) {
		o.takeNote(s, m.Note, m.Version, from)
	}
	return nil
}

// right says whether an epoch may follow the one in force: it was signed by a
// quorum of both, or, where this node has missed some between, by one of its own
// owners who stand where owners of the key can stand.
func (o *Owners) acceptable(s *replica, e *Epoch) bool {
	if !e.certifiedBy(e.Owners) {
		return false
	}
	return s.epoch != nil && e.Succeeds(s.epoch) || o.ownersPlausible(s, e)
}

// dense says whether the owners of an epoch stand as near to the key as owners in
// a network of this size do. Somebody who makes up owners has to search for as
// many keys as there are members for each of them.
func (o *Owners) ownersNearKey(e *Epoch) bool {
	n := o.node.Stats().EstimatedN
	if n < 64 {
		return true // then owners can stand nearly anywhere
	}
	// Of n members the nearest eight share some log2(n)-3 bits with the key; a
	// set that shares five bits less than that was not the nearest.
	want := -8
	for ; n > 1; n /= 2 {
		want++
	}
	near := 0
	for _, p := range e.Owners {
		if o.id(p).Common(e.Key) >= want {
			near++
		}
	}
	return near >= quorum(len(e.Owners))
}

// install puts an epoch in force here.
func (o *Owners) commitEpoch(s *replica, e *Epoch, from env.PeerID) {
	if plant.Clinging && s.epoch != nil && s.epoch.owns(o.self) && !e.owns(o.self) {
		return
	}
	now := o.clock.Now()
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		s.excluded = nil
	}
	o.releaseSlot(s.candidacy)
	o.setEpoch(s, e)
	s.url, s.lastHeard, s.noQuorumSince, s.candidacy, s.promisedElsewhere = e.URL, now, time.Time{}, nil, 0
	s.abandoned = nil
	s.undecided = slices.DeleteFunc(slices.Clone(s.undecided), func(p *Epoch) bool { return p.Branch != e.Branch || p.Number <= e.Number })
	var ops []env.Op
	if at := s.log.find(e.AfterHash); at >= 0 || e.AfterHash == (Hash{}) {
		// After what it goes on from come its own entries, and nobody else's.
		n, last := at+1, e.AfterHash
		for n < len(s.log) && s.log[n].At.Branch == e.Branch && s.log[n].At.Epoch == e.Number {
			last = s.log[n].Hash
			n++
		}
		o.stats.Truncated += uint64(len(s.log) - n)
		ops = o.truncate(s, last)
	}
	if plant.StepBack && !o.owns(s) && len(s.log) > 1 {
		s.setLog(s.log[:len(s.log)-1])
	}
	o.saveReplica(s, nil, ops...)
	if s.log.headHash() == e.AfterHash {
		s.committed = e.AfterHash
	}
	o.updateVisible(s)
	if e.Sequencer == o.self {
		if l := s.leader; l != nil {
			l.inflight, l.lagging = o.resolveInflight(s, l), nil
		}
		o.becomeLeader(s)
	} else {
		o.stepDown(s)
	}
	switch {
	case o.owns(s):
		s.notOwnerSince = time.Time{}
		if s.log.headHash() != e.AfterHash && s.log.find(e.AfterHash) < 0 && from != o.self {
			o.startPull(s, o.peer(from), nil)
		}
	case !s.follow:
		s.notOwnerSince = now
	}
	o.after(leafSettleTime, task{kind: taskCheckOwners, key: s.key}) // the owners may have changed while these were chosen
	o.startHandOver(s)
	o.checkHandOver()
}

// refly looks what becomes of an entry that was under way when the epoch changed:
// the new one goes on from it, then its owners hold it; or it goes back to the
// queue.
func (o *Owners) resolveInflight(s *replica, l *leaderState) *inflight {
	f := l.inflight
	if f == nil {
		return nil
	}
	if s.log.find(f.entry.Hash) >= 0 {
		o.stats.Committed++
		o.app.Committed(s.key, f.entry, f.body)
		if f.done != nil {
			f.done(true)
		}
		return nil
	}
	if f.setHash == nil {
		return nil // of an earlier life: a poll finds it again
	}
	l.queue = slices.Insert(l.queue, 0, pending{f.body, f.entry.Items, f.setHash, f.done})
	return nil
}
