package owner

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

var (
	errRouted = errors.New("a message that must be routed was sent directly")
	errSigner = errors.New("an entry is not signed by the sequencer of its epoch")
	errAfter  = errors.New("an entry does not continue from the last entry before its epoch")
	errBody   = errors.New("a body does not match the hash in its entry")
	errKey    = errors.New("an epoch's key is not the key of its URL")
)

// onPrepare promises a candidate not to accept entries of lower epochs, unless another candidate has an equal or
// higher promise.
func (o *Owners) onPrepare(from env.PeerID, m *ownerpb.Prepare) {
	s := o.replicas.of(m.Key)
	if s == nil || s.epoch == nil {
		return
	}
	// This node may be an owner in an undecided epoch that it has not heard of. It therefore promises any
	// candidate that is an owner, which does no harm.
	asked := s.owned || s.mayOwn(o.self) || s.epoch.owns(from)
	if m.Branch != s.epoch.Branch || !asked || !o.mayBeCandidate(s, from) {
		o.sendCommit(from, s)
		return
	}
	if refused := s.conflict(from, m.Branch, m.Number); refused > 0 {
		o.sendPromise(from, s, m.Number, refused)
		return
	}
	s.promise(m.Branch, m.Number, from)
	o.save(s, func() {
		if p := s.promised.in(m.Branch); p.number == m.Number && p.candidate == from && s.epoch != nil {
			o.sendPromise(from, s, m.Number, 0)
		}
	})
	if s.leader != nil {
		o.campaignIn(s, candidacyTime) // in case that candidate fails
	}
}

// mayBeCandidate reports whether a peer may run for the key, as far as is known here: it is an owner, or a member
// of the leaf.
func (o *Owners) mayBeCandidate(s *replica, p env.PeerID) bool {
	return s.epoch != nil && s.epoch.owns(p) || s.mayOwn(p) || o.alive(p)
}

func (o *Owners) sendPromise(to env.PeerID, s *replica, number, refused uint32) {
	m := &ownerpb.Promise{Key: s.key[:], Branch: s.epoch.Branch, Number: number, Refused: refused, Epoch: s.epoch.proto()}
	m.Undecided = epochsProto(s.undecided)
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Promise{Promise: m}})
}

// onSign signs a candidate's epoch after pulling the log up to the entry that the epoch continues from.
func (o *Owners) onSign(from env.PeerID, m *ownerpb.Sign) error {
	e, err := openStatement(m.Statement)
	if err != nil {
		return err
	}
	if o.keyOf(e.URL) != e.Key {
		return errKey
	}
	s := o.replicas.byKey[e.Key]
	if !e.owns(o.self) && (s == nil || !s.owned && !s.mayOwn(o.self)) {
		return nil
	}
	if !o.mayBeCandidate(cmp.Or(s, &replica{}), from) {
		return nil
	}
	if s == nil {
		if o.replicas.full() {
			return nil
		}
		s = o.replicas.ensure(e.Key, e.URL, o.clock.Now())
	}
	if v := s.signed.in(e.Branch); v.number == e.Number && !plant.VoteTwice {
		if v.hash == e.Hash && v.durable {
			o.sendSigned(from, e)
		}
		return nil
	}
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		if e.Number != 1 || !m.Forced || s.owned && !o.silent(s) && from != s.epoch.Sequencer {
			o.sendCommit(from, s)
			return nil
		}
	} else if refused := s.conflict(from, e.Branch, e.Number); refused > 0 {
		if s.epoch != nil {
			o.sendPromise(from, s, e.Number, refused)
		}
		return nil
	}
	if s.epoch == nil && len(s.undecided) > 0 && s.undecided[0].Branch != e.Branch && o.clock.Now().Sub(s.undecided[0].Time).Abs() < candidacyTime {
		return nil // another candidate is founding the log
	}
	if len(s.stillUndecided(e)) >= maxUndecided {
		return nil
	}
	if e.AfterHash != (Hash{}) && s.log.find(e.AfterHash) < 0 {
		o.pullFrom(s, from)
		if s.pull != nil {
			s.pull.takeUncommitted = true
		}
		return nil // the candidate repeats the request
	}
	if !o.durable(e.AfterHash) {
		return nil // the disk may still refuse the entry; the candidate repeats the request
	}
	o.lockSignature(s, e, from, func() { o.sendSigned(from, e) })
	return nil
}

// lockSignature stores the vote for an epoch, and then calls then. No other epoch of this number is signed afterwards.
func (o *Owners) lockSignature(s *replica, e *Epoch, candidate env.PeerID, then func()) {
	s.sign(e, candidate)
	o.save(s, func() {
		if s.stored(e) {
			then()
		}
	})
}

func (o *Owners) sendSigned(to env.PeerID, e *Epoch) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Signed{Signed: &ownerpb.Signed{
		Key: e.Key[:], Signature: o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw,
	}}})
}

// onCommit handles news of a certified epoch.
func (o *Owners) onCommit(from env.PeerID, m *ownerpb.Commit) error {
	e, err := o.epochs.open(m.Epoch)
	if err != nil {
		return err
	}
	if o.keyOf(e.URL) != e.Key {
		return errKey
	}
	s := o.replicas.byKey[e.Key]
	if s == nil {
		return nil // all signers have a replica; other nodes have no use for the epoch
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
			o.pullFrom(s, from) // the pull starts with a lookup
			return nil
		}
		if !o.acceptable(s, e) {
			o.stats.Untrusted++
			return nil
		}
		if s.epoch != nil && s.epoch.owns(from) && !e.owns(from) {
			s.exclude(from, o.clock.Now()) // the sender is about to leave the network
		}
		o.commitEpoch(s, e, from)
	}
	if e.Hash == s.epoch.Hash && s.epoch.owns(from) {
		o.takeNote(s, m.Note, m.Version, from)
	}
	return nil
}

// commitEpoch puts a certified epoch in force here, and drops entries that it does not continue.
func (o *Owners) commitEpoch(s *replica, e *Epoch, from env.PeerID) {
	if plant.Clinging && s.epoch != nil && s.epoch.owns(o.self) && !e.owns(o.self) {
		return
	}
	now := o.clock.Now()
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		s.campaign.excluded = nil
	}
	o.releaseSlot(s.candidacy)
	o.replicas.setEpoch(s, e)
	s.settle()
	s.url, s.lastHeard, s.noQuorumSince, s.candidacy, s.campaign.promisedElsewhere = e.URL, now, time.Time{}, nil, 0
	s.campaign.abandoned = nil
	ops := o.cut(s, e)
	if plant.StepBack && !s.owned && len(s.log.chain) > 1 {
		s.log.set(s.log.chain[:len(s.log.chain)-1])
	}
	o.save(s, nil, ops...)
	if s.log.headHash() == e.AfterHash {
		s.log.committed = e.AfterHash
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
	case s.owned:
		s.notOwnerSince = time.Time{}
		if s.log.headHash() != e.AfterHash && s.log.find(e.AfterHash) < 0 && from != o.self {
			o.pullFrom(s, from)
		}
	case !s.follow:
		s.notOwnerSince = now
	}
	o.after(leafSettleTime, task{kind: taskCheckOwners, key: s.key}) // the leaf may have changed during the candidacy
	o.startHandOver(s)
	o.checkHandOver()
}

// resolveInflight decides about the entry in flight when the epoch changes. If the new epoch continues from it, it is
// committed; otherwise its body goes back to the front of the queue.
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
		return nil // appended by a former run of this node; a poll finds the items again
	}
	l.queue = slices.Insert(l.queue, 0, pending{f.body, f.entry.Items, f.setHash, f.done})
	return nil
}
