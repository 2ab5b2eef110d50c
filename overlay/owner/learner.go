package owner

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// A learner takes certified epochs, entries and notes of other nodes, as a learner in Paxos does. They come in
// messages, in pulls, and from the tree. An entry that the sequencer sends (Replicate) is not committed yet: to store
// it is this node's vote.
type learner struct {
	base
	storage   *storage
	epochs    *epochs
	puller    *puller
	liveness  *liveness
	locator   *locator
	acceptor  *acceptor
	sequencer *sequencer
	proposer  *proposer
	departure *departure
	// otherBranch is called with the news that another branch of a key is live. If told, merged is the head of this
	// node's branch that the other branch has appended; the zero hash if there was nothing to append.
	otherBranch func(s *replica, e *Epoch, from env.PeerID, merged Hash, told bool)
}

// onCommit handles news of a certified epoch.
func (l *learner) onCommit(from env.PeerID, m *ownerpb.Commit) error {
	e, err := l.epochs.open(m.Epoch)
	if err != nil {
		return err
	}
	if l.keyOf(e.URL) != e.Key {
		return errKey
	}
	s := l.replicas.byKey[e.Key]
	if s == nil {
		return nil // all signers have a replica; other nodes have no use for the epoch
	}
	l.locator.lookUpLater(s, e, from)
	if s.epoch != nil && e.Branch != s.epoch.Branch {
		merged, _ := hashFrom(m.MergedHead)
		l.otherBranch(s, e, from, merged, m.Absorbed)
		return nil
	}
	switch {
	case s.epoch != nil && (e.Number < s.epoch.Number || m.WantReply && e.Number == s.epoch.Number):
		l.sendCommit(from, s)
		return nil
	case s.epoch == nil || e.Number > s.epoch.Number:
		if l.locator.needsLookup(s, e) {
			l.puller.pullFrom(s, from) // the pull starts with a lookup
			return nil
		}
		if !l.locator.acceptable(s, e) {
			l.stats.Untrusted++
			return nil
		}
		if s.epoch != nil && s.epoch.owns(from) && !e.owns(from) {
			s.campaign.exclude(from, l.clock.Now()) // the sender is about to leave the network
		}
		l.commit(s, e, from)
	}
	if e.Hash == s.epoch.Hash && s.epoch.owns(from) {
		l.takeNote(s, m.Note, m.Version, from)
	}
	return nil
}

// commit puts a certified epoch in force here, and drops entries that it does not continue.
func (l *learner) commit(s *replica, e *Epoch, from env.PeerID) {
	now := l.clock.Now()
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		s.campaign.excluded = nil
	}
	l.proposer.epochChanged(s, e)
	l.replicas.setEpoch(s, e)
	s.settle()
	s.url, s.lastHeard = e.URL, env.MomentOf(now)
	ops := l.storage.cut(s, e)
	l.storage.save(s, nil, ops...)
	if s.log.headHash() == e.AfterHash {
		s.log.committed = e.AfterHash
	}
	l.storage.updateVisible(s)
	l.sequencer.epochChanged(s)
	switch {
	case s.owned:
		s.notOwnerSince = env.Never
		if s.log.headHash() != e.AfterHash && s.log.find(e.AfterHash) < 0 && from != l.self {
			l.puller.pullFrom(s, from)
		}
	case !s.follow:
		s.notOwnerSince = env.MomentOf(now)
	}
	l.after(leafSettleTime, task{kind: taskCheckOwners, key: s.key}) // the leaf may have changed during the candidacy
	l.departure.start(s)
	l.departure.check()
}

// maySwitch reports whether a node may leave its branch for another certified one.
func (l *learner) maySwitch(s *replica, e *Epoch, from env.PeerID) bool {
	return e.certifiedBy(e.Owners) && l.locator.ownersPlausible(s, e) && s.leader == nil && l.prefersBranch(s, e, from)
}

