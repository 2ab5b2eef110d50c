package owner

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A sequencer numbers the entries of the keys that this node leads, and replicates them.
type sequencer struct {
	*membership
	storage *storage
	puller  *puller
	signer  *wire.Signer
	emit    func(Event)
}

// leaderState is the work of a sequencer. One entry is in flight at a time; bodies wait in queue.
type leaderState struct {
	queue    []pending
	inflight *inflight                // entry sent, but not committed; nil: none
	retryAt  env.Moment               // time of the next check for missing acknowledgements
	lagging  *inflight                // last committed entry, while it is still sent to slow owners; nil: none
	unacked  map[env.PeerID]time.Time // owners that owe an acknowledgement, with the time since when
	heeded   map[env.PeerID]time.Time // owners for whose sake an epoch was to be made, with the time when
	catchUps int                      // number of pulls of what the epoch continues from
}

// A pending is a body that is to become an entry.
type pending struct {
	body    []byte
	items   int
	setHash SetHash       // nil: appended by a former run of this node
	done    func(ok bool) // called when the entry is committed or given up; nil: nobody waits
}

// A SetHash returns the hash of the set of items after an entry, once its place is known: number seq in a log
// whose oldest kept entry has the number first. at is the time of the entry.
type SetHash func(seq, first uint64, at time.Time) Hash

// An inflight is an entry on its way to the owners.
type inflight struct {
	pending
	entry *Entry
	acks  []env.PeerID // owners that have stored the entry durably, including this node
	tries int
}

const (
	// maxQueue bounds the bodies that wait to become entries of one log. At the bound Append refuses, and the
	// next poll finds the same items again.
	maxQueue = 1024
	// maxLaggingTries is how often a committed entry is sent to an owner that has not acknowledged it. After that the
	// owner learns of it by the next heartbeat.
	maxLaggingTries = 5
	// republishTime is the age up to which a new sequencer reports committed entries again, in case its
	// predecessor died before publishing them. It reports the last one whatever its age, unless it has settled.
	republishTime = time.Minute
)

var (
	// ErrNotLeading reports that this node is not the sequencer of a key.
	ErrNotLeading = errors.New("not the sequencer")
	// ErrBusy reports that maxQueue bodies are waiting already.
	ErrBusy = errors.New("too much waits to be appended")
)

// Append adds an entry to the log of a key that this node leads. The body has 1 to MaxBody bytes and holds the
// given number of items. set is called when the entry is made, and again if the entry has to be made anew.
// done is called with true when the entry is committed, or with false when this node ceases to be the sequencer;
// the entry may be committed by the next sequencer nevertheless.
func (q *sequencer) Append(key overlay.ID, body []byte, items int, set SetHash, done func(ok bool)) error {
	s := q.replicas.byKey[key]
	switch {
	case s == nil || s.leader == nil:
		return ErrNotLeading
	case len(body) == 0 || len(body) > MaxBody || items < 0 || items > len(body):
		return ErrEntry
	case len(s.leader.queue) >= maxQueue:
		return ErrBusy
	}
	s.leader.queue = append(s.leader.queue, pending{body, items, set, done})
	q.appendNext(s)
	return nil
}

// Room returns how many more bodies Append accepts now.
func (q *sequencer) Room(key overlay.ID) int {
	s := q.replicas.byKey[key]
	if s == nil || s.leader == nil {
		return 0
	}
	return maxQueue - len(s.leader.queue)
}

// FirstKept returns the number of the first entry that would still be kept if the given number of items were appended
// now; 0 if the log is empty. Items that are only in earlier entries are about to leave the log.
func (q *sequencer) FirstKept(key overlay.ID, items int) uint64 {
	log := q.replicas.log(key)
	if len(log.chain) == 0 {
		return 0
	}
	i := log.firstKept(log.step(q.date()), items, 0)
	if i == len(log.chain) {
		return log.head().At.Seq + 1
	}
	return log.chain[i].At.Seq
}

