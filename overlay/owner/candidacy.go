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
	// maxVoid bounds the own drafts that are remembered as void. What was forgotten counts
	// as an epoch that may be in force until owners who have not signed it rule it out.
	maxAbandoned = 64
	// maxBids bounds the bids under way; further ones wait in line. Each brings an answer
	// of some five owners, and all of them together have room in an inbox, of 2,048
	// frames: with all keys of a busy node at once most answers would be lost, asked for
	// again, and lost again. A bid that no quorum can answer gives its place away after
	// answerTime, and one that nobody can answer takes none.
	maxCandidacies = 256
	// bidTime is how long a candidate tries before it lets others try.
	candidacyTime = 10 * time.Second
	// bidPause is waited before the next attempt.
	candidacyPause = 10 * time.Second
	// foreignFor is how long a member that owns a key in another lineage is taken
	// to do so after it said it, and one that gives a key up to be leaving: longer than
	// maxHandOver.
	excludeTime = 15 * time.Second
	// reachTime is how long a jump waits for old owners it might still reach.
	reachTime = 3 * time.Second
)

// A bid is a candidate's attempt to make an epoch.
type candidacy struct {
	since        time.Time
	hasSlot      bool      // it holds one of maxBids places
	retries      int       // times that its owners were asked again
	retryAt      time.Time // when they are to be asked next
	founding     bool      // of the key's first epoch
	forced       bool      // into a new lineage
	number       uint32
	newOwners    []env.PeerID // to be
	newSequencer env.PeerID   // to be

	oldOwners  []env.PeerID      // the owners in force; nil: there are none to be asked
	undecided  []*undecidedEpoch // epochs that may be in force besides
	promised   []env.PeerID
	voterSets  [][]env.PeerID // whose quorums sign, of each epoch that may be in force
	bestHead   *Entry         // the farthest that anybody who sealed holds
	bestHolder env.PeerID

	proposal   *Epoch // in the making; nil: the old owners are being asked
	signedHere bool   // signed here, durably
}

// onWant founds a key's log if there is none. keeper, if not nil, keeps one that
// may be gone on with.
func (o *Owners) onRequestOwners(key overlay.ID, url string, keeper *overlay.Contact) {
	if s := o.replicas[key]; s != nil && s.epoch != nil && (o.owns(s) || s.epoch.certifiedBy(s.epoch.Owners) && !o.ownersGone(s)) {
		if keeper != nil && !s.epoch.owns(keeper.Peer.ID) {
			o.sendCommit(keeper.Peer.ID, s) // what it keeps may be of another lineage
		}
		return
	}
	if o.replicas[key] == nil && len(o.replicas) >= maxReplicas {
		return
	}
	s := o.ensureReplica(key, url)
	if s.epoch == nil && s.candidacy == nil && keeper != nil {
		o.startPull(s, keeper.Peer, func(bool) { o.campaignIn(s, 0) })
		return
	}
	o.campaignIn(s, 0)
}

// bidIn plans an attempt, unless one is planned for earlier.
func (o *Owners) campaignIn(s *replica, d time.Duration) {
	at := o.clock.Now().Add(d)
	if s.candidacy == nil && !s.waiting && (s.campaignAt.IsZero() || at.Before(s.campaignAt)) {
		s.campaignAt = at
		o.cal.Add(at, task{kind: taskCampaign, key: s.key})
	}
}

