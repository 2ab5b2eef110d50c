package owner

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// leaderState is the work of a sequencer. One entry is in flight at a time; bodies wait in queue.
type leaderState struct {
	queue    []pending
	inflight *inflight // entry sent, but not committed; nil: none
	retryAt  time.Time // time of the next check for missing acknowledgements
	lagging  *inflight // last committed entry, while it is still sent to slow owners; nil: none
	catchUps int       // number of pulls of what the epoch continues from
}

type pending struct {
	body    []byte
	items   int
	setHash SetHash
	done    func(ok bool)
}

// A SetHash returns the hash of the set of items after an entry, once its place is known: number seq in a log
// whose oldest kept entry has the number first.
type SetHash func(seq, first uint64) Hash

// An inflight is an entry on its way to the owners.
type inflight struct {
	entry   *Entry
	body    []byte
	setHash SetHash
	acks    []env.PeerID // owners that have stored the entry durably, including this node
	tries   int
	done    func(ok bool) // called when the entry is committed or given up; nil: nobody waits
}

const (
	// maxQueue bounds the bodies that wait to become entries of one log. At the bound Append refuses, and the
	// next poll finds the same items again.
	maxQueue = 1024
	// maxLaggingTries is how often a committed entry is sent to an owner that has not acknowledged it. After that the
	// owner learns of it by the next heartbeat.
	maxLaggingTries = 5
	// republishTime is the age up to which a new sequencer reports committed entries again, in case its
	// predecessor died before publishing them.
	republishTime = time.Minute
)

// ErrNotLeading reports that this node is not the sequencer of a key.
var ErrNotLeading = errors.New("not the sequencer")

// ErrBusy reports that maxQueue bodies are waiting already.
var ErrBusy = errors.New("too much waits to be appended")

// Append adds an entry to the log of a key that this node leads. The body has 1 to MaxBody bytes and holds the
// given number of items. set is called when the entry is made, and again if the entry has to be made anew.
// done is called with true when the entry is committed, or with false when this node ceases to be the sequencer;
// the entry may be committed by the next sequencer nevertheless.
func (o *Owners) Append(key overlay.ID, body []byte, items int, set SetHash, done func(ok bool)) error {
	s := o.replicas.byKey[key]
	switch {
	case s == nil || s.leader == nil:
		return ErrNotLeading
	case len(body) == 0 || len(body) > MaxBody || items < 0 || items > len(body):
		return ErrEntry
	case len(s.leader.queue) >= maxQueue:
		return ErrBusy
	}
	s.leader.queue = append(s.leader.queue, pending{body, items, set, done})
	o.appendNext(s)
	return nil
}

// Room returns how many more bodies Append accepts now.
func (o *Owners) Room(key overlay.ID) int {
	s := o.replicas.byKey[key]
	if s == nil || s.leader == nil {
		return 0
	}
	return maxQueue - len(s.leader.queue)
}

// FirstKept returns the number of the first entry that would still be kept if the given number of items were appended
// now; 0 if the log is empty. Items that are only in earlier entries are about to leave the log.
func (o *Owners) FirstKept(key overlay.ID, items int) uint64 {
	s := o.replicas.byKey[key]
	if s == nil || len(s.log.chain) == 0 {
		return 0
	}
	i := s.log.firstKept(o.clock.Now(), items, 0)
	if i == len(s.log.chain) {
		return s.log.head().At.Seq + 1
	}
	return s.log.chain[i].At.Seq
}

