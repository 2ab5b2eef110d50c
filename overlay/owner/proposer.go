package owner

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A proposer makes epochs: it collects promises, pulls what was promised, and collects signatures, as a proposer in Paxos
// does.
type proposer struct {
	*membership
	storage   *storage
	puller    *puller
	liveness  *liveness
	locator   *locator
	acceptor  *acceptor
	sequencer *sequencer
	epochs    *epochs
	signer    *wire.Signer
	// commit is called with a certified epoch that this node has made or heard of. It ends the candidacy.
	commit func(s *replica, e *Epoch, from env.PeerID)

	running int          // candidacies that hold a slot; at most maxCandidacies
	waiting []overlay.ID // keys whose campaigns wait for a slot, in order
}

const (
	// maxAbandoned bounds the remembered hashes of own proposals that were given up. A forgotten proposal counts as
	// one that may be certified, until owners that have not signed it rule it out.
	maxAbandoned = 64
	// maxCandidacies bounds the candidacies under way; further ones wait for a slot. Each one gets answers from about
	// five owners, and all answers must fit into an inbox of 2,048 frames: if a busy node ran for all of its
	// keys at once, most answers would be lost, requested again and lost again. A candidacy that cannot reach a
	// quorum gives up its slot after answerTime, and one that no other owner can answer takes none.
	maxCandidacies = 256
	// candidacyTime is how long a candidate tries before it gives others a chance.
	candidacyTime = 10 * time.Second
	// candidacyPause is the average delay before the next attempt.
	candidacyPause = 10 * time.Second
	// pairPatience is how long one or two owners wait for a quorum before a forced reconfiguration, when Config.Lease is
	// longer. A pair has no quorum after one death, so with a lease its readers would wait 10 minutes whenever one of two
	// nodes is switched off. If both live and were only partitioned, their branches are merged when they meet.
	pairPatience = 15 * time.Second
	// reachTime is how long a forced reconfiguration waits for promises of old owners that may still answer.
	reachTime = 3 * time.Second
)

// onRequestOwners founds a key's log if it has no live owners. keeper, if not nil, is a member that keeps an
// older log of the key, which the new owners continue.
func (p *proposer) onRequestOwners(key overlay.ID, url string, keeper *overlay.Contact) {
	if s := p.replicas.byKey[key]; s != nil && s.epoch != nil && (s.owned || s.epoch.certifiedBy(s.epoch.Owners) && !p.locator.ownersGone(s)) {
		if keeper != nil && !s.epoch.owns(keeper.Peer.ID) {
			p.sendCommit(keeper.Peer.ID, s) // its log may be of another branch
		}
		return
	}
	if p.replicas.byKey[key] == nil && p.replicas.full() {
		return
	}
	s := p.replicas.ensure(key, url, p.clock.Now())
	if s.epoch == nil && s.candidacy == nil && keeper != nil {
		p.puller.start(s, keeper.Peer, func(bool) { p.campaignIn(s, 0) })
		return
	}
	p.campaignIn(s, 0)
}

// campaign starts the candidacy that was planned for now.
func (p *proposer) campaign(s *replica, now time.Time) {
	if s.campaign.at == env.Never || s.campaign.at.After(now) {
		return // planned for another time
	}
	s.campaign.at = env.Never
	p.start(s)
}

// start starts a candidacy if there is a reason for one: the key has no living owners and this node is its root, other
// owners are due, the sequencer is dead or silent, or the epoch in force is blocked.
func (p *proposer) start(s *replica) {
	now := p.clock.Now()
	if s.epoch != nil && p.alive(s.epoch.Sequencer) && p.liveness.stalled(s) {
		p.leaveOut(s, s.epoch.Sequencer)
	}
	want := p.desiredOwners(s)
	if want == nil || s.candidacy != nil {
		return
	}
	b := &candidacy{since: now, newOwners: want}
	if s.epoch == nil || !s.owned {
		if !p.node.IsRoot(s.key) || s.epoch != nil && !p.locator.ownersGone(s) {
			return
		}
		b.founding, b.forced = true, s.epoch != nil
	} else {
		incumbent := s.epoch.Sequencer
		stuck := s.noQuorumSince != env.Never || s.promisedAway() || s.campaign.promisedElsewhere > s.epoch.Number // a higher epoch was promised
		switch {
		case s.ledBy(p.self) && sameSet(want, s.epoch.Owners) && !stuck:
			return
		case !s.ledBy(p.self) && p.alive(incumbent) && !p.liveness.failed(s) && !p.mustHandOver(s) && !p.barred(s, incumbent):
			return // the live sequencer makes the change itself
		}
		b.oldOwners = s.epoch.Owners
		b.number = max(s.epoch.Number, s.campaign.promisedElsewhere) + 1
		b.number = min(max(b.number, s.promisedNumber()+1), maxNumber)
		patience := p.liveness.lease
		if len(b.oldOwners) <= 2 {
			patience = min(patience, pairPatience)
		}
		b.forced = s.noQuorumSince != env.Never && now.Sub(s.noQuorumSince.Time()) >= patience
		if !s.conduct.turns.begin(p.self, now) && !b.forced && !p.leaving {
			p.campaignIn(s, candidacyTime/2) // another candidate has its turn
			return
		}
	}
	b.hasSlot = b.founding || p.living(b.oldOwners) > 1
	if b.hasSlot && p.running >= maxCandidacies {
		s.campaign.waiting = true
		p.waiting = append(p.waiting, s.key)
		return
	}
	if b.hasSlot {
		p.running++
	}
	b.newSequencer = p.chooseSequencer(s, want)
	s.candidacy = b
	p.stats.Candidacies++
	if b.founding {
		p.propose(s)
	} else {
		s.promise(s.epoch.Branch, b.number, p.self)
		p.storage.save(s, func() {
			if s.candidacy == b {
				p.countPromise(s, p.self, s.log.head(), s.undecided)
			}
		})
		p.sendPrepares(s)
	}
	p.retryIn(s, answerTime)
}

