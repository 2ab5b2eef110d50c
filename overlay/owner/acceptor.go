package owner

import (
	"cmp"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

// An acceptor answers candidates with promises and signatures, as an acceptor in Paxos does.
type acceptor struct {
	*membership
	storage  *storage
	puller   *puller
	liveness *liveness
	signer   *wire.Signer
}

// onPrepare promises a candidate not to accept entries of lower epochs, unless another candidate has an equal or
// higher promise.
func (a *acceptor) onPrepare(from env.PeerID, m *ownerpb.Prepare) {
	s := a.replicas.of(m.Key)
	if s == nil || s.epoch == nil {
		return
	}
	// This node may be an owner in an undecided epoch that it has not heard of. It therefore promises any
	// candidate that is an owner, which does no harm.
	if a.barred(s, from) {
		return
	}
	asked := s.owned || s.mayOwn(a.self) || s.epoch.owns(from)
	if m.Branch != s.epoch.Branch || !asked || !a.mayBeCandidate(s, from) {
		a.sendCommit(from, s)
		return
	}
	refused := s.conflict(from, m.Branch, m.Number)
	may := a.mayRun(s, from, refused == 0)
	if refused > 0 {
		a.sendPromise(from, s, m.Number, refused)
		return
	}
	if !may {
		return // the candidate repeats the request
	}
	s.promise(m.Branch, m.Number, from)
	if s.ledBy(from) && s.progress.promisedAt == env.Never {
		s.progress.promisedAt = env.MomentOf(a.clock.Now())
	}
	a.storage.save(s, func() {
		if p := s.promised.in(m.Branch); p.number == m.Number && p.candidate == from && s.epoch != nil {
			a.sendPromise(from, s, m.Number, 0)
		}
	})
	if s.leader != nil {
		a.campaignIn(s, candidacyTime) // in case that candidate fails
	}
}

// mayBeCandidate reports whether a peer may run for the key, as far as is known here: it is an owner, or a member
// of the leaf.
func (a *acceptor) mayBeCandidate(s *replica, p env.PeerID) bool {
	return s.epoch != nil && s.epoch.owns(p) || s.mayOwn(p) || a.alive(p)
}

func (a *acceptor) sendPromise(to env.PeerID, s *replica, number, refused uint32) {
	m := &ownerpb.Promise{Key: s.key[:], Branch: s.epoch.Branch, Number: number, Refused: refused, Epoch: s.epoch.proto(), ClockMs: a.clockMillis()}
	m.Undecided = epochsProto(s.undecided)
	if head := s.log.head(); head != nil {
		m.Head = head.Raw()
	}
	a.send(to, &ownerpb.Message{Body: &ownerpb.Message_Promise{Promise: m}})
}

// onSign signs a candidate's epoch after pulling the log up to the entry that the epoch continues from.
func (a *acceptor) onSign(from env.PeerID, m *ownerpb.Sign) error {
	e, err := openStatement(m.Statement)
	if err != nil {
		return err
	}
	if a.keyOf(e.URL) != e.Key {
		return errKey
	}
	s := a.replicas.byKey[e.Key]
	if !e.owns(a.self) && (s == nil || !s.owned && !s.mayOwn(a.self)) {
		return nil
	}
	if !a.mayBeCandidate(cmp.Or(s, &replica{}), from) || s != nil && a.barred(s, e.Sequencer) {
		return nil
	}
	if s == nil {
		if a.replicas.full() {
			return nil
		}
		s = a.replicas.ensure(e.Key, e.URL, a.clock.Now())
	}
	if v := s.signed.in(e.Branch); v.number == e.Number {
		if v.hash == e.Hash && v.durable {
			a.sendSigned(from, e)
		}
		return nil
	}
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		if e.Number != 1 || !m.Forced || s.owned && !a.liveness.failed(s) && from != s.epoch.Sequencer {
			a.sendCommit(from, s)
			return nil
		}
	} else if refused := s.conflict(from, e.Branch, e.Number); refused > 0 {
		if s.epoch != nil {
			a.sendPromise(from, s, e.Number, refused)
		}
		return nil
	}
	if s.epoch != nil && s.epoch.Branch == e.Branch && !a.mayRun(s, from, true) {
		return nil // the candidate repeats the request
	}
	if s.epoch == nil && len(s.undecided) > 0 && s.undecided[0].Branch != e.Branch && a.clock.Now().Sub(s.undecided[0].Time).Abs() < candidacyTime {
		return nil // another candidate is founding the log
	}
	if len(s.stillUndecided(e)) >= maxUndecided {
		return nil
	}
	if e.AfterHash != (Hash{}) && s.log.find(e.AfterHash) < 0 {
		a.puller.pullFrom(s, from)
		if s.pull != nil {
			s.pull.takeUncommitted = true
		}
		return nil // the candidate repeats the request
	}
	if !a.storage.durable(e.AfterHash) {
		return nil // the disk may still refuse the entry; the candidate repeats the request
	}
	a.lockSignature(s, e, from, func() { a.sendSigned(from, e) })
	return nil
}

// lockSignature stores the vote for an epoch, and then calls then. No other epoch of this number is signed afterwards.
func (a *acceptor) lockSignature(s *replica, e *Epoch, candidate env.PeerID, then func()) {
	s.sign(e, candidate)
	a.storage.save(s, func() {
		if s.stored(e) {
			then()
		}
	})
}

func (a *acceptor) sendSigned(to env.PeerID, e *Epoch) {
	a.send(to, &ownerpb.Message{Body: &ownerpb.Message_Signed{Signed: &ownerpb.Signed{
		Key: e.Key[:], Signature: a.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw, ClockMs: a.clockMillis(),
	}}})
}