// appendNext makes the next entry, unless one is in flight or a higher epoch was promised.
func (o *Owners) appendNext(s *replica) {
	l := s.leader
	if l == nil || l.inflight != nil || len(l.queue) == 0 || s.candidacy != nil || s.promisedAway() {
		return
	}
	if !o.hasBase(s) {
		o.catchUp(s)
		return
	}
	p := l.queue[0]
	l.queue[0] = pending{} // the array behind the queue would keep the body alive
	l.queue = l.queue[1:]
	now := o.clock.Now().Truncate(time.Millisecond)
	seq := s.epoch.After.Seq
	if head := s.log.head(); head != nil {
		seq = head.At.Seq
		if now.Before(head.Time) {
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
	if i := s.log.firstKept(e.Time, e.Items, e.Size); i < len(s.log.chain) {
		first = s.log.chain[i]
	}
	e.Set = p.setHash(e.At.Seq, first.At.Seq)
	e.sign(o.signer)
	f := &inflight{entry: e, body: p.body, setHash: p.setHash, done: p.done}
	l.inflight = f
	o.stats.Appended++
	// The stored entry is the vote for its position. It is sent only after it is durable.
	o.store.Commit(putOps([]*Entry{e}, [][]byte{p.body}), func(err error) {
		if err != nil {
			o.stats.StoreErrors++
			o.log.Debug("log entry could not be stored", "url", s.url, "err", err)
		}
		if s.leader != l || l.inflight != f {
			o.store.Commit(o.deleteOps(chain{e}), func(error) {}) // this node ceased to lead; nobody has seen the entry
			return
		}
		if err != nil {
			l.inflight = nil
			l.queue = slices.Insert(l.queue, 0, p)
			o.retryReplicateIn(s, answerTime)
			return
		}
		if ops := o.extend(s, []*Entry{e}, [][]byte{p.body}, false); len(ops) > 0 {
			o.store.Commit(ops, func(error) {})
		}
		o.replicate(s)
	})
}

// hasBase reports whether everything that the epoch in force continues from is durable here. It may not be when
// others have signed the epoch and this node's disk has refused the entries.
func (o *Owners) hasBase(s *replica) bool {
	head := s.log.head()
	if head == nil {
		return s.epoch.AfterHash == Hash{}
	}
	own := head.At.Branch == s.epoch.Branch && head.At.Epoch == s.epoch.Number
	return (own || head.Hash == s.epoch.AfterHash) && o.durable(head.Hash)
}

// catchUp pulls what a sequencer lacks of the log from the other owners, one after the other.
func (o *Owners) catchUp(s *replica) {
	o.retryReplicateIn(s, answerTime)
	others := slices.DeleteFunc(slices.Clone(s.epoch.Owners), func(p env.PeerID) bool { return p == o.self })
	if s.pull != nil || len(others) == 0 {
		return
	}
	s.leader.catchUps++
	o.pullFrom(s, others[s.leader.catchUps%len(others)])
}

// replicate sends the entry in flight, which is durable here, to the other owners.
func (o *Owners) replicate(s *replica) {
	f := s.leader.inflight
	f.acks = append(f.acks, o.self)
	o.sendReplicate(s, f)
	o.retryReplicateIn(s, answerTime)
	o.maybeCommit(s)
}

// maybeCommit commits the entry in flight if a quorum has stored it, and reports it to the application.
func (o *Owners) maybeCommit(s *replica) {
	l := s.leader
	f := l.inflight
	if len(f.acks) < quorum(len(s.epoch.Owners)) && !plant.HeldEarly {
		return
	}
	l.inflight, l.lagging = nil, f
	s.noQuorumSince = time.Time{}
	o.stats.Committed++
	o.sendReplicateAck(f.entry, f.acks...)
	o.markCommitted(s, f.entry.Hash)
	o.app.Committed(s.key, f.entry, f.body)
	if f.done != nil {
		f.done(true)
	}
	o.appendNext(s)
}

// becomeLeader starts this node's work as the sequencer of the epoch in force.
func (o *Owners) becomeLeader(s *replica) {
	if s.leader == nil {
		s.leader = &leaderState{}
		s.readers.lastRead = o.clock.Now()
		s.readers.weightAt = s.readers.lastRead // the root has a lease to report the weight
		o.app.Lead(s.key, true)
	}
	head := s.log.head()
	if head == nil {
		return
	}
	mine := head.At.Branch == s.epoch.Branch && head.At.Epoch == s.epoch.Number
	var tail []*Entry
	for i, e := range slices.Backward(s.log.chain) {
		if i < len(s.log.chain)-1 && o.clock.Now().Sub(e.Time) > republishTime {
			break
		}
		tail = append(tail, e)
	}
	slices.Reverse(tail)
	l := s.leader
	o.Bodies(tail, func(bodies [][]byte) {
		if s.leader != l {
			return
		}
		for i, e := range tail {
			switch {
			case bodies[i] == nil:
			case e == head && mine && l.inflight == nil && s.log.head() == head:
				// A former run of this node appended it, and may not have committed it.
				l.inflight = &inflight{entry: e, body: bodies[i]}
				o.replicate(s)
			default:
				o.app.Committed(s.key, e, bodies[i])
			}
		}
		o.appendNext(s)
	})
}

// stepDown ends this node's work as the sequencer.
func (o *Owners) stepDown(s *replica) {
	l := s.leader
	if l == nil || plant.TwoPollers {
		return
	}
	s.leader = nil
	o.app.Lead(s.key, false)
	if l.inflight != nil && l.inflight.done != nil {
		l.inflight.done(false)
	}
	for _, p := range l.queue {
		if p.done != nil {
			p.done(false)
		}
	}
}