// tryBid begins an attempt if there is still reason for one.
func (o *Owners) campaign(s *replica) {
	now := o.clock.Now()
	want := o.desiredOwners(s)
	if want == nil || s.candidacy != nil {
		return
	}
	b := &candidacy{since: now, newOwners: want}
	if s.epoch == nil || !o.owns(s) {
		if !o.node.IsRoot(s.key) || s.epoch != nil && !o.ownersGone(s) {
			return
		}
		b.founding, b.forced = true, s.epoch != nil
	} else {
		incumbent := s.epoch.Sequencer
		stuck := !s.noQuorumSince.IsZero() || o.promisedAway(s) || s.promisedElsewhere > s.epoch.Number // an owner is
		switch {
		case o.leads(s) && sameSet(want, s.epoch.Owners) && !stuck:
			return
		case !o.leads(s) && o.alive(incumbent) && !o.silent(s) && !o.mustHandOver(s):
			return // sticky: it makes the changes
		}
		b.oldOwners = s.epoch.Owners
		b.number = max(s.epoch.Number, s.promisedElsewhere) + 1
		b.number = min(max(b.number, s.promised.in(s.epoch.Branch).number+1), maxNumber)
		b.forced = !s.noQuorumSince.IsZero() && now.Sub(s.noQuorumSince) >= o.quorumPatience(s)
	}
	b.hasSlot = b.founding || o.living(b.oldOwners) > 1
	if b.hasSlot && o.candidacies >= maxCandidacies {
		s.waiting = true
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
		s.promised.set(vote{branch: s.epoch.Branch, number: b.number, candidate: o.self})
		o.saveReplica(s, func() {
			if s.candidacy == b {
				o.countPromise(s, o.self, s.log.head(), s.undecided)
			}
		})
		o.sendPrepares(s)
	}
	o.retryCandidacyIn(s, answerTime)
}

// urgeIn plans when the owners are asked again.
func (o *Owners) retryCandidacyIn(s *replica, d time.Duration) {
	if s.candidacy != nil {
		s.candidacy.retryAt = o.clock.Now().Add(d)
		o.cal.Add(s.candidacy.retryAt, task{kind: taskRetryCandidacy, key: s.key})
	}
}

// living counts the owners that could answer, this node among them.
func (o *Owners) living(owners []env.PeerID) (n int) {
	for _, p := range owners {
		if p == o.self || o.alive(p) {
			n++
		}
	}
	return n
}

// yield gives a bid's place to the first in line.
func (o *Owners) releaseSlot(b *candidacy) {
	if b == nil || !b.hasSlot {
		return
	}
	b.hasSlot = false
	o.candidacies--
	if len(o.waitingKeys) > 0 {
		o.after(0, task{kind: taskStartWaiting}) // not from within what ends a bid
	}
}

// nextInLine begins bids that have waited, as far as there is room.
func (o *Owners) startWaiting() {
	for len(o.waitingKeys) > 0 && o.candidacies < maxCandidacies {
		s := o.replicas[o.waitingKeys[0]]
		o.waitingKeys = o.waitingKeys[1:]
		if s != nil && s.waiting { // else it was forgotten meanwhile
			s.waiting = false
			o.campaign(s)
		}
	}
}

// pairPatience is how long a quorum of two owners may stay silent: it has none to lose,
// so its readers would wait a lease whenever one of two nodes is switched off. If both
// live and were only parted, their lineages become one when they meet.
const pairPatience = 15 * time.Second

// patience is how long the owners of a key wait for a quorum before they jump.
func (o *Owners) quorumPatience(s *replica) time.Duration {
	if len(s.epoch.Owners) <= 2 {
		return min(o.cfg.Lease, pairPatience)
	}
	return o.cfg.Lease
}

// choose names the sequencer to be: the incumbent while it lives and is an owner;
// else this node; else the nearest owner of old; else the nearest.
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

// gather gets what the farthest of the old owners holds, then drafts the epoch.
func (o *Owners) pullAndPropose(s *replica) {
	b := s.candidacy
	if b.bestHead == nil || s.log.find(b.bestHead.Hash) >= 0 {
		o.propose(s)
		return
	}
	o.startPull(s, o.peer(b.bestHolder), func(bool) {
		if s.candidacy == b && b.proposal == nil && s.log.find(b.bestHead.Hash) >= 0 {
			o.propose(s)
		}
	})
}