// appendNext makes the next entry, unless one is in flight or a higher epoch was promised.
func (q *sequencer) appendNext(s *replica) {
	l := s.leader
	if l == nil || l.inflight != nil || len(l.queue) == 0 || s.candidacy != nil || s.promisedAway() {
		return
	}
	if !q.hasBase(s) {
		q.catchUp(s)
		return
	}
	p := l.queue[0]
	l.queue[0] = pending{} // the array behind the queue would keep the body alive
	l.queue = l.queue[1:]
	now := q.date().Truncate(time.Millisecond)
	seq := s.epoch.After.Seq
	if head := s.log.head(); head != nil {
		seq = head.At.Seq
		if now.Before(head.Time) && !q.tooFarAhead(head.Time) {
			now = head.Time
		}
	}
	e := &Entry{
		Key:   s.key,
		At:    Position{s.epoch.Branch, s.epoch.Number, seq + 1},
		Prev:  s.log.headHash(),
		Time:  now,
		Body:  HashOf(p.body),
		Size:  len(p.body),
		Items: p.items,
	}
	first := e
	if i := s.log.firstKept(s.log.step(e.Time), e.Items, e.Size); i < len(s.log.chain) {
		first = s.log.chain[i]
	}
	e.Set = p.setHash(e.At.Seq, first.At.Seq, e.Time)
	e.sign(q.signer)
	f := &inflight{entry: e, pending: p}
	l.inflight = f
	q.stats.Appended++
	// The stored entry is the vote for its position. It is sent only after it is durable.
	q.storage.store.Commit(putOps([]*Entry{e}, [][]byte{p.body}), func(err error) {
		if err != nil {
			q.stats.StoreErrors++
			q.storage.log.Debug("log entry could not be stored", "url", s.url, "err", err)
		}
		if s.leader != l || l.inflight != f {
			q.storage.drop(q.storage.deleteOps(chain{e})) // this node ceased to lead; nobody has seen the entry
			return
		}
		if err != nil {
			l.inflight = nil
			l.queue = slices.Insert(l.queue, 0, p)
			q.retryIn(s, answerTime)
			return
		}
		q.storage.drop(q.storage.extend(s, []*Entry{e}, [][]byte{p.body}, false))
		q.replicate(s)
	})
}

// hasBase reports whether everything that the epoch in force continues from is durable here. It may not be when
// others have signed the epoch and this node's disk has refused the entries.
func (q *sequencer) hasBase(s *replica) bool {
	head := s.log.head()
	if head == nil {
		return s.epoch.AfterHash == Hash{}
	}
	return (s.epoch.has(head) || head.Hash == s.epoch.AfterHash) && q.storage.durable(head.Hash)
}

// catchUp pulls what a sequencer lacks of the log from the other owners, one after the other.
func (q *sequencer) catchUp(s *replica) {
	q.retryIn(s, answerTime)
	others := without(s.epoch.Owners, []env.PeerID{q.self})
	if s.pull != nil || len(others) == 0 {
		return
	}
	s.leader.catchUps++
	q.puller.pullFrom(s, others[s.leader.catchUps%len(others)])
}

// replicate sends the entry in flight, which is durable here, to the other owners.
func (q *sequencer) replicate(s *replica) {
	f := s.leader.inflight
	f.acks = append(f.acks, q.self)
	q.sendReplicate(s, f)
	q.retryIn(s, answerTime)
	q.maybeCommit(s)
}

// maybeCommit commits the entry in flight if a quorum has stored it, and reports it to the application.
func (q *sequencer) maybeCommit(s *replica) {
	l := s.leader
	f := l.inflight
	if len(f.acks) < quorum(len(s.epoch.Owners)) {
		return
	}
	q.noteAcks(s)
	l.inflight, l.lagging = nil, f
	s.noQuorumSince = env.Never
	q.sendReplicateAck(f.entry, f.acks...)
	q.storage.markCommitted(s, f.entry.Hash)
	q.committed(s, f)
	q.appendNext(s)
}

func (q *sequencer) committed(s *replica, f *inflight) {
	q.stats.Committed++
	q.emit(Committed{s.url, s.epoch, f.entry, f.body})
	q.tell(f.pending, true)
}

func (q *sequencer) tell(p pending, ok bool) {
	if p.done != nil {
		q.emit(Appended{p.done, ok})
	}
}

// epochChanged starts or ends this node's work as the sequencer, according to the epoch in force. An entry in flight is
// committed if the epoch continues from it; otherwise its body goes back to the front of the queue.
func (q *sequencer) epochChanged(s *replica) {
	if !s.ledBy(q.self) {
		q.stepDown(s)
		return
	}
	if l := s.leader; l != nil {
		switch f := l.inflight; {
		case f == nil:
		case s.log.find(f.entry.Hash) >= 0:
			q.committed(s, f)
		case f.setHash != nil: // otherwise a poll finds the items again
			l.queue = slices.Insert(l.queue, 0, f.pending)
		}
		l.inflight, l.lagging = nil, nil
	}
	q.becomeLeader(s)
}

// becomeLeader starts this node's work as the sequencer of the epoch in force.
func (q *sequencer) becomeLeader(s *replica) {
	if s.leader == nil {
		s.leader = &leaderState{}
		s.readers.lastRead = env.MomentOf(q.clock.Now())
		s.readers.weightAt = s.readers.lastRead // the root has a lease to report the weight
		q.emit(BecameSequencer{s.key})
	}
	head := s.log.head()
	if head == nil {
		return
	}
	settled := s.log.settledHead() != nil
	if (settled || quorum(len(s.epoch.Owners)) == 1) && q.clock.Now().Sub(head.Time) > republishTime {
		q.storage.markCommitted(s, head.Hash) // with one owner, what is durable here is stored by a quorum
		q.appendNext(s)
		return
	}
	mine := s.epoch.has(head)
	first := len(s.log.chain) - 1
	for first > 0 && q.clock.Now().Sub(s.log.chain[first-1].Time) <= republishTime {
		first--
	}
	l, tail := s.leader, slices.Clone(s.log.chain[first:])
	q.storage.Bodies(tail, func(bodies [][]byte) {
		if s.leader != l {
			return
		}
		for i, e := range tail {
			switch {
			case bodies[i] == nil:
			case e == head && mine && l.inflight == nil && s.log.head() == head && !settled:
				// A former run of this node appended it, and may not have committed it.
				l.inflight = &inflight{entry: e, pending: pending{body: bodies[i]}}
				q.replicate(s)
			default:
				q.emit(Committed{s.url, s.epoch, e, bodies[i]})
			}
		}
		q.appendNext(s)
	})
}