// prefersBranch reports whether a node that does not lead prefers another branch to its own. There are three reasons.
// The other branch continues after a merge, or an owner has left the own branch for it, as told by one of its
// owners, since followers may not have heard that their branch ended. Or the own branch is dead, as far as is
// known here. Or the own sequencer has joined the other branch: it says so, leads there, or has signed
// its epoch, and a sequencer signs epochs of other branches only to found them.
func (l *learner) prefersBranch(s *replica, e *Epoch, from env.PeerID) bool {
	since := e.Time.After(s.epoch.Time)
	goesOn := e.owns(from) && (e.Branch < s.epoch.Branch || since && s.epoch.owns(from))
	joined := from == s.epoch.Sequencer ||
		since && (e.Sequencer == s.epoch.Sequencer || slices.Contains(e.signers, s.epoch.Sequencer))
	return !s.owned && (goesOn || l.locator.ownersGone(s)) || l.liveness.silent(s) || joined
}

// onReplicate stores an entry of the sequencer in force and acknowledges it.
func (l *learner) onReplicate(from env.PeerID, m *ownerpb.Replicate) error {
	e, err := OpenEntry(l.epochs.verify, m.Entry)
	if err != nil {
		return err
	}
	s := l.replicas.byKey[e.Key]
	switch {
	case s == nil:
		return nil // this node knows no log of the key; heartbeats will repeat the epoch
	case !l.alive(from) && (s.epoch == nil || !s.epoch.owns(from)):
		return nil // the sequencer of a key is an owner or in the leaf
	case s.epoch == nil:
		l.puller.pullFrom(s, from)
		return nil
	case s.owned && s.promisedAway() && s.epoch.has(e):
		// This owner has promised to accept nothing more of this epoch, including entries pulled since: a
		// candidate may have proposed an epoch without them. If that candidacy failed, only a later epoch
		// makes this node accept entries again, so the sequencer has to know.
		if from == s.epoch.Sequencer {
			l.acceptor.sendPromise(from, s, s.epoch.Number, s.promisedNumber())
		}
		return nil
	case s.log.has(e):
		if l.storage.durable(e.Hash) {
			l.sendReplicateAck(e, from)
		}
		return nil
	case e.At.Branch != s.epoch.Branch || e.At.Epoch > s.epoch.Number:
		l.puller.pullFrom(s, from) // the pull brings the epoch too
		return nil
	case e.At.Epoch < s.epoch.Number:
		l.sendCommit(from, s)
		return nil
	case !s.epoch.admits(e):
		l.stats.Untrusted++
		return errAfter
	case e.Signer != s.epoch.Sequencer:
		l.stats.Untrusted++
		return errSigner
	case !s.owned:
		return nil
	}
	l.liveness.heard(s)
	if l.tooFarAhead(e.Time) {
		l.refuseDate(s)
		return nil
	}
	if e.Prev != s.log.headHash() || len(m.Body) == 0 && e.Size > 0 {
		l.puller.pullFrom(s, from)
		return nil
	}
	if HashOf(m.Body) != e.Body {
		return errBody
	}
	l.storage.append(s, []*Entry{e}, [][]byte{m.Body}, false, func(ok bool) {
		if ok {
			l.sendReplicateAck(e, from)
		}
	})
	return nil
}

// onNote handles the sequencer's note.
func (l *learner) onNote(from env.PeerID, m *ownerpb.Note) {
	s := l.replicas.of(m.Key)
	if s == nil || s.epoch == nil || from != s.epoch.Sequencer || m.Branch != s.epoch.Branch || m.Number != s.epoch.Number {
		return
	}
	l.liveness.heard(s)
	l.takeNote(s, m.Note, m.Version, from)
}

// takeNote stores a note that is newer than the one here. The sequencer's note is always taken, because the note of
// another branch may have a higher version.
func (l *learner) takeNote(s *replica, note []byte, version uint64, from env.PeerID) {
	if s.leader != nil || version == s.version || version < s.version && from != s.epoch.Sequencer || len(note) > MaxNote {
		return
	}
	s.note, s.version = note, version
	l.storage.save(s, nil)
}