// retryIn plans the next repetition of a candidacy's requests.
func (p *proposer) retryIn(s *replica, d time.Duration) {
	if s.candidacy != nil {
		s.candidacy.retryAt = p.after(d, task{kind: taskRetryCandidacy, key: s.key})
	}
}

// releaseSlot gives a candidacy's slot to the first key that waits.
func (p *proposer) releaseSlot(b *candidacy) {
	if b == nil || !b.hasSlot {
		return
	}
	b.hasSlot = false
	p.running--
	if len(p.waiting) > 0 {
		p.after(0, task{kind: taskStartWaiting}) // not at once: the caller is still ending a candidacy
	}
}

// startWaiting starts waiting campaigns while there are free slots.
func (p *proposer) startWaiting() {
	for len(p.waiting) > 0 && p.running < maxCandidacies {
		s := p.replicas.byKey[p.waiting[0]]
		p.waiting = p.waiting[1:]
		if s != nil && s.campaign.waiting { // false: the replica was forgotten meanwhile
			s.campaign.waiting = false
			p.start(s)
		}
	}
}

// chooseSequencer prefers the incumbent, while it lives, does its work and stays an owner; then this node; then the nearest
// of the other old owners that are not barred; then the nearest member.
func (p *proposer) chooseSequencer(s *replica, want []env.PeerID) env.PeerID {
	if s.epoch == nil {
		if slices.Contains(want, p.self) {
			return p.self
		}
		return want[0]
	}
	in := s.epoch.Sequencer
	if slices.Contains(want, in) && p.alive(in) && !p.barred(s, in) && (in == p.self || !p.liveness.failed(s)) {
		return in
	}
	if slices.Contains(want, p.self) {
		return p.self
	}
	return want[max(slices.IndexFunc(want, func(o env.PeerID) bool { return o != in && s.epoch.owns(o) && !p.barred(s, o) }), 0)]
}

// pullAndPropose pulls the farthest head that was promised, then proposes the epoch.
func (p *proposer) pullAndPropose(s *replica) {
	b := s.candidacy
	promised := b.hasPromises()
	head, holder := b.best(s.epoch, s.conduct.withheld, b.forced)
	if head == nil || s.log.find(head.Hash) >= 0 {
		b.forced = b.forced && !promised // a quorum answers after all
		p.propose(s)
		return
	}
	if holder == "" {
		return // more promises will tell whether a quorum can have the entry
	}
	own := s.pull == nil
	p.puller.start(s, p.peer(holder), func(bool) {
		has := s.log.find(head.Hash) >= 0
		if !has && own {
			s.conduct.withholds(holder)
		}
		if s.candidacy == b && b.proposal == nil && (has || own && b.hasPromises()) {
			p.pullAndPropose(s) // otherwise from another owner, or without the entry
		}
	})
}

// propose builds the epoch, signs it, and asks the old and the new owners for signatures.
func (p *proposer) propose(s *replica) {
	b := s.candidacy
	if head := s.log.head(); head != nil && !p.storage.durable(head.Hash) {
		return // the head is not durable yet; retry calls again
	}
	if !b.founding && !b.forced && s.promisedNumber() > b.number {
		return // this node has promised a later epoch to another candidate meanwhile
	}
	e := b.propose(s, p.id(b.newSequencer), p.clock.Now().Truncate(time.Millisecond))
	own := func() {
		if s.candidacy != b || b.proposal != e {
			return
		}
		b.signedHere = true
		e.addSignature(p.epochs.verify, p.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw)
		p.sendSigns(s)
		p.commitIfSigned(s)
	}
	p.acceptor.lockSignature(s, e, p.self, own)
}

