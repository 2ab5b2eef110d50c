package owner

import (
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// Owners that do not do their part. A minority of the owners of a key may lie: refuse or stall, claim entries that nobody
// can pull, or never let another candidate finish. Decision 023 says how the others continue without them.

const (
	// leftOutTime is how long an owner that did not do its part is left out of the owners of a key. It is long beside the
	// time that an epoch takes, and short enough that an owner whose disk was full for a while comes back.
	leftOutTime = time.Hour
	// maxRefusals is the number of candidacies in a row in which an owner may refuse what a quorum promises. One refusal is
	// usual when there are two candidates.
	maxRefusals = 2
	// turnPause is how long a candidate whose turn has ended without an epoch waits for the turns of others. It is longer
	// than candidacyPause, so that each of the others has asked meanwhile.
	turnPause = 30 * time.Second
)

// A turns shares the promises of an owner among the candidates of a key. In Paxos a higher number always wins, so that one
// liar with ever higher numbers keeps everybody from finishing. Here a candidate has an owner's promise for candidacyTime,
// whatever others ask for. A candidate whose turn ended without an epoch waits while others ask.
type turns map[env.PeerID]turn

type turn struct{ asked, began time.Time }

// take reports whether a candidate may have a promise now. stranger stands for all candidates that are not known to be
// owners, so that many of them have one turn together. Without begin, the candidate is only known to want one.
func (t *turns) take(p env.PeerID, now time.Time, begin bool) bool {
	own, may := (*t)[p], !t.busy(p, now)
	age := now.Sub(own.began)
	if age >= candidacyTime && age < candidacyTime+turnPause {
		for other, o := range *t {
			may = may && (other == p || now.Sub(o.asked) >= 2*turnPause)
		}
	}
	own.asked = now
	if may && begin && age >= candidacyTime {
		own.began = now
	}
	t.set(p, own)
	return may
}

// begin begins this node's own turn, unless another candidate has its turn.
func (t *turns) begin(self env.PeerID, now time.Time) bool {
	own, may := (*t)[self], !t.busy(self, now)
	if own.asked = now; may {
		own.began = now
	}
	t.set(self, own)
	return may
}

// end ends this node's own turn.
func (t *turns) end(self env.PeerID) { t.set(self, turn{asked: (*t)[self].asked}) }

// busy reports whether another candidate has its turn.
func (t *turns) busy(p env.PeerID, now time.Time) (is bool) {
	for other, o := range *t {
		is = is || other != p && now.Sub(o.began) < candidacyTime
	}
	return is
}

func (t *turns) set(p env.PeerID, to turn) {
	if *t == nil {
		*t = turns{}
	}
	(*t)[p] = to
}

const stranger = env.PeerID("")

// A conduct is what this node has seen of the owners of a key.
type conduct struct {
	turns    turns                    // promises of this owner in the epoch in force
	leftOut  map[env.PeerID]time.Time // owners left out, with the time from which they are; at most a minority
	refusals map[env.PeerID]int       // candidacies of this node in a row that an owner has refused, though a quorum promised
	withheld map[env.PeerID]bool      // owners that did not deliver the head that they had promised, in the epoch in force
}

// leaveOut leaves an owner of a key out of the next epoch, unless a minority of the owners is left out already.
func (m *membership) leaveOut(s *replica, p env.PeerID) {
	now := m.clock.Now()
	c := &s.conduct
	maps.DeleteFunc(c.leftOut, func(_ env.PeerID, at time.Time) bool { return now.Sub(at) >= leftOutTime })
	if _, already := c.leftOut[p]; already || p == m.self || len(c.leftOut) >= m.owners-quorum(m.owners) {
		return
	}
	if c.leftOut == nil {
		c.leftOut = map[env.PeerID]time.Time{}
	}
	c.leftOut[p] = now
	m.stats.LeftOut++
}

// isLeftOut reports whether an owner is left out at present.
func (c *conduct) isLeftOut(p env.PeerID, now time.Time) bool {
	at, ok := c.leftOut[p]
	return ok && now.Sub(at) < leftOutTime
}

// withholds records that an owner did not deliver the head that it had promised.
func (c *conduct) withholds(p env.PeerID) {
	if c.withheld == nil {
		c.withheld = map[env.PeerID]bool{}
	}
	c.withheld[p] = true
}

// judge counts what the owners did in a candidacy of this node that has brought an epoch.
func (m *membership) judge(s *replica, b *candidacy) {
	c := &s.conduct
	for _, p := range b.oldOwners {
		_, refused := b.refused[p]
		switch {
		case c.withheld[p]:
			m.leaveOut(s, p)
		case slices.Contains(b.proposal.signers, p), !refused:
			delete(c.refusals, p)
		default:
			if c.refusals == nil {
				c.refusals = map[env.PeerID]int{}
			}
			if c.refusals[p]++; c.refusals[p] >= maxRefusals {
				delete(c.refusals, p)
				m.leaveOut(s, p)
			}
		}
	}
	c.withheld = nil
}

// A progress tells since when an owner has been waiting for the sequencer of a key. Never means that it is not.
type progress struct {
	promisedAt  env.Moment // the sequencer has a promise for another epoch, and none has followed
	uncommitted Hash       // last entry here, if it is not known to be committed
	storedAt    env.Moment // when that was noticed
	datedAhead  bool       // the sequencer has sent an entry that is dated too far ahead
	missingAt   env.Moment // the layers above know of something that the log should have
}

// observe notes whether the last entry of a log is committed.
func (w *progress) observe(s *replica, now time.Time) {
	switch head := s.log.headHash(); {
	case s.log.headCommitted():
		w.uncommitted, w.storedAt = Hash{}, env.Never
	case w.uncommitted != head:
		w.uncommitted, w.storedAt = head, env.MomentOf(now)
	}
}

// stalled reports whether a sequencer has given no sign of progress for half a lease, although something was due: it lives,
// but an epoch that it began does not come, or the last entry is not committed, or what a poll or a publisher brought does
// not appear in the log.
func (l *liveness) stalled(s *replica) bool {
	if s.leader != nil || !s.owned {
		return false
	}
	now := l.clock.Now()
	if s.progress.observe(s, now); s.progress.datedAhead {
		return true
	}
	for _, since := range []env.Moment{s.progress.promisedAt, s.progress.storedAt, s.progress.missingAt} {
		if since != env.Never && now.Sub(since.Time()) > l.lease/2 {
			return l.living(s.epoch.Owners) >= s.epoch.Quorum() // otherwise no sequencer could do better
		}
	}
	return false
}

// Missing tells what the layers above know: whether something is missing in the log of a key that its sequencer should have
// appended. If that lasts for half a lease, this owner campaigns for another sequencer.
func (o *Owners) Missing(key [32]byte, missing bool) {
	s := o.replicas.byKey[key]
	switch {
	case s == nil:
	case !missing:
		s.progress.missingAt = env.Never
	case s.progress.missingAt == env.Never:
		s.progress.missingAt = env.MomentOf(o.clock.Now())
	}
}

// mayRun reports whether this owner may vote for a candidate now. While the sequencer does its work, only the sequencer may
// make an epoch, and any other candidate waits until it has failed here, too, as followers of Raft do that check for a
// leader before they vote. A request that is not valid begins no turn, but the others wait for the next one. If so few owners
// live that those that leave need an epoch to do so in good order, any candidate may run.
func (a *acceptor) mayRun(s *replica, from env.PeerID, valid bool) bool {
	if s.epoch == nil || !s.owned {
		return true
	}
	if !s.ledBy(from) && a.alive(s.epoch.Sequencer) && !a.liveness.failed(s) && !a.barred(s, s.epoch.Sequencer) && a.living(s.epoch.Owners)-1 >= quorum(len(s.epoch.Owners)) {
		a.node.Suspect(s.epoch.Sequencer)
		if s.epoch.owns(from) {
			a.storage.emit(Doubted{s.key})
		}
		return false
	}
	if !s.epoch.owns(from) && !s.mayOwn(from) {
		from = stranger
	}
	return s.conduct.turns.take(from, a.clock.Now(), valid)
}

// noteAcks notes which owners have not acknowledged the last committed entry, after some time or several attempts.
func (q *sequencer) noteAcks(s *replica) {
	f := s.leader.lagging
	if f == nil {
		return
	}
	for _, p := range s.epoch.Owners {
		switch _, owes := s.leader.unacked[p]; {
		case slices.Contains(f.acks, p):
			delete(s.leader.unacked, p)
		case !owes:
			if s.leader.unacked == nil {
				s.leader.unacked = map[env.PeerID]time.Time{}
			}
			s.leader.unacked[p] = q.clock.Now()
		}
	}
}

// heed reports whether a sequencer makes a new epoch because an owner refuses its entries: for each owner once in a third of a
// lease, so that a liar cannot have it do nothing else. An honest owner may refuse again soon, because a candidate that took
// the sequencer for dead after an outage has failed, too; until the next epoch it takes no entries.
func (l *leaderState) heed(p env.PeerID, now time.Time, lease time.Duration) bool {
	maps.DeleteFunc(l.heeded, func(_ env.PeerID, at time.Time) bool { return now.Sub(at) >= lease/3 })
	if _, lately := l.heeded[p]; lately {
		return false
	}
	if l.heeded == nil {
		l.heeded = map[env.PeerID]time.Time{}
	}
	l.heeded[p] = now
	return true
}

// checkAcks asks the owners that have not acknowledged an entry whether they have the last one, and leaves out those that
// have not for half a lease. An owner that was away for a while pulls the log after a heartbeat, and then answers.
func (q *sequencer) checkAcks(s *replica, lease time.Duration) {
	head := s.log.head()
	for _, p := range slices.Sorted(maps.Keys(s.leader.unacked)) {
		switch {
		case head == nil || !q.alive(p) || !s.epoch.owns(p):
			delete(s.leader.unacked, p)
		case q.clock.Now().Sub(s.leader.unacked[p]) > lease/2:
			delete(s.leader.unacked, p)
			q.leaveOut(s, p)
		case s.leader.inflight == nil:
			q.send(p, &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: head.Raw()}}})
		}
	}
}
