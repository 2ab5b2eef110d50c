package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// meetPause is the time between two words to the sequencer of another lineage.
const contactPause = 3 * time.Second

// rivalTime is how long a lineage that is not heard of is held to live.
const rivalTime = 30 * time.Second

// giveWayTime is how long the lineage that is to go on may lack a quorum before it gives way
// to one that lives. Where the halves of a network meet, those whom it lacks may own the
// key in that one meanwhile, and would not answer before the two are one.
const giveWayTime = 15 * time.Second

// A merge is another lineage whose entries this sequencer appends to its own.
type branchMerge struct {
	lineage uint64
	head    Hash // the other's last entry, as far as it was pulled
	done    bool // pulled, and what was new handed to the application
}

// mayFollow says whether a node may leave the lineage it knows for another one that is
// certified.
func (o *Owners) maySwitch(s *replica, e *Epoch, from env.PeerID) bool {
	return e.certifiedBy(e.Owners) && o.ownersPlausible(s, e) && s.leader == nil && o.prefersBranch(s, e, from)
}

// yields says whether another lineage is to be preferred by one who does not lead: the one
// that goes on where both are alive, or for which an owner has left the own since, by the
// word of an owner, for followers may not have heard that it ended; one that lives where
// the own does not, as far as is known here; or one that the own sequencer has joined, as
// it says itself, or leads by now, or whose epoch it has signed: it signs none of a lineage
// that is not its own, but to found it.
func (o *Owners) prefersBranch(s *replica, e *Epoch, from env.PeerID) bool {
	since := e.Time.After(s.epoch.Time)
	goesOn := e.owns(from) && (e.Branch < s.epoch.Branch || since && s.epoch.owns(from))
	joined := from == s.epoch.Sequencer ||
		since && (e.Sequencer == s.epoch.Sequencer || slices.Contains(e.signers, s.epoch.Sequencer))
	return !o.owns(s) && (goesOn || o.ownersGone(s)) || o.silent(s) || joined
}

// givesWay says whether a lineage that is led here lacks the quorum to append what another
// one has.
func (o *Owners) givesWay(s *replica) bool {
	return s.leader != nil && !s.noQuorumSince.IsZero() && o.clock.Now().Sub(s.noQuorumSince) >= giveWayTime
}

// meet deals with the news that another lineage of a key is alive. If told, merged
// is the head of this node's lineage that the other has appended, the zero hash if
// there was nothing to append.
func (o *Owners) onOtherBranch(s *replica, e *Epoch, from env.PeerID, merged Hash, told bool) {
	if o.needsLookup(s, e) {
		o.startPull(s, o.peer(from), nil) // which looks first who lives there
		return
	}
	if !e.certifiedBy(e.Owners) || !o.ownersPlausible(s, e) {
		o.stats.Untrusted++
		return
	}
	// Who left that one for this one, and owns the key here, passes on what it has heard.
	ours := s.epoch.owns(from) && s.epoch.Time.After(e.Time)
	if b := s.candidacy; !ours && (e.owns(from) || b != nil && slices.Contains(b.newOwners, from)) {
		// Until the two are one, each goes on with its own.
		s.exclude(from, o.clock.Now())
		if b != nil && slices.Contains(b.newOwners, from) {
			o.abandon(s, 2*answerTime)
		}
	}
	if s.rival == nil || s.rival.Branch != e.Branch || s.rival.Number <= e.Number {
		s.rival, s.rivalSeen = e, o.clock.Now()
	}
	wins := e.Branch < s.epoch.Branch || o.givesWay(s)
	switch {
	case s.leader != nil && wins && told && merged == s.log.headHash() && (s.leader.inflight == nil || s.leader.inflight.entry.Hash == merged):
		// All there is here is there: this lineage ends.
		o.stats.Merged++
		old := s.epoch
		o.joinBranch(s, e, from)
		for _, p := range old.Owners {
			if p != o.self {
				o.sendCommit(p, s)
			}
		}
	case s.leader != nil:
		if e.owns(from) && from != e.Sequencer {
			o.sendCommit(from, s) // it was away, it may be, when that one ended
		}
		o.contactRival(s)
	case o.prefersBranch(s, e, from):
		o.joinBranch(s, e, from)
	case !s.rivalContacted:
		o.pauseContact(s)
		// The own sequencer meets the other one, or says that it has joined it.
		o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e.proto(), WantReply: true}}})
		o.sendCommit(from, s)
	}
}

// shun sees to it that a peer is not made an owner for a while.
func (s *replica) exclude(p env.PeerID, now time.Time) {
	if s.excluded == nil {
		s.excluded = map[env.PeerID]time.Time{}
	}
	s.excluded[p] = now
}