func (p *proposer) sendSigns(s *replica) {
	b := s.candidacy
	m := &ownerpb.Message{Body: &ownerpb.Message_Sign{Sign: &ownerpb.Sign{Statement: b.proposal.statement(), Forced: b.forced}}}
	p.sendOthers(without(b.voters(), b.proposal.signers), m)
}

// onSigned counts a signature.
func (p *proposer) onSigned(from env.PeerID, m *ownerpb.Signed) {
	s := p.replicas.of(m.Key)
	if s == nil || s.candidacy == nil || s.candidacy.proposal == nil || !s.candidacy.signedHere || !slices.Contains(s.candidacy.voters(), from) {
		return
	}
	if id, ok := s.candidacy.proposal.addSignature(p.epochs.verify, m.Signature); ok && id == from {
		p.heardClock(from, m.ClockMs)
		p.commitIfSigned(s)
	}
}

// commitIfSigned commits the proposal when a quorum of each voter set and of the new owners has signed.
func (p *proposer) commitIfSigned(s *replica) {
	b := s.candidacy
	e := b.proposal
	if !b.certified() {
		return
	}
	if b.forced {
		p.stats.ForcedReconfigs++
		p.storage.log.Info("log of a feed continues without a quorum of its owners", "url", s.url)
	}
	p.stats.Epochs++
	told := b.voters()
	p.judge(s, b)
	p.epochs.cache.add(e)
	p.commit(s, e, p.self)
	p.sendOthers(told, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: s.commit()}})
}

// retry repeats the requests that were not answered. The delay doubles each time, because many answers may
// still be on their way. After candidacyTime it gives up.
func (p *proposer) retry(s *replica, now time.Time) {
	b := s.candidacy
	if b == nil || now.Before(b.retryAt) {
		return // planned for an earlier candidacy
	}
	if !b.founding && p.living(b.oldOwners) < quorum(len(b.oldOwners)) {
		p.releaseSlot(b)
	}
	switch age := now.Sub(b.since); {
	case age >= candidacyTime:
		p.abandon(s, candidacyPause)
		return
	case b.proposal == nil && b.forced && age >= reachTime:
		p.pullAndPropose(s)
	case b.proposal == nil && !b.founding:
		if p.living(b.oldOwners) > 1 { // otherwise the next candidacy asks an owner that returns
			p.sendPrepares(s)
		}
		if s.pull == nil && b.hasPromises() {
			p.pullAndPropose(s) // the last pull failed
		}
	case b.proposal == nil: // founding from a follower's log that was not durable yet
		p.propose(s)
	case b.signedHere:
		p.sendSigns(s)
	}
	if s.candidacy == b {
		b.retries++
		p.retryIn(s, min(answerTime<<b.retries, candidacyTime-now.Sub(b.since)))
	}
}

// end ends the candidacy of a key, if there is one.
func (p *proposer) end(s *replica) {
	p.releaseSlot(s.candidacy)
	s.candidacy = nil
}

// epochChanged ends what an attempt to begin an epoch before e has left. A sequencer that begins one epoch after the other
// is waited for no longer than one that begins none.
func (p *proposer) epochChanged(s *replica, e *Epoch) {
	p.end(s)
	s.noQuorumSince, s.campaign.promisedElsewhere, s.campaign.abandoned = env.Never, 0, nil
	missingAt := s.progress.missingAt
	if s.epoch == nil || s.epoch.Sequencer != e.Sequencer {
		missingAt = env.Never
	}
	s.progress, s.conduct.turns, s.conduct.withheld = progress{missingAt: missingAt}, nil, nil
}

// abandon ends a candidacy without a new epoch. Another campaign follows after the pause if there is still a reason.
func (p *proposer) abandon(s *replica, pause time.Duration) {
	b := s.candidacy
	p.end(s)
	s.conduct.turns.end(p.self)
	s.campaign.promisedElsewhere = max(s.campaign.promisedElsewhere, b.numberToExceed())
	if b.signedHere {
		// Others may have signed the proposal, but signatures are sent to the candidate alone, so it can
		// never be certified.
		if s.campaign.abandoned == nil || len(s.campaign.abandoned) >= maxAbandoned {
			s.campaign.abandoned = map[Hash]bool{}
		}
		s.campaign.abandoned[b.proposal.Hash] = true
	}
	switch {
	case b.founding:
	case b.proposal != nil && !b.forced && !b.blocked() && (b.proposal.certifiedBy(b.oldOwners) || p.clock.Now().Sub(b.since) < candidacyTime):
		// A quorum has promised, but new owners do not sign, for example because they own the key in another
		// branch. This branch has a quorum and does not give way to that one. If the old owners had the time to sign and
		// did not, there is no quorum, whatever they promise.
		s.noQuorumSince = env.Never
	default:
		if s.noQuorumSince == env.Never {
			s.noQuorumSince = env.MomentOf(b.since)
		}
		if p.clock.Now().Sub(s.noQuorumSince.Time()) >= giveWayTime && !p.node.IsRoot(s.key) {
			p.RequestOwners(s.key, s.url, func(bool) {}) // the root may know a live branch
		}
	}
	if s.epoch != nil {
		pause += p.turn(s)
	}
	p.campaignIn(s, env.Jitter(p.rand, pause))
	if s.leader != nil {
		p.sequencer.appendNext(s)
	}
}