// stepDown ends this node's work as the sequencer.
func (q *sequencer) stepDown(s *replica) {
	l := s.leader
	if l == nil {
		return
	}
	s.leader = nil
	q.emit(CeasedSequencer{s.key})
	if l.inflight != nil {
		q.tell(l.inflight.pending, false)
	}
	for _, p := range l.queue {
		q.tell(p, false)
	}
}

// LastCommitted returns the last committed entry of a key that this node leads; nil if there is none.
func (q *sequencer) LastCommitted(key overlay.ID) *Entry {
	s := q.replicas.byKey[key]
	if s == nil || s.leader == nil {
		return nil
	}
	if f := s.leader.inflight; f != nil && s.log.head() == f.entry {
		return s.log.chain[:len(s.log.chain)-1].head()
	}
	return s.log.head()
}

func (q *sequencer) sendReplicate(s *replica, f *inflight) {
	f.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: f.entry.Raw(), Body: inline(f.body)}}}
	frame := wire.AppendFrame(nil, wire.Owner, m) // one for all
	for _, to := range without(s.epoch.Owners, f.acks) {
		if f.tries > 2 {
			q.node.Suspect(to)
		}
		q.stats.Control++
		q.net.Send(q.peer(to), env.Control, frame)
	}
}

// retry sends an entry again to the owners that have not acknowledged it.
func (q *sequencer) retry(s *replica, now time.Time) {
	l := s.leader
	if l == nil || l.retryAt.After(now) {
		return
	}
	again := answerTime
	switch {
	case l.inflight != nil && len(l.inflight.acks) == 0:
		return // not durable here yet; replicate is called when it is
	case l.inflight != nil:
		if l.inflight.tries > 3 && s.noQuorumSince == env.Never {
			s.noQuorumSince = env.MomentOf(now)
			q.campaignIn(s, 0)
		}
		again = min(time.Duration(l.inflight.tries), 5) * answerTime
		q.sendReplicate(s, l.inflight)
	case len(l.queue) > 0:
		q.appendNext(s)
		return
	case l.lagging != nil && l.lagging.tries < maxLaggingTries && len(l.lagging.acks) < len(s.epoch.Owners):
		q.sendReplicate(s, l.lagging)
	default:
		q.noteAcks(s)
		l.lagging = nil // free the body
		return
	}
	q.retryIn(s, again)
}

// retryIn plans the next retry in place of an earlier plan.
func (q *sequencer) retryIn(s *replica, d time.Duration) {
	s.leader.retryAt = env.MomentOf(q.after(d, task{kind: taskRetryReplicate, key: s.key}))
}

// onReplicateAck handles an owner's acknowledgement. From the sequencer it means that the entry is committed.
func (q *sequencer) onReplicateAck(from env.PeerID, m *ownerpb.ReplicateAck) {
	s := q.replicas.of(m.Key)
	if s == nil || s.epoch == nil || !s.epoch.owns(from) {
		return
	}
	if from == s.epoch.Sequencer {
		q.storage.markCommitted(s, Hash(m.Hash)) // the sequencer acknowledges committed entries only
	}
	if s.leader == nil {
		return
	}
	if _, owes := s.leader.unacked[from]; owes && s.log.find(Hash(m.Hash)) >= 0 {
		delete(s.leader.unacked, from)
	}
	for _, f := range []*inflight{s.leader.inflight, s.leader.lagging} {
		if f != nil && f.entry.Hash == Hash(m.Hash) && len(f.acks) > 0 && !slices.Contains(f.acks, from) {
			f.acks = append(f.acks, from)
			if f == s.leader.inflight {
				q.maybeCommit(s)
			} else {
				q.sendReplicateAck(f.entry, from)
			}
			return
		}
	}
}

// SetNote replaces a key's note at its sequencer, and sends it to the owners. An owner that misses it gets it after
// the next heartbeat.
func (q *sequencer) SetNote(key overlay.ID, note []byte) error {
	s := q.replicas.byKey[key]
	if s == nil || s.leader == nil {
		return ErrNotLeading
	}
	if len(note) > MaxNote-len(Hash{}) {
		return ErrEntry
	}
	// The note is valid only for logs that contain this entry.
	var after Hash
	if e := q.LastCommitted(key); e != nil {
		after = e.Hash
	}
	s.note = append(after[:], note...)
	s.version++
	q.storage.save(s, nil)
	q.sendOthers(s.epoch.Owners, &ownerpb.Message{Body: &ownerpb.Message_Note{Note: &ownerpb.Note{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number, Version: s.version, Note: s.note,
	}}})
	return nil
}
