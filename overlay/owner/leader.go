package owner

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// A lead is what a sequencer has to do: one entry is under way at a time.
type leaderState struct {
	queue    []pending
	inflight *inflight // nil: nothing is under way
	retryAt  time.Time // when to look whether acknowledgements are missing
	lagging  *inflight // held by a quorum, on its way to the others
	catchUps int       // times that others were asked for what the epoch goes on from
}

type pending struct {
	body    []byte
	items   int
	setHash SetHash
	done    func(ok bool)
}

// A Sum returns the hash of the set of items that results from an entry, when it
// has become known which it is: the entry number seq of a log of which first is
// the oldest that is kept.
type SetHash func(seq, first uint64) Hash

// A flight is an entry on its way to a quorum.
type inflight struct {
	entry   *Entry
	body    []byte
	setHash SetHash
	acks    []env.PeerID // durably, this node included
	tries   int
	done    func(ok bool)
}

const (
	// maxQueue bounds the bodies that wait to become entries of one log. At the
	// bound Append refuses: a poll finds the same again.
	maxQueue = 1024
	// maxTrail is how often an entry that a quorum holds is sent to the rest;
	// then they learn of it by the next comparison.
	maxLaggingTries = 5
	// republish is how far back a new sequencer hands up what was held, in case
	// the last one died before it was published.
	republishTime = time.Minute
)

// ErrNotLeading says that this node is not the sequencer of a key.
var ErrNotLeading = errors.New("not the sequencer")

// ErrBusy says that too much waits to be appended.
var ErrBusy = errors.New("too much waits to be appended")

// Append adds an entry to the log of a key this node leads: a body of at most
// MaxBody bytes that holds some items. set is called when the entry is made, and
// again if it has to be made anew. done is called when a quorum holds it, or with
// false when this node leads no longer; it may be in the log all the same then.
func (o *Owners) Append(key overlay.ID, body []byte, items int, set SetHash, done func(ok bool)) error {
	s := o.replicas[key]
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

// Room returns how many bodies Append would take now.
func (o *Owners) Room(key overlay.ID) int {
	s := o.replicas[key]
	if s == nil || s.leader == nil {
		return 0
	}
	return maxQueue - len(s.leader.queue)
}

// Staying returns the number of the first entry of a log that would still be kept
// if entries with some items were added now; 0 if all would be. What only the
// entries before it hold is about to leave the log.
func (o *Owners) FirstKept(key overlay.ID, items int) uint64 {
	s := o.replicas[key]
	if s == nil || len(s.log) == 0 {
		return 0
	}
	i := s.firstKept(o.clock.Now(), items, 0)
	if i == len(s.log) {
		return s.log.head().At.Seq + 1
	}
	return s.log[i].At.Seq
}

// advance makes the next entry, if none is under way and the epoch is not sealed.
func (o *Owners) appendNext(s *replica) {
	l := s.leader
	if l == nil || l.inflight != nil || len(l.queue) == 0 || s.candidacy != nil || o.promisedAway(s) {
		return
	}
	if !o.hasBase(s) {
		o.catchUp(s)
		return
	}
	p := l.queue[0]
	l.queue[0] = pending{} // the array stays, and would keep the body
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
	if i := s.firstKept(e.Time, e.Items, e.Size); i < len(s.log) {
		first = s.log[i]
	}
	e.Set = p.setHash(e.At.Seq, first.At.Seq)
	e.sign(o.signer)
	f := &inflight{entry: e, body: p.body, setHash: p.setHash, done: p.done}
	l.inflight = f
	o.stats.Appended++
	// The entry in the store is the lock on its position; the signature stays
	// here until it is durable.
	o.store.Commit(putOps([]*Entry{e}, [][]byte{p.body}), func(err error) {
		if err != nil {
			o.stats.StoreErrors++
			o.log.Debug("log entry could not be stored", "url", s.url, "err", err)
		}
		if s.leader != l || l.inflight != f {
			o.store.Commit(o.deleteOps(chain{e}), func(error) {}) // deposed meanwhile: nobody has seen it
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

// goesOn says whether all that the epoch in force goes on from is durable here. A sequencer may lead
// before: others have signed the epoch, and its own disk has refused what they hold.
func (o *Owners) hasBase(s *replica) bool {
	head := s.log.head()
	if head == nil {
		return s.epoch.AfterHash == Hash{}
	}
	own := head.At.Branch == s.epoch.Branch && head.At.Epoch == s.epoch.Number
	return (own || head.Hash == s.epoch.AfterHash) && !o.volatile[head.Hash]
}

// catchUp gets what a sequencer lacks of the log from the others, one at a time, until it has it.
func (o *Owners) catchUp(s *replica) {
	o.retryReplicateIn(s, answerTime)
	others := slices.DeleteFunc(slices.Clone(s.epoch.Owners), func(p env.PeerID) bool { return p == o.self })
	if s.pull != nil || len(others) == 0 {
		return
	}
	s.leader.catchUps++
	o.startPull(s, o.peer(others[s.leader.catchUps%len(others)]), nil)
}

// sealed says whether this owner promised to hold nothing more of the epoch in
// force.
func (o *Owners) promisedAway(s *replica) bool {
	return s.promised.in(s.epoch.Branch).number > s.epoch.Number
}

// fly sends the entry under way, which is durable here, to the owners.
func (o *Owners) replicate(s *replica) {
	f := s.leader.inflight
	f.acks = append(f.acks, o.self)
	o.sendReplicate(s, f)
	o.retryReplicateIn(s, answerTime)
	o.maybeCommit(s)
}

// landed looks whether a quorum holds the entry under way, and hands it up.
func (o *Owners) maybeCommit(s *replica) {
	l := s.leader
	f := l.inflight
	if len(f.acks) < quorum(len(s.epoch.Owners)) && !plant.HeldEarly {
		return
	}
	l.inflight, l.lagging = nil, f
	s.noQuorumSince = time.Time{}
	o.stats.Committed++
	for _, p := range f.acks {
		if p != o.self {
			o.sendReplicateAck(p, f.entry)
		}
	}
	o.markCommitted(s, f.entry.Hash)
	o.app.Committed(s.key, f.entry, f.body)
	if f.done != nil {
		f.done(true)
	}
	o.appendNext(s)
}

// takeLead makes this node act as the sequencer of the epoch in force.
func (o *Owners) becomeLeader(s *replica) {
	if s.leader == nil {
		s.leader = &leaderState{}
		s.lastRead = o.clock.Now()
		s.weightAt = s.lastRead // a lease of patience for the root's word
		o.app.Lead(s.key, true)
	}
	head := s.log.head()
	if head == nil {
		return
	}
	mine := head.At.Branch == s.epoch.Branch && head.At.Epoch == s.epoch.Number
	var tail []*Entry
	for i, e := range slices.Backward(s.log) {
		if i < len(s.log)-1 && o.clock.Now().Sub(e.Time) > republishTime {
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
				// Of an earlier life: nobody knows whether a quorum holds it.
				l.inflight = &inflight{entry: e, body: bodies[i]}
				o.replicate(s)
			default:
				o.app.Committed(s.key, e, bodies[i])
			}
		}
		o.appendNext(s)
	})
}

// dropLead ends this node's part as the sequencer.
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