// take verifies what was pulled, and takes the entries, the epoch and the note.
func (l *learner) take(s *replica) {
	p := s.pull
	if !p.lookedUp && l.locator.needsLookup(s, p.epoch) {
		p.lookingUp = true
		l.locator.lookUp(s, func() {
			if s.pull == p {
				p.lookingUp, p.lookedUp = false, true
				l.take(s)
			}
		})
		return
	}
	if !p.lookedUp {
		l.locator.lookUpLater(s, p.epoch, p.from.ID)
	}
	e := s.epoch
	if e == nil || p.epoch.Branch == e.Branch && p.epoch.Number > e.Number && l.locator.acceptable(s, p.epoch) ||
		p.epoch.Branch != e.Branch && l.maySwitch(s, p.epoch, p.from.ID) {
		e = p.epoch
		if !e.certifiedBy(e.Owners) || s.epoch == nil && !l.locator.acceptable(s, e) {
			l.refuse(s)
			return
		}
	}
	if p.epoch.Branch != e.Branch {
		// Another branch is live, which this node may not follow yet.
		l.puller.end(s, false)
		if !l.locator.needsLookup(s, p.epoch) { // otherwise the lookup found nobody, and onOtherBranch would pull again
			l.otherBranch(s, p.epoch, p.from.ID, Hash{}, false)
		}
		return
	}
	if slices.ContainsFunc(p.entries, func(n *Entry) bool { return !e.admits(n) }) {
		l.refuse(s)
		return
	}
	if e.owns(l.self) && slices.ContainsFunc(p.entries, func(n *Entry) bool { return e.has(n) && l.tooFarAhead(n.Time) }) {
		l.refuseDate(s) // entries before the epoch are vouched for by the owners that signed it
		l.refuse(s)
		return
	}
	if n := len(p.entries); n > 0 && !p.committed && !p.takeUncommitted && !e.owns(l.self) {
		p.have, p.committed = p.entries[n-1].Prev, true
		p.entries, p.bodies = p.entries[:n-1], p.bodies[:n-1] // the entry comes again when it is committed
	}
	switch last := p.entries.head(); {
	case last == nil || s.log.find(last.Hash) >= 0:
		// Nothing that is not here already.
	case e.endsWith(last):
		l.appendPulled(s)
	default:
		l.refuse(s)
		return
	}
	if e != s.epoch {
		l.commit(s, e, p.from.ID)
	}
	if p.committed {
		l.storage.markCommitted(s, p.have)
	}
	if p.from.ID == e.Sequencer {
		l.liveness.heard(s)
	}
	if p.epoch.Hash == e.Hash {
		l.takeNote(s, p.note, p.version, p.from.ID)
	}
	if !p.storing {
		l.puller.end(s, true)
	}
}

// refuseDate handles an entry that is dated too far ahead. The sequencer cannot date it anew, because it signs one entry at
// each position, so this owner campaigns for another sequencer. One that has no epoch yet leaves that to the others.
func (l *learner) refuseDate(s *replica) {
	l.stats.DatedAhead++
	if s.leader == nil && s.epoch != nil {
		s.progress.datedAhead = true
		l.proposer.campaignIn(s, l.proposer.turn(s))
	}
}

// refuse ends a pull that has brought what nobody may sign.
func (l *learner) refuse(s *replica) {
	l.stats.Untrusted++
	l.puller.end(s, false)
}

