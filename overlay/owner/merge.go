package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// contactPause is the minimum time between two messages to the sequencer of another branch.
const contactPause = 3 * time.Second

// rivalTime is how long a branch counts as live after the last message about it.
const rivalTime = 30 * time.Second

// giveWayTime is how long the branch that should continue may lack a quorum before it gives way to a live one.
// After a partition the owners it lacks may own the key in the other branch, and would not answer before the
// two are merged.
const giveWayTime = 15 * time.Second

// A rival is another branch of a key that is live.
type rival struct {
	epoch     *Epoch       // epoch of the other branch; nil: none known
	seen      time.Time    // last message about it
	gaveWay   time.Time    // last time the rival asked this branch to continue in its place
	contacted bool         // a message about the rival was sent less than contactPause ago
	merge     *branchMerge // non-nil while entries of the other branch are appended here
}

// A branchMerge is another branch whose entries this sequencer appends to its own.
type branchMerge struct {
	lineage uint64
	head    Hash // last entry of the other branch that was pulled
	done    bool // pulled, and new entries were handed to the application
}

// maySwitch reports whether a node may leave its branch for another certified one.
func (o *Owners) maySwitch(s *replica, e *Epoch, from env.PeerID) bool {
	return e.certifiedBy(e.Owners) && o.ownersPlausible(s, e) && s.leader == nil && o.prefersBranch(s, e, from)
}

// prefersBranch reports whether a node that does not lead prefers another branch to its own. There are three reasons.
// The other branch continues after a merge, or an owner has left the own branch for it, as told by one of its
// owners, since followers may not have heard that their branch ended. Or the own branch is dead, as far as is
// known here. Or the own sequencer has joined the other branch: it says so, leads there, or has signed
// its epoch, and a sequencer signs epochs of other branches only to found them.
func (o *Owners) prefersBranch(s *replica, e *Epoch, from env.PeerID) bool {
	since := e.Time.After(s.epoch.Time)
	goesOn := e.owns(from) && (e.Branch < s.epoch.Branch || since && s.epoch.owns(from))
	joined := from == s.epoch.Sequencer ||
		since && (e.Sequencer == s.epoch.Sequencer || slices.Contains(e.signers, s.epoch.Sequencer))
	return !s.owned && (goesOn || o.ownersGone(s)) || o.silent(s) || joined
}

// givesWay reports whether a branch that this node leads has lacked a quorum for giveWayTime, and so cannot append
// what another branch has.
func (o *Owners) givesWay(s *replica) bool {
	return s.leader != nil && !s.noQuorumSince.IsZero() && o.clock.Now().Sub(s.noQuorumSince) >= giveWayTime
}

// onOtherBranch handles the news that another branch of a key is live. If told, merged is the head of this
// node's branch that the other branch has appended; the zero hash if there was nothing to append.
func (o *Owners) onOtherBranch(s *replica, e *Epoch, from env.PeerID, merged Hash, told bool) {
	if o.needsLookup(s, e) {
		o.pullFrom(s, from) // the pull starts with a lookup
		return
	}
	if !e.certifiedBy(e.Owners) || !o.ownersPlausible(s, e) {
		o.stats.Untrusted++
		return
	}
	// An owner that left the other branch for this one only passes on what it has heard.
	ours := s.epoch.owns(from) && s.epoch.Time.After(e.Time)
	if b := s.candidacy; !ours && (e.owns(from) || b != nil && slices.Contains(b.newOwners, from)) {
		// Until the two are merged, each continues with its own owners.
		s.campaign.exclude(from, o.clock.Now())
		if b != nil && slices.Contains(b.newOwners, from) {
			o.abandon(s, 2*answerTime)
		}
	}
	if s.rival.epoch == nil || s.rival.epoch.Branch != e.Branch || s.rival.epoch.Number <= e.Number {
		s.rival.epoch, s.rival.seen = e, o.clock.Now()
	}
	wins := e.Branch < s.epoch.Branch || o.givesWay(s)
	switch {
	case s.leader != nil && wins && told && merged == s.log.headHash() && (s.leader.inflight == nil || s.leader.inflight.entry.Hash == merged):
		// The other branch has appended everything: this one ends.
		o.stats.Merged++
		old := s.epoch
		o.joinBranch(s, e, from)
		o.sendOthers(old.Owners, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: s.commit()}})
	case s.leader != nil:
		if e.owns(from) && from != e.Sequencer {
			o.sendCommit(from, s) // it may have been away when its branch ended
		}
		o.contactRival(s)
	case o.prefersBranch(s, e, from):
		o.joinBranch(s, e, from)
	case !s.rival.contacted:
		o.pauseContact(s)
		// The own sequencer contacts the other one, or answers that it has joined it.
		o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e.proto(), WantReply: true}}})
		o.sendCommit(from, s)
	}
}

