package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

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
	// excludeTime is how long a peer is not made an owner after it has said that it owns the key in another
	// branch, or that it gives the key up. It is longer than maxHandOver, after which a leaving peer is gone.
	excludeTime = 15 * time.Second
	// reachTime is how long a forced reconfiguration waits for promises of old owners that may still answer.
	reachTime = 3 * time.Second
)

// A campaign is what a node knows of its attempts to begin an epoch of a key.
type campaign struct {
	at                time.Time                // time of the next campaign; zero: none planned
	waiting           bool                     // the campaign waits for one of maxCandidacies slots
	promisedElsewhere uint32                   // highest epoch number that an owner has promised to another candidate; 0: none known
	abandoned         map[Hash]bool            // own proposals that were given up; at most maxAbandoned
	excluded          map[env.PeerID]time.Time // peers not to become owners (they own the key in another branch, or are leaving), by time of their message
}

// A candidacy is one attempt of this node to commit a new epoch.
type candidacy struct {
	since        time.Time    // start of the attempt
	hasSlot      bool         // it occupies one of maxCandidacies slots
	retries      int          // number of times that requests were repeated
	retryAt      time.Time    // time of the next repetition
	founding     bool         // the epoch starts a branch without promises of former owners
	forced       bool         // the epoch starts a branch, without a quorum of the old owners
	number       uint32       // number of the new epoch
	newOwners    []env.PeerID // owners in the new epoch
	newSequencer env.PeerID   // sequencer in the new epoch

	oldOwners  []env.PeerID      // owners of the epoch in force; nil if founding
	undecided  []*undecidedEpoch // later epochs that may have been certified
	promised   []env.PeerID      // owners that have promised
	voterSets  [][]env.PeerID    // sets of owners of which a quorum each must sign, besides newOwners
	bestHead   *Entry            // farthest head of those that promised; nil: all logs are empty
	bestHolder env.PeerID        // peer that has bestHead

	proposal   *Epoch // epoch to be signed; nil: promises are being collected
	signedHere bool   // this node's own signature is durable
}

// onRequestOwners founds a key's log if it has no live owners. keeper, if not nil, is a member that keeps an
// older log of the key, which the new owners continue.
func (o *Owners) onRequestOwners(key overlay.ID, url string, keeper *overlay.Contact) {
	if s := o.replicas.byKey[key]; s != nil && s.epoch != nil && (s.owned || s.epoch.certifiedBy(s.epoch.Owners) && !o.ownersGone(s)) {
		if keeper != nil && !s.epoch.owns(keeper.Peer.ID) {
			o.sendCommit(keeper.Peer.ID, s) // its log may be of another branch
		}
		return
	}
	if o.replicas.byKey[key] == nil && o.replicas.full() {
		return
	}
	s := o.replicas.ensure(key, url, o.clock.Now())
	if s.epoch == nil && s.candidacy == nil && keeper != nil {
		o.puller.start(s, keeper.Peer, func(bool) { o.campaignIn(s, 0) })
		return
	}
	o.campaignIn(s, 0)
}

// campaignIn plans a campaign after d, unless an earlier one is planned.
func (o *Owners) campaignIn(s *replica, d time.Duration) {
	at := o.clock.Now().Add(d)
	if s.candidacy == nil && !s.campaign.waiting && (s.campaign.at.IsZero() || at.Before(s.campaign.at)) {
		s.campaign.at = at
		o.cal.Add(at, task{kind: taskCampaign, key: s.key})
	}
}

// campaign starts a candidacy if there is a reason for one: other owners are due, the sequencer is dead or
// silent, or the epoch in force is blocked.
func (o *Owners) campaign(s *replica) {
	now := o.clock.Now()
	want := o.desiredOwners(s)
	if want == nil || s.candidacy != nil {
		return
	}
	b := &candidacy{since: now, newOwners: want}
	if s.epoch == nil || !s.owned {
		if !o.node.IsRoot(s.key) || s.epoch != nil && !o.ownersGone(s) {
			return
		}
		b.founding, b.forced = true, s.epoch != nil
	} else {
		incumbent := s.epoch.Sequencer
		stuck := !s.noQuorumSince.IsZero() || s.promisedAway() || s.campaign.promisedElsewhere > s.epoch.Number // a higher epoch was promised
		switch {
		case s.ledBy(o.self) && sameSet(want, s.epoch.Owners) && !stuck:
			return
		case !s.ledBy(o.self) && o.alive(incumbent) && !o.silent(s) && !o.mustHandOver(s):
			return // the live sequencer makes the change itself
		}
		b.oldOwners = s.epoch.Owners
		b.number = max(s.epoch.Number, s.campaign.promisedElsewhere) + 1
		b.number = min(max(b.number, s.promisedNumber()+1), maxNumber)
		b.forced = !s.noQuorumSince.IsZero() && now.Sub(s.noQuorumSince) >= o.quorumPatience(s)
	}
	b.hasSlot = b.founding || o.living(b.oldOwners) > 1
	if b.hasSlot && o.candidacies >= maxCandidacies {
		s.campaign.waiting = true
		o.waitingKeys = append(o.waitingKeys, s.key)
		return
	}
	if b.hasSlot {
		o.candidacies++
	}
	b.newSequencer = o.chooseSequencer(s, want)
	s.candidacy = b
	o.stats.Candidacies++
	if b.founding {
		o.propose(s)
	} else {
		s.promise(s.epoch.Branch, b.number, o.self)
		o.save(s, func() {
			if s.candidacy == b {
				o.countPromise(s, o.self, s.log.head(), s.undecided)
			}
		})
		o.sendPrepares(s)
	}
	o.retryCandidacyIn(s, answerTime)
}