// appendPulled appends the new ones of the pulled entries to the log.
func (l *learner) appendPulled(s *replica) {
	p := s.pull
	fresh, bodies, restart := p.entries, p.bodies, p.restart
	if restart {
		if at := s.log.find(fresh[0].Prev); at >= 0 && at == len(s.log.chain)-1 {
			restart = false // the peer keeps fewer old entries, and continues from this node's head
		}
	} else if fresh[0].Prev != s.log.headHash() {
		// The log here has grown, or was cut, while this was under way.
		i := 0
		for i < len(fresh) && s.log.find(fresh[i].Hash) >= 0 {
			i++
		}
		if fresh, bodies = fresh[i:], bodies[i:]; len(fresh) == 0 || fresh[0].Prev != s.log.headHash() {
			return
		}
	}
	for i, e := range fresh {
		if bodies[i] == nil && e.Size > 0 {
			if s.epoch != nil && !s.epoch.owns(p.from.ID) {
				return // an owner may still have the body
			}
			l.stats.Lost++ // readers miss the items, but the chain stays complete
		}
	}
	if s.leader != nil && restart {
		return // the sequencer's own log is authoritative
	}
	p.storing = true
	l.storage.append(s, fresh, bodies, restart, func(ok bool) {
		p.storing = false
		if s.pull == p {
			l.puller.end(s, ok)
		}
	})
}

// Offer takes an entry from the tree, with its body, and with its epoch if the sender thought it might be new. It
// returns the entry and what became of it. refused is called later if the entry was added but the disk refused it:
// the entry is a gap then.
func (l *learner) Offer(raw, body, epoch []byte, refused func(*Entry)) (*Entry, OfferResult) {
	e, err := OpenEntry(l.epochs.verify, raw)
	if err != nil {
		return nil, Refused
	}
	s := l.replicas.byKey[e.Key]
	if s == nil || !s.follow && !s.owned {
		return e, Refused
	}
	// The owners store the entry in its own epoch, or in a later one that continues from it. If that epoch started
	// another branch, the owners of the former may never have committed the entry. Invalid epochs are ignored.
	in, by := e.At.Branch, e.Signer
	if len(epoch) > 0 {
		n, err := l.epochs.read(epoch)
		if err == nil && n.Key == s.key && (s.epoch == nil || s.epoch.Branch == e.At.Branch && s.epoch.Number < e.At.Epoch) && l.locator.acceptable(s, n) {
			l.commit(s, n, n.Sequencer)
		}
		if err == nil && n.Key == s.key && n.AfterHash == e.Hash && n.certifiedBy(n.Owners) && (l.locator.needsLookup(s, n) || l.locator.ownersPlausible(s, n)) {
			in, by = n.Branch, n.Sequencer
		}
	}
	if s.log.has(e) && (s.epoch == nil || s.epoch.Branch == in || s.log.visible.has(e)) {
		l.storage.markCommitted(s, e.Hash)
		return e, Known
	}
	switch {
	case s.epoch != nil && in > s.epoch.Branch && by != s.epoch.Sequencer && !l.liveness.silent(s):
		return e, OtherBranch
	case s.epoch == nil || in != s.epoch.Branch || e.At.Branch != in || e.At.Epoch > s.epoch.Number:
		return e, Gap
	case e.At.Epoch < s.epoch.Number && e.Hash != s.epoch.AfterHash:
		return e, Gap
	case e.At.Epoch == s.epoch.Number && e.Signer != s.epoch.Sequencer:
		l.stats.Untrusted++
		return e, Refused
	case e.Prev != s.log.headHash() || len(body) == 0 && e.Size > 0:
		return e, Gap
	case HashOf(body) != e.Body:
		return e, Refused
	}
	l.liveness.heard(s)
	l.storage.append(s, []*Entry{e}, [][]byte{body}, false, func(ok bool) {
		if !ok {
			refused(e)
		}
	})
	l.storage.markCommitted(s, e.Hash)
	return e, Added
}

// OfferResult tells what became of an entry from the tree.
type OfferResult uint8

const (
	Added       OfferResult = iota // the entry was appended to the log
	Known                          // the log had the entry before
	Gap                            // an earlier entry, the epoch or the body is missing: call Pull
	OtherBranch                    // of a branch that will be merged into this one; the entry comes again
	Refused                        // the entry is invalid, or nobody here follows the key
)