// rendezvous tells the other lineage's sequencer of this one: to append what this
// one has, if the other goes on, or this one gives way; else to ask for that.
func (o *Owners) contactRival(s *replica) {
	if s.rivalContacted {
		return
	}
	o.pauseContact(s)
	goesOn, gives := s.rival.Branch > s.epoch.Branch, o.givesWay(s)
	if goesOn && !gives || o.clock.Now().Sub(s.rivalGaveWay) < rivalTime {
		o.sendCommit(s.rival.Sequencer, s)
		return
	}
	m := &ownerpb.Merge{Epoch: s.epoch.proto(), GivesWay: goesOn}
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(s.rival.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}})
}

// rest sees to it that the other lineage is not told again at once, but again.
func (o *Owners) pauseContact(s *replica) {
	s.rivalContacted = true
	o.after(contactPause, task{kind: taskContactRival, key: s.key})
}

// meetAgain goes on with a rendezvous as long as the other lineage lives.
func (o *Owners) retryContact(s *replica, now time.Time) {
	switch {
	case s.rival == nil || s.epoch == nil || s.leader == nil:
	case s.rival.Branch == s.epoch.Branch, now.Sub(s.rivalSeen) > rivalTime:
		s.rival = nil
	default:
		o.contactRival(s)
	}
}

// join leaves a lineage for another.
func (o *Owners) joinBranch(s *replica, e *Epoch, from env.PeerID) {
	o.log.Info("log of a feed continues in another branch", "url", s.url)
	o.stepDown(s)
	o.commitEpoch(s, e, from)
	if !o.owns(s) {
		o.startPull(s, o.peer(from), nil)
	}
}

// onMerge pulls another lineage's entries and hands up what is new in them.
func (o *Owners) onMerge(from env.PeerID, m *ownerpb.Merge) error {
	their, err := o.openEpoch(m.Epoch)
	if err != nil {
		return err
	}
	s := o.replicas[their.Key]
	if s == nil || s.epoch == nil || their.Branch == s.epoch.Branch {
		return nil
	}
	if s.leader == nil {
		o.sendCommit(from, s) // which says who is
		return nil
	}
	if !their.certifiedBy(their.Owners) || their.Sequencer != from || !o.ownersPlausible(s, their) {
		o.stats.Untrusted++
		return nil
	}
	s.rival, s.rivalSeen = their, o.clock.Now()
	if their.Branch < s.epoch.Branch && !m.GivesWay || o.givesWay(s) {
		o.contactRival(s) // the other one goes on, and does not know it
		return nil
	}
	if m.GivesWay {
		s.rivalGaveWay = o.clock.Now()
	}
	if len(m.Head) == 0 {
		o.sendMerged(from, s, Hash{})
		return nil
	}
	head, err := OpenEntry(o.verify, m.Head)
	if err != nil || head.Key != s.key {
		return errPulled
	}
	switch g := s.merge; {
	case s.log.find(head.Hash) >= 0:
		o.sendMerged(from, s, head.Hash)
	case g != nil && g.done && g.head == head.Hash:
		if s.leader.inflight == nil && len(s.leader.queue) == 0 && !o.app.Absorbing(s.key) {
			o.sendMerged(from, s, head.Hash)
		}
	case g == nil || g.done:
		o.pullBranch(s, their, from)
	}
	return nil
}

func (o *Owners) sendMerged(to env.PeerID, s *replica, head Hash) {
	o.app.BranchMerged(s.key)
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{
		Epoch: s.epoch.proto(), Note: s.note, Version: s.version, MergedHead: head.bytes(), Absorbed: true,
	}}})
}

// pullForeign pulls another lineage's log from its sequencer.
func (o *Owners) pullBranch(s *replica, their *Epoch, from env.PeerID) {
	if s.pull != nil {
		return // it comes back when that is over
	}
	have := s.log.headHash()
	if s.merge != nil && s.merge.lineage == their.Branch {
		have = s.merge.head // that far it was appended before
	}
	g := &branchMerge{lineage: their.Branch}
	s.merge = g
	s.pull = &pull{from: o.peer(from), have: have, chunked: -1, forMerge: true, since: o.clock.Now()}
	p := s.pull
	p.then = append(p.then, func(ok bool) {
		if s.merge != g {
			return
		}
		if !ok || s.leader == nil || p.epoch.Hash != their.Hash || len(p.entries) == 0 {
			s.merge = nil
			return
		}
		last := p.entries[len(p.entries)-1]
		if (last.Signer != their.Sequencer || last.At.Branch != their.Branch || last.At.Epoch != their.Number) && last.Hash != their.AfterHash {
			o.stats.Untrusted++
			s.merge = nil
			return
		}
		for i, e := range p.entries {
			if s.log.find(e.Hash) < 0 && p.bodies[i] != nil {
				o.app.Absorb(s.key, p.bodies[i])
			}
		}
		g.head, g.done = last.Hash, true
	})
	o.askNextPage(s)
}