// draft states the epoch, signs it, and asks the owners, old and new, to sign.
func (o *Owners) propose(s *replica) {
	b := s.candidacy
	if head := s.log.head(); head != nil && o.volatile[head.Hash] {
		return // the disk may yet refuse it: urge comes back
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
		e.addSignature(o.verify, o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw)
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

// electors are all who are asked to sign.
func (o *Owners) signersWanted(b *candidacy) []env.PeerID {
	return union(append(slices.Clone(b.voterSets), b.newOwners))
}

// onSigned counts a signature.
func (o *Owners) onSigned(from env.PeerID, m *ownerpb.Signed) {
	s := o.replicaOf(m.Key)
	if s == nil || s.candidacy == nil || s.candidacy.proposal == nil || !s.candidacy.signedHere || !slices.Contains(o.signersWanted(s.candidacy), from) {
		return
	}
	if id, ok := s.candidacy.proposal.addSignature(o.verify, m.Signature); ok && id == from {
		o.commitIfSigned(s)
	}
}

// elected installs the epoch when a quorum of each side has signed.
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
	o.cfg.EpochCache.add(e)
	o.commitEpoch(s, e, o.self)
	for _, p := range told {
		if p != o.self {
			o.sendCommit(p, s)
		}
	}
}

// urge asks again who has not answered a bid, later each time, since many answers may be
// on their way; and gives up after a while.
func (o *Owners) retryCandidacy(s *replica, now time.Time) {
	b := s.candidacy
	if now.Before(b.retryAt) {
		return // it is due for an earlier bid
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
		if o.living(b.oldOwners) > 1 { // else who comes back is asked by the next bid
			o.sendPrepares(s)
		}
		if s.pull == nil && b.hasPromises() {
			o.pullAndPropose(s) // the last pull came to nothing
		}
	case b.proposal == nil: // founding on what a follower had, which was not durable yet
		o.propose(s)
	case b.signedHere:
		o.sendSigns(s)
	}
	if s.candidacy == b {
		b.retries++
		o.retryCandidacyIn(s, min(answerTime<<b.retries, candidacyTime-now.Sub(b.since)))
	}
}

// blocked says that all have signed but the owners of an epoch that may be in force beside. One of them may
// have lost its disk with what it promised, and then never signs: as where a quorum is silent, a new lineage
// goes on.
func (b *candidacy) blocked() bool {
	return b.proposal.certifiedBy(b.oldOwners) && b.proposal.certifiedBy(b.newOwners)
}

// abandon ends a bid without an epoch. Another attempt follows as long as there is
// reason for one.
func (o *Owners) abandon(s *replica, pause time.Duration) {
	b := s.candidacy
	o.releaseSlot(b)
	s.candidacy = nil
	if b.signedHere {
		// Others may have signed it. Signatures come to the candidate alone, and it counts
		// them no longer.
		if s.abandoned == nil || len(s.abandoned) >= maxAbandoned {
			s.abandoned = map[Hash]bool{}
		}
		s.abandoned[b.proposal.Hash] = true
	}
	switch {
	case b.founding:
	case b.proposal != nil && !b.forced && !b.blocked():
		// A quorum has answered: it is those who are to own the key that do not sign, as where
		// they own it in another lineage. To that one this one does not give way.
		s.noQuorumSince = time.Time{}
	default:
		if s.noQuorumSince.IsZero() {
			s.noQuorumSince = b.since
		}
		if o.clock.Now().Sub(s.noQuorumSince) >= giveWayTime && !o.node.IsRoot(s.key) {
			o.RequestOwners(s.key, s.url, func(bool) {}) // the root may know a lineage that lives
		}
	}
	if s.epoch != nil {
		pause += time.Duration(o.rank(s)) * rankTime
	}
	o.campaignIn(s, o.spread(pause))
	if s.leader != nil {
		o.appendNext(s)
	}
}