// RequestOwners asks the root of a URL's key to found a log if the key has no owners. If this node keeps a log whose
// owners are all gone, the new owners continue that log. done is told whether the root received the request.
func (p *proposer) RequestOwners(key overlay.ID, url string, done func(ok bool)) {
	want := &ownerpb.RequestOwners{Url: url}
	if s := p.replicas.byKey[key]; s != nil && len(s.log.chain) > 0 && p.node.State() == overlay.Active {
		want.Record = p.node.Self().Raw
	}
	p.node.Route(wire.Owner, key, wire.Encode(&ownerpb.Message{Body: &ownerpb.Message_RequestOwners{RequestOwners: want}}),
		func(_ overlay.Receipt, ok bool) { done(ok) })
}

func (p *proposer) sendPrepares(s *replica) {
	m := &ownerpb.Message{Body: &ownerpb.Message_Prepare{Prepare: &ownerpb.Prepare{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.candidacy.number,
	}}}
	p.sendOthers(without(union(s.candidacy.promiserSets()), s.candidacy.promised), m)
}

// onPromise handles an owner's promise, or its refusal.
func (p *proposer) onPromise(from env.PeerID, m *ownerpb.Promise) error {
	s := p.replicas.of(m.Key)
	if s == nil || s.epoch == nil {
		return nil
	}
	if m.Epoch != nil {
		e, err := p.epochs.open(m.Epoch)
		if err != nil {
			return err
		}
		if e.Key == s.key && e.Branch == s.epoch.Branch && e.Number > s.epoch.Number {
			if p.locator.acceptable(s, e) {
				p.commit(s, e, from)
			}
			return nil
		}
	}
	b := s.candidacy
	if b == nil && s.leader != nil && m.Refused > s.epoch.Number && m.Branch == s.epoch.Branch && m.Number == s.epoch.Number && s.epoch.owns(from) {
		// The owner has promised a later epoch to a candidate, so it refuses this node's entries.
		if s.leader.heed(from, p.clock.Now(), p.liveness.lease) && m.Refused <= s.epoch.Number+maxRefusedAhead {
			s.campaign.promisedElsewhere = max(s.campaign.promisedElsewhere, m.Refused)
			p.campaignIn(s, candidacyTime) // in case that candidate fails
		}
		return nil
	}
	if b == nil || b.founding || m.Branch != s.epoch.Branch || m.Number != b.number || !slices.Contains(union(b.promiserSets()), from) {
		return nil
	}
	if m.Refused > 0 {
		// Another candidate has a higher promise. If it has the promises of so many that this one cannot win, it
		// gets time; then this node tries a higher number. A forced reconfiguration waits for nobody.
		if b.refuse(from, m.Refused); !b.forced && !b.mayWin() {
			p.abandon(s, candidacyPause/2)
		}
		return nil
	}
	p.heardClock(from, m.ClockMs)
	if b.proposal != nil || slices.Contains(b.promised, from) {
		return nil // duplicate
	}
	open, err := openEpochs(p.epochs.verify, m.Undecided)
	if err != nil {
		return err
	}
	head := s.log.head()
	switch {
	case len(m.Head) == 0:
		head = nil
	case head == nil || !bytes.Equal(m.Head, head.Raw()):
		e, err := OpenEntry(p.epochs.verify, m.Head)
		if err != nil {
			return err
		}
		if head = nil; e.Key == s.key {
			head = e
		}
	}
	p.countPromise(s, from, head, open)
	return nil
}

// countPromise counts an owner's promise, and proposes the epoch when a quorum has promised.
func (p *proposer) countPromise(s *replica, from env.PeerID, head *Entry, open []*Epoch) {
	b := s.candidacy
	if b.proposal != nil || slices.Contains(b.promised, from) {
		return
	}
	open = slices.DeleteFunc(slices.Clone(open), func(e *Epoch) bool { return s.campaign.abandoned[e.Hash] })
	if b.count(s.epoch, from, head, open) {
		p.sendPrepares(s)
	}
	if b.hasPromises() {
		p.pullAndPropose(s)
	}
}