// contactRival tells the other branch's sequencer of this branch: with Merge, so that it appends this log, if the other
// branch continues or this one gives way; else with Commit, which asks for a Merge in return.
func (o *Owners) contactRival(s *replica) {
	if s.rival.contacted {
		return
	}
	o.pauseContact(s)
	goesOn, gives := s.rival.epoch.Branch > s.epoch.Branch, o.givesWay(s)
	if goesOn && !gives || o.clock.Now().Sub(s.rival.gaveWay) < rivalTime {
		o.sendCommit(s.rival.epoch.Sequencer, s)
		return
	}
	m := &ownerpb.Merge{Epoch: s.epoch.proto(), GivesWay: goesOn}
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(s.rival.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}})
}

// pauseContact plans the next contact with the other branch, and prevents earlier ones.
func (o *Owners) pauseContact(s *replica) {
	s.rival.contacted = true
	o.after(contactPause, task{kind: taskContactRival, key: s.key})
}

// retryContact contacts the other branch again while it is live.
func (o *Owners) retryContact(s *replica, now time.Time) {
	switch {
	case s.rival.epoch == nil || s.epoch == nil || s.leader == nil:
	case s.rival.epoch.Branch == s.epoch.Branch, now.Sub(s.rival.seen) > rivalTime:
		s.rival.epoch = nil
	default:
		o.contactRival(s)
	}
}

// joinBranch leaves the branch of a replica for another one.
func (o *Owners) joinBranch(s *replica, e *Epoch, from env.PeerID) {
	o.log.Info("log of a feed continues in another branch", "url", s.url)
	o.stepDown(s)
	o.commitEpoch(s, e, from)
	if !s.owned {
		o.pullFrom(s, from)
	}
}

// onMerge pulls the entries of another branch and hands new ones to the application.
func (o *Owners) onMerge(from env.PeerID, m *ownerpb.Merge) error {
	their, err := o.epochs.open(m.Epoch)
	if err != nil {
		return err
	}
	s := o.replicas.byKey[their.Key]
	if s == nil || s.epoch == nil || their.Branch == s.epoch.Branch {
		return nil
	}
	if s.leader == nil {
		o.sendCommit(from, s) // the epoch names the sequencer
		return nil
	}
	if !their.certifiedBy(their.Owners) || their.Sequencer != from || !o.ownersPlausible(s, their) {
		o.stats.Untrusted++
		return nil
	}
	s.rival.epoch, s.rival.seen = their, o.clock.Now()
	if their.Branch < s.epoch.Branch && !m.GivesWay || o.givesWay(s) {
		o.contactRival(s) // the other branch should continue, and does not know it
		return nil
	}
	if m.GivesWay {
		s.rival.gaveWay = o.clock.Now()
	}
	if len(m.Head) == 0 {
		o.sendMerged(from, s, Hash{})
		return nil
	}
	head, err := OpenEntry(o.epochs.verify, m.Head)
	if err != nil || head.Key != s.key {
		return errPulled
	}
	switch g := s.rival.merge; {
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
	m := s.commit()
	m.MergedHead, m.Absorbed = head.bytes(), true
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: m}})
}

// pullBranch pulls another branch's log from its sequencer.
func (o *Owners) pullBranch(s *replica, their *Epoch, from env.PeerID) {
	if s.pull != nil {
		return // a pull is under way; the next Merge message tries again
	}
	have := s.log.headHash()
	if s.rival.merge != nil && s.rival.merge.lineage == their.Branch {
		have = s.rival.merge.head // continue after the entries appended before
	}
	g := &branchMerge{lineage: their.Branch}
	s.rival.merge = g
	p := &pull{from: o.peer(from), have: have, forMerge: true}
	p.then = append(p.then, func(ok bool) {
		if s.rival.merge != g {
			return
		}
		if !ok || s.leader == nil || p.epoch.Hash != their.Hash || len(p.entries) == 0 {
			s.rival.merge = nil
			return
		}
		last := p.entries[len(p.entries)-1]
		if (last.Signer != their.Sequencer || last.At.Branch != their.Branch || last.At.Epoch != their.Number) && last.Hash != their.AfterHash {
			o.stats.Untrusted++
			s.rival.merge = nil
			return
		}
		for i, e := range p.entries {
			if s.log.find(e.Hash) < 0 && p.bodies[i] != nil {
				o.app.Absorb(s.key, p.bodies[i])
			}
		}
		g.head, g.done = last.Hash, true
	})
	o.begin(s, p)
}