// retryCandidacyIn plans the next repetition of a candidacy's requests.
func (o *Owners) retryCandidacyIn(s *replica, d time.Duration) {
	if s.candidacy != nil {
		s.candidacy.retryAt = o.clock.Now().Add(d)
		o.cal.Add(s.candidacy.retryAt, task{kind: taskRetryCandidacy, key: s.key})
	}
}

// releaseSlot gives a candidacy's slot to the first key that waits.
func (o *Owners) releaseSlot(b *candidacy) {
	if b == nil || !b.hasSlot {
		return
	}
	b.hasSlot = false
	o.candidacies--
	if len(o.waitingKeys) > 0 {
		o.after(0, task{kind: taskStartWaiting}) // not at once: the caller is still ending a candidacy
	}
}

// startWaiting starts waiting campaigns while there are free slots.
func (o *Owners) startWaiting() {
	for len(o.waitingKeys) > 0 && o.candidacies < maxCandidacies {
		s := o.replicas.byKey[o.waitingKeys[0]]
		o.waitingKeys = o.waitingKeys[1:]
		if s != nil && s.campaign.waiting { // false: the replica was forgotten meanwhile
			s.campaign.waiting = false
			o.campaign(s)
		}
	}
}

// pairPatience is the quorum patience of one or two owners, when Config.Lease is longer. A pair has no quorum after
// one death, so with a lease its readers would wait 10 minutes whenever one of two nodes is switched off. If both
// live and were only partitioned, their branches are merged when they meet.
const pairPatience = 15 * time.Second

// quorumPatience is how long the owners of a key wait for a quorum before a forced reconfiguration.
func (o *Owners) quorumPatience(s *replica) time.Duration {
	if len(s.epoch.Owners) <= 2 {
		return min(o.cfg.Lease, pairPatience)
	}
	return o.cfg.Lease
}

// chooseSequencer prefers the incumbent, while it lives and stays an owner; then this node; then the nearest
// of the old owners; then the nearest member.
func (o *Owners) chooseSequencer(s *replica, want []env.PeerID) env.PeerID {
	if s.epoch != nil {
		if in := s.epoch.Sequencer; slices.Contains(want, in) && o.alive(in) && (in == o.self || !o.silent(s)) {
			return in
		}
	}
	if slices.Contains(want, o.self) {
		return o.self
	}
	for _, p := range want {
		if s.epoch != nil && s.epoch.owns(p) {
			return p
		}
	}
	return want[0]
}

// pullAndPropose pulls the farthest head that was promised, then proposes the epoch.
func (o *Owners) pullAndPropose(s *replica) {
	b := s.candidacy
	if b.bestHead == nil || s.log.find(b.bestHead.Hash) >= 0 {
		o.propose(s)
		return
	}
	o.puller.start(s, o.peer(b.bestHolder), func(bool) {
		if s.candidacy == b && b.proposal == nil && s.log.find(b.bestHead.Hash) >= 0 {
			o.propose(s)
		}
	})
}

// propose builds the epoch, signs it, and asks the old and the new owners for signatures.
func (o *Owners) propose(s *replica) {
	b := s.candidacy
	if head := s.log.head(); head != nil && !o.durable(head.Hash) {
		return // the head is not durable yet; retryCandidacy calls again
	}
	now := o.clock.Now().Truncate(time.Millisecond)
	e := &Epoch{Key: s.key, URL: s.url, Number: b.number, Sequencer: b.newSequencer, Owners: b.newOwners, Time: now}
	if s.epoch != nil {
		e.Branch, e.Prior = s.epoch.Branch, s.epoch.Hash
	}
	if b.founding || b.forced {
		e.Branch, e.Number = newBranch(s.key, o.id(b.newSequencer), now), 1
	} else {
		b.voterSets = b.promiserSets()
		for _, u := range b.undecided {
			if b.mayBeInForce(u) {
				e.Concurrent = append(e.Concurrent, u.epoch.Hash)
			}
		}
	}
	if head := s.log.head(); head != nil {
		e.After, e.AfterHash = head.At, head.Hash
	}
	b.proposal = e.encodeStatement()
	own := func() {
		if s.candidacy != b || b.proposal != e {
			return
		}
		b.signedHere = true
		e.addSignature(o.epochs.verify, o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw)
		o.sendSigns(s)
		o.commitIfSigned(s)
	}
	o.lockSignature(s, e, o.self, own)
}

func (o *Owners) sendSigns(s *replica) {
	b := s.candidacy
	m := &ownerpb.Message{Body: &ownerpb.Message_Sign{Sign: &ownerpb.Sign{Statement: b.proposal.statement, Forced: b.forced}}}
	for _, p := range o.signersWanted(b) {
		if p != o.self && !slices.Contains(b.proposal.signers, p) {
			o.send(p, m)
		}
	}
}

// signersWanted returns all peers that are asked to sign.
func (o *Owners) signersWanted(b *candidacy) []env.PeerID {
	return union(append(slices.Clone(b.voterSets), b.newOwners))
}

// onSigned counts a signature.
func (o *Owners) onSigned(from env.PeerID, m *ownerpb.Signed) {
	s := o.replicas.of(m.Key)
	if s == nil || s.candidacy == nil || s.candidacy.proposal == nil || !s.candidacy.signedHere || !slices.Contains(o.signersWanted(s.candidacy), from) {
		return
	}
	if id, ok := s.candidacy.proposal.addSignature(o.epochs.verify, m.Signature); ok && id == from {
		o.commitIfSigned(s)
	}
}

// commitIfSigned commits the proposal when a quorum of each voter set and of the new owners has signed.
func (o *Owners) commitIfSigned(s *replica) {
	b := s.candidacy
	e := b.proposal
	for _, set := range append(slices.Clone(b.voterSets), b.newOwners) {
		if !e.certifiedBy(set) {
			return
		}
	}
	if b.forced {
		o.stats.ForcedReconfigs++
		o.log.Info("log of a feed continues without a quorum of its owners", "url", s.url)
	}
	o.stats.Epochs++
	told := o.signersWanted(b)
	o.epochs.cache.add(e)
	o.commitEpoch(s, e, o.self)
	o.sendOthers(told, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: s.commit()}})
}

// retryCandidacy repeats the requests that were not answered. The delay doubles each time, because many answers may
// still be on their way. After candidacyTime it gives up.
func (o *Owners) retryCandidacy(s *replica, now time.Time) {
	b := s.candidacy
	if now.Before(b.retryAt) {
		return // planned for an earlier candidacy
	}
	if !b.founding && o.living(b.oldOwners) < quorum(len(b.oldOwners)) {
		o.releaseSlot(b)
	}
	switch age := now.Sub(b.since); {
	case age >= candidacyTime:
		o.abandon(s, candidacyPause)
		return
	case b.proposal == nil && b.forced && age >= reachTime:
		o.pullAndPropose(s)
	case b.proposal == nil && !b.founding:
		if o.living(b.oldOwners) > 1 { // otherwise the next candidacy asks an owner that returns
			o.sendPrepares(s)
		}
		if s.pull == nil && b.hasPromises() {
			o.pullAndPropose(s) // the last pull failed
		}
	case b.proposal == nil: // founding from a follower's log that was not durable yet
		o.propose(s)
	case b.signedHere:
		o.sendSigns(s)
	}
	if s.candidacy == b {
		b.retries++
		o.retryCandidacyIn(s, min(answerTime<<b.retries, candidacyTime-now.Sub(b.since)))
	}
}

// blocked reports whether the old and the new owners have signed, but not the owners of an undecided epoch. One of
// them may have lost its disk, and with it the vote that would rule the undecided epoch out. Then a forced
// reconfiguration has to start a new branch, as if a quorum were silent.
func (b *candidacy) blocked() bool {
	return b.proposal.certifiedBy(b.oldOwners) && b.proposal.certifiedBy(b.newOwners)
}

// abandon ends a candidacy without a new epoch. Another campaign follows after the pause if there is still a reason.
func (o *Owners) abandon(s *replica, pause time.Duration) {
	b := s.candidacy
	o.releaseSlot(b)
	s.candidacy = nil
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
	case b.proposal != nil && !b.forced && !b.blocked():
		// A quorum has promised, but new owners do not sign, for example because they own the key in another
		// branch. This branch has a quorum and does not give way to that one.
		s.noQuorumSince = time.Time{}
	default:
		if s.noQuorumSince.IsZero() {
			s.noQuorumSince = b.since
		}
		if o.clock.Now().Sub(s.noQuorumSince) >= giveWayTime && !o.node.IsRoot(s.key) {
			o.RequestOwners(s.key, s.url, func(bool) {}) // the root may know a live branch
		}
	}
	if s.epoch != nil {
		pause += o.turn(s)
	}
	o.campaignIn(s, o.spread(pause))
	if s.leader != nil {
		o.appendNext(s)
	}
}
